#include "quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include <mobicuda/error.h>

#include "../initializer.h"
#include "graph/integer_arithmetic.h"
#include "ops.h"

namespace mobicuda::onnx_import {
namespace {

constexpr const char* kPerTensor =
    "quantise activations with one scale for all channels (per tensor); weights may have one for each channel";

std::string text_of(float value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// Blocks of scales, and types that are no bytes.
void refuse_new_attributes(const NodeImporter& node) {
  if (node.attribute("block_size", 0) != 0) {
    throw node.unsupported_attribute("block_size", "scales of blocks are not supported",
                                     "quantise per tensor or per channel");
  }
  const std::int64_t type = node.attribute("output_dtype", 0);
  const bool dequantizes = node.op_type() == "DequantizeLinear";
  const auto narrow = static_cast<std::int32_t>(std::clamp<std::int64_t>(type, -1, 1000));
  if (type != 0 && !(dequantizes ? is_float_type(narrow) : is_byte_type(narrow))) {
    throw node.unsupported_attribute("output_dtype", data_type_name(narrow) + " is not supported",
                                     dequantizes ? "" : "quantise to INT8 or UINT8");
  }
}

// The type that a QuantizeLinear without zero point makes.
DType declared_type(const NodeImporter& node) {
  return node.attribute("output_dtype", 0) == schema::TensorProto::INT8 ? DType::I8 : DType::U8;
}

// The axis of a constant's scales, which a node has since opset 13.
std::size_t scale_axis(const NodeImporter& node, const Shape& shape, std::size_t scales) {
  if (scales == 1) return 0;
  if (shape.rank() == 0) {
    throw node.invalid_input(1, "has " + std::to_string(scales) + " scales for a single number");
  }
  const std::int64_t axis = node.attribute("axis", 1);
  const auto rank = static_cast<std::int64_t>(shape.rank());
  if (axis < -rank || axis >= rank) {
    throw node.invalid_attribute("axis", "must be " + std::to_string(-rank) + " to " + std::to_string(rank - 1) +
                                             " for " + to_string(shape) + ", got " + std::to_string(axis));
  }
  return normalize_axis(node, axis, shape.rank());
}

void check_scale_count(const NodeImporter& node, std::size_t position, const Shape& shape, std::size_t axis,
                       std::size_t scales) {
  if (scales == 1 || static_cast<std::int64_t>(scales) == shape[axis]) return;
  throw node.invalid_input(position, "must have one element, or one for each of " + std::to_string(shape[axis]) +
                                         " along axis " + std::to_string(axis) + " of " + to_string(shape) + ", has " +
                                         std::to_string(scales));
}

// Element i stands for slice of_scale(i) of the scales.
template <class T>
void dequantize_elements(const QuantizedConstant& from, std::span<float> to) {
  const std::span<const T> integers = from.integers.data<T>();
  std::size_t inner = to.size();
  if (from.scales.size() > 1) {
    const Shape& shape = from.integers.shape();
    inner = 1;
    for (std::size_t axis = from.axis + 1; axis < shape.rank(); ++axis) inner *= static_cast<std::size_t>(shape[axis]);
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t slice = from.scales.size() == 1 ? 0 : i / inner % from.scales.size();
    // A float has no more bits than 24: what an INT32 has more is rounded, as ONNX Runtime does.
    to[i] = dequantized(integers[i] - from.zero_points[slice], from.scales[slice]);
  }
}

void import_quantize(NodeImporter& node) {
  refuse_new_attributes(node);
  QuantizedResult result;
  if (node.has_input(2)) {
    result = read_quantization(node, 1);
  } else {
    const std::vector<float> scales = read_quantization_scales(node, 1);
    if (scales.size() != 1) throw node.unsupported_input(1, "must be one number for an activation", kPerTensor);
    result = QuantizedResult::of(declared_type(node), {scales.front(), 0});
  }
  node.set_output(node.add(Quantize{result}, {node.activation(0)}));
}

void fold_quantize(NodeImporter& node) {
  refuse_new_attributes(node);
  const ConstantPtr source = node.floats(0);
  const std::vector<float> scales = read_quantization_scales(node, 1);
  const ZeroPoints zero_points = read_zero_points(node, 2, scales.size(), declared_type(node));
  const std::size_t axis = scale_axis(node, source->shape(), scales.size());
  check_scale_count(node, 1, source->shape(), axis, scales.size());
  node.count_elements(source->elements(), false);  // more than its bytes
  auto integers = std::make_shared<HostTensor>(zero_points.dtype, source->shape());
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < source->shape().rank(); ++i) inner *= source->shape()[i];
  const std::span<std::byte> out = integers->bytes();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t slice = scales.size() == 1 ? 0 : i / static_cast<std::size_t>(inner) % scales.size();
    const auto as = QuantizedResult::of(zero_points.dtype, {scales[slice], zero_points.values[slice]});
    out[i] = static_cast<std::byte>(static_cast<std::uint8_t>(quantized(source->floats()[i], as)));
  }
  node.set_output(IntegersPtr(std::move(integers)));
}

void import_dequantize(NodeImporter& node) {
  refuse_new_attributes(node);
  node.set_output(dequantize_activation(node, 0));
}

void fold_dequantize(NodeImporter& node) {
  refuse_new_attributes(node);
  const std::vector<float> scales = read_quantization_scales(node, 1);
  const Shape shape = node.is_of_bytes(0) ? node.bytes(0)->shape() : node.constant(0)->shape();
  node.set_output(dequantize_constant(node, 0, scale_axis(node, shape, scales.size())));
}

}  // namespace

HostTensor read_int32(const NodeImporter& node, std::size_t position, const Constant& constant) {
  HostTensor integers(DType::I32, constant.shape());
  const std::span<std::int32_t> out = integers.data<std::int32_t>();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const DimValue& value = constant.integers()[i];
    if (value.times_batch || value.value < std::numeric_limits<std::int32_t>::min() ||
        value.value > std::numeric_limits<std::int32_t>::max()) {
      throw node.invalid_input(position, "must be of INT32, has " + to_string(value));
    }
    out[i] = static_cast<std::int32_t>(value.value);
  }
  return integers;
}

std::vector<float> read_quantization_scales(const NodeImporter& node, std::size_t position) {
  const ConstantPtr constant = node.floats(position);
  if (constant->shape().rank() > 1 || constant->elements() == 0) {
    throw node.unsupported_input(position, "must be one number or a list, has shape " + to_string(constant->shape()),
                                 "quantise per tensor or per channel");
  }
  std::vector<float> scales(constant->floats().begin(), constant->floats().end());
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (std::isfinite(scales[i]) && scales[i] > 0.0F) continue;
    throw node.invalid_input(position,
                             "scale " + std::to_string(i) + " must be finite and > 0, got " + text_of(scales[i]),
                             "calibrate the model again: a value without range has a scale of 0 or NaN");
  }
  return scales;
}

ZeroPoints read_zero_points(const NodeImporter& node, std::size_t position, std::size_t scales, DType absent) {
  ZeroPoints result;
  result.dtype = absent;
  result.values.assign(scales, 0);
  if (!node.has_input(position)) return result;
  const IntegersPtr integers = node.bytes(position);
  result.dtype = integers->dtype();
  if (integers->shape().rank() > 1 || integers->elements() != static_cast<std::int64_t>(scales)) {
    throw node.invalid_input(position, "must have as many elements as scales, " + std::to_string(scales) +
                                           ", has shape " + to_string(integers->shape()));
  }
  for (std::size_t i = 0; i < scales; ++i) {
    result.values[i] = integers->dtype() == DType::U8 ? std::int32_t{integers->data<std::uint8_t>()[i]}
                                                      : std::int32_t{integers->data<std::int8_t>()[i]};
  }
  return result;
}

QuantizedResult read_quantization(const NodeImporter& node, std::size_t position) {
  const std::vector<float> scales = read_quantization_scales(node, position);
  if (scales.size() != 1) throw node.unsupported_input(position, "must be one number for an activation", kPerTensor);
  const ZeroPoints zero_points = read_zero_points(node, position + 1, 1, DType::U8);
  return QuantizedResult::of(zero_points.dtype, {scales.front(), zero_points.values.front()});
}

ConstantPtr dequantize_constant(NodeImporter& node, std::size_t position, std::size_t axis) {
  auto result = std::make_shared<QuantizedConstant>();
  result->scales = read_quantization_scales(node, position + 1);
  result->axis = axis;
  const std::size_t scales = result->scales.size();
  if (node.is_of_bytes(position)) {
    const IntegersPtr integers = node.bytes(position);
    const ZeroPoints zero_points = read_zero_points(node, position + 2, scales, integers->dtype());
    if (zero_points.dtype != integers->dtype()) {
      throw node.invalid_input(position + 2, "must be of the type of the integers, " +
                                                 std::string(to_string(integers->dtype())) + ", is " +
                                                 std::string(to_string(zero_points.dtype)));
    }
    result->zero_points = zero_points.values;
    result->integers = *integers;
  } else {
    const ConstantPtr constant = node.constant(position);
    if (constant->is_float()) throw node.invalid_input(position, "must be of integers, is floating-point");
    result->zero_points.assign(scales, 0);
    if (node.has_input(position + 2)) {
      const ConstantPtr zero_points = node.constant(position + 2);
      const auto is_zero = [](const DimValue& value) { return value == DimValue{}; };
      if (zero_points->is_float()) throw node.invalid_input(position + 2, "must be of integers, is floating-point");
      if (!std::ranges::all_of(zero_points->integers(), is_zero)) {
        // Of INT32 any other is invalid; which of them a constant was is not kept.
        throw node.unsupported_input(position + 2, "must be 0 for integers of 16 and 32 bits",
                                     "quantise to INT8 or UINT8");
      }
    }
    result->integers = read_int32(node, position, *constant);
  }
  const Shape& shape = result->integers.shape();
  check_scale_count(node, position + 1, shape, axis, scales);
  node.count_memory(
      checked_multiply(shape.elements(), static_cast<std::int64_t>(sizeof(float)) + size_of(result->integers.dtype())));
  return dequantized_constant(std::move(result));
}

ConstantPtr dequantized_constant(std::shared_ptr<const QuantizedConstant> quantized) {
  auto floats = std::make_shared<HostTensor>(DType::F32, quantized->integers.shape());
  if (quantized->integers.dtype() == DType::I32) {
    dequantize_elements<std::int32_t>(*quantized, floats->data<float>());
  } else if (quantized->integers.dtype() == DType::U8) {
    dequantize_elements<std::uint8_t>(*quantized, floats->data<float>());
  } else {
    dequantize_elements<std::int8_t>(*quantized, floats->data<float>());
  }
  return std::make_shared<const Constant>(std::move(floats), std::move(quantized));
}

ValueId dequantize_activation(NodeImporter& node, std::size_t position) {
  const ValueId x = node.activation(position);
  const TensorDesc& desc = node.desc_of(x);
  if (!is_quantized(desc.dtype)) {
    throw node.invalid_input(position, "must be of integers, is floating-point", "put a QuantizeLinear in front");
  }
  QuantizedResult expected;
  if (node.has_input(position + 2)) {
    expected = read_quantization(node, position + 1);
  } else {
    const std::vector<float> scales = read_quantization_scales(node, position + 1);
    if (scales.size() != 1) {
      throw node.unsupported_input(position + 1, "must be one number for an activation", kPerTensor);
    }
    expected = QuantizedResult::of(desc.dtype, {scales.front(), 0});
  }
  if (expected.dtype != desc.dtype || expected.quantization != desc.quantization) {
    const auto text = [](DType dtype, const Quantization& as) {
      return std::string(to_string(dtype)) + " with scale " + text_of(as.scale) + " and zero point " +
             std::to_string(as.zero_point);
    };
    throw node.unsupported_input(position,
                                 "was quantised as " + text(desc.dtype, desc.quantization) + " and is read as " +
                                     text(expected.dtype, expected.quantization),
                                 "both must be the same: quantise the model again");
  }
  return node.add(Dequantize{}, {x});
}

Forms quantize_forms() {
  static constexpr OperatorForm kForms[] = {
      {"DequantizeLinear", 10, 12, 2, 3, "", import_dequantize, fold_dequantize},
      {"DequantizeLinear", 13, 20, 2, 3, "axis", import_dequantize, fold_dequantize},
      {"DequantizeLinear", 21, 22, 2, 3, "axis block_size", import_dequantize, fold_dequantize},
      {"DequantizeLinear", 23, kNewestOpset, 2, 3, "axis block_size output_dtype", import_dequantize, fold_dequantize},
      {"DequantizeLinear", 1, 1, 2, 3, "axis block_size", import_dequantize, fold_dequantize, kMicrosoftDomain},
      {"QuantizeLinear", 10, 12, 2, 3, "", import_quantize, fold_quantize},
      {"QuantizeLinear", 13, 18, 2, 3, "axis", import_quantize, fold_quantize},
      {"QuantizeLinear", 19, 20, 2, 3, "axis saturate", import_quantize, fold_quantize},
      {"QuantizeLinear", 21, 22, 2, 3, "axis block_size output_dtype saturate", import_quantize, fold_quantize},
      {"QuantizeLinear", 23, kNewestOpset, 2, 3, "axis block_size output_dtype precision saturate", import_quantize,
       fold_quantize},
      {"QuantizeLinear", 1, 1, 2, 3, "axis block_size", import_quantize, fold_quantize, kMicrosoftDomain},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
