#pragma once

#include <cstdint>

#include <mobicuda/graph.h>

#include "baselines/cpu/ops/strides.h"

namespace mobicuda::cpu {

// T is double (the definitions) or float. Max ignores padding; average divides by the window's pixels inside the image,
// or inside the padded image when count_include_pad. A dilated window may meet padding only: its maximum is -infinity,
// its average 0.

/// The output rows n * out_h + oy in `rows`, in any layout.
template <class T>
void pool2d(const Pool2d& op, const TensorDesc& x_desc, const TensorDesc& y_desc, const T* x, T* y, Range rows);

/// y[n, c] = mean over h and w, for the channels n * C + c in `channels`, in any layout.
template <class T>
void global_average_pool(const TensorDesc& x_desc, const T* x, T* y, Range channels);

}  // namespace mobicuda::cpu
