// y = a * b for many pairs of matrices that are activations: the scores and the weighted values of attention, the
// context of a global context block. Fewer than 2^31 rows and columns of tiles; any extents.
//
// Error: a sum of k products in float, for double in double, in the order of k, and one rounding to storage:
// gamma(k) sum |a| |b|. Each element's sum depends on its row and column alone.
#pragma once

#include <cstdint>

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

/// a (batch, m, k), b (batch, k, p), y (batch, m, p), dense.
struct BatchedMatMulParams {
  Elem elem = Elem::F32;
  std::int64_t batch = 0;  ///< pairs of matrices, of all images
  int m = 0;
  int k = 0;
  int p = 0;
};

cudaError_t batched_matmul(const BatchedMatMulParams& params, const void* a, const void* b, void* y,
                           const Launch& where);

}  // namespace mobicuda::kernels
