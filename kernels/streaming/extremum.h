// y = act(max(a, b)) or act(min(a, b)), where b may repeat along axes: maxout, the max-feature-maps of LightCNN, and
// bounds that are activations or differ from channel to channel.
//
// Shapes and packets are those of multiply.h.
//
// Exact: y is a's or b's bits. A NaN in either is the result; of two zeros it is b's. Behind an activation that is no
// clip: bounds of docs/numerics.md.
#pragma once

#include "kernels/common/broadcast.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

struct ExtremumParams : Broadcast {
  Elem elem = Elem::F32;
  bool largest = true;  ///< max, not min
  Activation activation{};
};

cudaError_t extremum(const ExtremumParams& params, const void* a, const void* b, void* y, const Launch& where);

}  // namespace mobicuda::kernels
