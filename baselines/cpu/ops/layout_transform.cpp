#include "baselines/cpu/ops/layout_transform.h"

#include <algorithm>
#include <numeric>

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {
namespace {

constexpr std::int64_t kColours = 3;  // the channels of most networks' input

// Planes of one colour each to pixels. x and y are no part of each other: the loop may load several pixels at once.
template <class T>
void join_colours(std::int64_t pixels, std::int64_t plane, const T* __restrict x, T* __restrict y) {
  for (std::int64_t i = 0; i < pixels; ++i) {
    y[kColours * i] = x[i];
    y[kColours * i + 1] = x[i + plane];
    y[kColours * i + 2] = x[i + 2 * plane];
  }
}

// y[i][j] = x[i + j * x_stride] by squares, whose lines stay in the L1 cache until all of them has been used.
template <class T>
void turn(std::int64_t rows, std::int64_t columns, std::int64_t x_stride, const T* __restrict x, T* __restrict y) {
  constexpr std::int64_t kSquare = 16;
  for (std::int64_t j = 0; j < columns; j += kSquare) {
    const std::int64_t j_end = std::min(j + kSquare, columns);
    for (std::int64_t i = 0; i < rows; i += kSquare) {
      const std::int64_t i_end = std::min(i + kSquare, rows);
      for (std::int64_t row = i; row < i_end; ++row) {
        for (std::int64_t column = j; column < j_end; ++column) y[row * columns + column] = x[row + column * x_stride];
      }
    }
  }
}

// The two last axes.
template <class T>
T* copy_pixels(const CopyPlan::Axis& axis, const CopyPlan::Axis& last, const T* x, T* y) {
  const std::int64_t extent = last.extent;
  if (extent == kColours && axis.x_stride == 1) {
    join_colours(axis.extent, last.x_stride, x, y);
    return y + kColours * axis.extent;
  }
  if (axis.x_stride == 1 && last.x_stride != 1) {
    turn(axis.extent, extent, last.x_stride, x, y);
    return y + axis.extent * extent;
  }
  for (std::int64_t i = 0; i < axis.extent; ++i, y += extent) {
    const T* const from = x + i * axis.x_stride;
    if (last.x_stride == 1) {
      std::copy_n(from, extent, y);
    } else {
      for (std::int64_t j = 0; j < extent; ++j) y[j] = from[j * last.x_stride];
    }
  }
  return y;
}

template <class T>
T* copy_axes(const CopyPlan& plan, std::size_t depth, const T* x, T* y) {
  const CopyPlan::Axis& axis = plan.axes[depth];
  if (depth + 1 == plan.axes.size()) {
    for (std::int64_t i = 0; i < axis.extent; ++i) y[i] = x[i * axis.x_stride];
    return y + axis.extent;
  }
  if (depth + 2 == plan.axes.size()) return copy_pixels(axis, plan.axes.back(), x, y);
  for (std::int64_t i = 0; i < axis.extent; ++i) y = copy_axes(plan, depth + 1, x + i * axis.x_stride, y);
  return y;
}

std::int64_t memory_offset(const TensorDesc& desc, const Strides& strides, std::int64_t logical_index) {
  std::int64_t offset = 0;
  for (std::size_t axis = desc.shape.rank(); axis-- > 0;) {
    offset += logical_index % desc.shape[axis] * strides[axis];
    logical_index /= desc.shape[axis];
  }
  return offset;
}

}  // namespace

CopyPlan plan_transpose(const Transpose& op, const TensorDesc& x_desc, const TensorDesc& y_desc) {
  const Strides xs = strides_of(x_desc);
  CopyPlan plan;
  for (const std::size_t axis : memory_order(y_desc)) {
    const CopyPlan::Axis next{y_desc.shape[axis], xs[static_cast<std::size_t>(op.permutation[axis])]};
    if (next.extent == 1 && !plan.axes.empty()) continue;
    // Axes that lie within one another in x too are one.
    if (plan.axes.size() > 1 && plan.axes.back().x_stride == next.extent * next.x_stride) {
      plan.axes.back() = {plan.axes.back().extent * next.extent, next.x_stride};
    } else {
      plan.axes.push_back(next);
    }
  }
  while (plan.axes.size() < 3) plan.axes.insert(plan.axes.begin() + 1, {1, 0});
  return plan;
}

CopyPlan plan_layout_transform(const TensorDesc& x_desc, const TensorDesc& y_desc) {
  Transpose same;
  same.permutation = {0, 1, 2, 3};
  return plan_transpose(same, x_desc, y_desc);
}

template <class T>
void copy_permuted(const CopyPlan& plan, const T* x, T* y, Range rows) {
  const auto [extent, step] = plan.axes[1];
  const std::int64_t row_elements =
      std::accumulate(plan.axes.begin() + 2, plan.axes.end(), std::int64_t{1},
                      [](std::int64_t product, const CopyPlan::Axis& axis) { return product * axis.extent; });
  const auto from = [&](std::int64_t row) { return x + row / extent * plan.axes[0].x_stride + row % extent * step; };
  if (plan.axes.size() > 3) {
    for (std::int64_t row = rows.first; row < rows.last; ++row) copy_axes(plan, 2, from(row), y + row * row_elements);
    return;
  }
  for (std::int64_t row = rows.first, count = 0; row < rows.last; row += count) {  // those of one image
    count = std::min(extent - row % extent, rows.last - row);
    copy_pixels({count, step}, plan.axes[2], from(row), y + row * row_elements);
  }
}

bool in_logical_order(const TensorDesc& desc) {
  if (desc.shape.rank() != 4 || desc.layout == Layout::NCHW) return true;
  return desc.shape[1] == 1 || (desc.shape[2] == 1 && desc.shape[3] == 1);
}

template <class T>
void reshape(const TensorDesc& x_desc, const TensorDesc& y_desc, const T* x, T* y, Range pictures) {
  const std::int64_t elements = x_desc.shape.elements();
  if (in_logical_order(x_desc) && in_logical_order(y_desc)) {
    std::copy(x + pictures.first * elements, x + pictures.last * elements, y + pictures.first * elements);
    return;
  }
  const Strides xs = strides_of(x_desc);
  const Strides ys = strides_of(y_desc);
  for (std::int64_t n = pictures.first; n < pictures.last; ++n) {
    for (std::int64_t i = 0; i < elements; ++i) {
      y[n * elements + memory_offset(y_desc, ys, i)] = x[n * elements + memory_offset(x_desc, xs, i)];
    }
  }
}

namespace {

// The pixel of 0..extent that stands at position i of the padded axis; may lie outside where the mode is Constant.
std::int64_t padded_source(PadMode mode, std::int64_t i, std::int64_t extent) {
  if (mode == PadMode::Edge) return std::clamp<std::int64_t>(i, 0, extent - 1);
  if (mode == PadMode::Constant) return i;
  const std::int64_t mirrored = i < 0 ? -i : i;
  return mirrored < extent ? mirrored : 2 * (extent - 1) - mirrored;
}

}  // namespace

template <class T>
void pad(const Pad& op, const TensorDesc& x_desc, const TensorDesc& y_desc, const T* x, T* y, Range rows) {
  const Strides xs = strides_of(x_desc);
  const Strides ys = strides_of(y_desc);
  const std::int64_t out_h = y_desc.shape[2];
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t n = row / out_h;
    const std::int64_t iy = padded_source(op.mode, row % out_h - op.pads.top, x_desc.shape[2]);
    for (std::int64_t ox = 0; ox < y_desc.shape[3]; ++ox) {
      const std::int64_t ix = padded_source(op.mode, ox - op.pads.left, x_desc.shape[3]);
      const bool inside = iy >= 0 && iy < x_desc.shape[2] && ix >= 0 && ix < x_desc.shape[3];
      const T* from = inside ? x + n * xs[0] + iy * xs[2] + ix * xs[3] : nullptr;
      T* to = y + n * ys[0] + row % out_h * ys[2] + ox * ys[3];
      for (std::int64_t c = 0; c < y_desc.shape[1]; ++c) {
        to[c * ys[1]] = inside ? from[c * xs[1]] : static_cast<T>(op.value);
      }
    }
  }
}

template void copy_permuted(const CopyPlan&, const float*, float*, Range);
template void copy_permuted(const CopyPlan&, const double*, double*, Range);
template void copy_permuted(const CopyPlan&, const std::int8_t*, std::int8_t*, Range);
template void copy_permuted(const CopyPlan&, const std::uint8_t*, std::uint8_t*, Range);
template void reshape(const TensorDesc&, const TensorDesc&, const float*, float*, Range);
template void reshape(const TensorDesc&, const TensorDesc&, const double*, double*, Range);
template void reshape(const TensorDesc&, const TensorDesc&, const std::int8_t*, std::int8_t*, Range);
template void reshape(const TensorDesc&, const TensorDesc&, const std::uint8_t*, std::uint8_t*, Range);
template void pad(const Pad&, const TensorDesc&, const TensorDesc&, const float*, float*, Range);
template void pad(const Pad&, const TensorDesc&, const TensorDesc&, const double*, double*, Range);
template void pad(const Pad&, const TensorDesc&, const TensorDesc&, const std::int8_t*, std::int8_t*, Range);
template void pad(const Pad&, const TensorDesc&, const TensorDesc&, const std::uint8_t*, std::uint8_t*, Range);

namespace {

LoweredNode copy_in_logical_order(const NodeView& view) {
  const TensorDesc& x_desc = view.desc(0);
  return move_rows(view, "layout_transform", 1, x_desc.shape.elements(),
                   [x_desc, y_desc = view.output_desc()](auto at, Range pictures) {
                     reshape(x_desc, y_desc, at.input(0), at.output(), pictures);
                   });
}

LoweredNode copy_by(const CopyPlan& plan, const NodeView& view) {
  const std::int64_t rows = plan.axes[1].extent;
  return move_rows(view, "layout_transform", rows, view.output_desc().shape.elements() / rows,
                   [plan](auto at, Range range) { copy_permuted(plan, at.input(0), at.output(), range); });
}

}  // namespace

LoweredNode lower(const Reshape&, const NodeView& view) { return copy_in_logical_order(view); }
LoweredNode lower(const Identity&, const NodeView& view) { return copy_in_logical_order(view); }

LoweredNode lower(const Transpose& op, const NodeView& view) {
  return copy_by(plan_transpose(op, view.desc(0), view.output_desc()), view);
}

LoweredNode lower(const LayoutTransform&, const NodeView& view) {
  return copy_by(plan_layout_transform(view.desc(0), view.output_desc()), view);
}

LoweredNode lower(const Pad& op, const NodeView& view) {
  const Shape& y = view.output_desc().shape;
  return move_rows(view, "layout_transform", y[2], y[3] * y[1],
                   [op, x_desc = view.desc(Pad::kInput), y_desc = view.output_desc()](auto at, Range rows) {
                     pad(op, x_desc, y_desc, at.input(Pad::kInput), at.output(), rows);
                   });
}

}  // namespace mobicuda::cpu
