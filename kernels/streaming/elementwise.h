// add (residuals that no convolution took in), clip (activations likewise), scale_shift (batch normalisation that was
// not folded). add and scale_shift end in any activation, clip clips only. Fewer than 2^38 elements.
//
// clip is min(max(x, lo), hi); NaN propagates, lo > hi gives hi, and the sign of a zero equal to a bound is unspecified
// (GPUs from sm_80 on use max.NaN, for which 0 > -0). Rows of scale_shift's x may be channels of wider pixels.
//
// Error: add rounds once in float and once to storage, clip not at all: tests compare the bits. scale_shift is one
// fused multiply-add: gamma(1), see docs/numerics.md.
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
