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

#include "kernels/common/broadcast.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

/// y = act(a * b) where b may repeat along axes.
struct MultiplyParams : Broadcast {
  Elem elem = Elem::F32;
  Activation activation{};
};

cudaError_t multiply(const MultiplyParams& params, const void* a, const void* b, void* y, const Launch& where);

}  // namespace mobicuda::kernels
