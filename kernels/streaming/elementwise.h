#pragma once

#include <cstdint>

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

/// y[i] = act(a[i] + b[i]).
cudaError_t add(Elem elem, std::int64_t elements, Activation activation, const void* a, const void* b, void* y,
                const Launch& where);

/// y[i] = clip(x[i]).
cudaError_t clip(Elem elem, std::int64_t elements, Clip bounds, const void* x, void* y, const Launch& where);

/// y[i, c] = act(scale[c] * x[i, c] + shift[c]) for `rows` rows of `c` channels (NHWC). Rows of x are `x_pitch`
/// elements apart, or dense where that is 0.
cudaError_t scale_shift(Elem elem, std::int64_t rows, int c, Activation activation, const void* x, const float* scale,
                        const float* shift, void* y, const Launch& where, std::int64_t x_pitch = 0);

}  // namespace mobicuda::kernels
