#include <algorithm>
#include <type_traits>
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

// y = scale[c] * x + shift[c], of one ScaleShift or of several in a row.
struct Affine {
  std::vector<double> scale;
  std::vector<double> shift;
};

Affine read_affine(const Graph& graph, const Node& node) {
  const auto scale = constant(graph, node.inputs[ScaleShift::kScale]);
  const auto shift = constant(graph, node.inputs[ScaleShift::kShift]);
  return {{scale.begin(), scale.end()}, {shift.begin(), shift.end()}};
}

// `first`, then `second`.
Affine compose(const Affine& first, const Affine& second) {
  Affine both = second;
  for (std::size_t c = 0; c < both.scale.size(); ++c) {
    both.scale[c] *= first.scale[c];
    both.shift[c] += second.scale[c] * first.shift[c];
  }
  return both;
}

void scale_rows(Linear& linear, const Affine& affine) {
  auto weight = linear.weight.data<float>();
  for (std::size_t row = 0; row < linear.bias.size(); ++row) {
    const auto columns = static_cast<std::size_t>(linear.columns);
    for (std::size_t i = row * columns; i < (row + 1) * columns; ++i) {
      weight[i] = static_cast<float>(static_cast<double>(weight[i]) * affine.scale[row]);
    }
    linear.bias[row] = linear.bias[row] * affine.scale[row] + affine.shift[row];
  }
}

// The affine in front: `taps` consecutive columns belong to one input channel, and each of `groups` blocks of rows
// reads its own slice of the channels.
void scale_columns(Linear& linear, std::int64_t taps, std::int64_t groups, const Affine& affine) {
  auto weight = linear.weight.data<float>();
  const std::int64_t channels_a_group = linear.columns / taps;
  const std::int64_t rows_a_group = linear.rows / groups;
  for (std::int64_t row = 0; row < linear.rows; ++row) {
    const std::int64_t first_channel = row / rows_a_group * channels_a_group;
    for (std::int64_t column = 0; column < linear.columns; ++column) {
      const auto channel = static_cast<std::size_t>(first_channel + column / taps);
      float& w = weight[static_cast<std::size_t>(row * linear.columns + column)];
      linear.bias[static_cast<std::size_t>(row)] += static_cast<double>(w) * affine.shift[channel];
      w = static_cast<float>(static_cast<double>(w) * affine.scale[channel]);
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

const Node* plain_scale_shift(const Graph& graph, ValueId value) {
  const Node* node = sole_producer<ScaleShift>(graph, value);
  return node != nullptr && is_plain(std::get<ScaleShift>(node->op)) ? node : nullptr;
}

// The convolution or Gemm that makes `value`, when scales may go into its weights.
template <class T>
const Node* plain_linear(const Graph& graph, ValueId value) {
  const Node* node = sole_producer<T>(graph, value);
  if (node == nullptr || !is_plain(std::get<T>(node->op))) return nullptr;
  if constexpr (std::is_same_v<T, Conv2d>) {
    if (node->inputs[Conv2d::kResidual] != kNoValue) return nullptr;
  }
  return node;
}

// ScaleShifts behind: BatchNormalization, then Mul, then Add, go into the weights together, where the last one is.
class FolderBehind {
 public:
  explicit FolderBehind(const Graph& graph) : graph_(graph), rewriter_(graph), chains_(graph.nodes().size()) {}

  Graph run() {
    for (const Node& node : graph_.nodes()) {
      if (!std::holds_alternative<ScaleShift>(node.op) || !extend_chain(node)) rewriter_.copy(node);
    }
    return rewriter_.finish();
  }

 private:
  // A Conv2d or Gemm and what is behind it, up to a node.
  using Chain = std::vector<const Node*>;

  // Adds the node to the chain that it reads, if there is one.
  bool extend_chain(const Node& node) {
    const ValueId input = node.inputs[ScaleShift::kInput];
    Chain chain;
    if (plain_scale_shift(graph_, input) != nullptr) {
      chain = std::move(chains_[*graph_.producer(input)]);
    } else if (const Node* conv = plain_linear<Conv2d>(graph_, input)) {
      chain = {conv};
    } else if (const Node* gemm = plain_linear<Gemm>(graph_, input)) {
      chain = {gemm};
    }
    if (chain.empty()) return false;
    chain.push_back(&node);
    if (goes_on(node)) {
      chains_[*graph_.producer(node.output)] = std::move(chain);
    } else if (std::holds_alternative<Conv2d>(chain.front()->op)) {
      fold<Conv2d>(chain);
    } else {
      fold<Gemm>(chain);
    }
    return true;
  }

  // Whether the node's only reader will be in the same chain.
  bool goes_on(const Node& node) const {
    if (plain_scale_shift(graph_, node.output) == nullptr) return false;
    const Node& reader = graph_.nodes()[graph_.consumers(node.output).front()];
    return std::holds_alternative<ScaleShift>(reader.op);
  }

  template <class T>
  void fold(const Chain& chain) {
    const Node& producer = *chain.front();
    const Node& last = *chain.back();
    Affine affine = read_affine(graph_, *chain[1]);
    for (std::size_t i = 2; i < chain.size(); ++i) affine = compose(affine, read_affine(graph_, *chain[i]));
    Linear linear = read_linear(graph_, producer, T::kWeight, T::kBias);
    scale_rows(linear, affine);
    T op = std::get<T>(producer.op);
    op.activation = std::get<ScaleShift>(last.op).activation;
    Origin origin;
    for (const Node* node : chain) origin.append(node->origin);
    std::vector<ValueId> inputs(T::kInputs, kNoValue);
    inputs[T::kInput] = rewriter_.mapped(producer.inputs[T::kInput]);
    inputs[T::kBias] = add_bias(rewriter_, origin.label() + ".bias", linear);
    inputs[T::kWeight] = rewriter_.builder().add_constant(origin.label() + ".weight", std::move(linear.weight));
    rewriter_.replace(last, op, std::move(inputs), std::move(origin));
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<Chain> chains_;  // by the last node's position; empty where the node is in none, or not the last yet
};

bool shifts(const Affine& affine) {
  return std::any_of(affine.shift.begin(), affine.shift.end(), [](double s) { return s != 0.0; });
}

// ScaleShifts in front, as many as there are. With zero padding a shift cannot go into the bias: border pixels would
// differ.
template <class T>
bool fold_in_front(const Graph& graph, Rewriter& rewriter, const Node& node) {
  const auto* op = std::get_if<T>(&node.op);
  if (op == nullptr) return false;
  bool padded = false;
  std::int64_t taps = 1;
  std::int64_t groups = 1;
  if constexpr (std::is_same_v<T, Conv2d>) {
    padded = op->pads.any();
    const Shape& weight = graph.value(node.inputs[T::kWeight]).desc.shape;
    taps = weight[2] * weight[3];
    groups = op->groups;
  }
  std::vector<const Node*> folded;  // last to first
  Affine affine;
  ValueId input = node.inputs[T::kInput];
  while (const Node* before = plain_scale_shift(graph, input)) {
    Affine next = read_affine(graph, *before);
    if (padded && shifts(next)) break;
    affine = folded.empty() ? std::move(next) : compose(next, affine);
    folded.push_back(before);
    input = before->inputs[ScaleShift::kInput];
  }
  if (folded.empty()) return false;
  Linear linear = read_linear(graph, node, T::kWeight, T::kBias);
  scale_columns(linear, taps, groups, affine);
  Origin origin;
  for (auto before = folded.rbegin(); before != folded.rend(); ++before) origin.append((*before)->origin);
  origin.append(node.origin);
  std::vector<ValueId> inputs = rewriter.mapped_inputs(node);
  inputs[T::kInput] = rewriter.mapped(input);
  inputs[T::kBias] = add_bias(rewriter, origin.label() + ".bias", linear);
  inputs[T::kWeight] = rewriter.builder().add_constant(origin.label() + ".weight", std::move(linear.weight));
  rewriter.replace(node, *op, std::move(inputs), std::move(origin));
  return true;
}

Graph fold_all_in_front(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    if (!fold_in_front<Conv2d>(graph, rewriter, node) && !fold_in_front<Gemm>(graph, rewriter, node)) {
      rewriter.copy(node);
    }
  }
  return rewriter.finish();
}

}  // namespace

Graph fold_scale_shift(const Graph& graph) { return fold_all_in_front(FolderBehind(graph).run()); }

}  // namespace mobicuda::passes
