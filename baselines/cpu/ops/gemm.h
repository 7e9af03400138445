#pragma once

#include <cstdint>

#include <mobicuda/graph.h>

#include "baselines/cpu/ops/strides.h"

namespace mobicuda::cpu {

/// The definition of Gemm, in double precision, for the rows of x in `rows`: y = act(x * weight^T + bias).
/// x (rows, k), weight (n, k), y (rows, n), all row-major; bias (n) may be null.
void gemm_reference(const Gemm& op, const Shape& weight_shape, const double* x, const float* weight, const float* bias,
                    double* y, Range rows);

/// Elements of a packed (n, k) weight, in panels of `panel` outputs, the last one filled with zeros.
std::int64_t gemm_packed_elements(std::int64_t n, std::int64_t k, std::int64_t panel);

/// packed[p][i][j] = weight[p * panel + j][order[i]], or [i] where `order` is null; weight (n, k) row-major.
void gemm_pack(std::int64_t n, std::int64_t k, std::int64_t panel, const float* weight, const std::int64_t* order,
               float* packed);

}  // namespace mobicuda::cpu
