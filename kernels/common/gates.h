// The host's side of gates.cuh: how lanes share columns, and the packed matrices of a gate.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/common/gates.cuh"
#include "kernels/common/types.h"

namespace mobicuda::kernels::gates {

/// Lanes share a column where that leaves each at least two packets and all columns have threads at the same time.
inline Columns columns_of(int terms, int columns, int threads) {
  constexpr int kMostBits = 3;  // four columns' lanes are those of a warp at most
  constexpr int kBanks = 8;     // of 16 bytes
  Columns found{terms, columns, columns, 0};
  const auto may_double = [&] {
    const int lanes = 2 << found.lane_bits;
    return found.lane_bits < kMostBits && lanes * columns <= threads && 2 * lanes <= terms;
  };
  while (may_double()) ++found.lane_bits;
  if (found.lane_bits > 0) {  // packets of neighbouring lanes an odd multiple of their columns apart, in banks
    const int together = kBanks >> found.lane_bits;
    found.pitch = (ceil_div(columns, together) | 1) * together;
  }
  return found;
}

/// Of shared memory.
inline std::int64_t bytes_of(const Columns& columns) { return std::int64_t{columns.terms} * columns.pitch * 16; }

/// reduce (squeezed, c), expand (c, squeezed); biases may be null.
struct Matrices {
  const float *reduce, *reduce_bias, *expand, *expand_bias;
  int c, squeezed;
};

/// Where a slice of the channels has its part of them: bytes behind its begin, where the columns of reduce are.
struct Places {
  Columns reduce, expand;
  int expand_at, reduce_bias_at, expand_bias_at;
};

/// The part of channels `first` to `first + channels`, into zeros.
template <class T>
void pack_slice(const Matrices& from, const Places& at, int first, int channels, unsigned char* to) {
  constexpr int kN = kWide<T>;
  auto* const reduce = reinterpret_cast<T*>(to);
  auto* const expand = reinterpret_cast<T*>(to + at.expand_at);
  const auto place = [](const Columns& columns, int row, int column) {
    return (row / kN * columns.pitch + column) * kN + row % kN;
  };
  for (int i = 0; i < channels; ++i) {
    const auto c = static_cast<std::size_t>(first + i);
    for (int j = 0; j < from.squeezed; ++j) {
      reduce[place(at.reduce, i, j)] = T(from.reduce[static_cast<std::size_t>(j) * from.c + c]);
      expand[place(at.expand, j, i)] = T(from.expand[c * from.squeezed + j]);
    }
  }
  const auto copy = [&](const float* biases, int count, int bias_at) {
    if (biases != nullptr) std::copy_n(biases, count, reinterpret_cast<float*>(to + bias_at));
  };
  copy(from.reduce_bias, from.squeezed, at.reduce_bias_at);
  copy(from.expand_bias == nullptr ? nullptr : from.expand_bias + first, channels, at.expand_bias_at);
}

}  // namespace mobicuda::kernels::gates
