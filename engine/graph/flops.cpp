#include "graph/ops.h"

namespace mobicuda {

std::int64_t flops_per_picture(const Graph& graph, const Node& node) {
  std::vector<const TensorDesc*> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? nullptr : &graph.value(id).desc);
  const Shape& y = graph.value(node.output).desc.shape;
  return std::visit([&](const auto& op) { return flops(op, Inputs(inputs), y); }, node.op);
}

}  // namespace mobicuda
