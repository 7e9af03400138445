#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

namespace mobicuda::pictures {

/// How often NVIDIA GPUs have interrupted each CPU, by the text of /proc/interrupts. Lines that are not understood
/// count nothing.
std::map<int, std::uint64_t> gpu_interrupts(std::string_view text);

/// The CPUs that the JPEG units' interrupts keep busy. The units interrupt one CPU for every other picture, and a
/// thread of the host that feeds the units from there needs six times as long (an H200 in a virtual machine), and the
/// scheduler, which does not see why, leaves it there (docs/pictures.md).
class InterruptedCpus {
 public:
  /// counts: a file like /proc/interrupts. Where there is none no CPU is ever found.
  explicit InterruptedCpus(std::filesystem::path counts = "/proc/interrupts");

  /// The units were given so many pictures. Reads the counts where the last time was a second ago. Any threads.
  void decoded(std::size_t pictures);
  /// Reads the counts now.
  void look();

  /// What has been found. Any threads.
  std::vector<int> cpus() const;
  /// Another number each time that cpus() changes; 0 before the first.
  std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

 private:
  using Clock = std::chrono::steady_clock;

  std::map<int, std::uint64_t> counts() const;

  const std::filesystem::path file_;
  std::atomic<std::size_t> pictures_{0};  // since the last look
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<Clock::duration> next_look_;
  mutable std::mutex mutex_;
  std::map<int, std::uint64_t> last_;  // counts
  std::vector<int> cpus_;
};

/// Those of `allowed` that are not in `cpus`; all of `allowed` where fewer than two would be left.
cpu_set_t without(const cpu_set_t& allowed, const std::vector<int>& cpus);

/// Keeps the thread that made it off such CPUs, where it may run without(). For threads of the library's own.
class PlacedThread {
 public:
  PlacedThread() noexcept;
  /// To be called now and then by that thread.
  void keep_off(const InterruptedCpus& interrupted);

 private:
  bool known_;         // whether `allowed_` could be asked for
  cpu_set_t allowed_;  // where it ran before
  std::uint64_t generation_ = 0;
};

}  // namespace mobicuda::pictures
