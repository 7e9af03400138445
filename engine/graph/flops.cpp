#include <algorithm>

#include <mobicuda/graph.h>

namespace mobicuda {

std::int64_t flops_per_picture(const Graph& graph, const Node& node) {
  const std::int64_t out = graph.value(node.output).desc.shape.elements();
  const auto input = [&](std::size_t position) -> const Shape& {
    return graph.value(node.inputs[position]).desc.shape;
  };
  if (std::holds_alternative<Conv2d>(node.op)) {
    const Shape& w = input(Conv2d::kWeight);
    return 2 * out * w[1] * w[2] * w[3];
  }
  if (std::holds_alternative<Gemm>(node.op)) return 2 * out * input(Gemm::kWeight)[1];
  if (std::holds_alternative<ScaleShift>(node.op)) return 2 * out;
  if (std::holds_alternative<Add>(node.op) || std::holds_alternative<Mul>(node.op) ||
      std::holds_alternative<Clip>(node.op)) {
    return out;
  }
  if (std::holds_alternative<Unary>(node.op)) return 4 * out;
  if (const auto* norm = std::get_if<LocalResponseNorm>(&node.op))
    return out * (2 * std::min(norm->size, input(0)[1]) + 4);
  if (const auto* pool = std::get_if<Pool2d>(&node.op)) return out * pool->kernel[0] * pool->kernel[1];
  if (std::holds_alternative<GlobalAveragePool>(node.op)) return input(GlobalAveragePool::kInput).elements();
  if (std::holds_alternative<Softmax>(node.op)) return 4 * out;
  return 0;
}

}  // namespace mobicuda
