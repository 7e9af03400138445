#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <mobicuda/engine.h>

#include "bench_engine/model/options.h"
#include "bench_engine/model/results.h"

namespace mobicuda::bench {

/// What is fed while timing, from --loadInputs, --images or random, and the golden outputs that belong to it.
class TimedInput {
 public:
  /// Reads the files and checks them against the model. Throws UsageError.
  TimedInput(const Options& options, const ModelInfo& model);

  /// Instead of random numbers: whole pictures as the network takes them, 0 to 255 where it takes bytes. Throws
  /// UsageError where there are none.
  void take(std::vector<float> pictures);

  /// Makes the input of a batch; the calls below are about it.
  void make(std::int64_t batch);

  /// Host to host, through memory of the caller.
  void run(Session& session, std::span<float> output) const;

  /// Puts the input where runs on a device's data read it.
  void set(Session& session) const;

  /// Puts the input where staged runs read it.
  void stage(Session& session) const;

  /// Absent without --golden.
  std::optional<GoldenComparison> compare(std::span<const float> output) const;

 private:
  void load_input(const Options& options);
  void load_golden(const Options& options);

  const ModelInfo& model_;
  std::uint64_t seed_;
  bool bytes_;
  std::int64_t batch_ = 0;
  std::size_t distinct_pictures_ = SIZE_MAX;  // a file's; random ones never start over
  std::vector<float> loaded_;
  std::vector<float> golden_;
  std::vector<float> input_;            // of the batch being measured,
  std::vector<std::uint8_t> pictures_;  // or pictures in bytes
};

}  // namespace mobicuda::bench
