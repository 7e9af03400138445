#pragma once

#include <cstdint>

#include <mobicuda/graph.h>

#include "baselines/cpu/ops/strides.h"

namespace mobicuda::cpu {

/// y[c] = x[c] / (bias + alpha / size * sum of x[k]^2)^beta for k from c - (size - 1) / 2 to c + size / 2 within the
/// channels, for the rows n * H + iy in `rows`, x and y in the same layout; T is double (the definition) or float.
template <class T>
void local_response_norm(const LocalResponseNorm& op, const TensorDesc& desc, const T* x, T* y, Range rows);

}  // namespace mobicuda::cpu
