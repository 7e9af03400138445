#include <algorithm>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "../initializer.h"
#include "../text.h"
#include "channels_last.h"
#include "elementwise.h"
#include "ops.h"
#include "shape_math.h"

namespace mobicuda::onnx_import {
namespace {

// Gives the activation other extents, of which the first must still be the batch.
void reshape_activation(NodeImporter& node, const Dims& to) {
  bool batch_kept = !to.empty() && to.front() == kBatch;
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    batch_kept = batch_kept && (axis == 0 || !to[axis].times_batch);
    extents.push_back(axis == 0 ? 1 : to[axis].value);
  }
  if (!batch_kept) throw batch_not_kept(node, to);
  const Shape shape{std::span<const std::int64_t>(extents)};
  const ValueId before = node.before_reshape(node.activation(0));
  if (before != kNoValue && node.shape_of(before) == shape) {  // and back
    node.set_output(node.add(Identity{}, {before}));
    return;
  }
  const ValueId output = node.add(Reshape{shape}, {node.activation(0)});
  node.remember_reshape(output, before == kNoValue ? node.activation(0) : before);
  node.set_output(output);
}

PadMode pad_mode(const NodeImporter& node) {
  const std::string mode = node.string_attribute("mode", "constant");
  if (mode == "constant") return PadMode::Constant;
  if (mode == "edge") return PadMode::Edge;
  if (mode == "reflect") return PadMode::Reflect;
  throw node.unsupported_attribute("mode",
                                   "only 'constant', 'edge' and 'reflect' are supported, got " + in_quotes(mode));
}

// Surrounds an image; channels are padded as the height of an image turned over.
void pad_image(NodeImporter& node, const Padding& sides, const Padding& channels, float value, PadMode mode) {
  ValueId image = node.activation(0);
  if (channels.any()) {
    image = node.add(Transpose{{0, 2, 1, 3}}, {image});
    image = node.add(Transpose{{0, 2, 1, 3}}, {node.add(Pad{channels, value, mode}, {image})});
  }
  if (sides.any()) image = node.add(Pad{sides, value, mode}, {image});
  node.set_output(sides.any() || channels.any() ? image : node.add(Identity{}, {image}));
}

// Pads of ONNX's order: all beginnings, then all ends, of the given axes.
void import_pad(NodeImporter& node, const std::vector<std::int64_t>& pads, const std::vector<std::size_t>& axes,
                float value) {
  const Shape& shape = node.shape(0);
  if (pads.size() != 2 * axes.size()) {
    throw node.error(ErrorCode::invalid_model,
                     "pads must have " + std::to_string(2 * axes.size()) + " entries, got " + to_string(pads));
  }
  const PadMode mode = pad_mode(node);
  Padding sides;
  Padding channels;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t before = pads[i];
    const std::int64_t after = pads[i + axes.size()];
    if (before < 0 || after < 0) {
      throw node.error(ErrorCode::unsupported, "pads must be >= 0 (cropping is not supported), got " + to_string(pads));
    }
    const std::int64_t limit = node.state().options.limits.window;
    if (before > limit || after > limit) {
      throw node.error(ErrorCode::unsupported,
                       "the limit of pads is " + std::to_string(limit) + ", got " + to_string(pads));
    }
    if (before == 0 && after == 0) continue;
    if (shape.rank() != 4 || axes[i] < 1) {
      throw node.error(ErrorCode::unsupported, "only images (N, C, H, W) can be padded, and not the batch, got pads " +
                                                   to_string(pads) + " for " + to_string(shape));
    }
    Padding& padding = axes[i] == 1 ? channels : sides;
    (axes[i] == 3 ? padding.left : padding.top) = before;
    (axes[i] == 3 ? padding.right : padding.bottom) = after;
  }
  pad_image(node, sides, channels, value, mode);
}

std::vector<std::size_t> all_axes(std::size_t rank) {
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

void import_identity(NodeImporter& node) {
  node.set_output(by_element(node, node.activation(0), [&](ValueId x) { return node.add(Identity{}, {x}); }));
}

void import_cast(NodeImporter& node) {
  const std::int64_t to = node.attribute("to", 0);
  if (to < 0 || to > 100 || !is_float_type(static_cast<std::int32_t>(to))) {
    throw node.unsupported_attribute("to", "activations are floating-point, a cast to " +
                                               data_type_name(static_cast<std::int32_t>(to)) + " is not supported");
  }
  import_identity(node);
}

// Constants become of the type of the second input, which activations are of already.
void import_cast_like(NodeImporter& node) {
  if (node.is_constant(0)) {
    fold_cast_like(node);
    return;
  }
  if (node.is_constant(1) && !node.constant(1)->is_float()) {
    throw node.unsupported_input(1, "is of integers; activations are floating-point");
  }
  import_identity(node);
}

// An activation that is repeated is not written out: operators repeat their operands themselves.
void import_expand(NodeImporter& node) {
  if (node.is_constant(0)) throw node.unsupported_input(1, "must be a constant");
  const Dims from = dims_of(node, 0);
  Dims to = node.dims(1);
  const auto does_not_fit = [&](ErrorCode code) {
    return node.error(code, "shape " + to_string(to) + " for an input of shape " + to_string(from) + " does not fit");
  };
  if (to.size() < from.size()) to.insert(to.begin(), from.size() - to.size(), DimValue{1, false});
  if (to.size() > from.size()) throw batch_not_kept(node, to);
  std::vector<std::int64_t> extents{1};
  const DimValue batch = to.front();
  const bool fixed = node.state().fixed_batch == batch.value && !batch.times_batch;
  if (batch != kBatch && batch != DimValue{1, false} && !fixed) throw batch_not_kept(node, to);
  for (std::size_t axis = 1; axis < to.size(); ++axis) {
    if (to[axis].times_batch) throw does_not_fit(ErrorCode::unsupported);
    if (to[axis].value == 1) to[axis] = from[axis];
    if (to[axis].value <= 0 || (from[axis].value != 1 && from[axis] != to[axis])) {
      throw does_not_fit(to[axis].value == 0 ? ErrorCode::unsupported : ErrorCode::invalid_model);
    }
    extents.push_back(to[axis].value);
  }
  const Shape shape{std::span<const std::int64_t>(extents)};
  if (shape == node.shape(0)) {
    import_identity(node);
  } else {
    node.set_output(Expanded{node.activation(0), shape});
  }
}

void import_dropout_7(NodeImporter& node) { import_identity(node); }

void import_dropout_6(NodeImporter& node) {
  if (!node.flag_attribute("is_test", false)) {
    throw node.unsupported_attribute("is_test", "must be 1, training mode is not supported", kEvalHint);
  }
  import_dropout_7(node);
}

void import_dropout_12(NodeImporter& node) {
  if (node.flag(2, false)) throw node.unsupported_input(2, "training mode is not supported", kEvalHint);
  import_dropout_7(node);
}

void import_reshape(NodeImporter& node) { reshape_activation(node, reshape_target(node)); }
void import_flatten(NodeImporter& node) { reshape_activation(node, flatten_target(node)); }
// Of a value whose batch stands elsewhere too.
void import_squeeze(NodeImporter& node) {
  const Dims to = squeeze_target(node);
  const MovedBatch value = node.with_batch(0);
  const auto batch = static_cast<std::size_t>(std::ranges::find(to, kBatch) - to.begin());
  if (value.batch == 0 || batch == to.size()) {
    reshape_activation(node, to);
    return;
  }
  std::vector<std::int64_t> extents{1};
  for (const DimValue& dim : to) {
    if (dim != kBatch) extents.push_back(dim.value);
  }
  const ValueId squeezed = node.add(Reshape{Shape(std::span<const std::int64_t>(extents))}, {value.source});
  node.set_output(0, MovedBatch{squeezed, batch});
}
void import_unsqueeze(NodeImporter& node) { reshape_activation(node, unsqueeze_target(node)); }

void import_transpose(NodeImporter& node) {
  const std::vector<std::int64_t> given = transpose_permutation(node);
  const MovedBatch value = node.with_batch(0);
  const ValueId x = value.source;
  std::vector<std::int64_t> permutation{0};
  std::size_t batch = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto axis = value.axis_of(static_cast<std::size_t>(given[i]));
    if (axis == 0) batch = i;
    if (axis != 0) permutation.push_back(static_cast<std::int64_t>(axis));
  }
  if (batch != 0 || value.batch != 0) {
    node.set_output(0, MovedBatch{node.add(Transpose{permutation}, {x}), batch});
    return;
  }
  const Shape shape = node.shape_of(x);
  const bool known = is_channels_last(node, x);
  const ValueId turned = node.add(Transpose{permutation}, {x});
  using Permutation = std::vector<std::int64_t>;
  if (permutation == Permutation{0, 2, 3, 1}) node.remember_image(turned, x);
  if (permutation == Permutation{0, 3, 1, 2} && known) {
    node.set_output(node.add(Identity{}, {image_of_channels_last(node, x)}));
    return;
  }
  if (permutation == Permutation{0, 2, 1}) {
    if (known) {
      node.set_output(node.add(Reshape{node.shape_of(turned)}, {image_of_channels_last(node, x)}));
      return;
    }
    node.remember_image(turned, node.add(Reshape{Shape{shape[0], shape[1], 1, shape[2]}}, {x}));
  }
  node.set_output(turned);
}

// What is joined: an activation, or a constant that is the same for each image.
struct Part {
  ValueId value;
  ConstantPtr constant;
  std::int64_t extent;  // along the axis
};

// Where the file fixes the batch and repeats a constant for each of its images: that for one.
ConstantPtr of_one_image(NodeImporter& node, const ConstantPtr& constant) {
  const Shape& shape = constant->shape();
  if (shape.rank() == 0 || shape[0] <= 1 || shape[0] != node.state().fixed_batch) return constant;
  const std::span<const float> values = constant->floats();
  const std::size_t size = values.size() / static_cast<std::size_t>(shape[0]);
  for (std::size_t i = size; i < values.size(); ++i) {
    if (values[i] != values[i - size]) return constant;
  }
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.front() = 1;
  node.count_elements(static_cast<std::int64_t>(size), false);
  return make_floats(Shape(std::span<const std::int64_t>(dims)), values.first(size));
}

// The value with zeros before and behind along an axis.
ValueId pad_axis(NodeImporter& node, ValueId value, std::size_t axis, std::int64_t before, std::int64_t after) {
  if (before == 0 && after == 0) return value;
  const Shape shape = node.shape_of(value);
  std::int64_t outer = 1;
  for (std::size_t i = 1; i < axis; ++i) outer *= shape[i];
  const std::int64_t inner = shape.elements() / (shape[0] * outer * shape[axis]);
  const ValueId image = node.add(Reshape{Shape{shape[0], outer, shape[axis], inner}}, {value});
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[axis] += before + after;
  const ValueId padded = node.add(Pad{{before, 0, after, 0}, 0.0F, PadMode::Constant}, {image});
  return node.add(Reshape{Shape(std::span<const std::int64_t>(dims))}, {padded});
}

// Of the values' images where one of them has one.
ValueId concat(NodeImporter& node, std::vector<ValueId> values, std::size_t axis) {
  const Shape first = node.shape_of(values.front());
  const bool as_images = std::ranges::any_of(values, [&](ValueId value) { return is_channels_last(node, value); });
  const std::size_t of_image = as_images ? axis_of_image(first.rank(), axis) : 0;
  Concat op;
  op.axis = static_cast<std::int64_t>(of_image != 0 ? of_image : axis);
  if (of_image == 0) return node.add(op, std::move(values));
  std::vector<std::int64_t> dims(first.dims().begin(), first.dims().end());
  dims[axis] = 0;
  for (ValueId& value : values) {
    dims[axis] += node.shape_of(value)[axis];
    value = image_of_channels_last(node, value);
  }
  return to_channels_last(node, node.add(op, std::move(values)), Shape(std::span<const std::int64_t>(dims)));
}

// Constants are added to zeros that their neighbours are surrounded with.
ValueId join(NodeImporter& node, const std::vector<Part>& parts, std::size_t axis) {
  std::vector<ValueId> values;
  std::int64_t before = 0;
  bool constants = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].constant) {
      constants = true;
      if (values.empty()) before += parts[i].extent;
      continue;
    }
    std::int64_t after = 0;
    for (std::size_t next = i + 1; next < parts.size() && parts[next].constant; ++next) after += parts[next].extent;
    values.push_back(pad_axis(node, parts[i].value, axis, values.empty() ? before : 0, after));
  }
  const ValueId joined = values.size() == 1 ? values.front() : concat(node, std::move(values), axis);
  if (!constants) return joined;
  const Shape shape = node.shape_of(joined);
  node.count_scale_and_shift(shape.elements());
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::int64_t row = shape[axis] * inner;
  std::vector<float> shift(static_cast<std::size_t>(shape.elements()), 0.0F);
  std::int64_t first = 0;
  for (const Part& part : parts) {
    const std::int64_t length = part.extent * inner;
    for (std::int64_t i = 0; part.constant && i < part.constant->elements(); ++i) {
      shift[static_cast<std::size_t>(i / length * row + first + i % length)] =
          part.constant->floats()[static_cast<std::size_t>(i)];
    }
    first += length;
  }
  const ValueId flat = node.add(Reshape{Shape{shape[0], shape.elements()}}, {joined});
  return node.add(Reshape{shape}, {scale_and_shift(node, flat, {1.0F}, shift)});
}

void import_concat(NodeImporter& node) {
  std::size_t activation = 0;
  while (node.is_constant(activation)) ++activation;
  const Shape first = node.shape(activation);
  if (!node.has_attribute("axis")) throw node.invalid_attribute("axis", "is missing");
  const std::int64_t given = node.attribute("axis", 1);
  const std::size_t axis = normalize_axis(node, given, first.rank());
  if (axis == 0) {
    throw node.unsupported_attribute(
        "axis", std::to_string(given) + " of " + to_string(first) + " joins the pictures of a batch",
        "join along another axis");
  }
  std::vector<Part> parts;
  for (std::size_t position = 0; position < node.inputs(); ++position) {
    const ConstantPtr constant = node.is_constant(position) ? of_one_image(node, node.floats(position)) : nullptr;
    const Shape shape = constant ? constant->shape() : node.shape(position);
    bool fits = shape.rank() == first.rank();
    for (std::size_t i = 0; fits && i < shape.rank(); ++i) fits = i == axis || shape[i] == first[i];
    if (!fits) {
      const std::string message = "of shape " + to_string(shape) + " cannot be joined to " + to_string(first) +
                                  " along axis " + std::to_string(axis);
      throw constant ? node.unsupported_input(position, message) : node.invalid_input(position, message);
    }
    parts.push_back({constant ? kNoValue : node.activation(position), constant, shape[axis]});
  }
  if (parts.size() == 1) {
    import_identity(node);
    return;
  }
  node.set_output(join(node, parts, axis));
}

void import_pad_attributes(NodeImporter& node) {
  const auto pads = node.ints_attribute("pads");
  if (!pads) throw node.invalid_attribute("pads", "is missing");
  import_pad(node, *pads, all_axes(node.shape(0).rank()), node.float_attribute("value", 0.0F));
}

void import_pad_inputs(NodeImporter& node) {
  const std::size_t rank = node.shape(0).rank();
  std::vector<std::size_t> axes = all_axes(rank);
  if (node.has_input(3)) {
    axes.clear();
    const std::vector<std::int64_t> given = node.integers(3);
    normalize_axes(node, given, rank);  // refuses duplicates
    for (const std::int64_t axis : given) axes.push_back(normalize_axis(node, axis, rank));
  }
  import_pad(node, node.integers(1), axes, node.has_input(2) ? node.scalar(2) : 0.0F);
}

void import_shape(NodeImporter& node) {
  Dims dims = shape_result(node);
  const Shape shape{static_cast<std::int64_t>(dims.size())};
  node.set_output(make_integers(shape, std::move(dims)));
}

void import_size(NodeImporter& node) {
  DimValue size{1, false};
  for (const DimValue& dim : dims_of(node, 0)) size = multiply(node, size, dim);
  node.set_output(make_integers(Shape{}, {size}));
}

}  // namespace

Forms shape_forms() {
  static constexpr OperatorForm kForms[] = {
      {"Cast", 6, 18, 1, 1, "to", import_cast, fold_cast},
      {"Cast", 19, 23, 1, 1, "saturate to", import_cast, fold_cast},
      {"Cast", 24, kNewestOpset, 1, 1, "round_mode saturate to", import_cast, fold_cast},
      {"CastLike", 15, 18, 2, 2, "", import_cast_like, fold_cast_like},
      {"CastLike", 19, 23, 2, 2, "saturate", import_cast_like, fold_cast_like},
      {"CastLike", 24, kNewestOpset, 2, 2, "round_mode saturate", import_cast_like, fold_cast_like},
      {"Concat", 6, kNewestOpset, 1, kAnyInputs, "axis", import_concat, fold_concat},
      {"Dropout", 6, 6, 1, 1, "is_test ratio", import_dropout_6, fold_identity},
      {"Dropout", 7, 11, 1, 1, "ratio", import_dropout_7, fold_identity},
      {"Dropout", 12, kNewestOpset, 1, 3, "seed", import_dropout_12},
      {"Expand", 8, kNewestOpset, 2, 2, "", import_expand, fold_expand},
      {"Flatten", 6, kNewestOpset, 1, 1, "axis", import_flatten, fold_flatten},
      {"Identity", 6, kNewestOpset, 1, 1, "", import_identity, fold_identity},
      {"Pad", 6, 10, 1, 1, "mode pads value", import_pad_attributes},
      {"Pad", 11, 17, 2, 3, "mode", import_pad_inputs},
      {"Pad", 18, kNewestOpset, 2, 4, "mode", import_pad_inputs},
      {"Reshape", 6, 13, 2, 2, "", import_reshape, fold_reshape},
      {"Reshape", 14, kNewestOpset, 2, 2, "allowzero", import_reshape, fold_reshape},
      {"Shape", 6, 14, 1, 1, "", import_shape, import_shape},
      {"Shape", 15, kNewestOpset, 1, 1, "end start", import_shape, import_shape},
      {"Size", 6, kNewestOpset, 1, 1, "", import_size, import_size},
      {"Squeeze", 6, 12, 1, 1, "axes", import_squeeze, fold_squeeze},
      {"Squeeze", 13, kNewestOpset, 1, 2, "", import_squeeze, fold_squeeze},
      {"Transpose", 6, kNewestOpset, 1, 1, "perm", import_transpose, fold_transpose},
      {"Unsqueeze", 6, 12, 1, 1, "axes", import_unsqueeze, fold_unsqueeze},
      {"Unsqueeze", 13, kNewestOpset, 2, 2, "", import_unsqueeze, fold_unsqueeze},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
