// Parts of activations: Slice and Split.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "channels_last.h"
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
  const Shape shape = node.shape_of(value);
  const std::size_t of_image = is_channels_last(node, value) ? axis_of_image(shape.rank(), axis) : 0;
  Slice op;
  op.axis = static_cast<std::int64_t>(of_image != 0 ? of_image : axis);
  op.first = first;
  op.extent = extent;
  if (of_image == 0) return node.add(op, {value});
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[axis] = extent;
  const ValueId image = node.add(op, {image_of_channels_last(node, value)});
  return to_channels_last(node, image, Shape(std::span<const std::int64_t>(dims)));
}

// Without an axis whose extent is 1.
ValueId without_axis(NodeImporter& node, ValueId value, std::size_t axis) {
  const Shape shape = node.shape_of(value);
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return node.add(Reshape{Shape(std::span<const std::int64_t>(dims))}, {value});
}

// Whether every step-th row or column of an image can be taken: a pool of single pixels does it.
bool skips(const Shape& shape, std::size_t axis, std::int64_t step) {
  return shape.rank() == 4 && axis >= 2 && step <= kMaxWindow;
}

ValueId skip(NodeImporter& node, ValueId image, std::size_t axis, std::int64_t step) {
  Pool2d op;
  op.strides.at(axis - 2) = step;
  return node.add(op, {image});
}

void import_slice(NodeImporter& node, const SliceRanges& ranges) {
  const MovedBatch source = node.with_batch(0);
  ValueId value = source.source;
  bool whole = true;
  const auto end_text = [](std::int64_t end) {
    constexpr std::int64_t kEnd =
        std::numeric_limits<std::int32_t>::max();  // or more: how exporters write "to the end"
    return end >= kEnd ? std::string("end") : std::to_string(end);
  };
  for (std::size_t i = 0; i < ranges.axes.size(); ++i) {
    const Shape shape = node.shape_of(value);
    const std::size_t axis = source.axis_of(normalize_axis(node, ranges.axes[i], shape.rank()));
    const auto clamp = [&](std::int64_t position) {
      return std::clamp<std::int64_t>(position < 0 ? position + shape[axis] : position, 0, shape[axis]);
    };
    const std::string range = std::to_string(ranges.starts[i]) + ".." + end_text(ranges.ends[i]) + " with step " +
                              std::to_string(ranges.steps[i]) + " along axis " + std::to_string(axis) + " of " +
                              to_string(shape);
    // All of the batch is asked for with the largest number, never with its extent of 1.
    const bool all_pictures = ranges.starts[i] == 0 && ranges.ends[i] >= (std::int64_t{1} << 31) - 1;
    const std::int64_t step = ranges.steps[i];
    if (axis == 0 && (!all_pictures || step != 1)) {
      throw node.error(ErrorCode::unsupported, "the range " + range + " is not supported", "it cuts the batch");
    }
    if (step < 1 || (step != 1 && !skips(shape, axis, step))) {
      throw node.error(ErrorCode::unsupported, "the range " + range + " is not supported",
                       "only steps of 1, and larger ones along the height and width of an image");
    }
    const std::int64_t first = clamp(ranges.starts[i]);
    const std::int64_t extent = clamp(ranges.ends[i]) - first;
    if (extent <= 0) throw node.error(ErrorCode::unsupported, "the range " + range + " is empty");
    if (axis == 0 || (extent == shape[axis] && step == 1)) continue;
    if (extent != shape[axis]) value = take(node, value, axis, first, extent);
    if (step != 1) value = skip(node, value, axis, step);
    whole = false;
  }
  node.set_output(0, MovedBatch{whole ? node.add(Identity{}, {value}) : value, source.batch});
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
    valid = extents[i] >= 0 && extents[i] <= left;
    left -= valid ? extents[i] : 0;
  }
  if (valid && left == 0) return extents;
  throw node.error(ErrorCode::invalid_model,
                   "the parts " + to_string(extents) + " of an extent of " + std::to_string(extent) +
                       " must be >= 0, add up to it, and be as many as the outputs, " + std::to_string(outputs));
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

void import_slice_attributes(NodeImporter& node) {
  import_slice(node, slice_attributes(node, dims_of(node, 0).size()));
}
void import_slice_inputs(NodeImporter& node) { import_slice(node, slice_inputs(node, dims_of(node, 0).size())); }

// A part of an activation may be empty in ONNX.
void require_elements(const NodeImporter& node, std::int64_t extent) {
  if (extent == 0) throw node.error(ErrorCode::unsupported, "a part without elements is not supported");
}

void import_split(NodeImporter& node) {
  const MovedBatch source = node.with_batch(0);
  const Shape shape = node.shape_of(source.source);
  const std::int64_t given = node.attribute("axis", 0);
  const std::size_t axis = source.axis_of(normalize_axis(node, given, shape.rank()));
  if (axis == 0) {
    throw node.unsupported_attribute(
        "axis", std::to_string(given) + " of " + to_string(shape) + " splits the pictures of a batch",
        "split along another axis");
  }
  std::int64_t first = 0;
  const std::vector<std::int64_t> extents = split_extents(node, shape[axis]);
  for (std::size_t output = 0; output < extents.size(); ++output) {
    if (node.output_is_used(output)) {
      require_elements(node, extents[output]);
      node.set_output(output, MovedBatch{take(node, source.source, axis, first, extents[output]), source.batch});
    }
    first += extents[output];
  }
}

// The parts are cut out where they are asked for: a number in the file may ask for any number of them.
void import_split_to_sequence(NodeImporter& node) {
  const Shape shape = node.shape(0);
  const std::int64_t given = node.attribute("axis", 0);
  Sequence sequence;
  sequence.source = node.activation(0);
  sequence.axis = normalize_axis(node, given, shape.rank());
  if (sequence.axis == 0) {
    throw node.unsupported_attribute(
        "axis", std::to_string(given) + " of " + to_string(shape) + " splits the pictures of a batch",
        "split along another axis");
  }
  const std::int64_t extent = shape[sequence.axis];
  const bool keep = node.flag_attribute("keepdims", true);
  if (!node.has_input(1)) {
    sequence.part = 1;
    sequence.removes_axis = !keep;
  } else if (node.constant(1)->shape().rank() == 0) {
    sequence.part = node.integer(1);
    if (sequence.part <= 0) throw node.invalid_input(1, "must be > 0, got " + std::to_string(sequence.part));
  } else {
    sequence.extents = node.integers(1);
    std::int64_t left = extent;
    bool valid = true;
    for (std::size_t i = 0; valid && i < sequence.extents.size(); ++i) {
      valid = sequence.extents[i] >= 0 && sequence.extents[i] <= left;
      left -= valid ? sequence.extents[i] : 0;
    }
    if (!valid || left != 0) {
      throw node.invalid_input(
          1, to_string(sequence.extents) + " must be >= 0 and add up to the extent of " + std::to_string(extent));
    }
  }
  node.set_output(std::move(sequence));
}

void import_sequence_at(NodeImporter& node) {
  const Sequence& sequence = node.sequence(0);
  const Shape shape = node.shape_of(sequence.source);
  const std::int64_t extent = shape[sequence.axis];
  const std::int64_t parts =
      sequence.part > 0 ? (extent - 1) / sequence.part + 1 : static_cast<std::int64_t>(sequence.extents.size());
  const std::int64_t given = node.integer(1);
  if (given < -parts || given >= parts) {
    throw node.invalid_input(
        1, "must be " + std::to_string(-parts) + " to " + std::to_string(parts - 1) + ", got " + std::to_string(given));
  }
  const std::int64_t index = given < 0 ? given + parts : given;
  std::int64_t first = index * sequence.part;
  std::int64_t length = std::min(sequence.part, extent - first);
  if (sequence.part == 0) {
    const auto begin = sequence.extents.begin();
    first = std::accumulate(begin, begin + index, std::int64_t{0});
    length = sequence.extents[static_cast<std::size_t>(index)];
  }
  require_elements(node, length);
  ValueId value = take(node, sequence.source, sequence.axis, first, length);
  if (sequence.removes_axis) value = without_axis(node, value, sequence.axis);
  node.set_output(value);
}

// Channels, rows or columns in another order, as by BGR to RGB: runs of neighbours are cut out and joined.
void import_gather(NodeImporter& node) {
  constexpr std::size_t kMostRuns = 64;
  const MovedBatch source = node.with_batch(0);
  const Shape shape = node.shape_of(source.source);
  const std::size_t given_axis = normalize_axis(node, node.attribute("axis", 0), shape.rank());
  const std::size_t axis = source.axis_of(given_axis);
  const ConstantPtr indices = node.constant(1);
  if (axis == 0 || indices->is_float() || indices->shape().rank() > 1) {
    throw node.error(
        ErrorCode::unsupported,
        "is supported between constants, as in shape arithmetic, and of activations by a list of integers, "
        "not along the batch");
  }
  struct Run {
    std::int64_t first;
    std::int64_t extent;
  };
  std::vector<Run> runs;
  for (const std::int64_t given : node.integers(1)) {
    if (given < -shape[axis] || given >= shape[axis]) {
      throw node.invalid_input(1, "an index must be " + std::to_string(-shape[axis]) + " to " +
                                      std::to_string(shape[axis] - 1) + ", got " + std::to_string(given));
    }
    const std::int64_t index = given < 0 ? given + shape[axis] : given;
    if (!runs.empty() && index == runs.back().first + runs.back().extent) {
      ++runs.back().extent;
    } else {
      runs.push_back({index, 1});
    }
  }
  if (runs.empty() || runs.size() > kMostRuns) {
    throw node.unsupported_input(1, "has " + std::to_string(runs.size()) + " runs of neighbours, 1 to " +
                                        std::to_string(kMostRuns) + " are supported");
  }
  std::vector<ValueId> parts;
  for (const Run& run : runs) parts.push_back(take(node, source.source, axis, run.first, run.extent));
  ValueId value = parts.front();
  if (parts.size() > 1) {
    Concat join;
    join.axis = static_cast<std::int64_t>(axis);
    value = node.add(join, parts);
  }
  const bool removes_axis = indices->shape().rank() == 0;
  if (removes_axis) value = without_axis(node, value, axis);
  node.set_output(0, MovedBatch{value, source.batch - (removes_axis && given_axis < source.batch ? 1 : 0)});
}

}  // namespace

Forms slice_forms() {
  static constexpr OperatorForm kForms[] = {
      {"Gather", 6, kNewestOpset, 2, 2, "axis", import_gather, fold_gather},
      {"SequenceAt", 11, kNewestOpset, 2, 2, "", import_sequence_at},
      {"Slice", 6, 9, 1, 1, "axes ends starts", import_slice_attributes, fold_slice_attributes},
      {"Slice", 10, kNewestOpset, 3, 5, "", import_slice_inputs, fold_slice_inputs},
      {"Split", 6, 12, 1, 1, "axis split", import_split},
      {"Split", 13, 17, 1, 2, "axis", import_split},
      {"Split", 18, kNewestOpset, 1, 2, "axis num_outputs", import_split},
      {"SplitToSequence", 11, kNewestOpset, 1, 2, "axis keepdims", import_split_to_sequence},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
