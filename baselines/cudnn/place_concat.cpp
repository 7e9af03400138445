// Concat by strides: where all parts of a joined tensor are computed for it, each step writes its channels where they
// belong, and nothing is copied. Of several joined tensors of which one is the beginning of the other, as in DenseNet,
// only the longest exists.

#include "cudnn/plan_builder.h"

namespace mobicuda::cudnn {
namespace {

// Steps that read or write pixels at any pitch.
bool reads_parts(const Op& op) {
  if (const auto* unary = std::get_if<Unary>(&op)) return activation_of(*unary).has_value();
  return std::holds_alternative<Concat>(op) || std::holds_alternative<ScaleShift>(op) ||
         std::holds_alternative<Add>(op) || std::holds_alternative<Clip>(op);
}

// Not depthwise: the probe for exact arithmetic reads a packed result.
bool writes_parts(const Op& op) {
  if (const auto* conv = std::get_if<Conv2d>(&op)) return conv->groups == 1;
  return reads_parts(op) || std::holds_alternative<Pool2d>(op);
}

}  // namespace

std::int64_t PlanBuilder::pitch_of(ValueId id) const {
  const std::optional<Part>& where = part(id);
  return where && where->pitch != graph_.value(id).desc.shape[1] ? where->pitch : 0;
}

bool PlanBuilder::can_be_part(ValueId id) const {
  const auto producer = graph_.producer(id);
  if (!producer || id == graph_.output() || part(id)) return false;
  const Op& op = graph_.nodes()[*producer].op;
  if (const auto* concat = std::get_if<Concat>(&op); concat != nullptr && concat->axis != 1) return false;
  if (!writes_parts(op)) return false;
  for (const std::size_t reader : graph_.consumers(id)) {
    if (!reads_parts(graph_.nodes()[reader].op)) return false;
  }
  return true;
}

void PlanBuilder::place_inputs(const Node& node) {
  const std::int64_t unit = kAlignment / size_of(element());
  const Part whole = *part(node.output);
  std::int64_t offset = whole.offset;
  for (const ValueId id : node.inputs) {
    const std::int64_t channels = graph_.value(id).desc.shape[1];
    if (offset % unit == 0 && can_be_part(id)) {
      parts_[static_cast<std::size_t>(id)] = Part{whole.whole, offset, whole.pitch};
    }
    offset += channels;
  }
}

// From the last to the first: what is joined again later has its place by then.
void PlanBuilder::place_concats() {
  if (layout_ != Layout::NHWC) return;
  const std::int64_t unit = kAlignment / size_of(element());
  for (std::size_t i = graph_.nodes().size(); i-- > 0;) {
    const Node& node = graph_.nodes()[i];
    const auto* concat = std::get_if<Concat>(&node.op);
    const Shape& shape = graph_.value(node.output).desc.shape;
    if (concat == nullptr || concat->axis != 1 || shape.rank() != 4 || node.output == graph_.output()) continue;
    auto& where = parts_[static_cast<std::size_t>(node.output)];
    if (!where) where = continued(node);
    if (!where) {
      if (shape[1] % unit != 0) continue;
      where = Part{static_cast<int>(wholes_.size()), 0, shape[1]};
      wholes_.push_back(-1);
    }
    place_inputs(node);
  }
}

// Where all inputs have places, one after the other: the place of the first.
std::optional<PlanBuilder::Part> PlanBuilder::continued(const Node& node) const {
  const std::optional<Part> first = part(node.inputs.front());
  if (!first) return std::nullopt;
  std::int64_t offset = first->offset;
  for (const ValueId id : node.inputs) {
    const std::optional<Part>& next = part(id);
    if (!next || next->whole != first->whole || next->offset != offset) return std::nullopt;
    offset += graph_.value(id).desc.shape[1];
  }
  return first;
}

}  // namespace mobicuda::cudnn
