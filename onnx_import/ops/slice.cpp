// Parts of activations: Slice and Split.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "ops.h"
#include "shape_math.h"

namespace mobicuda::onnx_import {
namespace {

std::vector<std::int64_t> counting(std::size_t count) {
  std::vector<std::int64_t> values(count);
  std::iota(values.begin(), values.end(), std::int64_t{0});
  return values;
}

SliceRanges checked(const NodeImporter& node, SliceRanges ranges, std::size_t rank) {
  const auto& [starts, ends, axes, steps] = ranges;
  if (starts.size() != ends.size() || starts.size() != axes.size() || starts.size() != steps.size()) {
    throw node.error(ErrorCode::invalid_model, "starts, ends, axes and steps must be equally long, got " +
                                                   to_string(starts) + ", " + to_string(ends) + ", " + to_string(axes) +
                                                   ", " + to_string(steps));
  }
  normalize_axes(node, axes, rank);  // refuses duplicates
  return ranges;
}

ValueId take(NodeImporter& node, ValueId value, std::size_t axis, std::int64_t first, std::int64_t extent) {
  Slice op;
  op.axis = static_cast<std::int64_t>(axis);
  op.first = first;
  op.extent = extent;
  return node.add(op, {value});
}

void import_slice(NodeImporter& node, const SliceRanges& ranges) {
  ValueId value = node.activation(0);
  bool whole = true;
  for (std::size_t i = 0; i < ranges.axes.size(); ++i) {
    const Shape shape = node.shape_of(value);
    const std::size_t axis = normalize_axis(node, ranges.axes[i], shape.rank());
    const auto clamp = [&](std::int64_t position) {
      return std::clamp<std::int64_t>(position < 0 ? position + shape[axis] : position, 0, shape[axis]);
    };
    const std::string range = std::to_string(ranges.starts[i]) + ".." + std::to_string(ranges.ends[i]) + " with step " +
                              std::to_string(ranges.steps[i]) + " along axis " + std::to_string(axis) + " of " +
                              to_string(shape);
    // All of the batch is asked for with the largest number, never with its extent of 1.
    const bool all_pictures = ranges.starts[i] == 0 && ranges.ends[i] >= (std::int64_t{1} << 31) - 1;
    if (ranges.steps[i] != 1 || (axis == 0 && !all_pictures)) {
      throw node.error(ErrorCode::unsupported, "the range " + range + " is not supported",
                       "only steps of 1, and not along the batch");
    }
    const std::int64_t first = clamp(ranges.starts[i]);
    const std::int64_t extent = clamp(ranges.ends[i]) - first;
    if (extent <= 0) throw node.error(ErrorCode::unsupported, "the range " + range + " is empty");
    if (axis == 0 || extent == shape[axis]) continue;
    value = take(node, value, axis, first, extent);
    whole = false;
  }
  node.set_output(whole ? node.add(Identity{}, {value}) : value);
}

// Extents of the outputs along the axis.
std::vector<std::int64_t> split_extents(const NodeImporter& node, std::int64_t extent) {
  const auto outputs = static_cast<std::int64_t>(node.proto().output_size());
  std::vector<std::int64_t> extents = node.has_input(1) ? node.integers(1) : std::vector<std::int64_t>{};
  if (const auto attribute = node.ints_attribute("split")) extents = *attribute;
  if (extents.empty()) {
    const std::int64_t parts = node.attribute("num_outputs", outputs);
    if (parts != outputs) {
      throw node.invalid_attribute("num_outputs", "must be " + std::to_string(outputs) +
                                                      ", the number of outputs, got " + std::to_string(parts));
    }
    // Since opset 18 the last part may be smaller.
    const std::int64_t part = (extent + parts - 1) / parts;
    if (part * parts != extent && node.state().opset < 18) {
      throw node.error(ErrorCode::invalid_model, "an extent of " + std::to_string(extent) + " does not split into " +
                                                     std::to_string(parts) + " equal parts");
    }
    extents.assign(static_cast<std::size_t>(parts), part);
    extents.back() = extent - part * (parts - 1);
  }
  std::int64_t left = extent;
  bool valid = static_cast<std::int64_t>(extents.size()) == outputs;
  for (std::size_t i = 0; valid && i < extents.size(); ++i) {
    valid = extents[i] > 0 && extents[i] <= left;
    left -= valid ? extents[i] : 0;
  }
  if (valid && left == 0) return extents;
  throw node.error(ErrorCode::invalid_model,
                   "the parts " + to_string(extents) + " of an extent of " + std::to_string(extent) +
                       " must be > 0, add up to it, and be as many " + "as the outputs, " + std::to_string(outputs));
}

}  // namespace

SliceRanges slice_attributes(const NodeImporter& node, std::size_t rank) {
  const auto starts = node.ints_attribute("starts");
  const auto ends = node.ints_attribute("ends");
  if (!starts || !ends) throw node.invalid_attribute(starts ? "ends" : "starts", "is missing");
  const auto axes = node.ints_attribute("axes").value_or(counting(starts->size()));
  return checked(node, {*starts, *ends, axes, std::vector<std::int64_t>(starts->size(), 1)}, rank);
}

SliceRanges slice_inputs(const NodeImporter& node, std::size_t rank) {
  const std::vector<std::int64_t> starts = node.integers(1);
  const std::vector<std::int64_t> axes = node.has_input(3) ? node.integers(3) : counting(starts.size());
  const std::vector<std::int64_t> steps =
      node.has_input(4) ? node.integers(4) : std::vector<std::int64_t>(starts.size(), 1);
  return checked(node, {starts, node.integers(2), axes, steps}, rank);
}

namespace {

void import_slice_attributes(NodeImporter& node) { import_slice(node, slice_attributes(node, node.shape(0).rank())); }
void import_slice_inputs(NodeImporter& node) { import_slice(node, slice_inputs(node, node.shape(0).rank())); }

void import_split(NodeImporter& node) {
  const Shape shape = node.shape(0);
  const std::int64_t given = node.attribute("axis", 0);
  const std::size_t axis = normalize_axis(node, given, shape.rank());
  if (axis == 0) {
    throw node.unsupported_attribute(
        "axis", std::to_string(given) + " of " + to_string(shape) + " splits the pictures of a batch",
        "split along another axis");
  }
  std::int64_t first = 0;
  const std::vector<std::int64_t> extents = split_extents(node, shape[axis]);
  for (std::size_t output = 0; output < extents.size(); ++output) {
    if (node.output_is_used(output))
      node.set_output(output, take(node, node.activation(0), axis, first, extents[output]));
    first += extents[output];
  }
}

}  // namespace

Forms slice_forms() {
  static constexpr OperatorForm kForms[] = {
      {"Slice", 6, 9, 1, 1, "axes ends starts", import_slice_attributes, fold_slice_attributes},
      {"Slice", 10, kNewestOpset, 3, 5, "", import_slice_inputs, fold_slice_inputs},
      {"Split", 6, 12, 1, 1, "axis split", import_split},
      {"Split", 13, 17, 1, 2, "axis", import_split},
      {"Split", 18, kNewestOpset, 1, 2, "axis num_outputs", import_split},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
