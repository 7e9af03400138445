#include "graph/ops/quantized.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>

#include "graph/integer_arithmetic.h"
#include "graph/ops.h"
#include "graph/ops/checks.h"
#include "graph/ops/windows.h"

namespace mobicuda {
namespace {

void require_scale(float scale, const std::string& what) {
  if (std::isfinite(scale) && scale > 0.0F) return;
  std::ostringstream text;
  text << "must be finite and > 0, got " << scale;
  reject(what, text.str());
}

void require_zero_point(std::int64_t zero_point, DType dtype, const std::string& what) {
  const IntegerRange range = dtype == DType::I32 ? IntegerRange{0, 0} : range_of(dtype);
  if (zero_point >= range.low && zero_point <= range.high) return;
  reject(what, "must be " + std::to_string(range.low) + (range.low == range.high ? "" : " to ") +
                   (range.low == range.high ? "" : std::to_string(range.high)) + " for " +
                   std::string(to_string(dtype)) + ", got " + std::to_string(zero_point));
}

void check_result(const QuantizedResult& result, bool may_be_real) {
  if (may_be_real && result.dtype == DType::F32) {
    if (result != QuantizedResult::real())
      reject("attribute 'result'", "of float32 has neither quantisation nor range");
    return;
  }
  if (!is_quantized(result.dtype)) {
    reject("attribute 'result'", std::string("must be of type int8 or uint8") + (may_be_real ? " or float32" : "") +
                                     ", is " + std::string(to_string(result.dtype)));
  }
  require_scale(result.quantization.scale, "attribute 'scale' of the result");
  require_zero_point(result.quantization.zero_point, result.dtype, "attribute 'zero_point' of the result");
  const IntegerRange all = range_of(result.dtype);
  const IntegerRange& range = result.range;
  if (range.low > range.high || range.low < all.low || range.high > all.high) {
    reject("attribute 'range' of the result", "must lie within " + std::to_string(all.low) + ".." +
                                                  std::to_string(all.high) + ", got " + std::to_string(range.low) +
                                                  ".." + std::to_string(range.high));
  }
}

TensorDesc made(const QuantizedResult& result, const Shape& shape, Layout layout) {
  return {result.dtype, shape, layout, result.quantization};
}

/// An activation of integers.
const TensorDesc& integers(const Inputs& inputs, std::size_t position, const char* what) {
  const TensorDesc& desc = required(inputs, position, what);
  if (is_quantized(desc.dtype)) return desc;
  reject(std::string("input '") + what + "'", "must be of integers, int8 or uint8, is " +
                                                  std::string(to_string(desc.dtype)) +
                                                  ": put a Quantize (QuantizeLinear) in front");
}

void require_type(const TensorDesc& desc, const char* what, DType dtype) {
  if (desc.dtype == dtype) return;
  reject(std::string("input '") + what + "'",
         "must be " + std::string(to_string(dtype)) + ", is " + std::string(to_string(desc.dtype)));
}

// The constants beside the weight of QuantizedConv2d and QuantizedGemm, of `outputs` elements each.
template <class T>
void check_constant_shapes(const Inputs& inputs, std::int64_t outputs) {
  const Shape each{outputs};
  const TensorDesc& scale = required(inputs, T::kWeightScale, "w_scale");
  require_type(scale, "w_scale", DType::F32);
  require_shape(scale, "w_scale", each);
  if (const TensorDesc* zero_point = inputs[T::kWeightZeroPoint]) {
    require_type(*zero_point, "w_zero_point", DType::I32);
    require_shape(*zero_point, "w_zero_point", each);
  }
  if (const TensorDesc* bias = inputs[T::kBias]) {
    require_type(*bias, "B", DType::I32);
    require_shape(*bias, "B", each);
  }
}

// The largest |x - zero point| of a type.
std::int64_t largest_difference(DType dtype, std::int32_t zero_point) {
  const IntegerRange range = range_of(dtype);
  return std::max(range.high - zero_point, zero_point - range.low);
}

template <class Weight>
std::int64_t sum_of_magnitudes(std::span<const Weight> weights, std::int32_t zero_point) {
  std::int64_t sum = 0;
  for (const Weight weight : weights) sum += std::abs(static_cast<std::int32_t>(weight) - zero_point);
  return sum;
}

// `weights`: the sum of their magnitudes. No factor is above 2^39: there are at most kMaxElements weights.
void check_sum(std::int64_t weights, std::int64_t difference, std::int64_t bias, const std::string& where) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t most = weights * difference + std::abs(bias);
  if (most <= kMost) return;
  throw Error(ErrorCode::unsupported, where,
              "may have sums up to " + std::to_string(most) + ", which an int32 does not hold",
              "leave this node in floating point when quantising");
}

template <class T>
void check_constants(const T& op, const Node& node, std::span<const Value> values) {
  const auto value = [&](std::size_t position) -> const Value* {
    const ValueId id = node.inputs[position];
    return id == kNoValue ? nullptr : &values[static_cast<std::size_t>(id)];
  };
  const HostTensor& weight = *value(T::kWeight)->constant;
  const HostTensor& scale = *value(T::kWeightScale)->constant;
  if (weight.bytes().empty() || scale.bytes().empty()) return;  // of a saved engine
  const TensorDesc& x = value(T::kInput)->desc;
  const Value* const zero_points = value(T::kWeightZeroPoint);
  const Value* const biases = value(T::kBias);
  const std::int64_t difference = largest_difference(x.dtype, x.quantization.zero_point);
  const std::size_t outputs = scale.data<float>().size();
  const std::size_t a_channel = static_cast<std::size_t>(weight.elements()) / outputs;
  for (std::size_t o = 0; o < outputs; ++o) {
    const std::string place = " of output channel " + std::to_string(o);
    const float w_scale = scale.data<float>()[o];
    require_scale(w_scale, "input 'w_scale'" + place);
    const std::int32_t zero_point = zero_points == nullptr ? 0 : zero_points->constant->data<std::int32_t>()[o];
    require_zero_point(zero_point, weight.dtype(), "input 'w_zero_point'" + place);
    const float multiplier = product_multiplier(x.quantization.scale, w_scale, op.result);
    if (!std::isfinite(multiplier)) {
      reject("input 'w_scale'" + place, "makes the multiplier x_scale * w_scale / y_scale infinite");
    }
    const std::int64_t weights =
        weight.dtype() == DType::U8
            ? sum_of_magnitudes(weight.data<std::uint8_t>().subspan(o * a_channel, a_channel), zero_point)
            : sum_of_magnitudes(weight.data<std::int8_t>().subspan(o * a_channel, a_channel), zero_point);
    check_sum(weights, difference, biases == nullptr ? 0 : biases->constant->data<std::int32_t>()[o],
              "input 'W'" + place);
  }
}

void result_text(const QuantizedResult& result, AttributeText& text) {
  text << ' ' << to_string(result.dtype);
  if (!is_quantized(result.dtype)) return;
  text << " scale=" << result.quantization.scale << " zero_point=" << result.quantization.zero_point;
  if (result.range != range_of(result.dtype)) text << " range=" << result.range.low << ".." << result.range.high;
}

}  // namespace

void check_quantized_constants(const Node& node, std::span<const Value> values) {
  if (const auto* conv = std::get_if<QuantizedConv2d>(&node.op)) check_constants(*conv, node, values);
  if (const auto* gemm = std::get_if<QuantizedGemm>(&node.op)) check_constants(*gemm, node, values);
}

void require_quantized(const QuantizedConstant& quantized, const HostTensor& tensor) {
  const HostTensor& integers = quantized.integers;
  if (tensor.dtype() != DType::F32) reject("quantization", "is of a float32 constant, got one of integers");
  if (integers.dtype() != DType::I32 && !is_quantized(integers.dtype())) {
    reject("integers", "must be int8, uint8 or int32, are " + std::string(to_string(integers.dtype())));
  }
  if (integers.shape() != tensor.shape()) {
    reject("integers", "must have the shape of the constant, " + to_string(tensor.shape()) + ", have " +
                           to_string(integers.shape()));
  }
  const std::size_t scales = quantized.scales.size();
  if (scales != quantized.zero_points.size()) {
    reject("zero points", "must be as many as scales, " + std::to_string(scales) + ", are " +
                              std::to_string(quantized.zero_points.size()));
  }
  if (scales != 1) {
    if (quantized.axis >= tensor.shape().rank()) {
      reject("axis", "must be less than the rank, " + std::to_string(tensor.shape().rank()) + ", got " +
                         std::to_string(quantized.axis));
    }
    if (const std::int64_t extent = tensor.shape()[quantized.axis]; static_cast<std::int64_t>(scales) != extent) {
      reject("scales", "must be one, or one for each of " + std::to_string(extent) + " along axis " +
                           std::to_string(quantized.axis) + ", are " + std::to_string(scales));
    }
  }
  for (const float scale : quantized.scales) require_scale(scale, "scale");
  for (const std::int32_t zero_point : quantized.zero_points) {
    require_zero_point(zero_point, integers.dtype(), "zero point");
  }
}

// ---- Quantize

TensorDesc infer(const Quantize& op, const Inputs& inputs) {
  const TensorDesc& x = required(inputs, Quantize::kInput, "x");
  require_type(x, "x", DType::F32);
  check_result(op.result, false);
  return made(op.result, x.shape, x.layout);
}

std::int64_t flops(const Quantize&, const Inputs&, const Shape& y) { return y.elements(); }

void attributes(const Quantize& op, AttributeText& text) { result_text(op.result, text); }

void members(Quantize& op, Members& io) { io.result(op.result); }

// ---- Dequantize

TensorDesc infer(const Dequantize&, const Inputs& inputs) {
  const TensorDesc& x = integers(inputs, Dequantize::kInput, "x");
  return {DType::F32, x.shape, x.layout};
}

std::int64_t flops(const Dequantize&, const Inputs&, const Shape& y) { return y.elements(); }

void attributes(const Dequantize&, AttributeText&) {}

void members(Dequantize&, Members&) {}

// ---- Requantize

TensorDesc infer(const Requantize& op, const Inputs& inputs) {
  const TensorDesc& x = integers(inputs, Requantize::kInput, "x");
  check_result(op.result, false);
  return made(op.result, x.shape, x.layout);
}

std::int64_t flops(const Requantize&, const Inputs&, const Shape& y) { return y.elements(); }

void attributes(const Requantize& op, AttributeText& text) { result_text(op.result, text); }

void members(Requantize& op, Members& io) { io.result(op.result); }

// ---- QuantizedConv2d

TensorDesc infer(const QuantizedConv2d& op, const Inputs& inputs) {
  const TensorDesc& x = image(inputs, QuantizedConv2d::kInput);
  integers(inputs, QuantizedConv2d::kInput, "x");
  const TensorDesc& w = required(inputs, QuantizedConv2d::kWeight, "W");
  if (!is_quantized(w.dtype)) reject("input 'W'", "must be int8 or uint8, is " + std::string(to_string(w.dtype)));
  check_result(op.result, true);
  const Shape y = convolved_shape(op.strides, op.dilations, op.pads, op.groups, x.shape, w.shape);
  check_constant_shapes<QuantizedConv2d>(inputs, w.shape[0]);
  return checked(made(op.result, y, x.layout));
}

std::int64_t flops(const QuantizedConv2d&, const Inputs& inputs, const Shape& y) {
  const Shape& w = inputs[QuantizedConv2d::kWeight]->shape;
  return 2 * y.elements() * w[1] * w[2] * w[3];
}

void attributes(const QuantizedConv2d& op, AttributeText& text) {
  text << " stride=" << op.strides[0] << ',' << op.strides[1] << " pads=" << pads_text(op.pads);
  text << dilations_text(op.dilations);
  if (op.groups != 1) text << " groups=" << op.groups;
  result_text(op.result, text);
}

void members(QuantizedConv2d& op, Members& io) {
  for (auto& stride : op.strides) io.size(stride);
  for (auto& dilation : op.dilations) io.size(dilation);
  io.padding(op.pads);
  io.whole(op.groups);
  io.result(op.result);
}

// ---- QuantizedGemm

TensorDesc infer(const QuantizedGemm& op, const Inputs& inputs) {
  const TensorDesc& x = integers(inputs, QuantizedGemm::kInput, "A");
  const TensorDesc& w = required(inputs, QuantizedGemm::kWeight, "B");
  if (!is_quantized(w.dtype)) reject("input 'B'", "must be int8 or uint8, is " + std::string(to_string(w.dtype)));
  if (x.shape.rank() != 2) reject("input 'A'", "must have rank 2 (N, features), got " + to_string(x.shape));
  if (w.shape.rank() != 2 || w.shape.elements() == 0) {
    reject("input 'B'", "must have rank 2 and elements, got " + to_string(w.shape));
  }
  if (w.shape[1] != x.shape[1]) {
    reject("input 'B'",
           "takes " + std::to_string(w.shape[1]) + " features, but the input has " + std::to_string(x.shape[1]));
  }
  check_result(op.result, true);
  check_constant_shapes<QuantizedGemm>(inputs, w.shape[0]);
  return checked(made(op.result, Shape{x.shape[0], w.shape[0]}, Layout::NCHW));
}

std::int64_t flops(const QuantizedGemm&, const Inputs& inputs, const Shape& y) {
  return 2 * y.elements() * inputs[QuantizedGemm::kWeight]->shape[1];
}

void attributes(const QuantizedGemm& op, AttributeText& text) { result_text(op.result, text); }

void members(QuantizedGemm& op, Members& io) { io.result(op.result); }

// ---- QuantizedAdd

TensorDesc infer(const QuantizedAdd& op, const Inputs& inputs) {
  const TensorDesc& left = integers(inputs, QuantizedAdd::kLeft, "A");
  const TensorDesc& right = integers(inputs, QuantizedAdd::kRight, "B");
  if (left.shape != right.shape) {
    reject("input 'B'", "must have the shape of 'A', " + to_string(left.shape) + ", got " + to_string(right.shape));
  }
  if (left.layout != right.layout) reject("input 'B'", "must have the layout of 'A'");
  check_result(op.result, false);
  return made(op.result, left.shape, left.layout);
}

std::int64_t flops(const QuantizedAdd&, const Inputs&, const Shape& y) { return 3 * y.elements(); }

void attributes(const QuantizedAdd& op, AttributeText& text) { result_text(op.result, text); }

void members(QuantizedAdd& op, Members& io) { io.result(op.result); }

// ---- QuantizedAveragePool

TensorDesc infer(const QuantizedAveragePool& op, const Inputs& inputs) {
  const TensorDesc& x = image(inputs, QuantizedAveragePool::kInput);
  integers(inputs, QuantizedAveragePool::kInput, "x");
  if (op.window.kind != PoolKind::Average) reject("attribute 'window'", "must be of an average pool");
  check_result(op.result, false);
  const Shape y = pooled_shape(op.window, x.shape);
  check_sum(op.window.kernel[0] * op.window.kernel[1], largest_difference(x.dtype, x.quantization.zero_point), 0,
            "attribute 'kernel_shape'");
  return checked(made(op.result, y, x.layout));
}

std::int64_t flops(const QuantizedAveragePool& op, const Inputs&, const Shape& y) {
  return y.elements() * op.window.kernel[0] * op.window.kernel[1];
}

void attributes(const QuantizedAveragePool& op, AttributeText& text) {
  attributes(op.window, text);
  result_text(op.result, text);
}

void members(QuantizedAveragePool& op, Members& io) {
  members(op.window, io);
  io.result(op.result);
}

}  // namespace mobicuda
