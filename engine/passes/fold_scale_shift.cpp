#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace mobicuda::passes {
namespace {

// Weights as rows (output features) of columns, and a bias: what Conv2d and Gemm have in common.
struct Linear {
  HostTensor weight;
  std::vector<double> bias;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

std::span<const float> constant(const Graph& graph, ValueId id) { return graph.value(id).constant->data<float>(); }

Linear read_linear(const Graph& graph, const Node& node, std::size_t weight_position, std::size_t bias_position) {
  Linear linear;
  linear.weight = *graph.value(node.inputs[weight_position]).constant;
  linear.rows = linear.weight.shape()[0];
  linear.columns = linear.weight.elements() / linear.rows;
  linear.bias.assign(static_cast<std::size_t>(linear.rows), 0.0);
  if (node.inputs[bias_position] != kNoValue) {
    const auto bias = constant(graph, node.inputs[bias_position]);
    std::copy(bias.begin(), bias.end(), linear.bias.begin());
  }
  return linear;
}

void scale_rows(Linear& linear, std::span<const float> scale, std::span<const float> shift) {
  auto weight = linear.weight.data<float>();
  for (std::size_t row = 0; row < linear.bias.size(); ++row) {
    const auto columns = static_cast<std::size_t>(linear.columns);
    for (std::size_t i = row * columns; i < (row + 1) * columns; ++i) {
      weight[i] = static_cast<float>(static_cast<double>(weight[i]) * static_cast<double>(scale[row]));
    }
    linear.bias[row] = linear.bias[row] * static_cast<double>(scale[row]) + static_cast<double>(shift[row]);
  }
}

// x -> scale * x + shift in front: `taps` consecutive columns belong to one input channel, and each of
// `groups` blocks of rows reads its own slice of the channels.
void scale_columns(Linear& linear, std::int64_t taps, std::int64_t groups, std::span<const float> scale,
                   std::span<const float> shift) {
  auto weight = linear.weight.data<float>();
  const std::int64_t channels_a_group = linear.columns / taps;
  const std::int64_t rows_a_group = linear.rows / groups;
  for (std::int64_t row = 0; row < linear.rows; ++row) {
    const std::int64_t first_channel = row / rows_a_group * channels_a_group;
    for (std::int64_t column = 0; column < linear.columns; ++column) {
      const auto channel = static_cast<std::size_t>(first_channel + column / taps);
      float& w = weight[static_cast<std::size_t>(row * linear.columns + column)];
      linear.bias[static_cast<std::size_t>(row)] += static_cast<double>(w) * static_cast<double>(shift[channel]);
      w = static_cast<float>(static_cast<double>(w) * static_cast<double>(scale[channel]));
    }
  }
}

ValueId add_bias(Rewriter& rewriter, const std::string& name, const Linear& linear) {
  HostTensor tensor(DType::F32, Shape{linear.rows});
  std::transform(linear.bias.begin(), linear.bias.end(), tensor.data<float>().begin(),
                 [](double b) { return static_cast<float>(b); });
  return rewriter.builder().add_constant(name, std::move(tensor));
}

template <class T>
bool is_plain(const T& op) {
  return op.activation.is_none();
}

// ScaleShift behind: returns true when the node was replaced by a rescaled producer.
template <class T>
bool fold_behind(const Graph& graph, Rewriter& rewriter, const Node& node) {
  const Node* producer = sole_producer<T>(graph, node.inputs[ScaleShift::kInput]);
  if (producer == nullptr || !is_plain(std::get<T>(producer->op))) return false;
  if constexpr (std::is_same_v<T, Conv2d>) {
    if (producer->inputs[Conv2d::kResidual] != kNoValue) return false;
  }
  Linear linear = read_linear(graph, *producer, T::kWeight, T::kBias);
  scale_rows(linear, constant(graph, node.inputs[ScaleShift::kScale]),
             constant(graph, node.inputs[ScaleShift::kShift]));
  T op = std::get<T>(producer->op);
  op.activation = std::get<ScaleShift>(node.op).activation;
  Origin origin = producer->origin;
  origin.append(node.origin);
  std::vector<ValueId> inputs(T::kInputs, kNoValue);
  inputs[T::kInput] = rewriter.mapped(producer->inputs[T::kInput]);
  inputs[T::kBias] = add_bias(rewriter, origin.label() + ".bias", linear);
  inputs[T::kWeight] = rewriter.builder().add_constant(origin.label() + ".weight", std::move(linear.weight));
  rewriter.replace(node, op, std::move(inputs), std::move(origin));
  return true;
}

// ScaleShift in front. With zero padding a shift cannot go into the bias: border pixels would differ.
template <class T>
bool fold_in_front(const Graph& graph, Rewriter& rewriter, const Node& node) {
  const auto* op = std::get_if<T>(&node.op);
  const Node* affine = op != nullptr ? sole_producer<ScaleShift>(graph, node.inputs[T::kInput]) : nullptr;
  if (affine == nullptr || !is_plain(std::get<ScaleShift>(affine->op))) return false;
  const auto scale = constant(graph, affine->inputs[ScaleShift::kScale]);
  const auto shift = constant(graph, affine->inputs[ScaleShift::kShift]);
  std::int64_t taps = 1;
  std::int64_t groups = 1;
  if constexpr (std::is_same_v<T, Conv2d>) {
    const bool shifts = std::any_of(shift.begin(), shift.end(), [](float s) { return s != 0.0F; });
    if (shifts && op->pads.any()) return false;
    const Shape& weight = graph.value(node.inputs[T::kWeight]).desc.shape;
    taps = weight[2] * weight[3];
    groups = op->groups;
  }
  Linear linear = read_linear(graph, node, T::kWeight, T::kBias);
  scale_columns(linear, taps, groups, scale, shift);
  Origin origin = affine->origin;
  origin.append(node.origin);
  std::vector<ValueId> inputs = rewriter.mapped_inputs(node);
  inputs[T::kInput] = rewriter.mapped(affine->inputs[ScaleShift::kInput]);
  inputs[T::kBias] = add_bias(rewriter, origin.label() + ".bias", linear);
  inputs[T::kWeight] = rewriter.builder().add_constant(origin.label() + ".weight", std::move(linear.weight));
  rewriter.replace(node, *op, std::move(inputs), std::move(origin));
  return true;
}

Graph run_once(const Graph& graph, bool behind) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    const bool folded =
        behind ? std::holds_alternative<ScaleShift>(node.op) &&
                     (fold_behind<Conv2d>(graph, rewriter, node) || fold_behind<Gemm>(graph, rewriter, node))
               : fold_in_front<Conv2d>(graph, rewriter, node) || fold_in_front<Gemm>(graph, rewriter, node);
    if (!folded) rewriter.copy(node);
  }
  return rewriter.finish();
}

}  // namespace

Graph fold_scale_shift(const Graph& graph) {
  // Chains (BatchNormalization, then Mul, then Add) fold one link a round.
  Graph result = graph;
  for (const bool behind : {true, false}) {
    for (std::size_t nodes = result.nodes().size() + 1; result.nodes().size() < nodes;) {
      nodes = result.nodes().size();
      result = run_once(result, behind);
    }
  }
  return result;
}

}  // namespace mobicuda::passes
