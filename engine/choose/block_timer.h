#pragma once

#include <span>
#include <vector>

#include "choose/timed_kernel.h"
#include "runtime/device_buffer.h"

namespace mobicuda {

/// Times kernels as a plan runs them: one after the other in a CUDA graph, each reading what the one before wrote. Uses
/// the current device, and keeps its scratch memory until it is destroyed.
class BlockTimer {
 public:
  explicit BlockTimer(bool programmatic) : programmatic_(programmatic) {}

  /// Microseconds of one pass over `kernels`. Measured once only where that gives more than `give_up_us`.
  double microseconds(std::span<const TimedKernel> kernels, double give_up_us);

 private:
  std::vector<TimedOperands> place(std::span<const TimedKernel> kernels);

  bool programmatic_;
  bool warm_ = false;
  Stream stream_;
  DeviceBuffer scratch_;
};

}  // namespace mobicuda
