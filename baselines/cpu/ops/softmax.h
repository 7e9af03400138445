#pragma once

#include <cstdint>

#include "baselines/cpu/ops/strides.h"

namespace mobicuda::cpu {

/// y[c] = exp(x[c] - max x) / sum exp(...) over the `columns` elements of each row in `rows`, which lie `stride` apart:
/// blocks of `stride` rows are interleaved. T is double (the definition) or float. A NaN in a row makes the row NaN.
template <class T>
void softmax(std::int64_t columns, std::int64_t stride, const T* x, T* y, Range rows);

/// The same of y[c] = x[c] - max x - log(sum exp(...)).
template <class T>
void log_softmax(std::int64_t columns, std::int64_t stride, const T* x, T* y, Range rows);

}  // namespace mobicuda::cpu
