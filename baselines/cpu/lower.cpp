#include "baselines/cpu/lower.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "baselines/cpu/ops/layout_transform.h"

namespace mobicuda::cpu {
namespace {

constexpr std::int64_t kLineBytes = 64;

}  // namespace

WeightPacker::WeightPacker(std::int64_t bytes) : block_(bytes) { std::ranges::fill(block_->span(), std::byte{0}); }

WeightPacker::WeightPacker(const SavedEngine& saved) : saved_(&saved), replay_(saved) {}

// The next piece, of whole cache lines; null where it is not to be filled.
std::byte* WeightPacker::add(std::int64_t bytes) {
  bytes = (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  if (replay_) {
    packed_.emplace_back(saved_->weights.at(replay_->next(bytes)), bytes);
    return nullptr;
  }
  const std::int64_t at = used_;
  used_ += bytes;
  if (!block_) {
    static std::byte nothing;  // so that places within a piece can be told as in any other
    packed_.emplace_back(std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), &nothing), bytes);
    return nullptr;
  }
  if (used_ > std::ssize(block_->span())) throw std::logic_error("more weights are packed than were counted");
  packed_.emplace_back(block_->at(at), bytes);
  return block_->span().data() + at;
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
