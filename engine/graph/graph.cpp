#include <mobicuda/graph.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "graph/memory_errors.h"
#include "graph/verify.h"

namespace mobicuda {

const Value& Graph::value(ValueId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= values_.size()) {
    throw Error(ErrorCode::invalid_argument, "graph '" + name_ + "'", "no value with id " + std::to_string(id));
  }
  return values_[static_cast<std::size_t>(id)];
}

std::span<const std::size_t> Graph::consumers(ValueId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= values_.size()) return {};
  const auto value = static_cast<std::size_t>(id);
  return std::span(consumers_).subspan(first_consumer_[value], first_consumer_[value + 1] - first_consumer_[value]);
}

std::optional<std::size_t> Graph::producer(ValueId id) const {
  static_cast<void>(value(id));  // refuses ids that are none
  const std::int32_t node = producer_[static_cast<std::size_t>(id)];
  if (node < 0) return std::nullopt;
  return static_cast<std::size_t>(node);
}

GraphBuilder::GraphBuilder(std::string graph_name) { graph_.name_ = std::move(graph_name); }

ValueId GraphBuilder::set_input(std::string name, TensorDesc desc) {
  return with_memory_errors("graph", [&] {
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
    require_elements(desc.shape, "input '" + name + "'");
    graph_.values_.push_back({std::move(name), desc, nullptr, nullptr});
    graph_.producer_.push_back(-1);
    graph_.input_ = static_cast<ValueId>(graph_.values_.size() - 1);
    return graph_.input_;
  });
}

ValueId GraphBuilder::add_constant(std::string name, HostTensor tensor) {
  return add_constant(std::move(name), std::make_shared<const HostTensor>(std::move(tensor)));
}

ValueId GraphBuilder::add_constant(std::string name, std::shared_ptr<const HostTensor> tensor,
                                   std::shared_ptr<const QuantizedConstant> quantized) {
  return with_memory_errors("graph", [&] {
    const std::string where = "constant '" + name + "'";
    if (!tensor || (tensor->dtype() != DType::F32 && tensor->dtype() != DType::I32 && !is_quantized(tensor->dtype()))) {
      throw Error(ErrorCode::invalid_argument, where, "must be float32, int32, int8 or uint8");
    }
    if (quantized) {
      try {
        require_quantized(*quantized, *tensor);
      } catch (const Error& error) {
        throw error.inside(where);
      }
    }
    graph_.values_.push_back(
        {std::move(name), {tensor->dtype(), tensor->shape(), Layout::NCHW}, std::move(tensor), std::move(quantized)});
    graph_.producer_.push_back(-1);
    return static_cast<ValueId>(graph_.values_.size() - 1);
  });
}

ValueId GraphBuilder::add_node(Op op, std::vector<ValueId> inputs, Origin origin, std::string output_name) {
  return with_memory_errors("graph", [&] {
    Node node{std::move(op), std::move(inputs), kNoValue, std::move(origin)};
    TensorDesc desc;
    try {
      desc = infer_node_output(node, graph_.values_);
    } catch (const Error& error) {
      throw error.inside(node.origin.describe());
    }
    graph_.values_.push_back({std::move(output_name), desc, nullptr, nullptr});
    graph_.producer_.push_back(static_cast<std::int32_t>(graph_.nodes_.size()));
    node.output = static_cast<ValueId>(graph_.values_.size() - 1);
    graph_.nodes_.push_back(std::move(node));
    return graph_.nodes_.back().output;
  });
}

const Value& GraphBuilder::value(ValueId id) const { return graph_.value(id); }

void GraphBuilder::rename(ValueId id, std::string name) {
  static_cast<void>(graph_.value(id));
  graph_.values_[static_cast<std::size_t>(id)].name = std::move(name);
}

// Counts the readers of each value, and then writes each node behind the other readers of what it reads. Both walks
// pass over a value that a node reads again.
void Graph::index_consumers() {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> latest(values_.size(), kNone);
  const auto for_each_read = [&](auto&& visit) {
    std::fill(latest.begin(), latest.end(), kNone);
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      for (const ValueId id : nodes_[node].inputs) {
        if (id == kNoValue || latest[static_cast<std::size_t>(id)] == node) continue;
        latest[static_cast<std::size_t>(id)] = node;
        visit(node, static_cast<std::size_t>(id));
      }
    }
  };
  first_consumer_.assign(values_.size() + 1, 0);
  for_each_read([&](std::size_t, std::size_t value) { ++first_consumer_[value + 1]; });
  std::partial_sum(first_consumer_.begin(), first_consumer_.end(), first_consumer_.begin());
  consumers_.resize(first_consumer_.back());
  std::vector<std::size_t> next(first_consumer_.begin(), first_consumer_.end() - 1);
  for_each_read([&](std::size_t node, std::size_t value) { consumers_[next[value]++] = node; });
}

Graph GraphBuilder::build(ValueId output) && {
  return with_memory_errors("graph", [&] {
    if (graph_.input_ == kNoValue) {
      throw Error(ErrorCode::invalid_model, "graph '" + graph_.name_ + "'", "has no input");
    }
    if (graph_.value(output).constant) {
      throw Error(ErrorCode::invalid_model, "output '" + graph_.value(output).name + "'",
                  "is a constant: the network computes nothing");
    }
    if (const TensorDesc& desc = graph_.value(output).desc; desc.dtype != DType::F32) {
      throw Error(ErrorCode::unsupported, "output '" + graph_.value(output).name + "'",
                  "is of integers (" + std::string(to_string(desc.dtype)) + ")",
                  "a network gives real numbers: put a DequantizeLinear behind it");
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
    kept.index_consumers();
    return kept;
  });
}

}  // namespace mobicuda
