#pragma once

#include <cstdint>
#include <vector>

#include <mobicuda/graph.h>

#include "baselines/cpu/ops/strides.h"

namespace mobicuda::cpu {

/// A copy between two dense tensors that may differ in the order of their axes: y is written front to back, and each
/// of its axes, outermost first, has its own distance in x. Axis 0 is the batch; there are three or more.
struct CopyPlan {
  struct Axis {
    std::int64_t extent = 1;  ///< 1 on axis 0: the caller counts images
    std::int64_t x_stride = 0;
  };
  std::vector<Axis> axes;
};

/// y[n, ...] with y's axis i = x's axis permutation[i].
CopyPlan plan_transpose(const Transpose& op, const TensorDesc& x_desc, const TensorDesc& y_desc);
CopyPlan plan_layout_transform(const TensorDesc& x_desc, const TensorDesc& y_desc);

/// Copies the rows of y in `rows`; a row is one step of axis 1 of the plan, counted through all images.
template <class T>
void copy_permuted(const CopyPlan& plan, const T* x, T* y, Range rows);

/// Whether the elements lie in memory in the order of their logical (NCHW) index.
bool in_logical_order(const TensorDesc& desc);

/// y takes x's elements in logical order, for the images in `pictures`.
template <class T>
void reshape(const TensorDesc& x_desc, const TensorDesc& y_desc, const T* x, T* y, Range pictures);

/// Surrounds H and W as op.mode says, for the output rows n * out_h + oy in `rows`, in any layout.
template <class T>
void pad(const Pad& op, const TensorDesc& x_desc, const TensorDesc& y_desc, const T* x, T* y, Range rows);

}  // namespace mobicuda::cpu
