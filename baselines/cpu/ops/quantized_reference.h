#pragma once

#include <cstddef>
#include <cstdint>

#include <mobicuda/graph.h>

#include "baselines/cpu/ops/strides.h"

namespace mobicuda::cpu {

/// The constants of a sum of products, as the definitions take them.
struct IntegerWeights {
  const std::int16_t* weight = nullptr;  ///< without zero points, in the order of the graph's constant
  const std::int32_t* bias = nullptr;    ///< one for each output
  const float* multiplier = nullptr;     ///< product_multiplier() of each output
};

// The definitions, with sums in int64. X is std::int8_t or std::uint8_t, Y one of these, or double for results in F32.

/// For the output rows n * out_h + oy in `rows`, in any layout.
template <class X, class Y>
void quantized_conv2d_reference(const QuantizedConv2d& op, const TensorDesc& x_desc, const Shape& weight_shape,
                                const TensorDesc& y_desc, const X* x, const IntegerWeights& weights, Y* y, Range rows);

/// For the images in `rows`.
template <class X, class Y>
void quantized_gemm_reference(const QuantizedGemm& op, const TensorDesc& x_desc, const Shape& weight_shape, const X* x,
                              const IntegerWeights& weights, Y* y, Range rows);

}  // namespace mobicuda::cpu
