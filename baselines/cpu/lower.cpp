#include "baselines/cpu/lower.h"

#include <algorithm>
#include <utility>

#include "baselines/cpu/ops/layout_transform.h"

namespace mobicuda::cpu {

WeightPacker::WeightPacker(const SavedEngine* saved) : saved_(saved) {
  if (saved != nullptr) replay_.emplace(*saved);
}

std::byte* WeightPacker::add(std::int64_t bytes) {
  WeightBytes memory(bytes);
  std::ranges::fill(memory.span(), std::byte{0});
  packed_.emplace_back(memory.at(0), bytes);
  return memory.span().data();
}

PackedWeights WeightPacker::replayed(std::int64_t bytes) {
  return packed_.emplace_back(saved_->weights.at(replay_->next(bytes)), bytes);
}

std::vector<PackedWeights> WeightPacker::finish() && {
  if (replay_) replay_->finish();
  return std::move(packed_);
}

PackedWeights NodeView::copy_of(std::size_t input) const {
  const ValueId id = node.inputs[input];
  const std::int64_t elements = id == kNoValue ? 0 : graph.value(id).desc.shape.elements();
  return weights.pack(elements, [&](float* to) { std::ranges::copy(constant(input), to); });
}

std::string why_not_lowered(const Graph& graph, const Node& node) {
  const TensorDesc& x = graph.value(node.inputs.front()).desc;
  const TensorDesc& y = graph.value(node.output).desc;
  if (std::holds_alternative<Conv2d>(node.op)) {
    if (x.layout != Layout::NHWC) return "the input must be NHWC: run optimize() on the graph";
    const ValueId residual = node.inputs[Conv2d::kResidual];
    if (residual != kNoValue && graph.value(residual).desc.layout != y.layout) return "the residual must be NHWC";
  }
  if (std::holds_alternative<QuantizedConv2d>(node.op) && x.layout != Layout::NHWC) {
    return "the input must be NHWC: run optimize() on the graph";
  }
  if (std::holds_alternative<Concat>(node.op)) {
    for (const ValueId id : node.inputs) {
      const TensorDesc& part = graph.value(id).desc;
      const bool same_order = part.layout == y.layout || (in_logical_order(part) && in_logical_order(y));
      if (!same_order) return "all inputs must have one layout: run optimize() on the graph";
    }
  }
  return {};
}

LoweredNode lower(const NodeView& view) {
  return std::visit([&](const auto& op) { return lower(op, view); }, view.node.op);
}

}  // namespace mobicuda::cpu
