#include <numeric>
#include <string>
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
  // Read as an image: (N, C, H, W), (N, H, W, C) when axis 1 is reduced, or (N, C, H) on the way of x.mean(3).mean(2).
  const bool channels_last = reduced[1];
  if (reduced[0] || (rank != 4 && rank != 3) || (rank == 3 && channels_last) || (channels_last && reduced[3])) {
    throw node.error(ErrorCode::unsupported,
                     "the mean over axes " + to_string(axes_given) + " of " + to_string(shape) + " is not supported",
                     "only means over the height and width of an image are");
  }
  ValueId value = node.activation(0);
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  if (rank == 3) value = reshape_to(node, value, std::vector<std::int64_t>{dims[0], dims[1], dims[2], 1});
  if (channels_last) value = node.add(Transpose{{0, 3, 1, 2}}, {value});
  value =
      channels_last ? mean_of_image(node, value, true, reduced[2]) : mean_of_image(node, value, reduced[2], reduced[3]);
  if (channels_last && !reduced[2]) value = node.add(Transpose{{0, 2, 3, 1}}, {value});

  const bool keep = node.flag_attribute("keepdims", true);
  std::vector<std::int64_t> result;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (!reduced[axis]) result.push_back(dims[axis]);
    if (reduced[axis] && keep) result.push_back(1);
  }
  node.set_output(reshape_to(node, value, result));
}

// Softmax over everything but the batch: other axes have been checked to have extent 1.
void softmax_of_each_picture(NodeImporter& node) {
  const Shape shape = node.shape(0);
  const ValueId flat = reshape_to(node, node.activation(0), std::vector<std::int64_t>{shape[0], shape.elements()});
  const ValueId probabilities = node.add(Softmax{}, {flat});
  node.set_output(reshape_to(node, probabilities, shape.dims()));
}

Error softmax_unsupported(const NodeImporter& node, std::int64_t axis) {
  return node.unsupported_attribute("axis",
                                    "a softmax over axis " + std::to_string(axis) + " of " + to_string(node.shape(0)) +
                                        " (opset " + std::to_string(node.state().opset) + ") is not supported",
                                    "only one over all elements of a picture is");
}

}  // namespace

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
  const Shape& shape = node.shape(0);
  const std::int64_t given = node.attribute("axis", 1);
  const std::size_t axis = normalize_axis(node, given, shape.rank());
  if (axis == 0) throw softmax_unsupported(node, given);
  for (std::size_t i = 1; i < axis; ++i) {
    if (shape[i] != 1) throw softmax_unsupported(node, given);
  }
  softmax_of_each_picture(node);
}

void import_softmax_axis(NodeImporter& node) {
  const Shape& shape = node.shape(0);
  const std::int64_t given = node.attribute("axis", -1);
  const std::size_t axis = normalize_axis(node, given, shape.rank());
  if (axis == 0 || shape[axis] != shape.elements()) throw softmax_unsupported(node, given);
  softmax_of_each_picture(node);
}

}  // namespace mobicuda::onnx_import
