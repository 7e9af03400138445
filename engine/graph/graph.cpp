#include <mobicuda/graph.h>

#include <algorithm>
#include <utility>

#include "graph/verify.h"

namespace mobicuda {

const Value& Graph::value(ValueId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= values_.size()) {
    throw Error(ErrorCode::invalid_argument, "graph '" + name_ + "'", "no value with id " + std::to_string(id));
  }
  return values_[static_cast<std::size_t>(id)];
}

std::vector<std::size_t> Graph::consumers(ValueId id) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (std::find(nodes_[i].inputs.begin(), nodes_[i].inputs.end(), id) != nodes_[i].inputs.end()) found.push_back(i);
  }
  return found;
}

std::optional<std::size_t> Graph::producer(ValueId id) const {
  const std::int32_t node = producer_.at(static_cast<std::size_t>(id));
  if (node < 0) return std::nullopt;
  return static_cast<std::size_t>(node);
}

GraphBuilder::GraphBuilder(std::string graph_name) { graph_.name_ = std::move(graph_name); }

ValueId GraphBuilder::set_input(std::string name, TensorDesc desc) {
  if (graph_.input_ != kNoValue) {
    throw Error(ErrorCode::unsupported, "input '" + name + "'",
                "a network has one input, and '" + graph_.value(graph_.input_).name + "' is it already");
  }
  if (desc.dtype != DType::F32 || desc.shape.rank() == 0 || desc.shape[0] != 1) {
    throw Error(ErrorCode::invalid_argument, "input '" + name + "'",
                "must be float32 with a batch of 1 on axis 0, got " + std::string(to_string(desc.dtype)) + " " +
                    to_string(desc.shape));
  }
  if (desc.shape.elements() == 0) {
    throw Error(ErrorCode::invalid_model, "input '" + name + "'", "has no elements: " + to_string(desc.shape));
  }
  graph_.values_.push_back({std::move(name), desc, nullptr});
  graph_.producer_.push_back(-1);
  graph_.input_ = static_cast<ValueId>(graph_.values_.size() - 1);
  return graph_.input_;
}

ValueId GraphBuilder::add_constant(std::string name, HostTensor tensor) {
  return add_constant(std::move(name), std::make_shared<const HostTensor>(std::move(tensor)));
}

ValueId GraphBuilder::add_constant(std::string name, std::shared_ptr<const HostTensor> tensor) {
  if (!tensor || tensor->dtype() != DType::F32) {
    throw Error(ErrorCode::invalid_argument, "constant '" + name + "'", "must be float32");
  }
  graph_.values_.push_back({std::move(name), {DType::F32, tensor->shape(), Layout::NCHW}, std::move(tensor)});
  graph_.producer_.push_back(-1);
  return static_cast<ValueId>(graph_.values_.size() - 1);
}

ValueId GraphBuilder::add_node(Op op, std::vector<ValueId> inputs, Origin origin, std::string output_name) {
  Node node{std::move(op), std::move(inputs), kNoValue, std::move(origin)};
  TensorDesc desc;
  try {
    desc = infer_node_output(node, graph_.values_);
  } catch (const Error& error) {
    throw error.inside(node.origin.describe());
  }
  graph_.values_.push_back({std::move(output_name), desc, nullptr});
  graph_.producer_.push_back(static_cast<std::int32_t>(graph_.nodes_.size()));
  node.output = static_cast<ValueId>(graph_.values_.size() - 1);
  graph_.nodes_.push_back(std::move(node));
  return graph_.nodes_.back().output;
}

const Value& GraphBuilder::value(ValueId id) const { return graph_.value(id); }

void GraphBuilder::rename(ValueId id, std::string name) {
  static_cast<void>(graph_.value(id));
  graph_.values_[static_cast<std::size_t>(id)].name = std::move(name);
}

Graph GraphBuilder::build(ValueId output) && {
  if (graph_.input_ == kNoValue) {
    throw Error(ErrorCode::invalid_model, "graph '" + graph_.name_ + "'", "has no input");
  }
  if (graph_.value(output).constant) {
    throw Error(ErrorCode::invalid_model, "output '" + graph_.value(output).name + "'",
                "is a constant: the network computes nothing");
  }
  // Keep what the output needs. Nodes are in topological order, since add_node takes existing values only.
  std::vector<bool> needed(graph_.values_.size(), false);
  needed[static_cast<std::size_t>(output)] = true;
  needed[static_cast<std::size_t>(graph_.input_)] = true;
  for (auto node = graph_.nodes_.rbegin(); node != graph_.nodes_.rend(); ++node) {
    if (!needed[static_cast<std::size_t>(node->output)]) continue;
    for (const ValueId id : node->inputs) {
      if (id != kNoValue) needed[static_cast<std::size_t>(id)] = true;
    }
  }
  Graph kept;
  kept.name_ = graph_.name_;
  std::vector<ValueId> renumbered(graph_.values_.size(), kNoValue);
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    renumbered[i] = static_cast<ValueId>(kept.values_.size());
    kept.values_.push_back(std::move(graph_.values_[i]));
    kept.producer_.push_back(-1);
  }
  for (Node& node : graph_.nodes_) {
    if (!needed[static_cast<std::size_t>(node.output)]) continue;
    for (ValueId& id : node.inputs) {
      if (id != kNoValue) id = renumbered[static_cast<std::size_t>(id)];
    }
    node.output = renumbered[static_cast<std::size_t>(node.output)];
    kept.producer_[static_cast<std::size_t>(node.output)] = static_cast<std::int32_t>(kept.nodes_.size());
    kept.nodes_.push_back(std::move(node));
  }
  kept.input_ = renumbered[static_cast<std::size_t>(graph_.input_)];
  kept.output_ = renumbered[static_cast<std::size_t>(output)];
  return kept;
}

}  // namespace mobicuda
