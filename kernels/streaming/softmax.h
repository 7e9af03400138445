// Softmax of rows or its logarithm, in float, for double in double. A softmax over the classes of each pixel has many
// short rows: those of up to 128 columns take one warp, of up to 1024 (ImageNet has 1000 classes) a block that reads
// them once, longer ones a block that reads them three times, the later two from the caches. Columns that do not lie
// side by side (inner > 1: axis 1 of three and more axes) take one thread a row; neighbouring threads read neighbouring
// elements.
//
// -infinity has no weight, whose logarithm is -infinity. A NaN or +infinity makes its whole row NaN, as does a row of
// -infinity only. Half input may have half or float output; float input has float output.
//
// Error: relative (48 + |x - max|) u for an element, derived in docs/numerics.md; rows sum to 1 within 1e-5. Columns
// that lie apart are summed in one chain: u for each column more. Results below the normal range of float carry an
// absolute error of a few denormal steps. Of a logarithm y the error is absolute, (48 + 3 |y|) u.
#pragma once

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

/// y[r, c] = exp(x[r, c] - max_c x) / sum_c exp(...), or the logarithm of it, x[r, c] - max_c x - log sum_c exp(...),
/// in float throughout, F64 in double. x in elem, y in float or elem. Columns lie `inner` elements apart, so that x is
/// (rows / inner, columns, inner).
struct SoftmaxParams {
  Elem elem = Elem::F32;
  Elem output = Elem::F32;
  int rows = 0;
  int columns = 0;
  int inner = 1;  ///< divides rows
  bool logarithm = false;
};

cudaError_t softmax(const SoftmaxParams& params, const void* x, void* y, const Launch& where);

}  // namespace mobicuda::kernels
