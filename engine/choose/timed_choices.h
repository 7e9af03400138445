#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <mobicuda/engine.h>

#include "choose/block_timer.h"
#include "kernels/common/device_traits.h"
#include "specialise/specialiser.h"
#include "timing/timing_cache.h"

namespace mobicuda {

/// The first fields of a line in a timing cache: GPU, its multiprocessors, version of the library, precision, way of
/// launching.
std::string machine_fields(const EngineOptions& options, const kernels::DeviceTraits& gpu);

/// Kernels that run one after the other.
using TimedKernels = std::vector<TimedKernel>;

/// Answers questions by the times in EngineOptions::timing_cache, taking those that it lacks on the current device.
class TimedChoices {
 public:
  // Another choice than the rule's has to be so much faster, because what is faster among its own copies need not be
  // in a network; little where the neighbours are the network's.
  static constexpr double kMargin = 0.05;
  static constexpr double kMarginInPlace = 0.01;

  TimedChoices(const EngineOptions& options, const kernels::DeviceTraits& gpu);

  /// TimedQuestion: which of the candidates runs `layer`, whose shape is `shape`.
  TimedAnswer fastest(const std::string& layer, const std::string& shape, const std::vector<TimedKernels>& candidates,
                      std::size_t expected, std::size_t exchangeable, double margin = kMargin);

  /// Writes what was measured to the cache's file, and says so to the log.
  void finish();

 private:
  const EngineOptions& options_;
  std::string machine_;
  TimingCache cache_;
  Specialiser specialiser_;
  std::unique_ptr<BlockTimer> timer_;  ///< there from the first measurement on
  int asked_ = 0;
};

}  // namespace mobicuda
