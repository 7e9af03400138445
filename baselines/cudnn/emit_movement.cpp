// Operations that move elements and compute nothing.

#include <utility>
#include <vector>

#include "cudnn/plan_builder.h"
#include "cudnn/tensor_formats.h"

namespace mobicuda::cudnn {
namespace {

// A tensor as rows of `axis` and all faster axes.
struct Rows {
  std::int64_t count = 1;
  std::int64_t step = 1;  ///< elements that one index of the axis stands for
};

Rows rows_along(std::int64_t axis, const Shape& shape, Layout layout) {
  Rows rows;
  bool faster = false;
  for (const std::size_t other : memory_order(shape, layout)) {
    if (other == static_cast<std::size_t>(axis)) {
      faster = true;
    } else {
      (faster ? rows.step : rows.count) *= shape[other];
    }
  }
  return rows;
}

}  // namespace

void emit(PlanBuilder& plan, const Node& node, const Concat& op) {
  const std::string label = node.origin.label();
  const Stored y = plan.new_output(node, plan.element());
  const Rows rows = rows_along(op.axis, y.shape, y.layout);
  const auto axis = static_cast<std::size_t>(op.axis);
  const std::int64_t y_pitch = (y.pitch != 0 ? y.pitch : y.shape[axis] * rows.step) * size_of(y.dtype);
  Place target = y.place;
  for (const ValueId id : node.inputs) {
    const Stored x = plan.in_plan_pitch(plan.stored(id), "input of " + label);
    const std::int64_t bytes = x.shape[axis] * rows.step * size_of(x.dtype);
    const std::int64_t x_pitch = x.pitch != 0 ? x.pitch * size_of(x.dtype) : bytes;
    // A part that is in its place already.
    const bool there = x.place == target && (x_pitch == y_pitch || rows.count == 1);
    if (!there) {
      LayerInfo info = plan.layer_info(node, "");
      info.activation_bytes = 2 * rows.count * bytes / plan.options().max_batch;
      plan.add_row_copy(std::move(info), {rows.count, bytes, x_pitch, y_pitch}, x.place, target);
    }
    target.offset += bytes;
  }
}

// Of channels-last images, channels that begin at a multiple of 16 bytes stay where they are.
void emit(PlanBuilder& plan, const Node& node, const Slice& op) {
  const std::string label = node.origin.label();
  const Stored x = plan.in_plan_pitch(plan.stored(node.inputs[Slice::kInput]), "input of " + label);
  const auto axis = static_cast<std::size_t>(op.axis);
  const Rows rows = rows_along(op.axis, x.shape, x.layout);
  const std::int64_t size = size_of(x.dtype);
  const std::int64_t x_pitch = (x.pitch != 0 ? x.pitch : x.shape[axis] * rows.step) * size;
  const Place from{x.place.buffer, x.place.offset + op.first * rows.step * size};
  const bool of_channels = op.axis == 1 && x.shape.rank() == 4 && x.layout == Layout::NHWC;
  if (of_channels && from.offset % PlanBuilder::kAlignment == 0 && x_pitch % PlanBuilder::kAlignment == 0) {
    const Shape shape = plan.with_batch(plan.graph().value(node.output).desc.shape);
    return plan.set_stored(node, {from, x.dtype, x.layout, shape, x_pitch / size});
  }
  const Stored y = plan.new_output(node, x.dtype);
  const std::int64_t bytes = op.extent * rows.step * size;
  LayerInfo info = plan.layer_info(node, "");
  info.activation_bytes = 2 * rows.count * bytes / plan.options().max_batch;
  plan.add_row_copy(std::move(info), {rows.count, bytes, x_pitch, bytes}, from, y.place);
}

void emit(PlanBuilder& plan, const Node& node, const Reshape&) {
  const Stored x = plan.stored(node.inputs[Reshape::kInput]);
  const std::int64_t channels = x.shape.rank() > 1 ? x.shape[1] : 1;
  Stored y = plan.convert(x, x.dtype, Layout::NCHW, channels, "input of " + node.origin.label());
  y.shape = plan.with_batch(plan.graph().value(node.output).desc.shape);
  plan.set_stored(node, y);
}

void emit(PlanBuilder& plan, const Node& node, const Transpose& op) {
  const Stored x = plan.stored(node.inputs[Transpose::kInput]);
  // Names the same bytes as if they were already permuted, so that an ordinary conversion moves them.
  const Stored natural = plan.convert(x, x.dtype, Layout::NCHW, x.shape[1], "input of " + node.origin.label());
  const Stored y = plan.new_output(node, x.dtype);
  const std::vector<std::int64_t> strides = strides_of(natural.shape, Layout::NCHW, 0);
  StridedShape shape;
  for (const std::size_t axis : memory_order(y.shape, y.layout)) {
    shape.extents[shape.rank] = y.shape[axis];
    shape.x_strides[shape.rank++] = strides[static_cast<std::size_t>(op.permutation[axis])];
  }
  LayerInfo info = plan.layer_info(node, "elementwise/strided_copy");
  info.activation_bytes = 2 * y.shape.elements() * size_of(x.dtype) / plan.options().max_batch;
  plan.add_step(
      std::move(info), {natural.place.buffer, y.place.buffer},
      [=, element = element_of(x.dtype), from = natural.place, to = y.place](const CudaStepContext& c, const Handles&) {
        return strided_copy(shape, element, element, from.in(c), to.in(c), c.stream);
      });
}

void emit(PlanBuilder& plan, const Node& node, const Pad& op) {
  constexpr Border kBorders[] = {Border::Value, Border::Edge, Border::Reflect};
  const Stored x = plan.in_plan_format(plan.stored(node.inputs[Pad::kInput]), "input of " + node.origin.label());
  const Stored y = plan.new_output(node, plan.element());
  const PadShape shape{tensor_shape(x.shape, plan.layout(), plan.element()),
                       tensor_shape(y.shape, plan.layout(), plan.element()),
                       op.pads.top,
                       op.pads.left,
                       op.value,
                       kBorders[static_cast<std::size_t>(op.mode)]};
  LayerInfo info = plan.layer_info(node, "elementwise/pad");
  info.activation_bytes = (shape.x.elements() + shape.y.elements()) * size_of(plan.element()) / shape.x.n;
  plan.add_step(std::move(info), {x.place.buffer, y.place.buffer},
                [=, from = x.place, to = y.place](const CudaStepContext& c, const Handles&) {
                  return pad(shape, from.in(c), to.in(c), c.stream);
                });
}

void emit(PlanBuilder& plan, const Node& node, const LayoutTransform&) {
  plan.set_stored(node, plan.stored(node.inputs[LayoutTransform::kInput]));
}

void emit(PlanBuilder& plan, const Node& node, const Identity&) {
  plan.set_stored(node, plan.stored(node.inputs[Identity::kInput]));
}

}  // namespace mobicuda::cudnn
