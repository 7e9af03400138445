#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <mobicuda/types.h>

namespace mobicuda::cpu {

/// Distance in elements between neighbours along each logical axis of a dense tensor. An image's distance from
/// the next one is that of axis 0.
using Strides = std::array<std::int64_t, Shape::kMaxRank>;

inline Strides strides_of(const TensorDesc& desc) {
  const Shape& shape = desc.shape;
  Strides strides{};
  if (shape.rank() == 4 && desc.layout == Layout::NHWC) {
    strides[1] = 1;
    strides[3] = shape[1];
    strides[2] = shape[3] * strides[3];
    strides[0] = shape[2] * strides[2];
    return strides;
  }
  std::int64_t stride = 1;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

/// Logical axes of a dense tensor from the outermost to the innermost in memory.
inline std::vector<std::size_t> memory_order(const TensorDesc& desc) {
  if (desc.shape.rank() == 4 && desc.layout == Layout::NHWC) return {0, 2, 3, 1};
  std::vector<std::size_t> order(desc.shape.rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

/// Consecutive items of a loop, the last excluded.
struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

}  // namespace mobicuda::cpu
