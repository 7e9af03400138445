// Operations on integers that stand for real numbers.
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <optional>

#include <mobicuda/error.h>

#include "graph/integer_arithmetic.h"
#include "kernels/int8_depthwise_conv/int8_depthwise_conv.h"
#include "kernels/streaming/int8_add.h"
#include "kernels/streaming/int8_pooling.h"
#include "kernels/streaming/quantize.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

using kernels::ByteRange;
using kernels::Int8Conv2dParams;
using kernels::Int8DepthwiseConvParams;
using kernels::kChannelStep;

int shift_of(DType dtype) { return dtype == DType::U8 ? 128 : 0; }  // what uint8 is more by

std::int64_t pixels_of(const Shape& shape) { return shape.elements() / shape[1]; }

/// Attributes and result of a QuantizedConv2d; those of a 1x1 window for a QuantizedGemm.
struct Convolution {
  QuantizedConv2d op;
  std::int64_t kernel_h = 1, kernel_w = 1;
};

std::optional<Convolution> convolution_of(const Graph& graph, const Node& node) {
  if (const auto* gemm = std::get_if<QuantizedGemm>(&node.op)) {
    Convolution found;
    found.op.result = gemm->result;
    return found;
  }
  const auto* op = std::get_if<QuantizedConv2d>(&node.op);
  if (op == nullptr) return std::nullopt;
  const Shape& weight = graph.value(node.inputs[QuantizedConv2d::kWeight]).desc.shape;
  return Convolution{*op, weight[2], weight[3]};
}

/// One of a constant's integers, which are I8 or U8.
std::int32_t integer_of(const HostTensor& tensor, std::size_t at) {
  const std::byte byte = tensor.bytes()[at];
  return tensor.dtype() == DType::U8 ? std::to_integer<std::int32_t>(byte)
                                     : static_cast<std::int32_t>(std::bit_cast<std::int8_t>(byte));
}

/// Weights less their zero points, where those are numbers of int8; nothing where one is not.
std::optional<std::vector<std::int8_t>> centred_weights(const Graph& graph, const Node& node) {
  const HostTensor& weight = *graph.value(node.inputs[QuantizedConv2d::kWeight]).constant;
  const ValueId zero_id = node.inputs[QuantizedConv2d::kWeightZeroPoint];
  const auto zeros =
      zero_id == kNoValue ? std::span<const std::int32_t>() : graph.value(zero_id).constant->data<std::int32_t>();
  const auto each = static_cast<std::size_t>(weight.shape().elements() / weight.shape()[0]);
  std::vector<std::int8_t> centred(static_cast<std::size_t>(weight.shape().elements()));
  for (std::size_t i = 0; i < centred.size(); ++i) {
    const std::int32_t value = integer_of(weight, i) - (zeros.empty() ? 0 : zeros[i / each]);
    if (!kernels::is_byte(value)) return std::nullopt;
    centred[i] = static_cast<std::int8_t>(value);
  }
  return centred;
}

std::vector<float> multipliers(const Graph& graph, const Node& node, const QuantizedResult& result) {
  const float x_scale = graph.value(node.inputs[QuantizedConv2d::kInput]).desc.quantization.scale;
  std::vector<float> factors;
  for (const float scale : graph.value(node.inputs[QuantizedConv2d::kWeightScale]).constant->data<float>()) {
    factors.push_back(product_multiplier(x_scale, scale, result));
  }
  return factors;
}

/// A weight, its bias and its multipliers, packed once for the three pieces that they become.
struct PackedConvolution {
  std::vector<std::int8_t> weight;
  std::vector<std::int32_t> bias;
  std::vector<float> multiplier;
};

// What packed constants depend on besides constants, for their key.
std::string zero_key(const Lowering& to, const Node& node) {
  const TensorDesc& x = to.graph().value(node.inputs[QuantizedConv2d::kInput]).desc;
  return " zero " + std::to_string(byte_quantization(x).zero_point);
}
std::string scales_key(const Lowering& to, const Node& node, const QuantizedResult& result) {
  const auto bits = [](float scale) { return std::to_string(std::bit_cast<std::uint32_t>(scale)); };
  const float x_scale = to.graph().value(node.inputs[QuantizedConv2d::kInput]).desc.quantization.scale;
  return " x " + bits(x_scale) + " y " +
         (result.dtype == DType::F32 ? std::string("real") : bits(result.quantization.scale));
}

/// The constants of a convolution that has been found to have a kernel.
struct ConvolutionConstants {
  std::vector<std::int8_t> weight;
  const std::int32_t* bias = nullptr;
  std::vector<float> multiplier;
};

ConvolutionConstants constants_of(const Lowering& to, const Node& node) {
  auto weight = centred_weights(to.graph(), node);
  if (!weight) throw Error(ErrorCode::internal, node.origin.describe(), "has weights that were not refused");
  const ValueId bias = node.inputs[QuantizedConv2d::kBias];
  return {std::move(*weight), bias == kNoValue ? nullptr : to.graph().value(bias).constant->data<std::int32_t>().data(),
          multipliers(to.graph(), node, convolution_of(to.graph(), node)->op.result)};
}

/// pack(weight, bias or null, multiplier, PackedConvolution) fills what it is given, which has the sizes wanted.
/// `of_bias`: what the biases depend on beside `packing`.
template <class Pack>
std::vector<Packed> pack_pieces(Lowering& to, const Node& node, const QuantizedResult& result, std::string packing,
                                const std::string& of_bias, std::size_t weight_bytes, std::size_t biases,
                                std::size_t channels, const Pack& pack) {
  packing += zero_key(to, node);
  const std::string factors = packing + scales_key(to, node, result);
  std::optional<PackedConvolution> made;
  const auto packed = [&]() -> const PackedConvolution& {
    if (made) return *made;
    made.emplace(PackedConvolution{std::vector<std::int8_t>(weight_bytes), std::vector<std::int32_t>(biases),
                                   std::vector<float>(channels)});
    const ConvolutionConstants constants = constants_of(to, node);
    pack(constants.weight.data(), constants.bias, constants.multiplier.data(), *made);
    return *made;
  };
  std::vector<ValueId> constants(node.inputs.begin() + QuantizedConv2d::kWeight, node.inputs.end());
  const auto piece = [&](const std::string& key, auto PackedConvolution::*member, std::size_t bytes) {
    return to.pack_bytes(key, constants, static_cast<std::int64_t>(bytes),
                         [&](std::byte* host) { std::memcpy(host, (packed().*member).data(), bytes); });
  };
  return {piece(packing + " weights", &PackedConvolution::weight, weight_bytes),
          piece(packing + of_bias + " bias", &PackedConvolution::bias, biases * sizeof(std::int32_t)),
          piece(factors + " multipliers", &PackedConvolution::multiplier, channels * sizeof(float))};
}

/// For a kernel of convolutions: sizes and window.
template <class Params>
Params window_params(const Lowering& to, const Node& node) {
  const Convolution conv = convolution_of(to.graph(), node).value();
  const Shape& in = to.shape(node.inputs[QuantizedConv2d::kInput]);
  const Shape& out = to.shape(node.output);
  Params p;
  p.n = to.max_batch();
  p.h = in.rank() == 4 ? as_int(in[2]) : 1;
  p.w = in.rank() == 4 ? as_int(in[3]) : 1;
  p.out_h = out.rank() == 4 ? as_int(out[2]) : 1;
  p.out_w = out.rank() == 4 ? as_int(out[3]) : 1;
  p.kernel_h = as_int(conv.kernel_h);
  p.kernel_w = as_int(conv.kernel_w);
  p.stride_h = as_int(conv.op.strides[0]);
  p.stride_w = as_int(conv.op.strides[1]);
  p.dilation_h = as_int(conv.op.dilations[0]);
  p.dilation_w = as_int(conv.op.dilations[1]);
  p.pad_top = as_int(conv.op.pads.top);
  p.pad_left = as_int(conv.op.pads.left);
  p.x_pitch = byte_pitch_of(to, node.inputs[QuantizedConv2d::kInput]);
  p.x_zero = byte_quantization(to.graph().value(node.inputs[QuantizedConv2d::kInput]).desc).zero_point;
  if (conv.op.result.dtype != DType::F32) p.result = byte_range(conv.op.result);
  return p;
}

void lower_depthwise(Lowering& to, const Node& node) {
  auto params = window_params<Int8DepthwiseConvParams>(to, node);
  params.c = as_int(to.shape(node.output)[1]);
  const Storage x = to.storage_of(node.inputs[QuantizedConv2d::kInput]);
  const auto weights = pack_pieces(
      to, node, std::get<QuantizedConv2d>(node.op).result, "int8_depthwise_conv", "",
      kernels::int8_depthwise_conv_packed_bytes(params), kernels::int8_depthwise_conv_packed_channels(params),
      kernels::int8_depthwise_conv_packed_channels(params),
      [&](const std::int8_t* weight, const std::int32_t* bias, const float* multiplier, PackedConvolution& packed) {
        kernels::int8_depthwise_conv_pack(params, weight, bias, multiplier, packed.weight.data(), packed.bias.data(),
                                          packed.multiplier.data());
      });
  const Storage y = to.make_bytes(node);
  params.y_pitch = y.byte_pitch;
  const auto chosen = to.choose(node, params);
  to.add_kernel({.info = describe_int8(to, {&node}, kernel_name(chosen.variant, params), chosen.reason),
                 .x = x,
                 .weights = weights,
                 .y = y},
                chosen.variant, params);
}

void lower_convolution(Lowering& to, const Node& node) {
  Int8Conv2dParams params = int8_conv2d_params(to, node);
  const Storage x = to.storage_of(node.inputs[QuantizedConv2d::kInput]);
  const auto weights = pack_int8_conv2d(to, node, params);
  const bool real = params.output == Int8Conv2dParams::Output::Float;
  const Storage y = real ? to.make_floats(node) : to.make_bytes(node);
  params.y_pitch = y.byte_pitch;
  const auto chosen = to.choose(node, params);
  to.add_kernel({.info = describe_int8(to, {&node}, kernel_name(chosen.variant, params), chosen.reason),
                 .x = x,
                 .weights = weights,
                 .y = y},
                chosen.variant, params);
}

std::optional<std::string> why_not_convolved(const Graph& graph, const Node& node) {
  const HostTensor* weight = graph.value(node.inputs[QuantizedConv2d::kWeight]).constant.get();
  if (weight != nullptr && !weight->bytes().empty() && !centred_weights(graph, node)) {
    return "weights less their zero point are beyond int8, for which there is no kernel";
  }
  return std::nullopt;
}

std::optional<std::string> why_not_pooled(const Shape& in, const Shape& out, const Pool2d& window) {
  if (window.dilations != std::array<std::int64_t, 2>{1, 1}) return "int8 pooling with dilations has no kernel";
  const auto ends = [&](std::size_t axis, std::int64_t before, std::int64_t after) {
    const std::int64_t last = (out[axis + 2] - 1) * window.strides.at(axis) - before;  // the last window's first pixel
    if (last >= in[axis + 2] || before >= window.kernel.at(axis)) return false;
    return !window.count_include_pad || last + window.kernel.at(axis) <= in[axis + 2] + after;
  };
  if (!ends(0, window.pads.top, window.pads.bottom) || !ends(1, window.pads.left, window.pads.right)) {
    return "int8 pooling whose windows end outside of the padded image has no kernel";
  }
  return std::nullopt;
}

}  // namespace

ByteQuantization byte_quantization(const TensorDesc& desc) {
  return {desc.quantization.scale, desc.quantization.zero_point - shift_of(desc.dtype)};
}

kernels::ByteRange byte_range(const QuantizedResult& result) {
  const int shift = shift_of(result.dtype);
  return {result.quantization.zero_point - shift, result.range.low - shift, result.range.high - shift};
}

int byte_pitch_of(const Lowering& to, ValueId id) {
  const Shape& picture = to.shape(id);
  const auto readers = to.graph().consumers(id);
  const Node* maker = to.producer(id);
  const bool is_first =
      maker != nullptr && std::holds_alternative<Quantize>(maker->op) && picture[1] <= kernels::kSmallBytePitch;
  const bool small = is_first && std::all_of(readers.begin(), readers.end(), [&](std::size_t reader) {
                       const auto* conv = std::get_if<QuantizedConv2d>(&to.graph().nodes()[reader].op);
                       return conv != nullptr && conv->groups == 1;
                     });
  return small ? kernels::kSmallBytePitch : kernels::round_up(as_int(picture[1]), kChannelStep);
}

std::optional<std::string> why_no_int8_kernel(const Graph& graph, const Node& node) {
  const auto desc_of = [&](ValueId id) -> const TensorDesc& { return graph.value(id).desc; };
  const TensorDesc& y = desc_of(node.output);
  for (const ValueId id : {node.inputs[0], node.output}) {
    const std::size_t rank = desc_of(id).shape.rank();
    if (rank != 2 && rank != 4) return "int8 values of rank " + std::to_string(rank) + " have no kernels";
  }
  const auto factor = [&](ValueId id) { return desc_of(id).quantization.scale / y.quantization.scale; };
  if (convolution_of(graph, node)) return why_not_convolved(graph, node);
  if (const auto* pool = std::get_if<Pool2d>(&node.op)) {
    return why_not_pooled(desc_of(node.inputs[0]).shape, y.shape, *pool);
  }
  if (const auto* pool = std::get_if<QuantizedAveragePool>(&node.op)) {
    return why_not_pooled(desc_of(node.inputs[0]).shape, y.shape, pool->window);
  }
  if (std::holds_alternative<Reshape>(node.op)) {
    const bool only_renames = pixels_of(desc_of(node.inputs[0]).shape) == 1 && pixels_of(y.shape) == 1;
    if (!only_renames) return "a Reshape of int8 maps of several pixels has no kernel";
    return std::nullopt;
  }
  if (std::holds_alternative<QuantizedAdd>(node.op) || std::holds_alternative<Requantize>(node.op)) {
    for (const ValueId id : node.inputs) {
      if (!kernels::is_scale(factor(id)))
        return "the scales of its input and output are too far apart for the int8 kernels";
    }
    return std::nullopt;
  }
  if (std::holds_alternative<Quantize>(node.op) || std::holds_alternative<Dequantize>(node.op) ||
      std::holds_alternative<LayoutTransform>(node.op)) {
    return std::nullopt;
  }
  return "int8 has no kernel of it in this engine: run it on the CPU engine, or take the floating-point model";
}

LayerInfo describe_int8(const Lowering& to, const std::vector<const Node*>& nodes, std::string kernel,
                        std::string reason) {
  LayerInfo info = nodes.size() == 1 ? to.describe(*nodes.front(), std::move(kernel), std::move(reason))
                                     : to.describe(nodes, std::move(kernel), std::move(reason));
  const auto bytes_of = [&](ValueId id) {
    const Value& value = to.graph().value(id);
    const auto each = is_quantized(value.desc.dtype) ? 1 : static_cast<std::int64_t>(sizeof(float));
    return value.constant ? 0 : value.desc.shape.elements() * each;
  };
  info.activation_bytes = bytes_of(nodes.back()->output);
  for (const Node* node : nodes) {
    for (const ValueId id : node->inputs) {
      const bool inside = std::any_of(nodes.begin(), nodes.end(), [&](const Node* of) { return of->output == id; });
      if (id != kNoValue && !inside) info.activation_bytes += bytes_of(id);
    }
  }
  return info;
}

bool is_int8_depthwise(const Lowering& to, const Node& node) {
  const auto* op = std::get_if<QuantizedConv2d>(&node.op);
  if (op == nullptr || op->result.dtype == DType::F32) return false;
  const Shape& weight = to.shape(node.inputs[QuantizedConv2d::kWeight]);
  return op->groups > 1 && op->groups == weight[0] && weight[1] == 1 &&
         op->groups == to.shape(node.inputs[QuantizedConv2d::kInput])[1];
}

bool is_int8_pointwise(const Lowering& to, const Node& node) {
  const auto* op = std::get_if<QuantizedConv2d>(&node.op);
  if (op == nullptr || op->result.dtype == DType::F32) return false;
  const Shape& weight = to.shape(node.inputs[QuantizedConv2d::kWeight]);
  return weight[2] == 1 && weight[3] == 1 && op->strides == std::array<std::int64_t, 2>{1, 1} && !op->pads.any() &&
         op->groups == 1;
}

Int8Conv2dParams int8_conv2d_params(const Lowering& to, const Node& node) {
  const Convolution conv = convolution_of(to.graph(), node).value();
  auto p = window_params<Int8Conv2dParams>(to, node);
  if (conv.op.result.dtype == DType::F32) p.output = Int8Conv2dParams::Output::Float;
  p.c_in = as_int(to.shape(node.inputs[QuantizedConv2d::kInput])[1]);
  p.c_out = as_int(to.shape(node.output)[1]);
  p.groups = as_int(conv.op.groups);
  return p;
}

std::vector<Packed> pack_int8_conv2d(Lowering& to, const Node& node, const Int8Conv2dParams& params) {
  std::string packing = params.x_pitch == kernels::kSmallBytePitch ? "int8_conv2d/words" : "int8_conv2d";
  packing += " groups " + std::to_string(params.groups);
  const std::size_t channels = kernels::int8_conv2d_packed_channels(params);
  const std::size_t biases = kernels::int8_conv2d_packed_biases(params);
  std::string edges;
  if (biases > channels) {  // they depend on where windows reach over an edge
    for (const int value : {params.h, params.w, params.out_h, params.out_w, params.stride_h, params.stride_w,
                            params.dilation_h, params.dilation_w, params.pad_top, params.pad_left}) {
      edges += " " + std::to_string(value);
    }
  }
  return pack_pieces(
      to, node, convolution_of(to.graph(), node)->op.result, packing, edges, kernels::int8_conv2d_packed_bytes(params),
      biases, channels,
      [&](const std::int8_t* weight, const std::int32_t* bias, const float* multiplier, PackedConvolution& packed) {
        kernels::int8_conv2d_pack(params, weight, bias, multiplier, packed.weight.data(), packed.bias.data(),
                                  packed.multiplier.data());
      });
}

Packed pack_int8_layers(Lowering& to, const std::array<const Node*, 3>& convolutions, std::string packing,
                        std::size_t bytes,
                        const std::function<void(const std::array<kernels::Int8Layer, 3>&, std::byte*)>& pack) {
  std::vector<ValueId> constants;
  for (const Node* node : convolutions) {
    packing += zero_key(to, *node) + scales_key(to, *node, convolution_of(to.graph(), *node)->op.result);
    constants.insert(constants.end(), node->inputs.begin() + QuantizedConv2d::kWeight, node->inputs.end());
  }
  return to.pack_bytes(packing, constants, static_cast<std::int64_t>(bytes), [&](std::byte* host) {
    std::array<ConvolutionConstants, 3> held;
    std::array<kernels::Int8Layer, 3> layers;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      held[i] = constants_of(to, *convolutions[i]);
      layers[i] = {held[i].weight.data(), held[i].bias, held[i].multiplier.data()};
    }
    pack(layers, host);
  });
}

float sum_factor(const Lowering& to, ValueId input, const QuantizedResult& result) {
  return to.graph().value(input).desc.quantization.scale / result.quantization.scale;
}

void lower_int8_pooling(Lowering& to, const Node& node, const Pool2d& window) {
  const ValueId input = node.inputs[0];
  const Storage x = to.storage_of(input);
  const Storage y = to.make_bytes(node);
  const TensorDesc& in = to.graph().value(input).desc;
  const TensorDesc& out = to.graph().value(node.output).desc;
  kernels::Int8PoolingParams params;
  params.is_max = window.kind == PoolKind::Max;
  params.h = as_int(in.shape[2]);
  params.w = as_int(in.shape[3]);
  params.c = as_int(in.shape[1]);
  params.out_h = as_int(out.shape[2]);
  params.out_w = as_int(out.shape[3]);
  params.kernel_h = as_int(window.kernel[0]);
  params.kernel_w = as_int(window.kernel[1]);
  params.stride_h = as_int(window.strides[0]);
  params.stride_w = as_int(window.strides[1]);
  params.pad_top = as_int(window.pads.top);
  params.pad_left = as_int(window.pads.left);
  params.x_pitch = x.byte_pitch;
  params.y_pitch = y.byte_pitch;
  params.count_padding = window.count_include_pad;
  params.x_scale = in.quantization.scale;
  params.y_scale = out.quantization.scale;
  params.x_zero = byte_quantization(in).zero_point;
  if (const auto* average = std::get_if<QuantizedAveragePool>(&node.op)) params.result = byte_range(average->result);
  const char* kernel = params.is_max ? "int8_pooling/max" : "int8_pooling/average";
  to.add_streaming(describe_int8(to, {&node}, kernel, {}), x, y, params, kernels::int8_pooling);
}

void lower(Lowering& to, const Node& node, const Quantize& op) {
  const ValueId source = node.inputs[0];
  // A LayoutTransform of the network's input that left this to its readers.
  const bool transformed = to.storage_of(source).buffer == kNoBuffer;
  const Storage x = transformed ? to.input() : to.read_floats(source);
  const Storage y = to.make_bytes(node);
  const Shape& picture = to.shape(node.output);
  kernels::QuantizeParams params;
  params.nchw = picture.rank() == 4 && (transformed || to.graph().value(source).desc.layout == Layout::NCHW);
  params.pixels = as_int(pixels_of(picture));
  params.c = as_int(picture[1]);
  params.y_pitch = y.byte_pitch;
  params.scale = op.result.quantization.scale;
  params.result = byte_range(op.result);
  to.add_streaming(
      describe_int8(to, {&node}, "quantize", {}), x, y, params,
      +[](const kernels::QuantizeParams& p, const void* from, void* made, const kernels::Launch& where) {
        return kernels::quantize(p, static_cast<const float*>(from), made, where);
      });
}

void lower(Lowering& to, const Node& node, const Dequantize&) {
  const TensorDesc& in = to.graph().value(node.inputs[0]).desc;
  const Storage x = to.storage_of(node.inputs[0]);
  const Storage y = to.make_floats(node);
  kernels::DequantizeParams params;
  params.nchw = in.shape.rank() == 4 && to.graph().value(node.output).desc.layout == Layout::NCHW;
  params.pixels = as_int(pixels_of(in.shape));
  params.c = as_int(in.shape[1]);
  params.x_pitch = x.byte_pitch;
  params.scale = in.quantization.scale;
  params.zero_point = byte_quantization(in).zero_point;
  to.add_streaming(
      describe_int8(to, {&node}, "quantize/dequantize", {}), x, y, params,
      +[](const kernels::DequantizeParams& p, const void* from, void* made, const kernels::Launch& where) {
        return kernels::dequantize(p, from, static_cast<float*>(made), where);
      });
}

void lower(Lowering& to, const Node& node, const Requantize& op) {
  const TensorDesc& in = to.graph().value(node.inputs[0]).desc;
  const Storage x = to.storage_of(node.inputs[0]);
  const Storage y = to.make_bytes(node);
  kernels::RequantizeParams params;
  params.pixels = as_int(pixels_of(in.shape));
  params.c = as_int(in.shape[1]);
  params.x_pitch = x.byte_pitch;
  params.y_pitch = y.byte_pitch;
  params.scale = in.quantization.scale / op.result.quantization.scale;
  params.x_zero = byte_quantization(in).zero_point;
  params.result = byte_range(op.result);
  to.add_streaming(describe_int8(to, {&node}, "quantize/requantize", {}), x, y, params, kernels::requantize);
}

void lower(Lowering& to, const Node& node, const QuantizedConv2d&) {
  if (is_int8_depthwise(to, node)) {
    lower_depthwise(to, node);
  } else {
    lower_convolution(to, node);
  }
}

void lower(Lowering& to, const Node& node, const QuantizedGemm&) { lower_convolution(to, node); }

void lower(Lowering& to, const Node& node, const QuantizedAdd& op) {
  const ValueId left = node.inputs[QuantizedAdd::kLeft];
  const ValueId right = node.inputs[QuantizedAdd::kRight];
  const Storage a = to.storage_of(left);
  const Storage b = to.storage_of(right);
  const Storage y = to.make_bytes(node);
  const Shape& picture = to.shape(node.output);
  kernels::Int8AddParams params;
  params.sum = {sum_factor(to, left, op.result), sum_factor(to, right, op.result),
                byte_quantization(to.graph().value(left).desc).zero_point,
                byte_quantization(to.graph().value(right).desc).zero_point, byte_range(op.result)};
  const std::int64_t elements = pixels_of(picture) * y.byte_pitch;
  to.add_step(describe_int8(to, {&node}, "int8_add", {}), {a.buffer, b.buffer, y.buffer},
              [params, elements, a, b, y](const CudaStepContext& context) {
                auto p = params;
                p.elements = context.n * elements;
                return kernels::int8_add(p, a.in(context), b.in(context), y.in(context), launch_of(context));
              });
}

void lower(Lowering& to, const Node& node, const QuantizedAveragePool& op) { lower_int8_pooling(to, node, op.window); }

}  // namespace mobicuda
