// Each pixel's channels are divided by a power of the squares around them, NHWC. Fewer than 2^38 elements.
//
// Fast are windows of up to two channels to either side (all networks have five channels) where channels fill 16-byte
// packets and pointers are aligned: 5 multiply-adds an element and no exchange between threads. The power of
// beta = 3/4 is two square roots, root(b) * root(root(b)); any other is powf.
//
// Error: relative (beta (size + 2) + 11) u, derived in docs/numerics.md. A sum runs from its first channel to its last:
// the result depends neither on the batch nor on the path.
#pragma once

#include <cstdint>

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

/// y[c] = x[c] / (bias + alpha / size * sum of x[k]^2)^beta for k from c - (size - 1) / 2 to c + size / 2 within the
/// channels of each pixel, NHWC.
struct LocalResponseNormParams {
  Elem elem = Elem::F32;
  std::int64_t pixels = 0;  ///< of all images
  int c = 0;
  std::int64_t size = 1;  ///< > 0
  float alpha = 1e-4F;    ///< >= 0
  float beta = 0.75F;     ///< >= 0
  float bias = 1.0F;      ///< > 0
};

cudaError_t local_response_norm(const LocalResponseNormParams& params, const void* x, void* y, const Launch& where);

}  // namespace mobicuda::kernels
