// Convolutions and matrix products: which kernels compute them, found by the search.

#include <algorithm>
#include <array>
#include <utility>

#include "cudnn/plan_builder.h"
#include "cudnn/tensor_formats.h"

namespace mobicuda::cudnn {
namespace {

std::string elementwise_name(bool bias, bool residual, bool activation) {
  std::string name;
  for (const auto& [used, part] : {std::pair{bias, "bias"}, {residual, "residual"}, {activation, "activation"}}) {
    if (used) name += (name.empty() ? "" : "+") + std::string(part);
  }
  return "elementwise/" + name;
}

const ConvChoice& choose(PlanBuilder& plan, const Node& node, std::span<const ConvProblem> alternatives) {
  const ConvChoice* best = plan.search().best_of(alternatives);
  if (best == nullptr) {
    throw Error(ErrorCode::unsupported, node.origin.describe(),
                "neither cuDNN nor cuBLASLt runs " + describe(alternatives.front()));
  }
  return *best;
}

void emit_conv_steps(PlanBuilder& plan, const Node& node, const ConvChoice& choice, const Stored& x,
                     const Stored* residual, const Stored& y, const WeightStore::Address& w,
                     const WeightStore::Address& bias) {
  const ConvProblem& problem = choice.problem;
  const std::int64_t n = problem.n;
  Place source = x.place;
  const Place target = y.place;
  const Place skip = residual != nullptr ? residual->place : target;
  if (choice.pads_first()) {
    const Place unpadded = source;
    const Place padded{plan.add_buffer(problem.x_bytes())};
    const TensorShape from = tensor_shape(x.shape, plan.layout(), plan.element());
    LayerInfo info = plan.layer_info(node, "elementwise/pad");
    info.name += " (pad)";
    info.output = Shape{1, problem.c, problem.h, problem.w};
    info.activation_bytes = (from.elements() * size_of(plan.element()) + problem.x_bytes()) / n;
    const PadShape by{from, input_shape(problem), choice.explicit_pad.top, choice.explicit_pad.left};
    plan.add_step(std::move(info), {unpadded.buffer, padded.buffer}, [=](const CudaStepContext& c, const Handles&) {
      return pad(by, unpadded.in(c), padded.in(c), c.stream);
    });
    source = padded;
  }

  LayerInfo info = plan.layer_info(node, choice.kernel->name());
  info.flops = flops_per_picture(plan.graph(), node);
  const bool fused_residual = problem.residual && !choice.needs_residual();
  info.activation_bytes = (problem.x_bytes() + problem.y_bytes() * (fused_residual ? 2 : 1)) / n;
  info.weight_bytes = problem.w_bytes() + (problem.bias ? problem.bias_bytes() : 0);
  plan.need_workspace(choice.kernel->workspace_bytes());
  const bool skips = residual != nullptr;
  plan.add_step(
      std::move(info), {source.buffer, target.buffer, skip.buffer},
      [=, kernel = choice.kernel](const CudaStepContext& c, const Handles& handles) {
        const void* skip_data = skips ? skip.in(c) : nullptr;
        return kernel->enqueue(handles, {source.in(c), w.get(), bias.get(), skip_data, target.in(c), c.workspace});
      });
  if (!choice.needs_epilogue()) return;

  LayerInfo rest =
      plan.layer_info(node, elementwise_name(choice.needs_bias(), choice.needs_residual(), choice.needs_activation()));
  rest.activation_bytes = problem.y_bytes() * (choice.needs_residual() ? 3 : 2) / n;
  rest.weight_bytes = choice.needs_bias() ? problem.bias_bytes() : 0;
  plan.add_step(std::move(rest), {target.buffer, skip.buffer}, [=](const CudaStepContext& c, const Handles&) {
    return enqueue_epilogue(choice, bias.get(), skips ? skip.in(c) : nullptr, target.in(c), c.stream);
  });
}

}  // namespace

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
  problem.y_pitch = pitch_of(node.output);
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

void emit(PlanBuilder& plan, const Node& node, const Conv2d& op) {
  const Stored raw = plan.stored(node.inputs[Conv2d::kInput]);
  ConvAlternatives problems = plan.conv_problems(node, op);
  // Where no kernel writes with the strides of a joined tensor, the result is copied there.
  const bool apart = problems.front().y_pitch != 0 && plan.search().best_of(problems) == nullptr;
  for (ConvProblem& problem : problems) {
    if (apart) problem.y_pitch = 0;
  }
  const ConvChoice& choice = choose(plan, node, problems);
  const std::string label = node.origin.label();
  const Stored x = plan.convert(raw, plan.element(), plan.layout(), choice.problem.c, "input of " + label);
  const WeightStore::Address w =
      plan.weights().add_filter(*plan.graph().value(node.inputs[Conv2d::kWeight]).constant,
                                choice.problem.c / choice.problem.groups, plan.layout(), plan.element());
  WeightStore::Address bias;
  if (choice.problem.bias) {
    bias = plan.weights().add_vector(*plan.graph().value(node.inputs[Conv2d::kBias]).constant, plan.element());
  }
  Stored residual;
  if (choice.problem.residual) {
    residual = plan.in_plan_format(plan.stored(node.inputs[Conv2d::kResidual]), "residual of " + label);
  }
  const Stored y = plan.new_output(node, plan.element());
  Stored result = y;
  if (apart) {
    result.place = {plan.add_buffer(choice.problem.y_bytes())};
    result.pitch = 0;
  }
  emit_conv_steps(plan, node, choice, x, choice.problem.residual ? &residual : nullptr, result, w, bias);
  if (apart) plan.add_conversion(result, y, "output of " + label);
}

// The end of the network stays in float, as the caller gets it.
bool PlanBuilder::wants_float(ValueId id) const {
  if (id == graph_.output()) return true;
  const auto readers = graph_.consumers(id);
  if (readers.size() != 1) return false;
  const Op& reader = graph_.nodes()[readers[0]].op;
  return std::holds_alternative<Softmax>(reader) || std::holds_alternative<LogSoftmax>(reader);
}

void emit(PlanBuilder& plan, const Node& node, const Gemm& op) {
  ConvProblem problem = plan.gemm_problem(node, op);
  if (problem.float_output && plan.search().find(problem) == nullptr) problem.float_output = false;
  const ConvChoice& choice = choose(plan, node, {&problem, 1});

  const Stored x = plan.in_plan_format(plan.stored(node.inputs[Gemm::kInput]), "input of " + node.origin.label());
  const HostTensor& matrix = *plan.graph().value(node.inputs[Gemm::kWeight]).constant;
  const WeightStore::Address w = plan.weights().add_filter(matrix, problem.c, Layout::NHWC, plan.element());
  WeightStore::Address bias;
  if (problem.bias) {
    bias = plan.weights().add_vector(*plan.graph().value(node.inputs[Gemm::kBias]).constant, problem.output_element());
  }
  emit_conv_steps(plan, node, choice, x, nullptr, plan.new_output(node, problem.output_element()), w, bias);
}

}  // namespace mobicuda::cudnn
