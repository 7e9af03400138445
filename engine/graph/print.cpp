#include <sstream>

#include "graph/memory_errors.h"
#include "graph/ops.h"

namespace mobicuda {
namespace {

std::string value_text(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "-";
  const Value& value = graph.value(id);
  std::string text = "%" + std::to_string(id) + ":" + to_string(value.desc.shape);
  if (value.desc.dtype != DType::F32) text += " " + std::string(to_string(value.desc.dtype));
  if (!value.constant && value.desc.shape.rank() == 4) text += " " + std::string(to_string(value.desc.layout));
  return text;
}

}  // namespace

std::string print(const Graph& graph) {
  return with_memory_errors("print", [&] {
    std::ostringstream text;
    text.exceptions(std::ios::badbit);  // instead of a text that ends early
    text << "graph '" << graph.name() << "' (" << value_text(graph, graph.input()) << ")\n";
    for (const Node& node : graph.nodes()) {
      text << "  " << value_text(graph, node.output) << " = " << op_name(node.op) << '(';
      for (std::size_t i = 0; i < node.inputs.size(); ++i) text << (i ? ", " : "") << value_text(graph, node.inputs[i]);
      AttributeText shown;
      std::visit([&](const auto& op) { attributes(op, shown); }, node.op);
      text << ')' << shown.str() << "  # " << node.origin.label() << '\n';
    }
    text << "  return %" << graph.output() << '\n';
    return text.str();
  });
}

}  // namespace mobicuda
