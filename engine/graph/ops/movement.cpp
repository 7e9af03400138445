#include <cmath>

#include "graph/ops.h"
#include "graph/ops/checks.h"

namespace mobicuda {
namespace {

// An axis but the batch.
std::size_t axis_of(std::int64_t axis, const Shape& shape) {
  const auto rank = static_cast<std::int64_t>(shape.rank());
  if (axis <= 0 || axis >= rank) {
    reject("attribute 'axis'",
           "must be 1 to " + std::to_string(rank - 1) + " for " + to_string(shape) + ", got " + std::to_string(axis));
  }
  return static_cast<std::size_t>(axis);
}

}  // namespace

// ---- Concat

TensorDesc infer(const Concat& op, const Inputs& inputs) {
  const TensorDesc& first = required(inputs, Concat::kFirst, "0");
  const std::size_t joined = axis_of(op.axis, first.shape);
  std::vector<std::int64_t> dims(first.shape.dims().begin(), first.shape.dims().end());
  for (std::size_t position = 1; position < inputs.size(); ++position) {
    const TensorDesc& part = required(inputs, position, std::to_string(position).c_str());
    if (part.dtype != first.dtype || part.quantization != first.quantization) {
      reject("input '" + std::to_string(position) + "'", "must have the type and quantisation of the first, " +
                                                             quantization_text(first) + ", has " +
                                                             quantization_text(part));
    }
    const Shape& shape = part.shape;
    bool fits = shape.rank() == first.shape.rank();
    for (std::size_t axis = 0; fits && axis < shape.rank(); ++axis) {
      fits = axis == joined || shape[axis] == first.shape[axis];
    }
    if (!fits) {
      reject("input '" + std::to_string(position) + "'", "of shape " + to_string(shape) + " cannot be joined to " +
                                                             to_string(first.shape) + " along axis " +
                                                             std::to_string(op.axis));
    }
    // Beside an extent of 0, others may be anything.
    if (__builtin_add_overflow(dims[joined], shape[joined], &dims[joined])) {
      reject("input '" + std::to_string(position) + "'", "of shape " + to_string(shape) + ": the extents overflow");
    }
  }
  return checked(moved(first, Shape(std::span<const std::int64_t>(dims)), first.layout));
}

std::int64_t flops(const Concat&, const Inputs&, const Shape&) { return 0; }

void attributes(const Concat& op, AttributeText& text) { text << " axis=" << op.axis; }

void members(Concat& op, Members& io) { io.whole(op.axis); }

// ---- Slice

TensorDesc infer(const Slice& op, const Inputs& inputs) {
  const TensorDesc& x = required(inputs, Slice::kInput, "x");
  const std::size_t axis = axis_of(op.axis, x.shape);
  if (op.first < 0 || op.extent <= 0 || op.extent > x.shape[axis] || op.first > x.shape[axis] - op.extent) {
    reject("attributes 'first' and 'extent'", "must lie within 0.." + std::to_string(x.shape[axis]) + ", got " +
                                                  std::to_string(op.first) + " and " + std::to_string(op.extent));
  }
  std::vector<std::int64_t> dims(x.shape.dims().begin(), x.shape.dims().end());
  dims[axis] = op.extent;
  return moved(x, Shape(std::span<const std::int64_t>(dims)), x.layout);
}

std::int64_t flops(const Slice&, const Inputs&, const Shape&) { return 0; }

void attributes(const Slice& op, AttributeText& text) {
  text << " axis=" << op.axis << ' ' << op.first << ".." << op.first + op.extent;
}

void members(Slice& op, Members& io) {
  io.whole(op.axis);
  io.whole(op.first);
  io.whole(op.extent);
}

// ---- Reshape

TensorDesc infer(const Reshape& op, const Inputs& inputs) {
  const TensorDesc& x = required(inputs, Reshape::kInput, "x");
  if (op.shape.elements() != x.shape.elements() || op.shape.rank() == 0 || op.shape[0] != x.shape[0]) {
    reject("attribute 'shape'",
           "must hold the elements of " + to_string(x.shape) + " and keep axis 0, got " + to_string(op.shape));
  }
  return moved(x, op.shape, Layout::NCHW);
}

std::int64_t flops(const Reshape&, const Inputs&, const Shape&) { return 0; }

void attributes(const Reshape&, AttributeText&) {}

void members(Reshape& op, Members& io) { io.shape(op.shape); }

// ---- Transpose

TensorDesc infer(const Transpose& op, const Inputs& inputs) {
  const TensorDesc& x = required(inputs, Transpose::kInput, "x");
  std::vector<std::int64_t> sorted = op.permutation;
  std::sort(sorted.begin(), sorted.end());
  bool valid = op.permutation.size() == x.shape.rank() && !sorted.empty() && op.permutation.front() == 0;
  for (std::size_t i = 0; valid && i < sorted.size(); ++i) valid = sorted[i] == static_cast<std::int64_t>(i);
  if (!valid) {
    std::string text;
    for (const std::int64_t axis : op.permutation) text += (text.empty() ? "" : ",") + std::to_string(axis);
    reject("attribute 'perm'", "must permute the " + std::to_string(x.shape.rank()) +
                                   " axes and leave axis 0 (the batch) in place, got [" + text + "]");
  }
  std::vector<std::int64_t> dims;
  for (const std::int64_t axis : op.permutation) dims.push_back(x.shape[static_cast<std::size_t>(axis)]);
  return moved(x, Shape(std::span<const std::int64_t>(dims)), x.layout);
}

std::int64_t flops(const Transpose&, const Inputs&, const Shape&) { return 0; }

void attributes(const Transpose& op, AttributeText& text) {
  text << " perm=";
  for (std::size_t i = 0; i < op.permutation.size(); ++i) text << (i ? "," : "") << op.permutation[i];
}

void members(Transpose& op, Members& io) { io.list(op.permutation); }

// ---- Pad

TensorDesc infer(const Pad& op, const Inputs& inputs) {
  const TensorDesc& x = image(inputs, Pad::kInput);
  require_padding(op.pads);
  if (op.mode == PadMode::Reflect &&
      (std::max(op.pads.top, op.pads.bottom) >= x.shape[2] || std::max(op.pads.left, op.pads.right) >= x.shape[3])) {
    reject("attribute 'pads'", "must be smaller than the picture that they mirror, " + to_string(x.shape));
  }
  if (const IntegerRange range = range_of(x.dtype);
      is_quantized(x.dtype) && !(op.value >= static_cast<float>(range.low) &&
                                 op.value <= static_cast<float>(range.high) && op.value == std::nearbyint(op.value))) {
    reject("attribute 'value'", "must be a whole number from " + std::to_string(range.low) + " to " +
                                    std::to_string(range.high) + " for " + quantization_text(x) + ", got " +
                                    std::to_string(op.value));
  }
  return checked(moved(x,
                       Shape{x.shape[0], x.shape[1], x.shape[2] + op.pads.top + op.pads.bottom,
                             x.shape[3] + op.pads.left + op.pads.right},
                       x.layout));
}

std::int64_t flops(const Pad&, const Inputs&, const Shape&) { return 0; }

void attributes(const Pad& op, AttributeText& text) {
  text << " pads=" << pads_text(op.pads);
  if (op.mode == PadMode::Constant) text << " value=" << op.value;
  if (op.mode != PadMode::Constant) text << (op.mode == PadMode::Edge ? " edge" : " reflect");
}

void members(Pad& op, Members& io) {
  io.padding(op.pads);
  io.fraction(op.value);
  io.choice(op.mode, PadMode::Reflect);
}

// ---- Resize

ResizeAxis resize_axis(const Resize& op, std::size_t axis, std::int64_t extent) noexcept {
  const std::int64_t out = op.extents.at(axis);
  ResizeAxis at;
  if (op.coordinates == ResizeCoordinates::HalfPixel) at = {2 * extent, extent - out, 2 * out};
  if (op.coordinates == ResizeCoordinates::Asymmetric) at = {2 * extent, 0, 2 * out};
  if (op.coordinates == ResizeCoordinates::AlignCorners) {
    at = out == 1 ? ResizeAxis{0, 0, 2} : ResizeAxis{2 * (extent - 1), 0, 2 * (out - 1)};
  }
  if (op.mode == ResizeMode::Linear || op.nearest == NearestPixel::Floor) return at;
  // floor(x + 1/2) rounds halves up; halves go down, and whole numbers stay, where the least that a numerator counts is
  // taken off, and added for ceil(x).
  if (op.nearest == NearestPixel::Ceil) at.offset += at.divisor - 1;
  if (op.nearest == NearestPixel::RoundUp) at.offset += at.divisor / 2;
  if (op.nearest == NearestPixel::RoundDown) at.offset += at.divisor / 2 - 1;
  return at;
}

TensorDesc infer(const Resize& op, const Inputs& inputs) {
  const TensorDesc& x = image(inputs, Resize::kInput);
  require_window(op.extents, "sizes");
  require_window(x.shape.dims().last(2), "input 'x'");
  if (is_quantized(x.dtype) && op.mode == ResizeMode::Linear) {
    reject("attribute 'mode'", "linear computes, which is of real numbers only: put a Dequantize in front");
  }
  return checked(moved(x, Shape{x.shape[0], x.shape[1], op.extents[0], op.extents[1]}, x.layout));
}

std::int64_t flops(const Resize& op, const Inputs&, const Shape& y) {
  return op.mode == ResizeMode::Linear ? 7 * y.elements() : 0;
}

void attributes(const Resize& op, AttributeText& text) {
  constexpr std::array kCoordinates{"half_pixel", "asymmetric", "align_corners"};
  constexpr std::array kNearest{"round_down", "round_up", "floor", "ceil"};
  text << (op.mode == ResizeMode::Linear ? " linear " : " nearest ")
       << kCoordinates.at(static_cast<std::size_t>(op.coordinates));
  if (op.mode == ResizeMode::Nearest) text << ' ' << kNearest.at(static_cast<std::size_t>(op.nearest));
}

void members(Resize& op, Members& io) {
  for (auto& extent : op.extents) io.size(extent);
  io.choice(op.mode, ResizeMode::Linear);
  io.choice(op.coordinates, ResizeCoordinates::AlignCorners);
  io.choice(op.nearest, NearestPixel::Ceil);
}

// ---- LayoutTransform

TensorDesc infer(const LayoutTransform& op, const Inputs& inputs) {
  TensorDesc desc = image(inputs, LayoutTransform::kInput);
  desc.layout = op.to;
  return desc;
}

std::int64_t flops(const LayoutTransform&, const Inputs&, const Shape&) { return 0; }

void attributes(const LayoutTransform& op, AttributeText& text) { text << " to=" << to_string(op.to); }

void members(LayoutTransform& op, Members& io) { io.choice(op.to, Layout::NHWC); }

// ---- Identity

TensorDesc infer(const Identity&, const Inputs& inputs) { return required(inputs, Identity::kInput, "x"); }

std::int64_t flops(const Identity&, const Inputs&, const Shape&) { return 0; }

void attributes(const Identity&, AttributeText&) {}

void members(Identity&, Members&) {}

}  // namespace mobicuda
