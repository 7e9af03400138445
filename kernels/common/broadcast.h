// Where the operands of y = f(a, b) lie, element by element, b repeating along axes as NumPy has it: gates of squeeze
// and excite are (N, C, 1, 1) against (N, H, W, C). For host and device.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels {

inline constexpr int kMostBroadcastAxes = 8;

/// Of a and y, which are dense, and b.
struct Broadcast {
  int axes = 0;                                 ///< the outermost in memory first
  std::int64_t extent[kMostBroadcastAxes]{};    ///< of a and y
  std::int64_t b_stride[kMostBroadcastAxes]{};  ///< elements of b; 0 along axes where it repeats
};

/// The axes of a Broadcast, those joined along which b goes on as a does: equal shapes become one axis, a gate three
/// (images, pixels, channels). Right-aligned: unused ones come first with extent 1.
struct JoinedAxes {
  static constexpr int kCount = 4;
  bool fit = true;
  std::int64_t extent[kCount] = {1, 1, 1, 1};
  std::int64_t stride[kCount] = {0, 0, 0, 0};

  std::int64_t rows() const { return extent[0] * extent[1] * extent[2]; }
  std::int64_t columns() const { return extent[3]; }
};

inline JoinedAxes join_axes(const Broadcast& operands) {
  constexpr std::int64_t kMaxRows = 2147483647;
  JoinedAxes joined;
  int at = JoinedAxes::kCount - 1;
  bool used = false;
  for (int axis = operands.axes - 1; axis >= 0; --axis) {
    if (operands.extent[axis] == 1) continue;
    const bool goes_on = used && operands.b_stride[axis] == joined.stride[at] * joined.extent[at];
    if (used && !goes_on) --at;
    if (at < 0) {
      joined.fit = false;
      return joined;
    }
    if (!goes_on) joined.stride[at] = operands.b_stride[axis];
    joined.extent[at] *= operands.extent[axis];
    used = true;
  }
  joined.fit = joined.rows() <= kMaxRows;
  return joined;
}

/// Whether at most four axes are left when those that lie in b as they lie in a are joined, and rows of the innermost
/// of them are fewer than 2^31. Always so for four axes of fewer rows.
inline bool supports(const Broadcast& operands) {
  if (operands.axes < 0 || operands.axes > kMostBroadcastAxes) return false;
  for (int axis = 0; axis < operands.axes; ++axis) {
    if (operands.extent[axis] < 0 || operands.b_stride[axis] < 0) return false;
  }
  return join_axes(operands).fit;
}

}  // namespace mobicuda::kernels
