#include <map>
#include <utility>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace mobicuda::passes {
namespace {

bool order_matters(const Shape& shape) { return shape.rank() == 4 && shape[1] > 1 && shape[2] * shape[3] > 1; }

// Reshape and Transpose speak of the elements' order in NCHW, and matrices are the last two axes.
Layout wanted_layout(const Op& op) {
  const bool in_order = std::holds_alternative<Reshape>(op) || std::holds_alternative<Transpose>(op) ||
                        std::holds_alternative<BatchedMatMul>(op);
  return in_order ? Layout::NCHW : Layout::NHWC;
}

class LayoutChooser {
 public:
  explicit LayoutChooser(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph run() {
    for (const Node& node : graph_.nodes()) {
      if (std::holds_alternative<LayoutTransform>(node.op)) {
        rewriter_.map(node.output, rewriter_.mapped(node.inputs[0]));
        continue;
      }
      std::vector<ValueId> inputs = rewriter_.mapped_inputs(node);
      for (ValueId& id : inputs) {
        if (id != kNoValue) id = in_layout(id, wanted_layout(node.op), node.origin);
      }
      rewriter_.replace(node, node.op, std::move(inputs), node.origin);
    }
    const ValueId output = rewriter_.mapped(graph_.output());
    if (order_matters(rewriter_.builder().value(output).desc.shape)) {
      rewriter_.map(graph_.output(), in_layout(output, graph_.output_desc().layout, {}));
    }
    return rewriter_.finish();
  }

 private:
  ValueId in_layout(ValueId id, Layout layout, const Origin& reader) {
    const Value& value = rewriter_.builder().value(id);
    if (value.constant || value.desc.shape.rank() != 4 || value.desc.layout == layout) return id;
    if (layout == Layout::NCHW && !order_matters(value.desc.shape)) return id;
    const auto [entry, is_new] = transformed_.try_emplace({id, layout}, kNoValue);
    if (is_new) {
      Origin origin;
      origin.nodes.push_back(
          {-1,
           "to_" + std::string(to_string(layout)) + "(" + (reader.nodes.empty() ? value.name : reader.label()) + ")",
           "LayoutTransform"});
      std::string name = value.name + "." + std::string(to_string(layout));
      entry->second = rewriter_.builder().add_node(LayoutTransform{layout}, {id}, std::move(origin), std::move(name));
    }
    return entry->second;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<std::pair<ValueId, Layout>, ValueId> transformed_;
};

}  // namespace

Graph choose_layout(const Graph& graph) { return LayoutChooser(graph).run(); }

}  // namespace mobicuda::passes
