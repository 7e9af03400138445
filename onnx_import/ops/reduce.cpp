#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/error.h>

#include "channels_last.h"
#include "elementwise.h"
#include "moments.h"
#include "ops.h"
#include "reduce.h"
#include "shape_math.h"

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

// Which of the first input's axes go, and whether they stay with an extent of 1.
struct Reduced {
  std::vector<bool> axes;  // Shape::kMaxRank of them
  bool all_stay = false;   // the operator does nothing
};

// The attribute `axes` of older opsets, or the second input. None means all, or with noop_with_empty_axes none.
Reduced read_axes(const NodeImporter& node, const Shape& shape) {
  const std::vector<std::int64_t> given =
      node.has_input(1) ? node.integers(1) : node.ints_attribute("axes").value_or(std::vector<std::int64_t>{});
  Reduced reduced{std::vector<bool>(Shape::kMaxRank, false)};
  if (given.empty()) {
    reduced.all_stay = node.flag_attribute("noop_with_empty_axes", false);
    if (!reduced.all_stay) std::fill_n(reduced.axes.begin(), shape.rank(), true);
  }
  for (const std::size_t axis : normalize_axes(node, given, shape.rank())) reduced.axes[axis] = true;
  return reduced;
}

std::vector<std::int64_t> remaining_extents(const NodeImporter& node, const Shape& shape,
                                            const std::vector<bool>& reduced) {
  const bool keep = node.flag_attribute("keepdims", true);
  std::vector<std::int64_t> result;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (!reduced[axis]) result.push_back(shape[axis]);
    if (reduced[axis] && keep) result.push_back(1);
  }
  return result;
}

std::string axes_text(const std::vector<bool>& reduced) {
  std::vector<std::int64_t> axes;
  for (std::size_t axis = 0; axis < reduced.size(); ++axis) {
    if (reduced[axis]) axes.push_back(static_cast<std::int64_t>(axis));
  }
  return to_string(axes);
}

// An image (N, rows, elements, 1) of any axes but the batch: those reduced, moved to the end, are its height.
ValueId as_rows(NodeImporter& node, ValueId value, const std::vector<bool>& reduced) {
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
  return reshape_to(node, value, std::vector<std::int64_t>{shape[0], rows, shape.elements() / rows, 1});
}

// The sum over one axis as that of its parts, where they are few: an average would have to move them.
ValueId sum_of_parts(NodeImporter& node, ValueId value, std::size_t axis) {
  const Shape shape = node.shape_of(value);
  Slice part;
  part.axis = static_cast<std::int64_t>(axis);
  ValueId sum = kNoValue;
  for (part.first = 0; part.first < shape[axis]; ++part.first) {
    const ValueId next = shape[axis] == 1 ? value : node.add(part, {value});
    sum = sum == kNoValue ? next : node.add(Add{}, {sum, next});
  }
  return sum;
}

// Refuses what mixes the images of a batch.
Reduced read_activation_axes(const NodeImporter& node) {
  const Reduced reduced = read_axes(node, node.shape(0));
  if (reduced.axes[0]) {
    throw node.error(
        ErrorCode::unsupported,
        "a reduction over axes " + axes_text(reduced.axes) + " of " + to_string(node.shape(0)) + " is not supported",
        "it would mix the pictures of a batch");
  }
  return reduced;
}

// The mean of a value of the first input's shape over any axes but the batch, of which the rest has its extents, or 1
// in their place.
ValueId mean(NodeImporter& node, ValueId value, const std::vector<bool>& reduced) {
  const Shape shape = node.shape_of(value);
  const std::size_t rank = shape.rank();
  // Read as an image: (N, C, H, W), (N, H, W, C) when axis 1 is reduced, or (N, C, H) on the way of x.mean(3).mean(2).
  const bool channels_last = reduced[1];
  const std::vector<std::int64_t> remaining = remaining_extents(node, shape, reduced);
  if ((rank != 4 && rank != 3) || (rank == 3 && channels_last) || (channels_last && reduced[3])) {
    return reshape_to(node, node.add(GlobalAveragePool{}, {as_rows(node, value, reduced)}), remaining);
  }
  if (rank == 3) value = reshape_to(node, value, std::vector<std::int64_t>{shape[0], shape[1], shape[2], 1});
  const bool known = channels_last && is_channels_last(node, value);
  if (known) value = image_of_channels_last(node, value);
  if (channels_last && !known) value = node.add(Transpose{{0, 3, 1, 2}}, {value});
  value =
      channels_last ? mean_of_image(node, value, true, reduced[2]) : mean_of_image(node, value, reduced[2], reduced[3]);
  const Shape result{std::span<const std::int64_t>(remaining)};
  // (N, 1, W, C), or (N, 1, 1, C) with channels still last; of what is left with one pixel, the order does not matter.
  if (known && (!reduced[2] || result.rank() == 4)) return to_channels_last(node, value, result);
  if (channels_last && !reduced[2]) value = node.add(Transpose{{0, 2, 3, 1}}, {value});
  return reshape_to(node, value, remaining);
}

bool set_unreduced(NodeImporter& node, const Reduced& reduced) {
  if (reduced.all_stay) node.set_output(node.add(Identity{}, {node.activation(0)}));
  return reduced.all_stay;
}

void import_reduce_mean(NodeImporter& node) {
  if (import_moment(node)) return;
  const Reduced reduced = read_activation_axes(node);
  if (set_unreduced(node, reduced)) return;
  const ValueId result = mean(node, node.activation(0), reduced.axes);
  if (node.flag_attribute("keepdims", true)) {
    node.remember_mean(result, {Moment::Step::Deviation, node.activation(0), reduced.axes});
  }
  node.set_output(result);
}

// As many times the mean.
ValueId sum(NodeImporter& node, ValueId value, const std::vector<bool>& reduced) {
  const Shape shape = node.shape_of(value);
  std::int64_t summands = 1;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (reduced[axis]) summands *= shape[axis];
  }
  const ValueId average = mean(node, value, reduced);
  if (node.shape_of(average).rank() < 2) {
    throw node.error(ErrorCode::unsupported, "a sum over all axes but the batch needs keepdims = 1");
  }
  return multiply_by(node, average, static_cast<float>(summands));
}

// The root of the squares' sum.
void import_reduce_l2(NodeImporter& node) {
  const Reduced reduced = read_activation_axes(node);
  if (reduced.all_stay) {
    throw node.unsupported_attribute("noop_with_empty_axes", "1 without axes is not supported");
  }
  const ValueId x = node.activation(0);
  const auto square = [&](ValueId value) { return node.add(Mul{}, {value, value}); };
  node.set_output(unary_of(node, sum(node, by_element(node, x, square), reduced.axes), UnaryKind::Sqrt));
}

// As many times the mean, or a few parts added up.
void import_reduce_sum(NodeImporter& node) {
  constexpr std::int64_t kFewParts = 8;
  const Reduced reduced = read_activation_axes(node);
  if (set_unreduced(node, reduced)) return;
  const Shape shape = node.shape(0);
  std::int64_t summands = 1;
  std::size_t last_axis = 0;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (!reduced.axes[axis]) continue;
    summands *= shape[axis];
    last_axis = axis;
  }
  const bool few = summands == shape[last_axis] && summands <= kFewParts;
  const ValueId total = few ? reshape_to(node, sum_of_parts(node, node.activation(0), last_axis),
                                         remaining_extents(node, shape, reduced.axes))
                            : sum(node, node.activation(0), reduced.axes);
  node.set_output(total == node.activation(0) ? node.add(Identity{}, {total}) : total);
}

// A pool whose window is the image, or the rows that the reduced axes make.
void import_reduce_max(NodeImporter& node) {
  const Reduced reduced = read_activation_axes(node);
  if (set_unreduced(node, reduced)) return;
  const Shape shape = node.shape(0);
  const bool image = shape.rank() == 4 && !reduced.axes[1];
  const ValueId value = image ? node.activation(0) : as_rows(node, node.activation(0), reduced.axes);
  Pool2d pool;
  pool.kernel = image ? std::array<std::int64_t, 2>{reduced.axes[2] ? shape[2] : 1, reduced.axes[3] ? shape[3] : 1}
                      : std::array<std::int64_t, 2>{node.shape_of(value)[2], 1};
  for (const std::int64_t extent : pool.kernel) {
    if (extent > kMaxWindow) {
      throw node.error(ErrorCode::unsupported, "a maximum over axes " + axes_text(reduced.axes) + " of " +
                                                   to_string(shape) + " is too large, the limit is " +
                                                   std::to_string(kMaxWindow));
    }
  }
  const ValueId most = node.add(pool, {value});
  node.set_output(reshape_to(node, most, remaining_extents(node, shape, reduced.axes)));
}

// Softmax or LogSoftmax over the last of three axes: (N, rows, columns).
template <class SoftmaxOp>
void softmax_of_rows(NodeImporter& node, std::int64_t rows, std::int64_t columns) {
  const Shape shape = node.shape(0);
  ValueId value = node.activation(0);
  if (rows == 1) {
    value = node.add(SoftmaxOp{}, {reshape_to(node, value, std::vector<std::int64_t>{shape[0], columns})});
  } else {
    value = reshape_to(node, value, std::vector<std::int64_t>{shape[0], rows, columns});
    value = node.add(SoftmaxOp{}, {node.add(Transpose{{0, 2, 1}}, {value})});
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

// Before opset 13: the input is flattened to two axes, cut before `axis`, and the second one normalised.
template <class SoftmaxOp>
void import_softmax_flattened(NodeImporter& node) {
  const Shape shape = node.shape(0);
  const std::size_t axis = softmax_axis(node, 1);
  std::int64_t rows = 1;
  for (std::size_t i = 1; i < axis; ++i) rows *= shape[i];
  softmax_of_rows<SoftmaxOp>(node, rows, shape.elements() / rows);
}

template <class SoftmaxOp>
void import_softmax_axis(NodeImporter& node) {
  const Shape shape = node.shape(0);
  const std::size_t axis = softmax_axis(node, -1);
  if (axis + 1 == shape.rank() || shape[axis] == shape.elements()) {
    softmax_of_rows<SoftmaxOp>(node, shape.elements() / shape[axis], shape[axis]);
    return;
  }
  if (axis == 1) {
    node.set_output(node.add(SoftmaxOp{}, {node.activation(0)}));
    return;
  }
  Transpose swap;
  for (std::size_t i = 0; i < shape.rank(); ++i) swap.permutation.push_back(static_cast<std::int64_t>(i));
  std::swap(swap.permutation[1], swap.permutation[axis]);
  const ValueId normalised = node.add(SoftmaxOp{}, {node.add(swap, {node.activation(0)})});
  node.set_output(node.add(swap, {normalised}));
}

// A reduction between constants, in double precision: start, what each element adds, and what becomes of the result of
// `count` elements. Integers, of shapes, are reduced exactly, where `integers` is not null.
struct Reduction {
  double start;
  double (*add)(double, double);
  double (*finish)(double, double count);
  DimValue (*integers)(const NodeImporter&, const DimValue&, const DimValue&);
  bool changes_single;  // one element is not its own reduction
};

constexpr double kInf = std::numeric_limits<double>::infinity();

double plain_sum(double sum, double x) { return sum + x; }
double unchanged(double value, double) { return value; }

constexpr Reduction kReduceL1{0, [](double sum, double x) { return sum + std::abs(x); }, unchanged, nullptr, true};
constexpr Reduction kReduceL2{0, [](double sum, double x) { return sum + x * x; },
                              [](double sum, double) { return std::sqrt(sum); }, nullptr, true};
constexpr Reduction kReduceMax{-kInf, [](double a, double b) { return std::isnan(a) || a > b ? a : b; }, unchanged,
                               onnx_import::maximum, false};
constexpr Reduction kReduceMean{0, plain_sum, [](double sum, double count) { return sum / count; }, nullptr, false};
constexpr Reduction kReduceMin{kInf, [](double a, double b) { return std::isnan(a) || a < b ? a : b; }, unchanged,
                               onnx_import::minimum, false};
constexpr Reduction kReduceProd{1, [](double product, double x) { return product * x; }, unchanged,
                                onnx_import::multiply, false};
constexpr Reduction kReduceSum{0, plain_sum, unchanged, onnx_import::add, false};
constexpr Reduction kReduceSumSquare{0, [](double sum, double x) { return sum + x * x; }, unchanged, nullptr, true};

// For each element of the source, in order, calls sink(position, position in the result).
template <class Sink>
void each_element(const Shape& shape, const std::vector<bool>& reduced, Sink sink) {
  std::vector<std::int64_t> strides(shape.rank(), 0);
  std::int64_t stride = 1;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    if (reduced[axis]) continue;
    strides[axis] = stride;
    stride *= shape[axis];
  }
  std::vector<std::int64_t> index(shape.rank(), 0);
  std::int64_t position = 0;
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    sink(static_cast<std::size_t>(i), static_cast<std::size_t>(position));
    for (std::size_t axis = shape.rank(); axis-- > 0;) {
      position += strides[axis];
      if (++index[axis] < shape[axis]) break;
      position -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

ConstantPtr reduce_floats(const Constant& source, const Shape& result, const Reduced& reduced, const Reduction& op) {
  std::vector<double> values(static_cast<std::size_t>(result.elements()), op.start);
  const std::span<const float> in = source.floats();
  each_element(source.shape(), reduced.axes,
               [&](std::size_t i, std::size_t to) { values[to] = op.add(values[to], double{in[i]}); });
  const double count = static_cast<double>(source.elements()) / static_cast<double>(result.elements());
  std::vector<float> rounded;
  for (const double value : values) rounded.push_back(static_cast<float>(op.finish(value, count)));
  return make_floats(result, rounded);
}

ConstantPtr reduce_integers(NodeImporter& node, const Constant& source, const Shape& result, const Reduced& reduced,
                            const Reduction& op) {
  if (op.integers == nullptr) throw node.unsupported_input(0, "is of integers; only floating-point is supported");
  std::vector<std::optional<DimValue>> values(static_cast<std::size_t>(result.elements()));
  each_element(source.shape(), reduced.axes, [&](std::size_t i, std::size_t to) {
    const DimValue& value = source.integers()[i];
    values[to] = values[to] ? op.integers(node, *values[to], value) : value;
  });
  std::vector<DimValue> found;
  for (const auto& value : values) found.push_back(*value);
  return make_integers(result, std::move(found));
}

template <const Reduction& op>
void fold_reduce(NodeImporter& node) {
  const ConstantPtr source = node.constant(0);
  const Reduced reduced = read_axes(node, source->shape());
  if (reduced.all_stay && !op.changes_single) {
    node.set_output(source);
    return;
  }
  if (reduced.all_stay) {
    throw node.unsupported_attribute("noop_with_empty_axes", "1 without axes is not supported");
  }
  if (source->elements() == 0) throw node.unsupported_input(0, "has no elements");
  const std::vector<std::int64_t> extents = remaining_extents(node, source->shape(), reduced.axes);
  const Shape result{std::span<const std::int64_t>(extents)};
  node.count_work(checked_multiply(source->elements(), static_cast<std::int64_t>(sizeof(float))));
  node.count_elements(checked_multiply(result.elements(), 3), !source->is_float());  // in double precision, and rounded
  node.set_output(source->is_float() ? reduce_floats(*source, result, reduced, op)
                                     : reduce_integers(node, *source, result, reduced, op));
}

}  // namespace

std::vector<bool> reduced_axes(const NodeImporter& node, const Shape& shape) { return read_axes(node, shape).axes; }

Forms reduce_forms() {
  static constexpr OperatorForm kForms[] = {
      {"LogSoftmax", 6, 12, 1, 1, "axis", import_softmax_flattened<LogSoftmax>},
      {"LogSoftmax", 13, kNewestOpset, 1, 1, "axis", import_softmax_axis<LogSoftmax>},
      {"ReduceL1", 6, 17, 1, 1, "axes keepdims", nullptr, fold_reduce<kReduceL1>},
      {"ReduceL1", 18, kNewestOpset, 1, 2, "keepdims noop_with_empty_axes", nullptr, fold_reduce<kReduceL1>},
      {"ReduceL2", 6, 17, 1, 1, "axes keepdims", import_reduce_l2, fold_reduce<kReduceL2>},
      {"ReduceL2", 18, kNewestOpset, 1, 2, "keepdims noop_with_empty_axes", import_reduce_l2, fold_reduce<kReduceL2>},
      {"ReduceMax", 6, 17, 1, 1, "axes keepdims", import_reduce_max, fold_reduce<kReduceMax>},
      {"ReduceMax", 18, kNewestOpset, 1, 2, "keepdims noop_with_empty_axes", import_reduce_max,
       fold_reduce<kReduceMax>},
      {"ReduceMean", 6, 17, 1, 1, "axes keepdims", import_reduce_mean, fold_reduce<kReduceMean>},
      {"ReduceMean", 18, kNewestOpset, 1, 2, "keepdims noop_with_empty_axes", import_reduce_mean,
       fold_reduce<kReduceMean>},
      {"ReduceMin", 6, 17, 1, 1, "axes keepdims", nullptr, fold_reduce<kReduceMin>},
      {"ReduceMin", 18, kNewestOpset, 1, 2, "keepdims noop_with_empty_axes", nullptr, fold_reduce<kReduceMin>},
      {"ReduceProd", 6, 17, 1, 1, "axes keepdims", nullptr, fold_reduce<kReduceProd>},
      {"ReduceProd", 18, kNewestOpset, 1, 2, "keepdims noop_with_empty_axes", nullptr, fold_reduce<kReduceProd>},
      {"ReduceSum", 6, 12, 1, 1, "axes keepdims", import_reduce_sum, fold_reduce<kReduceSum>},
      {"ReduceSum", 13, kNewestOpset, 1, 2, "keepdims noop_with_empty_axes", import_reduce_sum,
       fold_reduce<kReduceSum>},
      {"ReduceSumSquare", 6, 17, 1, 1, "axes keepdims", nullptr, fold_reduce<kReduceSumSquare>},
      {"ReduceSumSquare", 18, kNewestOpset, 1, 2, "keepdims noop_with_empty_axes", nullptr,
       fold_reduce<kReduceSumSquare>},
      {"Softmax", 6, 12, 1, 1, "axis", import_softmax_flattened<Softmax>},
      {"Softmax", 13, kNewestOpset, 1, 1, "axis", import_softmax_axis<Softmax>},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
