#pragma once

#include <algorithm>
#include <cstdint>

#include <mobicuda/graph.h>

namespace mobicuda::cpu {

/// The taps of a window along one axis that lie in the image, and how many lie in the padded image.
struct PoolWindow {
  std::int64_t first = 0, last = 0, step = 1;  ///< last is excluded
  std::int64_t taps = 0;
  std::int64_t padded_taps = 0;
};

inline PoolWindow pool_window_at(const Pool2d& op, std::size_t axis, std::int64_t o, std::int64_t extent) {
  const std::int64_t before = axis == 0 ? op.pads.top : op.pads.left;
  const std::int64_t after = axis == 0 ? op.pads.bottom : op.pads.right;
  const std::int64_t step = op.dilations[axis];
  const std::int64_t start = o * op.strides[axis] - before;
  const auto taps_before = [&](std::int64_t end) {
    return end <= start ? 0 : std::min(op.kernel[axis], (end - start + step - 1) / step);
  };
  PoolWindow window;
  window.step = step;
  window.first = start + taps_before(0) * step;
  window.last = std::min(start + op.kernel[axis] * step, extent);
  window.taps = taps_before(extent) - taps_before(0);
  window.padded_taps = taps_before(extent + after);
  return window;
}

/// What an average of a window divides by.
inline std::int64_t pool_divisor(const Pool2d& op, const PoolWindow& vertical, const PoolWindow& horizontal) {
  return op.count_include_pad ? vertical.padded_taps * horizontal.padded_taps : vertical.taps * horizontal.taps;
}

}  // namespace mobicuda::cpu
