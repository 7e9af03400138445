#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "../initializer.h"
#include "../text.h"
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
  node.set_output(node.add(Reshape{Shape(std::span<const std::int64_t>(extents))}, {node.activation(0)}));
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

void import_identity(NodeImporter& node) { node.set_output(node.add(Identity{}, {node.activation(0)})); }

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
void import_squeeze(NodeImporter& node) { reshape_activation(node, squeeze_target(node)); }
void import_unsqueeze(NodeImporter& node) { reshape_activation(node, unsqueeze_target(node)); }

void import_transpose(NodeImporter& node) {
  const std::vector<std::int64_t> permutation = transpose_permutation(node);
  if (permutation.empty() || permutation.front() != 0) {
    throw node.unsupported_attribute("perm", to_string(permutation) + " moves the batch, axis 0");
  }
  node.set_output(node.add(Transpose{permutation}, {node.activation(0)}));
}

void import_concat(NodeImporter& node) {
  const Shape first = node.shape(0);
  if (!node.has_attribute("axis")) throw node.invalid_attribute("axis", "is missing");
  const std::int64_t given = node.attribute("axis", 1);
  const std::size_t axis = normalize_axis(node, given, first.rank());
  if (axis == 0) {
    throw node.unsupported_attribute(
        "axis", std::to_string(given) + " of " + to_string(first) + " joins the pictures of a batch",
        "join along another axis");
  }
  std::vector<ValueId> parts;
  for (std::size_t position = 0; position < node.inputs(); ++position) {
    const Shape& shape = node.shape(position);
    bool fits = shape.rank() == first.rank();
    for (std::size_t i = 0; fits && i < shape.rank(); ++i) fits = i == axis || shape[i] == first[i];
    if (!fits) {
      throw node.invalid_input(position, "of shape " + to_string(shape) + " cannot be joined to " + to_string(first) +
                                             " along axis " + std::to_string(axis));
    }
    parts.push_back(node.activation(position));
  }
  if (parts.size() == 1) {
    import_identity(node);
    return;
  }
  Concat op;
  op.axis = static_cast<std::int64_t>(axis);
  node.set_output(node.add(op, parts));
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
