#pragma once

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

/// y[r, c] = exp(x[r, c] - max_c x) / sum_c exp(...), in float throughout, F64 in double. x in elem, y in float or
/// elem. Columns lie `inner` elements apart: x is (rows / inner, columns, inner).
struct SoftmaxParams {
  Elem elem = Elem::F32;
  Elem output = Elem::F32;
  int rows = 0;
  int columns = 0;
  int inner = 1;  ///< divides rows
};

cudaError_t softmax(const SoftmaxParams& params, const void* x, void* y, const Launch& where);

}  // namespace mobicuda::kernels
