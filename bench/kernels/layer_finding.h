// How the kinds of layers are found in a network: what their finders, in <kernel>_bench.cpp, share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include <mobicuda/graph.h>

#include "layer_shapes.h"

namespace mobicuda::bench {

/// A graph after optimize(), whose activations are NHWC.
class Network {
 public:
  explicit Network(const Graph& graph) : graph_(optimize(graph)) {}

  std::span<const Node> nodes() const { return graph_.nodes(); }
  const Shape& shape(ValueId id) const { return graph_.value(id).desc.shape; }
  /// Null for the network's input and constants.
  const Node* producer(ValueId id) const;
  /// Null where several nodes read a value, or the caller does.
  const Node* sole_reader(ValueId id) const;
  bool reads_input(ValueId id) const;

  /// A layer that reads x and writes y.
  LayerShape between(ValueId x, ValueId y) const;
  /// What a kernel without sum or activation leaves to a step of its own, behind a node.
  LayerShape step_behind(const Node& node, const Activation& activation) const;

 private:
  bool makes_output(ValueId id) const;

  Graph graph_;
};

/// Null where the node is none, or another operation.
template <class Wanted>
const Wanted* as(const Node* node) {
  return node == nullptr ? nullptr : std::get_if<Wanted>(&node->op);
}

inline bool has(const Node& node, std::size_t position) { return node.inputs[position] != kNoValue; }

inline int as_int(std::int64_t value) { return static_cast<int>(value); }

LayerActivation layer_activation(const Activation& activation);
/// What a convolution or a product does to its result; null for other nodes.
const Activation* activation_of_products(const Node& node);

/// For kinds that are one operation: LayerTraits::find.
template <class Wanted>
std::optional<LayerShape> find_op(const Network& network, const Node& node) {
  const auto* op = as<Wanted>(&node);
  if (op == nullptr) return std::nullopt;
  LayerShape layer = network.between(node.inputs[0], node.output);
  if constexpr (requires { op->activation; }) layer.activation = layer_activation(op->activation);
  return layer;
}

/// Of a convolution or pooling.
template <class Windowed>
void set_windows(LayerShape& layer, std::int64_t height, std::int64_t width, const Windowed& op) {
  layer.vertical = {as_int(height), as_int(op.strides[0]), as_int(op.dilations[0]), as_int(op.pads.top),
                    as_int(op.pads.bottom)};
  layer.horizontal = {as_int(width), as_int(op.strides[1]), as_int(op.dilations[1]), as_int(op.pads.left),
                      as_int(op.pads.right)};
}

/// The convolution at a node, null where there is none such: 1x1 with stride 1, in one group.
const Conv2d* pointwise(const Network& network, const Node* node);
/// One without activation, or with one that clips.
const Conv2d* clipping_pointwise(const Network& network, const Node* node);
/// In groups of one channel.
const Conv2d* depthwise(const Network& network, const Node* node);
/// Any other.
const Conv2d* other_convolution(const Network& network, const Node* node);

/// Any convolution. Its residual is the node's own, which not every kernel takes in.
LayerShape convolution(const Network& network, const Node& node, const Conv2d& op);

/// LayerTraits::flops of a convolution or product.
std::int64_t flops_of_convolution(const LayerShape& shape);

}  // namespace mobicuda::bench
