
#include "kernels/streaming/elementwise.h"

#include <array>
#include "choose/block_layers.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

using kernels::Conv2dParams;

template <class Params>
void set_window(Params& params, const Conv2d& op, const Shape& weight) {
  params.kernel_h = as_int(weight[2]);
  params.kernel_w = as_int(weight[3]);
  params.stride_h = as_int(op.strides[0]);
  params.stride_w = as_int(op.strides[1]);
  params.dilation_h = as_int(op.dilations[0]);
  params.dilation_w = as_int(op.dilations[1]);
  params.pad_top = as_int(op.pads.top);
  params.pad_left = as_int(op.pads.left);
}

Storage read_residual(Lowering& to, ValueId id) { return id == kNoValue ? Storage{} : to.read_input(id); }

// Of a Conv2d or Gemm: positions of input, weight and bias are the same in both.
struct Product {
  int rows;  // of an image
  ValueId residual;
  const Activation& activation;
};

kernels::GemmParams gemm_params(const Lowering& to, const Node& node, const Product& product) {
  const Shape& weight = to.shape(node.inputs[Conv2d::kWeight]);
  kernels::GemmParams params;
  params.elem = to.elem();
  params.output = to.elem();
  params.m = to.max_batch() * product.rows;
  params.n = as_int(weight[0]);
  params.k = as_int(weight[1]);
  params.bias = node.inputs[Conv2d::kBias] != kNoValue;
  params.residual = product.residual != kNoValue;
  params.activation = as_kernel_activation(product.activation);
  return params;
}

// Whether the product was chosen to be split, and is a step now.
bool lower_split_gemm(Lowering& to, const Node& node, const Product& product) {
  const ValueId input = node.inputs[Conv2d::kInput];
  const Storage x = to.read_rows(input);
  kernels::SplitGemmParams params = split_layer(gemm_params(to, node, product));
  params.in_range = to.in_split_range(input);
  params.x_pitch = x.pitch;
  params.y_pitch = to.pitch_of(node.output);
  const auto chosen = to.chooser().choose_fused(node.origin.label(), params);
  if (!chosen.variant) return false;
  const Storage residual = read_residual(to, product.residual);
  // The factor of X is among the weights: another input with the same ones is another piece.
  const ValueId w = node.inputs[Conv2d::kWeight];
  const auto bytes = static_cast<std::int64_t>(kernels::split_gemm_packed_bytes(params.n, params.k));
  const Packed weight = to.pack_bytes("split_gemm", {w, input}, bytes, [&](std::byte* packed) {
    kernels::split_gemm_pack(params.n, params.k, to.split_bound(input), to.floats(w).data(), packed);
  });
  const Packed bias = to.pack_floats(node.inputs[Conv2d::kBias]);
  const Storage y = to.make_rows(node, true);
  to.add_kernel({.info = to.describe(node, kernel_name(*chosen.variant, params), chosen.reason),
                 .x = x,
                 .weights = {weight, bias},
                 .residual = residual,
                 .y = y},
                *chosen.variant, params);
  return true;
}

void lower_gemm(Lowering& to, const Node& node, const Product& product) {
  if (to.splits() && lower_split_gemm(to, node, product)) return;
  kernels::GemmParams params = gemm_params(to, node, product);
  const Storage x = to.read_rows(node.inputs[Conv2d::kInput]);
  const Storage residual = read_residual(to, product.residual);
  const Packed weight =
      to.pack("gemm", node, node.inputs[Conv2d::kWeight], kernels::gemm_packed_bytes(params.elem, params.n, params.k),
              [&](const float* w, void* packed) { kernels::gemm_pack(params.elem, params.n, params.k, w, packed); });
  const Packed bias = to.pack_floats(node.inputs[Conv2d::kBias]);
  const Storage y = to.make_rows(node, true);
  params.output = y.elem;
  const auto chosen = to.choose(node, params);
  params.x_pitch = x.pitch;
  params.y_pitch = y.pitch;
  to.add_kernel({.info = to.describe(node, kernel_name(chosen.variant, params), chosen.reason),
                 .x = x,
                 .weights = {weight, bias},
                 .residual = residual,
                 .y = y},
                chosen.variant, params);
}

// Whether conv2d runs this pointwise convolution: it reads dense pixels in elem() and writes elem().
bool runs_in_conv2d(Lowering& to, const Node& node, const Conv2d& op) {
  if (const ChosenPointwise* chosen = to.chosen_with_block(node)) {
    return std::holds_alternative<Chosen<kernels::Conv2dVariant>>(*chosen);
  }
  const Storage& x = to.storage_of(node.inputs[Conv2d::kInput]);
  const bool dense = x.buffer != kNoBuffer && x.pitch == 0 && x.elem == to.elem() && x.buffer != to.input().buffer;
  if (!dense || to.is_final(node.output)) return false;
  Conv2dParams conv2d = conv2d_params(to, node, op);
  conv2d.y_pitch = to.pitch_of(node.output);
  return to.chooser().pointwise(node.origin.label(), conv2d) == PointwiseKernel::Conv2d;
}

void lower_depthwise(Lowering& to, const Node& node, const Conv2d& op) {
  const Storage x = to.read_input(node.inputs[Conv2d::kInput]);
  const ValueId residual_id = node.inputs[Conv2d::kResidual];
  const Storage residual = read_residual(to, residual_id);
  const Shape& in = to.shape(node.inputs[Conv2d::kInput]);
  const Shape& out = to.shape(node.output);
  kernels::DepthwiseConvParams params;
  params.elem = to.elem();
  params.n = to.max_batch();
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  params.c = as_int(in[1]);
  params.out_h = as_int(out[2]);
  params.out_w = as_int(out[3]);
  set_window(params, op, to.shape(node.inputs[Conv2d::kWeight]));
  params.bias = node.inputs[Conv2d::kBias] != kNoValue;
  // With a residual the activation belongs behind the addition.
  params.activation = as_kernel_activation(residual_id == kNoValue ? op.activation : Activation::none());
  const Packed weight =
      to.pack("depthwise_conv", node, node.inputs[Conv2d::kWeight],
              kernels::depthwise_conv_packed_bytes(params.elem, params.c, params.kernel_h, params.kernel_w),
              [&](const float* w, void* packed) {
                kernels::depthwise_conv_pack(params.elem, params.c, params.kernel_h, params.kernel_w, w, packed);
              });
  const Packed bias = to.pack_floats(node.inputs[Conv2d::kBias]);
  const Storage y = to.make_output(node, false);
  const auto chosen = to.choose(node, params);
  to.add_kernel({.info = to.describe(node, kernel_name(chosen.variant, params), chosen.reason),
                 .x = x,
                 .weights = {weight, bias},
                 .y = y},
                chosen.variant, params);
  if (residual_id != kNoValue) {
    add_addition(to, to.describe(node, "elementwise/add"), y, residual, y, out, op.activation);
  }
}

// A convolution reads the network's own input in place: bytes, or floats, also through a LayoutTransform that then has
// no reader.
Storage conv2d_input(Lowering& to, ValueId source, Conv2dParams& params) {
  using Input = Conv2dParams::Input;
  const bool transformed = to.storage_of(source).buffer == kNoBuffer;
  const Storage x = transformed ? to.input() : to.storage_of(source);
  if (to.input_is_bytes() && x.buffer == to.input().buffer) {
    params.input = Input::NhwcUint8;
    to.set_scale(params);
  } else if (transformed) {
    params.input = Input::NchwFloat;
  } else {
    params.input = source == to.graph().input() && x.elem == Elem::F32 ? Input::NhwcFloat : Input::NhwcElem;
  }
  return x;
}

void lower_conv2d(Lowering& to, const Node& node, const Conv2d& op) {
  Conv2dParams params = conv2d_params(to, node, op);
  const Storage x = conv2d_input(to, node.inputs[Conv2d::kInput], params);
  const Storage residual = read_residual(to, node.inputs[Conv2d::kResidual]);
  const Packed weight = to.pack("conv2d", node, node.inputs[Conv2d::kWeight], kernels::conv2d_packed_bytes(params),
                                [&](const float* w, void* packed) { kernels::conv2d_pack(params, w, packed); });
  const Packed bias = to.pack_floats(node.inputs[Conv2d::kBias]);
  const Storage y = to.make_rows(node, false);
  params.y_pitch = y.pitch;
  const auto chosen = to.choose(node, params);
  LayerInfo info = to.describe(node, kernel_name(chosen.variant, params), chosen.reason);
  const std::int64_t elements = to.shape(node.inputs[Conv2d::kInput]).elements();
  const auto elem_bytes = static_cast<std::int64_t>(size_of(to.elem()));
  if (params.input == Conv2dParams::Input::NhwcUint8) {
    info.activation_bytes -= elements * (elem_bytes - 1);
  } else if (x.elem != to.elem()) {
    info.activation_bytes += elements * (static_cast<std::int64_t>(size_of(x.elem)) - elem_bytes);
  }
  to.add_kernel({.info = std::move(info), .x = x, .weights = {weight, bias}, .residual = residual, .y = y},
                chosen.variant, params);
}

}  // namespace

bool is_pointwise(const Conv2d& op, const Shape& weight) {
  return weight[2] == 1 && weight[3] == 1 && op.strides == std::array<std::int64_t, 2>{1, 1} && !op.pads.any() &&
         op.groups == 1;
}

bool is_depthwise(const Conv2d& op, const Shape& weight) {
  return op.groups == weight[0] && weight[1] == 1 && op.groups > 1;
}

void lower(Lowering& to, const Node& node, const Conv2d& op) {
  const Shape& weight = to.shape(node.inputs[Conv2d::kWeight]);
  const Shape& x = to.shape(node.inputs[Conv2d::kInput]);
  const Product product{as_int(x[2] * x[3]), node.inputs[Conv2d::kResidual], op.activation};
  if (is_pointwise(op, weight) && !runs_in_conv2d(to, node, op)) {
    lower_gemm(to, node, product);
  } else if (is_depthwise(op, weight)) {
    lower_depthwise(to, node, op);
  } else {
    lower_conv2d(to, node, op);
  }
}

void lower(Lowering& to, const Node& node, const Gemm& op) { lower_gemm(to, node, {1, kNoValue, op.activation}); }

kernels::Conv2dParams conv2d_params(const Lowering& to, const Node& node, const Conv2d& op) {
  const Shape& in = to.shape(node.inputs[Conv2d::kInput]);
  const Shape& out = to.shape(node.output);
  Conv2dParams params;
  params.elem = to.elem();
  params.n = to.max_batch();
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  params.c_in = as_int(in[1]);
  params.c_out = as_int(out[1]);
  params.out_h = as_int(out[2]);
  params.out_w = as_int(out[3]);
  params.groups = as_int(op.groups);
  set_window(params, op, to.shape(node.inputs[Conv2d::kWeight]));
  params.bias = node.inputs[Conv2d::kBias] != kNoValue;
  params.residual = node.inputs[Conv2d::kResidual] != kNoValue;
  params.activation = as_kernel_activation(op.activation);
  return params;
}

bool reads_pictures(const Lowering& to, const Node& node) {
  const auto* op = std::get_if<Conv2d>(&node.op);
  if (op == nullptr || node.inputs[Conv2d::kResidual] == to.graph().input()) return false;
  const Shape& weight = to.shape(node.inputs[Conv2d::kWeight]);
  if (is_pointwise(*op, weight) || is_depthwise(*op, weight)) return false;
  Conv2dParams params = conv2d_params(to, node, *op);
  params.input = Conv2dParams::Input::NhwcUint8;
  return to.rules().runs(params);
}

}  // namespace mobicuda
