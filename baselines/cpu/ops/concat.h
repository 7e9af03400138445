#pragma once

#include <cstdint>
#include <vector>

#include <mobicuda/graph.h>

#include "baselines/cpu/ops/strides.h"

namespace mobicuda::cpu {

/// The joined axis seen from memory: y is rows of `y_row` elements, each of them one chunk from every input in turn.
struct ConcatPlan {
  std::vector<std::int64_t> chunks;  ///< elements, by input
  std::vector<std::int64_t> firsts;  ///< where they begin in a row, by input
  std::int64_t y_row = 0;            ///< their sum
  std::int64_t rows = 1;             ///< in one image
};

/// All inputs in the memory order of y.
ConcatPlan plan_concat(const Concat& op, const TensorDesc& y_desc, const std::vector<TensorDesc>& x_descs);

/// Copies the chunks of one input, for the rows in `rows`, counted through all images.
template <class T>
void concat(const ConcatPlan& plan, std::size_t input, const T* x, T* y, Range rows);

/// The opposite: of each row of x, `chunk` elements from `first`.
struct SlicePlan {
  std::int64_t x_row = 0;
  std::int64_t first = 0;
  std::int64_t chunk = 0;
  std::int64_t rows = 1;  ///< in one image
};

SlicePlan plan_slice(const Slice& op, const TensorDesc& x_desc);

/// Copies the rows in `rows`, counted through all images.
template <class T>
void slice(const SlicePlan& plan, const T* x, T* y, Range rows);

}  // namespace mobicuda::cpu
