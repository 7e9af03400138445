#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <mobicuda/engine.h>

#include "passes/rewriter.h"

namespace mobicuda::test {

/// The same graph with the weights of the node that is labelled so multiplied by `factor`.
inline Graph with_wrong_weights(const Graph& graph, const std::string& label, float factor) {
  Rewriter rewriter(graph);
  bool found = false;
  for (const Node& node : graph.nodes()) {
    std::vector<ValueId> inputs = rewriter.mapped_inputs(node);
    if (node.origin.label() == label) {
      const auto is_weight = [&](ValueId id) { return id != kNoValue && graph.value(id).constant != nullptr; };
      for (std::size_t i = 0; i < inputs.size() && !found; ++i) {
        if (!is_weight(node.inputs[i])) continue;
        HostTensor wrong = *graph.value(node.inputs[i]).constant;
        for (float& value : wrong.data<float>()) value *= factor;
        inputs[i] = rewriter.builder().add_constant(label + ".wrong", std::move(wrong));
        found = true;
      }
    }
    rewriter.replace(node, node.op, std::move(inputs), node.origin);
  }
  if (!found) throw std::invalid_argument("no node with weights is labelled '" + label + "'");
  return rewriter.finish();
}

/// An implementation that computes one layer wrong: what finds defects must find this one. It changes the weights of a
/// node before another backend compiles the graph, so that it works for all of them.
class WrongBackend : public Backend {
 public:
  /// `label` is that of a node before any pass. A NaN as the factor makes the layer's results NaN.
  WrongBackend(std::unique_ptr<Backend> right, std::string label, float factor = 1.25F)
      : right_(std::move(right)), label_(std::move(label)), factor_(factor) {}

  std::string_view name() const noexcept override { return right_->name(); }
  std::optional<std::string> why_unsupported(const Graph& graph, const Node& node,
                                             const EngineOptions& options) const override {
    return right_->why_unsupported(graph, node, options);
  }
  std::shared_ptr<const Engine> compile(const Graph& graph, const EngineOptions& options) const override {
    return right_->compile(with_wrong_weights(graph, label_, factor_), options);
  }

 private:
  std::unique_ptr<Backend> right_;
  std::string label_;
  float factor_;
};

}  // namespace mobicuda::test
