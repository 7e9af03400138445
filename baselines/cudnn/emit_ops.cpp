// One function for each operation: which library calls and kernels compute it.

#include <algorithm>
#include <array>
#include <limits>

#include "cudnn/library_descriptors.h"
#include "cudnn/plan_builder.h"

namespace mobicuda::cudnn {
namespace {

constexpr float kOne = 1.0F;
constexpr float kZero = 0.0F;

Element element_of(DType dtype) { return dtype == DType::F16 ? Element::F16 : Element::F32; }

cudnnDataType_t cudnn_type(DType dtype) { return dtype == DType::F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT; }

// Extents for the elementwise kernels; axes after the channels count as one.
TensorShape tensor_shape(const Shape& shape, Layout layout, DType dtype) {
  TensorShape result{shape[0], 1, 1, 1, false, element_of(dtype)};
  if (shape.rank() > 1) result.c = shape[1];
  for (std::size_t axis = 2; axis < shape.rank(); ++axis)
    (axis + 1 == shape.rank() ? result.w : result.h) *= shape[axis];
  result.channels_last = (shape.rank() == 4 && layout == Layout::NHWC) || result.h * result.w == 1;
  return result;
}

Owned<cudnnTensorDescriptor_t> tensor_descriptor(const TensorShape& shape, DType dtype) {
  auto descriptor = make_tensor_descriptor();
  check(cudnnSetTensor4dDescriptor(descriptor.get(), shape.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                   cudnn_type(dtype), static_cast<int>(shape.n), static_cast<int>(shape.c),
                                   static_cast<int>(shape.h), static_cast<int>(shape.w)),
        "describing a tensor");
  return descriptor;
}

std::string elementwise_name(bool bias, bool residual, bool clip) {
  std::string name;
  for (const auto& [used, part] : {std::pair{bias, "bias"}, {residual, "residual"}, {clip, "clip"}}) {
    if (used) name += (name.empty() ? "" : "+") + std::string(part);
  }
  return "elementwise/" + name;
}

}  // namespace

// ---- convolution and matrix product --------------------------------------------------------------

// True when the value is the network's input and has to be rewritten channels-last anyway.
bool PlanBuilder::converts_input(ValueId id) const {
  while (id != graph_.input()) {
    const auto producer = graph_.producer(id);
    if (!producer) return false;
    const Node& node = graph_.nodes()[*producer];
    if (!std::holds_alternative<LayoutTransform>(node.op) && !std::holds_alternative<Identity>(node.op)) return false;
    id = node.inputs[0];
  }
  return graph_.input_desc().layout == Layout::NCHW && layout_ == Layout::NHWC;
}

// The layer, and the same layer with more input channels: tensor cores want them in multiples, and the
// conversion of the network's input can add zeros for the price of writing them.
ConvAlternatives PlanBuilder::conv_problems(const Node& node, const Conv2d& op) const {
  constexpr std::array<std::int64_t, 2> kPaddedChannels{4, 8};
  const Shape& x = graph_.value(node.inputs[Conv2d::kInput]).desc.shape;
  const Shape& w = graph_.value(node.inputs[Conv2d::kWeight]).desc.shape;
  ConvProblem problem;
  problem.precision = options_.precision;
  problem.layout = layout_;
  problem.n = options_.max_batch;
  problem.c = x[1];
  problem.h = x[2];
  problem.w = x[3];
  problem.k = w[0];
  problem.kh = w[2];
  problem.kw = w[3];
  problem.strides = op.strides;
  problem.dilations = op.dilations;
  problem.pads = op.pads;
  problem.groups = op.groups;
  problem.bias = node.inputs[Conv2d::kBias] != kNoValue;
  problem.residual = node.inputs[Conv2d::kResidual] != kNoValue;
  problem.activation = op.activation;
  ConvAlternatives problems{problem};
  if (op.groups != 1 || !converts_input(node.inputs[Conv2d::kInput])) return problems;
  for (const std::int64_t channels : kPaddedChannels) {
    if (channels <= x[1]) continue;
    problem.c = channels;
    problems.push_back(problem);
  }
  return problems;
}

ConvProblem PlanBuilder::gemm_problem(const Node& node, const Gemm& op) const {
  const Shape& weight = graph_.value(node.inputs[Gemm::kWeight]).desc.shape;
  ConvProblem problem;
  problem.precision = options_.precision;
  problem.n = options_.max_batch;
  problem.c = weight[1];
  problem.k = weight[0];
  problem.bias = node.inputs[Gemm::kBias] != kNoValue;
  problem.activation = op.activation;
  problem.float_output = element() == DType::F16 && wants_float(node.output);
  return problem;
}

std::vector<ConvAlternatives> PlanBuilder::layers() const {
  std::vector<ConvAlternatives> all;
  for (const Node& node : graph_.nodes()) {
    if (const auto* conv = std::get_if<Conv2d>(&node.op)) all.push_back(conv_problems(node, *conv));
    if (const auto* gemm = std::get_if<Gemm>(&node.op)) all.push_back({gemm_problem(node, *gemm)});
  }
  return all;
}

const ConvChoice& PlanBuilder::choose(const Node& node, std::span<const ConvProblem> alternatives) {
  const ConvChoice* best = search_.best_of(alternatives);
  if (best == nullptr) {
    throw Error(ErrorCode::unsupported, node.origin.describe(),
                "neither cuDNN nor cuBLASLt runs " + describe(alternatives.front()));
  }
  return *best;
}

void PlanBuilder::emit(const Node& node, const Conv2d& op) {
  const Stored raw = stored(node.inputs[Conv2d::kInput]);
  const ConvChoice& choice = choose(node, conv_problems(node, op));
  const std::string label = node.origin.label();
  const Stored x = convert(raw, element(), layout_, choice.problem.c, "input of " + label);
  const WeightStore::Address w = weights_.add_filter(*graph_.value(node.inputs[Conv2d::kWeight]).constant,
                                                     choice.problem.c / choice.problem.groups, layout_, element());
  WeightStore::Address bias;
  if (choice.problem.bias) {
    bias = weights_.add_vector(*graph_.value(node.inputs[Conv2d::kBias]).constant, element());
  }
  Stored residual;
  if (choice.problem.residual) {
    residual = in_plan_format(stored(node.inputs[Conv2d::kResidual]), "residual of " + label);
  }
  const Stored y = new_output(node, element());
  emit_conv_steps(node, choice, x, choice.problem.residual ? &residual : nullptr, y, w, bias);
}

void PlanBuilder::emit_conv_steps(const Node& node, const ConvChoice& choice, const Stored& x, const Stored* residual,
                                  const Stored& y, const WeightStore::Address& w, const WeightStore::Address& bias) {
  const ConvProblem& problem = choice.problem;
  const std::int64_t n = problem.n;
  int source = x.buffer;
  const int skip = residual != nullptr ? residual->buffer : -1;
  const int target = y.buffer;
  if (choice.pads_first()) {
    const int unpadded = source;
    const int padded = add_buffer(problem.x_bytes());
    const TensorShape from = tensor_shape(x.shape, layout_, element());
    LayerInfo info = layer_info(node, "elementwise/pad");
    info.name += " (pad)";
    info.output = Shape{1, problem.c, problem.h, problem.w};
    info.activation_bytes = (from.elements() * size_of(element()) + problem.x_bytes()) / n;
    add_step(std::move(info), {unpadded, padded},
             [=, to = input_shape(problem), by = choice.explicit_pad](const CudaStepContext& c, const Handles&) {
               return pad(from, to, by.top, by.left, 0.0F, c.buffers[unpadded], c.buffers[padded], c.stream);
             });
    source = padded;
  }

  LayerInfo info = layer_info(node, choice.kernel->name());
  info.flops = flops_per_picture(graph_, node);
  const bool fused_residual = problem.residual && !choice.needs_residual();
  info.activation_bytes = (problem.x_bytes() + problem.y_bytes() * (fused_residual ? 2 : 1)) / n;
  info.weight_bytes = problem.w_bytes() + (problem.bias ? problem.bias_bytes() : 0);
  workspace_bytes_ = std::max(workspace_bytes_, choice.kernel->workspace_bytes());
  add_step(std::move(info), {source, target, skip < 0 ? target : skip},
           [=, kernel = choice.kernel](const CudaStepContext& c, const Handles& handles) {
             const void* skip_data = skip < 0 ? nullptr : c.buffers[skip];
             return kernel->enqueue(
                 handles, {c.buffers[source], w.get(), bias.get(), skip_data, c.buffers[target], c.workspace});
           });
  if (!choice.needs_epilogue()) return;

  LayerInfo rest =
      layer_info(node, elementwise_name(choice.needs_bias(), choice.needs_residual(), choice.needs_activation()));
  rest.activation_bytes = problem.y_bytes() * (choice.needs_residual() ? 3 : 2) / n;
  rest.weight_bytes = choice.needs_bias() ? problem.bias_bytes() : 0;
  add_step(std::move(rest), {target, skip < 0 ? target : skip}, [=](const CudaStepContext& c, const Handles&) {
    const void* skip_data = skip < 0 ? nullptr : c.buffers[skip];
    return enqueue_epilogue(choice, bias.get(), skip_data, c.buffers[target], c.stream);
  });
}

// The end of the network stays in float, as the caller gets it.
bool PlanBuilder::wants_float(ValueId id) const {
  if (id == graph_.output()) return true;
  const std::vector<std::size_t> readers = graph_.consumers(id);
  return readers.size() == 1 && std::holds_alternative<Softmax>(graph_.nodes()[readers[0]].op);
}

void PlanBuilder::emit(const Node& node, const Gemm& op) {
  ConvProblem problem = gemm_problem(node, op);
  if (problem.float_output && search_.find(problem) == nullptr) problem.float_output = false;
  const ConvChoice& choice = choose(node, {&problem, 1});

  const Stored x = in_plan_format(stored(node.inputs[Gemm::kInput]), "input of " + node.origin.label());
  const HostTensor& matrix = *graph_.value(node.inputs[Gemm::kWeight]).constant;
  const WeightStore::Address w = weights_.add_filter(matrix, problem.c, Layout::NHWC, element());
  WeightStore::Address bias;
  if (problem.bias) {
    bias = weights_.add_vector(*graph_.value(node.inputs[Gemm::kBias]).constant, problem.output_element());
  }
  emit_conv_steps(node, choice, x, nullptr, new_output(node, problem.output_element()), w, bias);
}

// ---- elementwise ---------------------------------------------------------------------------------

void PlanBuilder::emit_elementwise(const Node& node, const char* kernel, const Stored& x, const Stored* residual,
                                   const WeightStore::Address& scale, const WeightStore::Address& shift,
                                   const Activation& activation) {
  const Stored y = new_output(node, element());
  const TensorShape shape = tensor_shape(x.shape, x.layout, element());
  LayerInfo info = layer_info(node, kernel);
  info.flops = flops_per_picture(graph_, node);
  info.activation_bytes = shape.elements() * size_of(element()) * (residual != nullptr ? 3 : 2) / shape.n;
  const int source = x.buffer;
  const int skip = residual != nullptr ? residual->buffer : -1;
  const int target = y.buffer;
  add_step(std::move(info), {source, target, skip < 0 ? target : skip}, [=](const CudaStepContext& c, const Handles&) {
    return affine_clip(shape, c.buffers[source], scale.get(), shift.get(), skip < 0 ? nullptr : c.buffers[skip],
                       activation.lo, activation.hi, c.buffers[target], c.stream);
  });
}

void PlanBuilder::emit(const Node& node, const ScaleShift& op) {
  const Stored x = in_plan_format(stored(node.inputs[ScaleShift::kInput]), "input of " + node.origin.label());
  const auto scale = weights_.add_vector(*graph_.value(node.inputs[ScaleShift::kScale]).constant, element());
  const auto shift = weights_.add_vector(*graph_.value(node.inputs[ScaleShift::kShift]).constant, element());
  emit_elementwise(node, "elementwise/scale+shift+clip", x, nullptr, scale, shift, op.activation);
}

void PlanBuilder::emit(const Node& node, const Add& op) {
  const std::string label = node.origin.label();
  const Stored left = in_plan_format(stored(node.inputs[Add::kLeft]), "left input of " + label);
  const Stored right = in_plan_format(stored(node.inputs[Add::kRight]), "right input of " + label);
  emit_elementwise(node, "elementwise/add+clip", left, &right, {}, {}, op.activation);
}

void PlanBuilder::emit(const Node& node, const Clip& op) {
  const Stored x = in_plan_format(stored(node.inputs[Clip::kInput]), "input of " + node.origin.label());
  emit_elementwise(node, "elementwise/clip", x, nullptr, {}, {}, op.activation);
}

// ---- pooling and softmax -------------------------------------------------------------------------

void PlanBuilder::emit(const Node& node, const Pool2d& op) {
  const Stored x = in_plan_format(stored(node.inputs[Pool2d::kInput]), "input of " + node.origin.label());
  const Stored y = new_output(node, element());
  auto pooling = make_pooling_descriptor();
  const cudnnPoolingMode_t average =
      op.count_include_pad ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
  check(cudnnSetPooling2dDescriptor(pooling.get(), op.kind == PoolKind::Max ? CUDNN_POOLING_MAX : average,
                                    CUDNN_PROPAGATE_NAN, static_cast<int>(op.kernel[0]), static_cast<int>(op.kernel[1]),
                                    static_cast<int>(op.pads.top), static_cast<int>(op.pads.left),
                                    static_cast<int>(op.strides[0]), static_cast<int>(op.strides[1])),
        "describing a pooling");
  LayerInfo info = layer_info(node, "cudnn/pooling");
  info.flops = flops_per_picture(graph_, node);
  const TensorShape from = tensor_shape(x.shape, layout_, element());
  TensorShape to = tensor_shape(y.shape, layout_, element());
  to.channels_last = from.channels_last;  // one format for both, also where the extents leave a choice
  info.activation_bytes = (from.elements() + to.elements()) * size_of(element()) / from.n;
  const int source = x.buffer;
  const int target = y.buffer;
  add_step(std::move(info), {source, target},
           [=, x_desc = tensor_descriptor(from, element()), y_desc = tensor_descriptor(to, element())](
               const CudaStepContext& c, const Handles& handles) {
             return to_cuda(cudnnPoolingForward(handles.cudnn(), pooling.get(), &kOne, x_desc.get(), c.buffers[source],
                                                &kZero, y_desc.get(), c.buffers[target]));
           });
}

void PlanBuilder::emit(const Node& node, const GlobalAveragePool&) {
  const Stored x = in_plan_format(stored(node.inputs[GlobalAveragePool::kInput]), "input of " + node.origin.label());
  const Stored y = new_output(node, element());
  const TensorShape shape = tensor_shape(x.shape, layout_, element());
  LayerInfo info = layer_info(node, "elementwise/global_average");
  info.flops = flops_per_picture(graph_, node);
  info.activation_bytes = (shape.elements() + shape.n * shape.c) * size_of(element()) / shape.n;
  const int source = x.buffer;
  const int target = y.buffer;
  add_step(std::move(info), {source, target}, [=](const CudaStepContext& c, const Handles&) {
    return global_average(shape, c.buffers[source], c.buffers[target], c.stream);
  });
}

void PlanBuilder::emit(const Node& node, const Softmax&) {
  const Stored x = stored(node.inputs[Softmax::kInput]);
  const Stored y = new_output(node, x.dtype);
  TensorShape shape = tensor_shape(x.shape, x.layout, x.dtype);
  shape.channels_last = false;
  LayerInfo info = layer_info(node, "cudnn/softmax");
  info.flops = flops_per_picture(graph_, node);
  info.activation_bytes = 2 * shape.elements() * size_of(x.dtype) / shape.n;
  const int source = x.buffer;
  const int target = y.buffer;
  add_step(
      std::move(info), {source, target},
      [=, desc = tensor_descriptor(shape, x.dtype)](const CudaStepContext& c, const Handles& handles) {
        return to_cuda(cudnnSoftmaxForward(handles.cudnn(), CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &kOne,
                                           desc.get(), c.buffers[source], &kZero, desc.get(), c.buffers[target]));
      });
}

// ---- data movement -------------------------------------------------------------------------------

void PlanBuilder::emit(const Node& node, const Reshape&) {
  const Stored x = stored(node.inputs[Reshape::kInput]);
  const std::int64_t channels = x.shape.rank() > 1 ? x.shape[1] : 1;
  Stored y = convert(x, x.dtype, Layout::NCHW, channels, "input of " + node.origin.label());
  y.shape = with_batch(graph_.value(node.output).desc.shape);
  set_stored(node, y);
}

void PlanBuilder::emit(const Node& node, const Transpose& op) {
  const Stored x = stored(node.inputs[Transpose::kInput]);
  // Names the same bytes as if they were already permuted, so that an ordinary conversion moves them.
  const Stored natural = convert(x, x.dtype, Layout::NCHW, x.shape[1], "input of " + node.origin.label());
  const Stored y = new_output(node, x.dtype);
  const std::size_t rank = x.shape.rank();
  std::vector<std::int64_t> strides(rank, 1);
  for (std::size_t axis = rank - 1; axis > 0; --axis) strides[axis - 1] = strides[axis] * natural.shape[axis];
  std::vector<std::size_t> order(rank);
  for (std::size_t i = 0; i < rank; ++i) order[i] = i;
  if (rank == 4 && y.layout == Layout::NHWC) order = {0, 2, 3, 1};
  StridedShape shape;
  for (const std::size_t axis : order) {
    shape.extents[shape.rank] = y.shape[axis];
    shape.x_strides[shape.rank++] = strides[static_cast<std::size_t>(op.permutation[axis])];
  }
  LayerInfo info = layer_info(node, "elementwise/strided_copy");
  info.activation_bytes = 2 * y.shape.elements() * size_of(x.dtype) / options_.max_batch;
  const int source = natural.buffer;
  const int target = y.buffer;
  add_step(std::move(info), {source, target},
           [=, element = element_of(x.dtype)](const CudaStepContext& c, const Handles&) {
             return strided_copy(shape, element, element, c.buffers[source], c.buffers[target], c.stream);
           });
}

void PlanBuilder::emit(const Node& node, const Pad& op) {
  const Stored x = in_plan_format(stored(node.inputs[Pad::kInput]), "input of " + node.origin.label());
  const Stored y = new_output(node, element());
  const TensorShape from = tensor_shape(x.shape, layout_, element());
  const TensorShape to = tensor_shape(y.shape, layout_, element());
  LayerInfo info = layer_info(node, "elementwise/pad");
  info.activation_bytes = (from.elements() + to.elements()) * size_of(element()) / from.n;
  const int source = x.buffer;
  const int target = y.buffer;
  add_step(std::move(info), {source, target}, [=](const CudaStepContext& c, const Handles&) {
    return pad(from, to, op.pads.top, op.pads.left, op.value, c.buffers[source], c.buffers[target], c.stream);
  });
}

void PlanBuilder::emit(const Node& node, const LayoutTransform&) {
  set_stored(node, stored(node.inputs[LayoutTransform::kInput]));
}

void PlanBuilder::emit(const Node& node, const Identity&) { set_stored(node, stored(node.inputs[Identity::kInput])); }

}  // namespace mobicuda::cudnn
