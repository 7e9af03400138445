// Output shapes of windows, for the files of graph/ops/ that have operations with one.
#pragma once

#include <array>
#include <cstdint>

#include <mobicuda/graph.h>

namespace mobicuda {

/// Of a convolution of an image `x` by filters `w` (O, I / groups, kh, kw). Throws Error(invalid_model) where they do
/// not fit.
Shape convolved_shape(const std::array<std::int64_t, 2>& strides, const std::array<std::int64_t, 2>& dilations,
                      const Padding& pads, std::int64_t groups, const Shape& x, const Shape& w);

/// Of a pool over an image. Throws Error(invalid_model) where the window does not fit.
Shape pooled_shape(const Pool2d& op, const Shape& x);

}  // namespace mobicuda
