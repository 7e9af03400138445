#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/common/launch.h"
#include "runtime/device_buffer.h"

namespace mobicuda {

/// Device memory that a timed kernel works on; all of it zeros at first.
struct TimedOperands {
  const void* x = nullptr;
  std::vector<const void*> weights;
  const void* residual = nullptr;
  void* y = nullptr;
};

/// A kernel to be timed: what it needs and how it is enqueued.
struct TimedKernel {
  std::string name;  ///< as LayerInfo::kernel
  std::int64_t x_bytes = 0;
  std::vector<std::int64_t> weight_bytes{};  ///< packed weights and biases, one allocation each
  std::int64_t residual_bytes = 0;
  std::int64_t y_bytes = 0;
  std::function<cudaError_t(const TimedOperands&, const kernels::Launch&)> enqueue{};
};

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
