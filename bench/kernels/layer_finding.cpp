#include "layer_finding.h"

#include <array>

namespace mobicuda::bench {

const Node* Network::producer(ValueId id) const {
  const auto position = graph_.producer(id);
  return position ? &graph_.nodes()[*position] : nullptr;
}

const Node* Network::sole_reader(ValueId id) const {
  const auto readers = graph_.consumers(id);
  return readers.size() == 1 && id != graph_.output() ? &graph_.nodes()[readers.front()] : nullptr;
}

bool Network::reads_input(ValueId id) const {
  const Node* node = producer(id);
  while (node != nullptr && (as<LayoutTransform>(node) != nullptr || as<Identity>(node) != nullptr)) {
    id = node->inputs[0];
    node = producer(id);
  }
  return id == graph_.input();
}

bool Network::makes_output(ValueId id) const {
  if (id == graph_.output()) return true;
  const Node* reader = sole_reader(id);
  return as<Softmax>(reader) != nullptr || as<LogSoftmax>(reader) != nullptr ||
         (as<Reshape>(reader) != nullptr && makes_output(reader->output));
}

LayerShape Network::between(ValueId x, ValueId y) const {
  const auto extent = [](const Shape& of, std::size_t axis) { return axis < of.rank() ? as_int(of[axis]) : 1; };
  LayerShape layer;
  layer.c_in = extent(shape(x), 1);
  layer.h = extent(shape(x), 2);
  layer.w = extent(shape(x), 3);
  layer.c_out = extent(shape(y), 1);
  layer.out_h = extent(shape(y), 2);
  layer.out_w = extent(shape(y), 3);
  layer.last = makes_output(y);
  return layer;
}

LayerShape Network::step_behind(const Node& node, const Activation& activation) const {
  LayerShape step = between(node.output, node.output);
  step.last = false;
  step.activation = layer_activation(activation);
  return step;
}

LayerActivation layer_activation(const Activation& activation) {
  switch (activation.kind) {
    case ActivationKind::Sigmoid:
      return LayerActivation::Sigmoid;
    case ActivationKind::Silu:
      return LayerActivation::Silu;
    case ActivationKind::HardSwish:
      return LayerActivation::HardSwish;
    case ActivationKind::Tanh:
      return LayerActivation::Tanh;
    case ActivationKind::LeakyRelu:
      return LayerActivation::LeakyRelu;
    case ActivationKind::Elu:
      return LayerActivation::Elu;
    case ActivationKind::Clip:
      break;
  }
  if (activation == Activation::none()) return LayerActivation::None;
  if (activation == Activation::relu()) return LayerActivation::Relu;
  return activation == Activation::relu6() ? LayerActivation::Relu6 : LayerActivation::Clip;
}

const Activation* activation_of_products(const Node& node) {
  if (const auto* conv = as<Conv2d>(&node)) return &conv->activation;
  const auto* gemm = as<Gemm>(&node);
  return gemm == nullptr ? nullptr : &gemm->activation;
}

const Conv2d* pointwise(const Network& network, const Node* node) {
  const auto* op = as<Conv2d>(node);
  if (op == nullptr) return nullptr;
  const Shape& weight = network.shape(node->inputs[Conv2d::kWeight]);
  const bool is = weight[2] == 1 && weight[3] == 1 && op->strides == std::array<std::int64_t, 2>{1, 1} &&
                  !op->pads.any() && op->groups == 1;
  return is ? op : nullptr;
}

const Conv2d* clipping_pointwise(const Network& network, const Node* node) {
  const Conv2d* op = pointwise(network, node);
  return op != nullptr && op->activation.is_clip() ? op : nullptr;
}

const Conv2d* depthwise(const Network& network, const Node* node) {
  const auto* op = as<Conv2d>(node);
  if (op == nullptr) return nullptr;
  const Shape& weight = network.shape(node->inputs[Conv2d::kWeight]);
  return op->groups == weight[0] && weight[1] == 1 && op->groups > 1 ? op : nullptr;
}

const Conv2d* other_convolution(const Network& network, const Node* node) {
  const bool other = pointwise(network, node) == nullptr && depthwise(network, node) == nullptr;
  return other ? as<Conv2d>(node) : nullptr;
}

LayerShape convolution(const Network& network, const Node& node, const Conv2d& op) {
  const Shape& weight = network.shape(node.inputs[Conv2d::kWeight]);
  LayerShape layer = network.between(node.inputs[Conv2d::kInput], node.output);
  set_windows(layer, weight[2], weight[3], op);
  layer.groups = as_int(op.groups);
  layer.bias = has(node, Conv2d::kBias);
  layer.residual = has(node, Conv2d::kResidual);
  layer.activation = layer_activation(op.activation);
  return layer;
}

std::int64_t flops_of_convolution(const LayerShape& s) {
  const std::int64_t taps = std::int64_t{s.vertical.size} * s.horizontal.size;
  return 2 * std::int64_t{s.out_h} * s.out_w * s.c_out * (s.c_in / s.groups) * taps;
}

}  // namespace mobicuda::bench
