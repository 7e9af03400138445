#include "baselines/cpu/ops/quantized_reference.h"

#include <type_traits>

#include "graph/integer_arithmetic.h"

namespace mobicuda::cpu {
namespace {

template <class Y>
Y from_sum(std::int64_t sum, float multiplier, const IntegerRounding& rounding) {
  const auto exact = static_cast<std::int32_t>(sum);  // a graph has no sum that leaves int32
  if constexpr (std::is_floating_point_v<Y>) return static_cast<Y>(static_cast<float>(exact) * multiplier);
  return static_cast<Y>(requantized(exact, multiplier, rounding));
}

}  // namespace

template <class X, class Y>
void quantized_conv2d_reference(const QuantizedConv2d& op, const TensorDesc& x_desc, const Shape& weight_shape,
                                const TensorDesc& y_desc, const X* x, const IntegerWeights& weights, Y* y, Range rows) {
  const Strides xs = strides_of(x_desc);
  const Strides ys = strides_of(y_desc);
  const IntegerRounding rounding = rounding_of(op.result);
  const std::int32_t zero_point = x_desc.quantization.zero_point;
  const std::int64_t out_h = y_desc.shape[2];
  const std::int64_t inputs = weight_shape[1];
  const std::int64_t taps = weight_shape[2] * weight_shape[3];
  const std::int64_t outputs_a_group = weight_shape[0] / op.groups;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const X* const image = x + row / out_h * xs[0];
    for (std::int64_t ox = 0; ox < y_desc.shape[3]; ++ox) {
      for (std::int64_t o = 0; o < weight_shape[0]; ++o) {
        std::int64_t sum = weights.bias[o];
        for (std::int64_t tap = 0; tap < taps; ++tap) {
          const std::int64_t iy = row % out_h * op.strides[0] + tap / weight_shape[3] * op.dilations[0] - op.pads.top;
          const std::int64_t ix = ox * op.strides[1] + tap % weight_shape[3] * op.dilations[1] - op.pads.left;
          if (iy < 0 || iy >= x_desc.shape[2] || ix < 0 || ix >= x_desc.shape[3]) continue;
          for (std::int64_t i = 0; i < inputs; ++i) {
            const std::int64_t channel = o / outputs_a_group * inputs + i;
            const std::int64_t difference =
                static_cast<std::int64_t>(image[iy * xs[2] + ix * xs[3] + channel * xs[1]]) - zero_point;
            sum += difference * weights.weight[(o * inputs + i) * taps + tap];
          }
        }
        y[row / out_h * ys[0] + row % out_h * ys[2] + ox * ys[3] + o * ys[1]] =
            from_sum<Y>(sum, weights.multiplier[o], rounding);
      }
    }
  }
}

template <class X, class Y>
void quantized_gemm_reference(const QuantizedGemm& op, const TensorDesc& x_desc, const Shape& weight_shape, const X* x,
                              const IntegerWeights& weights, Y* y, Range rows) {
  const IntegerRounding rounding = rounding_of(op.result);
  const std::int32_t zero_point = x_desc.quantization.zero_point;
  const std::int64_t outputs = weight_shape[0];
  const std::int64_t features = weight_shape[1];
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      std::int64_t sum = weights.bias[o];
      for (std::int64_t i = 0; i < features; ++i) {
        const std::int64_t difference = static_cast<std::int64_t>(x[row * features + i]) - zero_point;
        sum += difference * weights.weight[o * features + i];
      }
      y[row * outputs + o] = from_sum<Y>(sum, weights.multiplier[o], rounding);
    }
  }
}

template void quantized_conv2d_reference(const QuantizedConv2d&, const TensorDesc&, const Shape&, const TensorDesc&,
                                         const std::int8_t*, const IntegerWeights&, std::int8_t*, Range);
template void quantized_gemm_reference(const QuantizedGemm&, const TensorDesc&, const Shape&, const std::int8_t*,
                                       const IntegerWeights&, std::int8_t*, Range);
template void quantized_conv2d_reference(const QuantizedConv2d&, const TensorDesc&, const Shape&, const TensorDesc&,
                                         const std::int8_t*, const IntegerWeights&, std::uint8_t*, Range);
template void quantized_gemm_reference(const QuantizedGemm&, const TensorDesc&, const Shape&, const std::int8_t*,
                                       const IntegerWeights&, std::uint8_t*, Range);
template void quantized_conv2d_reference(const QuantizedConv2d&, const TensorDesc&, const Shape&, const TensorDesc&,
                                         const std::int8_t*, const IntegerWeights&, double*, Range);
template void quantized_gemm_reference(const QuantizedGemm&, const TensorDesc&, const Shape&, const std::int8_t*,
                                       const IntegerWeights&, double*, Range);
template void quantized_conv2d_reference(const QuantizedConv2d&, const TensorDesc&, const Shape&, const TensorDesc&,
                                         const std::uint8_t*, const IntegerWeights&, std::int8_t*, Range);
template void quantized_gemm_reference(const QuantizedGemm&, const TensorDesc&, const Shape&, const std::uint8_t*,
                                       const IntegerWeights&, std::int8_t*, Range);
template void quantized_conv2d_reference(const QuantizedConv2d&, const TensorDesc&, const Shape&, const TensorDesc&,
                                         const std::uint8_t*, const IntegerWeights&, std::uint8_t*, Range);
template void quantized_gemm_reference(const QuantizedGemm&, const TensorDesc&, const Shape&, const std::uint8_t*,
                                       const IntegerWeights&, std::uint8_t*, Range);
template void quantized_conv2d_reference(const QuantizedConv2d&, const TensorDesc&, const Shape&, const TensorDesc&,
                                         const std::uint8_t*, const IntegerWeights&, double*, Range);
template void quantized_gemm_reference(const QuantizedGemm&, const TensorDesc&, const Shape&, const std::uint8_t*,
                                       const IntegerWeights&, double*, Range);

}  // namespace mobicuda::cpu
