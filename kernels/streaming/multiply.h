// y = act(a * b), where b may repeat along axes: gates of squeeze and excite are (N, C, 1, 1) against (N, H, W, C).
//
// The launcher joins neighbouring axes along which b goes on as a does: equal shapes become one axis, a gate three
// (images, pixels, channels). Four axes may be left; supports() says so. Packets are 16 bytes where the innermost
// extent, b's strides and the pointers allow, and b either repeats along the innermost axis or goes on along it; else
// an element.
//
// Error: one product in float, for double in double, and one rounding to storage: tests compare the bits. Behind an
// activation that is no clip: bounds of docs/numerics.md. NaN propagates.
#pragma once

#include <cstdint>

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

inline constexpr int kMostMultiplyAxes = 8;

/// y = act(a * b) where b may repeat along axes.
struct MultiplyParams {
  Elem elem = Elem::F32;
  Activation activation{};
  int axes = 0;                                ///< the outermost in memory first
  std::int64_t extent[kMostMultiplyAxes]{};    ///< of a and y, which are dense
  std::int64_t b_stride[kMostMultiplyAxes]{};  ///< elements of b; 0 along axes where it repeats
};

/// Whether at most four axes are left when those that lie in b as they lie in a are joined, and rows of the innermost
/// of them are fewer than 2^31. Always so for four axes of fewer rows.
bool supports(const MultiplyParams& params);

cudaError_t multiply(const MultiplyParams& params, const void* a, const void* b, void* y, const Launch& where);

}  // namespace mobicuda::kernels
