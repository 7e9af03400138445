#pragma once

#include <cstdint>

#include "baselines/cpu/ops/strides.h"

namespace mobicuda::cpu {

/// y[r, c] = exp(x[r, c] - max_c x) / sum_c exp(...) for the rows in `rows`; T is double (the definition) or float.
/// A NaN in a row makes the row NaN.
template <class T>
void softmax(std::int64_t columns, const T* x, T* y, Range rows);

}  // namespace mobicuda::cpu
