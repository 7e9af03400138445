// Elementwise operations, pooling, normalisation and softmax: which library calls and kernels compute them.

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "cudnn/plan_builder.h"
#include "cudnn/tensor_formats.h"

namespace mobicuda::cudnn {
namespace {

std::string label_of_input(const Node& node) { return "input of " + node.origin.label(); }

// cuDNN pools with symmetric pads and rounds the pooled extent down.
bool cudnn_pools(const PoolShape& s) {
  const auto rounded_down = [&](std::size_t axis, std::int64_t extent, std::int64_t pad) {
    return (extent + 2 * pad - s.kernel[axis]) / s.strides[axis] + 1;
  };
  return s.dilations == std::array<std::int64_t, 2>{1, 1} && s.pads.top == s.pads.bottom &&
         s.pads.left == s.pads.right && s.out_h == rounded_down(0, s.x.h, s.pads.top) &&
         s.out_w == rounded_down(1, s.x.w, s.pads.left);
}

TensorWork cudnn_pooling(const PoolShape& s) {
  auto pooling = make_pooling_descriptor();
  const cudnnPoolingMode_t average =
      s.count_padding ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
  check(cudnnSetPooling2dDescriptor(pooling.get(), s.average ? average : CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN,
                                    static_cast<int>(s.kernel[0]), static_cast<int>(s.kernel[1]),
                                    static_cast<int>(s.pads.top), static_cast<int>(s.pads.left),
                                    static_cast<int>(s.strides[0]), static_cast<int>(s.strides[1])),
        "describing a pooling");
  TensorShape y = s.x;
  y.h = s.out_h;
  y.w = s.out_w;
  const Factors by = factors_of(s.x.element == Element::F64);
  return [=, x_desc = tensor_descriptor(s.x), y_desc = tensor_descriptor(y, s.y_pitch)](const Handles& handles,
                                                                                        const void* from, void* to) {
    return to_cuda(
        cudnnPoolingForward(handles.cudnn(), pooling.get(), by.one, x_desc.get(), from, by.zero, y_desc.get(), to));
  };
}

bool cudnn_normalizes(const Normalization& op) {
  return op.size >= CUDNN_LRN_MIN_N && op.size <= CUDNN_LRN_MAX_N &&
         static_cast<double>(op.beta) >= CUDNN_LRN_MIN_BETA && static_cast<double>(op.bias) >= CUDNN_LRN_MIN_K;
}

TensorWork cudnn_normalization(const Normalization& op) {
  auto lrn = make_lrn_descriptor();
  check(cudnnSetLRNDescriptor(lrn.get(), static_cast<unsigned>(op.size), static_cast<double>(op.alpha),
                              static_cast<double>(op.beta), static_cast<double>(op.bias)),
        "describing a normalisation");
  const Factors by = factors_of(op.shape.element == Element::F64);
  return [lrn, by, desc = tensor_descriptor(op.shape)](const Handles& handles, const void* from, void* to) {
    return to_cuda(cudnnLRNCrossChannelForward(handles.cudnn(), lrn.get(), CUDNN_LRN_CROSS_CHANNEL_DIM1, by.one,
                                               desc.get(), from, by.zero, desc.get(), to));
  };
}

void emit_affine(PlanBuilder& plan, const Node& node, const char* kernel, const Stored& x, const Stored* residual,
                 const WeightStore::Address& scale, const WeightStore::Address& shift, const Activation& activation) {
  const Stored y = plan.new_output(node, plan.element());
  Affine op{tensor_shape(x.shape, x.layout, plan.element()), activation};
  op.x_pitch = x.pitch;
  op.y_pitch = y.pitch;
  if (residual != nullptr) op.residual_pitch = residual->pitch;
  LayerInfo info = plan.layer_info(node, kernel);
  info.flops = flops_per_picture(plan.graph(), node);
  info.activation_bytes = op.shape.elements() * size_of(plan.element()) * (residual != nullptr ? 3 : 2) / op.shape.n;
  const bool skips = residual != nullptr;
  const Place skip = skips ? residual->place : y.place;
  plan.add_step(std::move(info), {x.place.buffer, y.place.buffer, skip.buffer},
                [=, source = x.place, target = y.place](const CudaStepContext& c, const Handles&) {
                  return affine(op, source.in(c), scale.get(), shift.get(), skips ? skip.in(c) : nullptr, target.in(c),
                                c.stream);
                });
}

// Enqueues the way that the search finds fastest.
void emit_fastest(PlanBuilder& plan, const Node& node, const Stored& x, const Stored& y, std::span<const Way> ways) {
  const std::int64_t x_bytes = x.shape.elements() * size_of(x.dtype);
  const std::int64_t y_bytes = y.shape.elements() * size_of(y.dtype) / y.shape[1] * std::max(y.shape[1], y.pitch);
  const Way& fastest = ways[plan.search().fastest(ways, x_bytes, y_bytes)];
  LayerInfo info = plan.layer_info(node, fastest.name);
  info.flops = flops_per_picture(plan.graph(), node);
  info.activation_bytes = (x_bytes + y.shape.elements() * size_of(y.dtype)) / plan.options().max_batch;
  plan.add_step(std::move(info), {x.place.buffer, y.place.buffer},
                [work = fastest.work, from = x.place, to = y.place](const CudaStepContext& c, const Handles& handles) {
                  return work(handles, from.in(c), to.in(c));
                });
}

void emit_softmax(PlanBuilder& plan, const Node& node, const char* name, cudnnSoftmaxAlgorithm_t algorithm) {
  Stored x = plan.stored(node.inputs[0]);
  if (x.pitch != 0) x = plan.in_plan_format(x, label_of_input(node));
  const Stored y = plan.new_output(node, x.dtype);
  x = plan.convert(x, x.dtype, y.layout, x.shape[1], label_of_input(node));
  TensorShape shape = tensor_shape(x.shape, x.layout, x.dtype);
  shape.channels_last = shape.channels_last && shape.h * shape.w > 1;
  LayerInfo info = plan.layer_info(node, name);
  info.flops = flops_per_picture(plan.graph(), node);
  info.activation_bytes = 2 * shape.elements() * size_of(x.dtype) / shape.n;
  plan.add_step(std::move(info), {x.place.buffer, y.place.buffer},
                [=, by = factors_of(x.dtype == DType::F64), desc = tensor_descriptor(shape), from = x.place,
                 to = y.place](const CudaStepContext& c, const Handles& handles) {
                  return to_cuda(cudnnSoftmaxForward(handles.cudnn(), algorithm, CUDNN_SOFTMAX_MODE_CHANNEL, by.one,
                                                     desc.get(), from.in(c), by.zero, desc.get(), to.in(c)));
                });
}

// Of two activations, of which the second may repeat.
void emit_binary(PlanBuilder& plan, const Node& node, const char* name, BinaryFunction function,
                 const Activation& activation) {
  const std::string label = node.origin.label();
  const Stored left = plan.in_plan_format(plan.stored(node.inputs[0]), "left input of " + label);
  const Stored right = plan.in_plan_format(plan.stored(node.inputs[1]), "right input of " + label);
  const Stored y = plan.new_output(node, plan.element());
  LayerInfo info = plan.layer_info(node, name);
  info.flops = flops_per_picture(plan.graph(), node);
  const std::int64_t elements = 2 * left.shape.elements() + right.shape.elements();
  info.activation_bytes = elements * size_of(plan.element()) / plan.options().max_batch;
  Binary fast{tensor_shape(left.shape, left.layout, plan.element()), function, activation};
  fast.by_channel = left.shape != right.shape;
  const bool covered = !fast.by_channel ||
                       (right.shape[1] == left.shape[1] && right.shape.elements() == right.shape[0] * right.shape[1]);
  StridedShape general;
  const std::vector<std::int64_t> strides = strides_of(right.shape, right.layout, 0);
  for (const std::size_t axis : memory_order(left.shape, left.layout)) {
    general.extents[general.rank] = left.shape[axis];
    general.x_strides[general.rank++] = right.shape[axis] == left.shape[axis] ? strides[axis] : 0;
  }
  plan.add_step(std::move(info), {left.place.buffer, right.place.buffer, y.place.buffer},
                [=, a = left.place, b = right.place, to = y.place](const CudaStepContext& c, const Handles&) {
                  if (covered) return binary(fast, a.in(c), b.in(c), to.in(c), c.stream);
                  return binary_strided(general, fast, a.in(c), b.in(c), to.in(c), c.stream);
                });
}

}  // namespace

// ---- elementwise ---------------------------------------------------------------------------------

void emit(PlanBuilder& plan, const Node& node, const ScaleShift& op) {
  const Stored x = plan.in_plan_pitch(plan.stored(node.inputs[ScaleShift::kInput]), label_of_input(node));
  const auto scale =
      plan.weights().add_vector(*plan.graph().value(node.inputs[ScaleShift::kScale]).constant, plan.element());
  const auto shift =
      plan.weights().add_vector(*plan.graph().value(node.inputs[ScaleShift::kShift]).constant, plan.element());
  emit_affine(plan, node, "elementwise/scale+shift+activation", x, nullptr, scale, shift, op.activation);
}

void emit(PlanBuilder& plan, const Node& node, const Add& op) {
  const std::string label = node.origin.label();
  const Stored left = plan.in_plan_pitch(plan.stored(node.inputs[Add::kLeft]), "left input of " + label);
  const Stored right = plan.in_plan_pitch(plan.stored(node.inputs[Add::kRight]), "right input of " + label);
  emit_affine(plan, node, "elementwise/add+activation", left, &right, {}, {}, op.activation);
}

void emit(PlanBuilder& plan, const Node& node, const Clip& op) {
  const Stored x = plan.in_plan_pitch(plan.stored(node.inputs[Clip::kInput]), label_of_input(node));
  emit_affine(plan, node, "elementwise/clip", x, nullptr, {}, {}, op.activation);
}

void emit(PlanBuilder& plan, const Node& node, const Unary& op) {
  const std::optional<Activation> activation = activation_of(op);
  if (!activation) return emit_function(plan, node, op.kind);
  const Stored x = plan.in_plan_pitch(plan.stored(node.inputs[Unary::kInput]), label_of_input(node));
  emit_affine(plan, node, "elementwise/activation", x, nullptr, {}, {}, *activation);
}

void emit(PlanBuilder& plan, const Node& node, const Mul& op) {
  emit_binary(plan, node, "elementwise/multiply", BinaryFunction::Product, op.activation);
}

void emit(PlanBuilder& plan, const Node& node, const Extremum& op) {
  const BinaryFunction function = op.kind == ExtremumKind::Max ? BinaryFunction::Max : BinaryFunction::Min;
  emit_binary(plan, node, "elementwise/extremum", function, op.activation);
}

// ---- pooling -------------------------------------------------------------------------------------

void emit(PlanBuilder& plan, const Node& node, const Pool2d& op) {
  const Stored x = plan.in_plan_format(plan.stored(node.inputs[Pool2d::kInput]), label_of_input(node));
  const Stored y = plan.new_output(node, plan.element());
  PoolShape shape;
  shape.x = tensor_shape(x.shape, plan.layout(), plan.element());
  shape.x.channels_last = plan.layout() == Layout::NHWC;  // one format for both, also where the extents leave a choice
  shape.out_h = y.shape[2];
  shape.out_w = y.shape[3];
  shape.kernel = op.kernel;
  shape.strides = op.strides;
  shape.dilations = op.dilations;
  shape.pads = op.pads;
  shape.average = op.kind == PoolKind::Average;
  shape.count_padding = op.count_include_pad;
  shape.y_pitch = y.pitch;
  std::vector<Way> ways{{"elementwise/pool", [shape](const Handles& handles, const void* from, void* to) {
                           return pool(shape, from, to, handles.stream());
                         }}};
  if (cudnn_pools(shape)) ways.push_back({"cudnn/pooling", cudnn_pooling(shape)});
  emit_fastest(plan, node, x, y, ways);
}

void emit(PlanBuilder& plan, const Node& node, const GlobalAveragePool&) {
  const Stored x = plan.in_plan_format(plan.stored(node.inputs[GlobalAveragePool::kInput]), label_of_input(node));
  const Stored y = plan.new_output(node, plan.element());
  const TensorShape shape = tensor_shape(x.shape, plan.layout(), plan.element());
  LayerInfo info = plan.layer_info(node, "elementwise/global_average");
  info.flops = flops_per_picture(plan.graph(), node);
  info.activation_bytes = (shape.elements() + shape.n * shape.c) * size_of(plan.element()) / shape.n;
  plan.add_step(std::move(info), {x.place.buffer, y.place.buffer},
                [=, from = x.place, to = y.place](const CudaStepContext& c, const Handles&) {
                  return global_average(shape, from.in(c), to.in(c), c.stream);
                });
}

// ---- over the channels ---------------------------------------------------------------------------

void emit(PlanBuilder& plan, const Node& node, const LocalResponseNorm& op) {
  const Stored x = plan.in_plan_format(plan.stored(node.inputs[LocalResponseNorm::kInput]), label_of_input(node));
  const Stored y = plan.new_output(node, plan.element());
  const Normalization normalization{tensor_shape(x.shape, plan.layout(), plan.element()), op.size, op.alpha, op.beta,
                                    op.bias};
  std::vector<Way> ways{
      {"elementwise/normalize_channels", [normalization](const Handles& handles, const void* from, void* to) {
         return normalize_channels(normalization, from, to, handles.stream());
       }}};
  if (cudnn_normalizes(normalization)) ways.push_back({"cudnn/lrn", cudnn_normalization(normalization)});
  emit_fastest(plan, node, x, y, ways);
}

void emit(PlanBuilder& plan, const Node& node, const Softmax&) {
  emit_softmax(plan, node, "cudnn/softmax", CUDNN_SOFTMAX_ACCURATE);
}

void emit(PlanBuilder& plan, const Node& node, const LogSoftmax&) {
  emit_softmax(plan, node, "cudnn/log_softmax", CUDNN_SOFTMAX_LOG);
}

}  // namespace mobicuda::cudnn
