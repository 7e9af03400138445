#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "bench_engine/measure/utilisation.h"

namespace mobicuda::bench {

/// Records what GPU and process do while subjects are timed in turns. A thread of its own reads the GPU, so that what
/// is timed gains no call; a reading counts for the subject that ran before and after it was taken.
class GpuSampler {
 public:
  /// `read` is called by the thread; empty: there is no GPU to read, and no thread.
  GpuSampler(std::function<GpuReading()> read, double interval_ms, std::size_t subjects);
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  /// From now on `subject` runs, or nothing that is timed. Cheap, and to be called between bursts.
  void watch(std::optional<std::size_t> subject);

  /// Ends the recording: what was recorded, in the order of subjects.
  std::vector<Usage> finish();

 private:
  using Clock = std::chrono::steady_clock;

  void sample_until_stopped();
  void sample();
  void stop();
  double process_cpu_ms() const;

  std::function<GpuReading()> read_;
  std::chrono::duration<double, std::milli> interval_;
  Clock::time_point start_ = Clock::now();
  std::vector<Usage> usages_;           // samples of them: only the thread's, until it has ended
  std::atomic<std::uint64_t> turn_{0};  // counts the turns in its upper half; below the subject + 1, 0: nothing timed
  std::atomic<double> sampler_cpu_ms_{0};
  double switched_wall_ms_ = 0;
  double switched_cpu_ms_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace mobicuda::bench
