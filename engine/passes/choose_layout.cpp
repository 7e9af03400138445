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
      const Layout wanted = wanted_layout(node.op);
      for (ValueId& id : inputs) {
        if (id == kNoValue || is_told_as(id, wanted)) continue;
        // A Transpose may make an order matter that did not: its result has its input's layout.
        const bool same_bytes = wanted == Layout::NCHW && !order_matters(desc_of(id).shape);
        if (!same_bytes || std::holds_alternative<Transpose>(node.op)) id = in_layout(id, wanted, node.origin);
      }
      rewriter_.replace(node, node.op, std::move(inputs), node.origin);
    }
    const ValueId output = rewriter_.mapped(graph_.output());
    const Layout wanted = graph_.output_desc().layout;
    if (order_matters(desc_of(output).shape) && !is_told_as(output, wanted)) {
      rewriter_.map(graph_.output(), in_layout(output, wanted, {}));
    }
    return rewriter_.finish();
  }

 private:
  const TensorDesc& desc_of(ValueId id) { return rewriter_.builder().value(id).desc; }

  // Constants have an order of their own, and what is no image has one only.
  bool is_told_as(ValueId id, Layout layout) {
    return rewriter_.builder().value(id).constant || desc_of(id).shape.rank() != 4 || desc_of(id).layout == layout;
  }

  ValueId in_layout(ValueId id, Layout layout, const Origin& reader) {
    const Value& value = rewriter_.builder().value(id);
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
