#include "kernels/streaming/elementwise.h"
#include "plan/lowering.h"

namespace mobicuda {

void Lowering::lower(const Node& node, const Conv2d& op) {
  const Shape& weight = shape(node.inputs[Conv2d::kWeight]);
  if (is_pointwise(op, weight) && !runs_in_conv2d(node, op)) {
    const Shape& x = shape(node.inputs[Conv2d::kInput]);
    lower_gemm(node, as_int(x[2] * x[3]), node.inputs[Conv2d::kResidual], op.activation);
  } else if (is_depthwise(op, weight)) {
    lower_depthwise(node, op);
  } else {
    lower_conv2d(node, op);
  }
}

void Lowering::lower(const Node& node, const Gemm& op) { lower_gemm(node, 1, kNoValue, op.activation); }

bool Lowering::runs_in_conv2d(const Node& node, const Conv2d& op) {
  const ValueId input = node.inputs[Conv2d::kInput];
  const Storage& x = storage_of(input);
  const bool dense = x.buffer != kNoBuffer && x.pitch == 0 && x.elem == elem_ && x.buffer != input_.buffer;
  if (!dense || is_final(node.output) || projects_.contains(&node)) return false;
  kernels::Conv2dParams conv2d = conv2d_params(node, op);
  if (const auto place = places_.find(node.output); place != places_.end()) conv2d.y_pitch = place->second.pitch;
  const int rows_a_picture = as_int(shape(input)[2] * shape(input)[3]);
  const auto gemm = gemm_params(node, rows_a_picture, node.inputs[Conv2d::kResidual], op.activation);
  return chooser_.pointwise(node.origin.label(), gemm, conv2d) == PointwiseKernel::Conv2d;
}

// Positions of input, weight and bias are the same in Conv2d and Gemm.
kernels::GemmParams Lowering::gemm_params(const Node& node, int rows_a_picture, ValueId residual_id,
                                          const Activation& activation) const {
  const Shape& weight = shape(node.inputs[Conv2d::kWeight]);
  kernels::GemmParams params;
  params.elem = elem_;
  params.output = elem_;
  params.m = as_int(options_.max_batch) * rows_a_picture;
  params.n = as_int(weight[0]);
  params.k = as_int(weight[1]);
  params.bias = node.inputs[Conv2d::kBias] != kNoValue;
  params.residual = residual_id != kNoValue;
  params.activation = as_kernel_activation(activation);
  return params;
}

void Lowering::lower_gemm(const Node& node, int rows_a_picture, ValueId residual_id, const Activation& activation) {
  kernels::GemmParams params = gemm_params(node, rows_a_picture, residual_id, activation);
  const int n = params.n;
  const int k = params.k;
  const Storage x = read_rows(node.inputs[Conv2d::kInput]);
  const Storage residual = residual_id == kNoValue ? Storage{} : read_input(residual_id);
  const Packed weight = pack(node, node.inputs[Conv2d::kWeight], kernels::gemm_packed_bytes(elem_, n, k),
                             [&](const float* w, void* packed) { kernels::gemm_pack(elem_, n, k, w, packed); });
  const Packed bias = pack_floats(node.inputs[Conv2d::kBias]);
  const Storage y = make_rows(node, true);
  params.output = y.elem;
  const auto chosen = choose(node, params);
  params.x_pitch = x.pitch;
  params.y_pitch = y.pitch;
  LayerInfo info = describe(node, "gemm/" + std::string(kernels::name(chosen.variant)), chosen.reason);
  info.weight_bytes = weight.bytes + bias.bytes;
  add_step(std::move(info), {x.buffer, residual.buffer, y.buffer},
           [params, rows_a_picture, variant = chosen.variant, rule = chooser_.rule(), x, residual, y,
            w = pointer(weight), b = pointer(bias)](const CudaStepContext& context) {
             auto p = params;
             p.m = as_int(context.n) * rows_a_picture;
             return kernels::gemm(p.m == params.m ? variant : rule.gemm(p), p, x.in(context), w.get(),
                                  b.template get<float>(),
                                  residual.buffer == kNoBuffer ? nullptr : context.buffers[residual.buffer],
                                  y.in(context), launch_of(context));
           });
}

void Lowering::lower_depthwise(const Node& node, const Conv2d& op) {
  const Storage x = read_input(node.inputs[Conv2d::kInput]);
  const ValueId residual_id = node.inputs[Conv2d::kResidual];
  const Storage residual = residual_id == kNoValue ? Storage{} : read_input(residual_id);
  const Shape& in = shape(node.inputs[Conv2d::kInput]);
  const Shape& weight_shape = shape(node.inputs[Conv2d::kWeight]);
  const Shape& out = shape(node.output);
  kernels::DepthwiseConvParams params;
  params.elem = elem_;
  params.n = as_int(options_.max_batch);
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  params.c = as_int(in[1]);
  params.out_h = as_int(out[2]);
  params.out_w = as_int(out[3]);
  set_window(params, op, weight_shape);
  params.bias = node.inputs[Conv2d::kBias] != kNoValue;
  // With a residual the activation belongs behind the addition.
  params.activation = as_kernel_activation(residual_id == kNoValue ? op.activation : Activation::none());
  const Packed weight =
      pack(node, node.inputs[Conv2d::kWeight],
           kernels::depthwise_conv_packed_bytes(elem_, params.c, params.kernel_h, params.kernel_w),
           [&](const float* w, void* packed) {
             kernels::depthwise_conv_pack(elem_, params.c, params.kernel_h, params.kernel_w, w, packed);
           });
  const Packed bias = pack_floats(node.inputs[Conv2d::kBias]);
  const Storage y = make_output(node, false);
  const auto chosen = choose(node, params);
  LayerInfo info = describe(node, "depthwise_conv/" + std::string(kernels::name(chosen.variant)), chosen.reason);
  info.weight_bytes = weight.bytes + bias.bytes;
  add_step(std::move(info), {x.buffer, y.buffer},
           [params, variant = chosen.variant, rule = chooser_.rule(), x, y, w = pointer(weight),
            b = pointer(bias)](const CudaStepContext& context) {
             auto p = params;
             p.n = as_int(context.n);
             return kernels::depthwise_conv(p.n == params.n ? variant : rule.depthwise_conv(p), p,
                                            context.buffers[x.buffer], w.get(), b.template get<float>(),
                                            context.buffers[y.buffer], launch_of(context));
           });
  if (residual_id != kNoValue) add_addition(describe(node, "elementwise/add"), y, residual, y, out, op.activation);
}

kernels::Conv2dParams Lowering::conv2d_params(const Node& node, const Conv2d& op) const {
  const Shape& in = shape(node.inputs[Conv2d::kInput]);
  const Shape& out = shape(node.output);
  kernels::Conv2dParams params;
  params.elem = elem_;
  params.n = as_int(options_.max_batch);
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  params.c_in = as_int(in[1]);
  params.c_out = as_int(out[1]);
  params.out_h = as_int(out[2]);
  params.out_w = as_int(out[3]);
  params.groups = as_int(op.groups);
  set_window(params, op, shape(node.inputs[Conv2d::kWeight]));
  params.bias = node.inputs[Conv2d::kBias] != kNoValue;
  params.residual = node.inputs[Conv2d::kResidual] != kNoValue;
  params.activation = as_kernel_activation(op.activation);
  return params;
}

void Lowering::lower_conv2d(const Node& node, const Conv2d& op) {
  kernels::Conv2dParams params = conv2d_params(node, op);
  const Storage x = conv2d_input(node.inputs[Conv2d::kInput], params);
  const Storage residual = params.residual ? read_input(node.inputs[Conv2d::kResidual]) : Storage{};
  const Packed weight = pack(node, node.inputs[Conv2d::kWeight], kernels::conv2d_packed_bytes(params),
                             [&](const float* w, void* packed) { kernels::conv2d_pack(params, w, packed); });
  const Packed bias = pack_floats(node.inputs[Conv2d::kBias]);
  const Storage y = make_rows(node, false);
  params.y_pitch = y.pitch;
  const auto chosen = choose(node, params);
  LayerInfo info = describe(node, "conv2d/" + std::string(kernels::name(chosen.variant)), chosen.reason);
  info.weight_bytes = weight.bytes + bias.bytes;
  const std::int64_t elements = shape(node.inputs[Conv2d::kInput]).elements();
  if (params.input == kernels::Conv2dParams::Input::NhwcUint8) {
    info.activation_bytes -= elements * static_cast<std::int64_t>(size_of(elem_) - 1);
  } else if (x.elem != elem_) {
    info.activation_bytes +=
        elements * (static_cast<std::int64_t>(size_of(x.elem)) - static_cast<std::int64_t>(size_of(elem_)));
  }
  add_step(std::move(info), {x.buffer, residual.buffer, y.buffer},
           [params, variant = chosen.variant, rule = chooser_.rule(), x, residual, y, w = pointer(weight),
            b = pointer(bias)](const CudaStepContext& context) {
             auto p = params;
             p.n = as_int(context.n);
             return kernels::conv2d(p.n == params.n ? variant : rule.conv2d(p), p, context.buffers[x.buffer], w.get(),
                                    b.template get<float>(),
                                    residual.buffer == kNoBuffer ? nullptr : context.buffers[residual.buffer],
                                    y.in(context), launch_of(context));
           });
}

// A convolution reads the network's own input in place: bytes, or floats, also through a LayoutTransform that then has
// no reader.
Lowering::Storage Lowering::conv2d_input(ValueId source, kernels::Conv2dParams& params) {
  using Input = kernels::Conv2dParams::Input;
  const bool transformed = storage_of(source).buffer == kNoBuffer;
  const Storage x = transformed ? input_ : storage_of(source);
  if (pictures_ && x.buffer == input_.buffer) {
    params.input = Input::NhwcUint8;
    read_pictures(params);
  } else if (transformed) {
    params.input = Input::NchwFloat;
  } else {
    params.input = source == graph_.input() && x.elem == Elem::F32 ? Input::NhwcFloat : Input::NhwcElem;
  }
  return x;
}

bool Lowering::read_by_conv2d_only(ValueId id) const {
  const auto readers = graph_.consumers(id);
  return id != graph_.output() && std::all_of(readers.begin(), readers.end(), [&](std::size_t i) {
           const Node& reader = graph_.nodes()[i];
           const auto* conv = std::get_if<Conv2d>(&reader.op);
           if (conv == nullptr || reader.inputs[Conv2d::kResidual] == id) return false;
           const Shape& weight = shape(reader.inputs[Conv2d::kWeight]);
           return !is_pointwise(*conv, weight) && !is_depthwise(*conv, weight);
         });
}

}  // namespace mobicuda
