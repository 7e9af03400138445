// Weights of split products (docs/numerics.md) on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <cuda_fp16.h>

#include "kernels/common/split_exponent.h"

namespace mobicuda::kernels::inverted_host {

/// A matrix of weights (rows, columns), of which each row is brought to the top of a half's range.
class SplitRows {
 public:
  SplitRows(const float* from, int rows, int columns) : from_(from), rows_(rows), columns_(columns) {
    for (int row = 0; row < rows; ++row) {
      float largest = 0.0F;
      for (int k = 0; k < columns; ++k) largest = std::max(largest, std::abs(from[row * columns + k]));
      exponents_.push_back(split_exponent(largest));
    }
  }

  /// Power of two of a row's factor; 0 behind the last row.
  int exponent(int row) const { return row < rows_ ? exponents_[static_cast<std::size_t>(row)] : 0; }

  struct Element {
    __half upper, lower;
  };

  /// Zeros outside of the matrix.
  Element at(int row, int k) const {
    const bool inside = row < rows_ && k < columns_;
    const float value = inside ? std::ldexp(from_[row * columns_ + k], exponent(row)) : 0.0F;
    const __half upper = __float2half_rn(value);
    return {upper, __float2half_rn(value - __half2float(upper))};
  }

  /// Upper halves of `count` neighbouring k, then the lower ones. Returns what follows.
  __half* put(__half* to, int row, int first, int count) const {
    for (int k = first; k < first + count; ++k, ++to) {
      const Element element = at(row, k);
      to[0] = element.upper;
      to[count] = element.lower;
    }
    return to + count;
  }

 private:
  const float* from_;
  int rows_, columns_;
  std::vector<int> exponents_;
};

}  // namespace mobicuda::kernels::inverted_host
