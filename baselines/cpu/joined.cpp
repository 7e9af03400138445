#include "baselines/cpu/joined.h"

#include <algorithm>
#include <variant>

#include "baselines/cpu/ops/depthwise_conv.h"

namespace mobicuda::cpu {
namespace {

// Whether the node, a step by itself, can write rows of any stride.
bool writes_rows(const Graph& graph, const Node& node) {
  const Conv2d* const op = std::get_if<Conv2d>(&node.op);
  if (op == nullptr || node.inputs[Conv2d::kResidual] != kNoValue) return false;
  const auto shape = [&](std::size_t input) -> const Shape& { return graph.value(node.inputs[input]).desc.shape; };
  return !is_depthwise(*op, shape(Conv2d::kInput), shape(Conv2d::kWeight)) &&
         !repeats_channels(*op, shape(Conv2d::kInput), shape(Conv2d::kWeight));
}

bool joins_channels(const Graph& graph, const Node& node) {
  const Concat* const op = std::get_if<Concat>(&node.op);
  if (op == nullptr || op->axis != 1 || node.output == graph.output()) return false;
  const TensorDesc& desc = graph.value(node.output).desc;
  return desc.shape.rank() == 4 && desc.layout == Layout::NHWC && !is_quantized(desc.dtype);
}

}  // namespace

std::vector<std::optional<JoinedValue>> joined_values(const Graph& graph,
                                                      const std::vector<std::vector<std::size_t>>& steps) {
  std::vector<bool> alone(graph.nodes().size());
  for (const std::vector<std::size_t>& step : steps) {
    if (step.size() == 1) alone[step.front()] = true;
  }
  std::vector<std::optional<JoinedValue>> joined(graph.values().size());
  for (const Node& node : graph.nodes()) {
    if (!joins_channels(graph, node)) continue;
    const std::int64_t channels = graph.value(node.output).desc.shape[1];
    std::int64_t first = 0;
    for (const ValueId input : node.inputs) {
      const std::optional<std::size_t> producer = graph.producer(input);
      if (producer && alone[*producer] && writes_rows(graph, graph.nodes()[*producer]) && input != graph.output() &&
          graph.consumers(input).size() == 1 && std::ranges::count(node.inputs, input) == 1) {
        joined[static_cast<std::size_t>(input)] = {node.output, first, channels};
      }
      first += graph.value(input).desc.shape[1];
    }
  }
  return joined;
}

}  // namespace mobicuda::cpu
