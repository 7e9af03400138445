#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/error.h>

#include "ops.h"

namespace mobicuda::onnx_import {
namespace {

ValueId reshape_to(NodeImporter& node, ValueId value, std::span<const std::int64_t> dims) {
  const Shape shape(dims);
  return node.shape_of(value) == shape ? value : node.add(Reshape{shape}, {value});
}

// The mean over height, width or both of an image whose axes 2 and 3 they are.
ValueId mean_of_image(NodeImporter& node, ValueId image, bool height, bool width) {
  if (height && width) return node.add(GlobalAveragePool{}, {image});
  const Shape& shape = node.shape_of(image);
  Pool2d op;
  op.kind = PoolKind::Average;
  op.kernel = {height ? shape[2] : 1, width ? shape[3] : 1};
  return node.add(op, {image});
}

std::vector<std::int64_t> remaining_extents(const NodeImporter& node, const std::vector<bool>& reduced) {
  const bool keep = node.flag_attribute("keepdims", true);
  const Shape& shape = node.shape(0);
  std::vector<std::int64_t> result;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (!reduced[axis]) result.push_back(shape[axis]);
    if (reduced[axis] && keep) result.push_back(1);
  }
  return result;
}

// The mean over any axes but the batch: moved to the end, they are the height of an image.
ValueId mean_of_rows(NodeImporter& node, ValueId value, const std::vector<bool>& reduced) {
  const Shape shape = node.shape_of(value);
  Transpose to_the_end;
  std::int64_t rows = 1;
  for (const bool wanted : {false, true}) {
    for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
      if (reduced[axis] != wanted) continue;
      to_the_end.permutation.push_back(static_cast<std::int64_t>(axis));
      if (!wanted) rows *= shape[axis];
    }
  }
  if (!std::is_sorted(to_the_end.permutation.begin(), to_the_end.permutation.end())) {
    value = node.add(to_the_end, {value});
  }
  value = reshape_to(node, value, std::vector<std::int64_t>{shape[0], rows, shape.elements() / rows, 1});
  return reshape_to(node, node.add(GlobalAveragePool{}, {value}), remaining_extents(node, reduced));
}

void import_reduce_mean(NodeImporter& node, const std::vector<std::int64_t>& axes_given) {
  const Shape shape = node.shape(0);
  const std::size_t rank = shape.rank();
  std::vector<std::size_t> axes = normalize_axes(node, axes_given, rank);
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), std::size_t{0});
  }
  std::vector<bool> reduced(Shape::kMaxRank, false);
  for (const std::size_t axis : axes) reduced[axis] = true;
  if (reduced[0]) {
    throw node.error(ErrorCode::unsupported,
                     "the mean over axes " + to_string(axes_given) + " of " + to_string(shape) + " is not supported",
                     "it would mix the pictures of a batch");
  }
  // Read as an image: (N, C, H, W), (N, H, W, C) when axis 1 is reduced, or (N, C, H) on the way of x.mean(3).mean(2).
  const bool channels_last = reduced[1];
  ValueId value = node.activation(0);
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  if ((rank != 4 && rank != 3) || (rank == 3 && channels_last) || (channels_last && reduced[3])) {
    node.set_output(mean_of_rows(node, value, reduced));
    return;
  }
  if (rank == 3) value = reshape_to(node, value, std::vector<std::int64_t>{dims[0], dims[1], dims[2], 1});
  if (channels_last) value = node.add(Transpose{{0, 3, 1, 2}}, {value});
  value =
      channels_last ? mean_of_image(node, value, true, reduced[2]) : mean_of_image(node, value, reduced[2], reduced[3]);
  if (channels_last && !reduced[2]) value = node.add(Transpose{{0, 2, 3, 1}}, {value});

  node.set_output(reshape_to(node, value, remaining_extents(node, reduced)));
}

// Softmax over the last of three axes: (N, rows, columns).
void softmax_of_rows(NodeImporter& node, std::int64_t rows, std::int64_t columns) {
  const Shape shape = node.shape(0);
  ValueId value = node.activation(0);
  if (rows == 1) {
    value = node.add(Softmax{}, {reshape_to(node, value, std::vector<std::int64_t>{shape[0], columns})});
  } else {
    value = reshape_to(node, value, std::vector<std::int64_t>{shape[0], rows, columns});
    value = node.add(Softmax{}, {node.add(Transpose{{0, 2, 1}}, {value})});
    value = node.add(Transpose{{0, 2, 1}}, {value});
  }
  node.set_output(reshape_to(node, value, shape.dims()));
}

// The axis, counted from the front.
std::size_t softmax_axis(const NodeImporter& node, std::int64_t fallback) {
  const std::int64_t given = node.attribute("axis", fallback);
  const std::size_t axis = normalize_axis(node, given, node.shape(0).rank());
  if (axis != 0) return axis;
  throw node.unsupported_attribute("axis",
                                   "a softmax over axis " + std::to_string(given) + " of " + to_string(node.shape(0)) +
                                       " (opset " + std::to_string(node.state().opset) + ") is not supported",
                                   "it would mix the pictures of a batch");
}

void import_reduce_mean_attribute(NodeImporter& node) {
  import_reduce_mean(node, node.ints_attribute("axes").value_or(std::vector<std::int64_t>{}));
}

void import_reduce_mean_input(NodeImporter& node) {
  const std::vector<std::int64_t> axes = node.has_input(1) ? node.integers(1) : std::vector<std::int64_t>{};
  if (axes.empty() && node.flag_attribute("noop_with_empty_axes", false)) {
    node.set_output(node.add(Identity{}, {node.activation(0)}));
    return;
  }
  import_reduce_mean(node, axes);
}

// Before opset 13: the input is flattened to two axes, cut before `axis`, and the second one normalised.
void import_softmax_flattened(NodeImporter& node) {
  const Shape shape = node.shape(0);
  const std::size_t axis = softmax_axis(node, 1);
  std::int64_t rows = 1;
  for (std::size_t i = 1; i < axis; ++i) rows *= shape[i];
  softmax_of_rows(node, rows, shape.elements() / rows);
}

void import_softmax_axis(NodeImporter& node) {
  const Shape shape = node.shape(0);
  const std::size_t axis = softmax_axis(node, -1);
  if (axis + 1 == shape.rank() || shape[axis] == shape.elements()) {
    softmax_of_rows(node, shape.elements() / shape[axis], shape[axis]);
    return;
  }
  if (axis == 1) {
    node.set_output(node.add(Softmax{}, {node.activation(0)}));
    return;
  }
  Transpose swap;
  for (std::size_t i = 0; i < shape.rank(); ++i) swap.permutation.push_back(static_cast<std::int64_t>(i));
  std::swap(swap.permutation[1], swap.permutation[axis]);
  const ValueId probabilities = node.add(Softmax{}, {node.add(swap, {node.activation(0)})});
  node.set_output(node.add(swap, {probabilities}));
}

}  // namespace

Forms reduce_forms() {
  static constexpr OperatorForm kForms[] = {
      {"ReduceMean", 6, 17, 1, 1, "axes keepdims", import_reduce_mean_attribute},
      {"ReduceMean", 18, kNewestOpset, 1, 2, "keepdims noop_with_empty_axes", import_reduce_mean_input},
      {"Softmax", 6, 12, 1, 1, "axis", import_softmax_flattened},
      {"Softmax", 13, kNewestOpset, 1, 1, "axis", import_softmax_axis},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
