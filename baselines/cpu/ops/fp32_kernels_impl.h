#pragma once

// The inner loops of fp32_kernels.h over Eigen's packets, whose width follows from the flags of the including file.
// Everything here has internal linkage, and uses no std template: a copy compiled for a newer processor must never
// serve the rest of the library.

#include <Eigen/Core>

#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {
namespace {  // NOLINT(misc-anonymous-namespace-in-header): each source that includes this has instructions of its own

using Packet = Eigen::internal::packet_traits<float>::type;
using Eigen::internal::padd;
using Eigen::internal::ploadu;
using Eigen::internal::pmadd;
using Eigen::internal::pmax;
using Eigen::internal::pmin;
using Eigen::internal::pset1;
using Eigen::internal::pstoreu;

constexpr std::int64_t kPacket = Eigen::internal::packet_traits<float>::size;
constexpr std::int64_t kPanel = 2 * kPacket;

// The value comes first, because pmax and pmin give their first operand when one is NaN.
inline Packet clamp(Packet x, Packet lo, Packet hi) { return pmin(pmax(x, lo), hi); }

inline float clamp(float x, float lo, float hi) {
  const float raised = x < lo ? lo : x;
  return raised > hi ? hi : raised;
}

inline void finish(Packet sum, const GemmTask& task, std::int64_t row, std::int64_t column) {
  sum = padd(sum, ploadu<Packet>(task.bias + column));
  const Packet lo = pset1<Packet>(task.lo);
  const Packet hi = pset1<Packet>(task.hi);
  const std::int64_t at = row * task.y_stride + column;
  if (column + kPacket <= task.n) {
    if (task.residual != nullptr) sum = padd(sum, ploadu<Packet>(task.residual + at));
    pstoreu(task.y + at, clamp(sum, lo, hi));
    return;
  }
  float values[kPacket];
  pstoreu(values, sum);
  for (std::int64_t i = 0; column + i < task.n; ++i) {
    const float residual = task.residual != nullptr ? task.residual[at + i] : 0.0F;
    task.y[at + i] = clamp(values[i] + residual, task.lo, task.hi);
  }
}

// Rows x (Packets * kPacket) outputs, held in registers while k passes.
template <int Rows, int Packets>
void gemm_tile(const GemmTask& task, std::int64_t row, std::int64_t panel) {
  Packet sums[Rows][Packets];
  for (auto& row_sums : sums) {
    for (Packet& sum : row_sums) sum = pset1<Packet>(0.0F);
  }
  const float* x = task.x + row * task.x_stride;
  const float* w = task.packed + panel * kPanel * task.k;
  for (std::int64_t k = 0; k < task.k; ++k, w += kPanel) {
    Packet weights[Packets];
#pragma GCC unroll 2
    for (int p = 0; p < Packets; ++p) weights[p] = ploadu<Packet>(w + p * kPacket);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const Packet value = pset1<Packet>(x[r * task.x_stride + k]);
#pragma GCC unroll 2
      for (int p = 0; p < Packets; ++p) sums[r][p] = pmadd(value, weights[p], sums[r][p]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int p = 0; p < Packets; ++p) finish(sums[r][p], task, row + r, panel * kPanel + p * kPacket);
  }
}

template <int MaxRows, int Packets>
void gemm_rows(const GemmTask& task, std::int64_t row, std::int64_t rows, std::int64_t panel) {
  if constexpr (MaxRows > 1) {
    if (rows < MaxRows) return gemm_rows<MaxRows - 1, Packets>(task, row, rows, panel);
  }
  gemm_tile<MaxRows, Packets>(task, row, panel);
}

template <int MaxRows>
void gemm(const GemmTask& task) {
  if (task.rows == 0) return;
  // Tiles of nearly equal height: 49 rows are 7 x 7, not 6 x 8 and one row that leaves the pipeline idle.
  const std::int64_t tiles = (task.rows + MaxRows - 1) / MaxRows;
  for (std::int64_t panel = task.first_panel; panel < task.last_panel; ++panel) {
    const bool narrow = task.n - panel * kPanel <= kPacket;
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t first = tile * task.rows / tiles;
      const std::int64_t rows = (tile + 1) * task.rows / tiles - first;
      if (narrow) {
        gemm_rows<MaxRows, 1>(task, first, rows, panel);
      } else {
        gemm_rows<MaxRows, 2>(task, first, rows, panel);
      }
    }
  }
}

// The taps of a window along one axis that lie within the image.
struct Taps {
  std::int64_t first, last, start;
};

inline Taps taps_at(std::int64_t o, std::int64_t kernel, std::int64_t stride, std::int64_t dilation, std::int64_t pad,
                    std::int64_t extent) {
  Taps taps{0, kernel, o * stride - pad};
  while (taps.first < kernel && taps.start + taps.first * dilation < 0) ++taps.first;
  while (taps.last > taps.first && taps.start + (taps.last - 1) * dilation >= extent) --taps.last;
  return taps;
}

template <int Packets>
void depthwise_packets(const DepthwiseTask& t, const Taps& rows, const Taps& columns, std::int64_t ox, std::int64_t c) {
  Packet sums[Packets];
#pragma GCC unroll 4
  for (int p = 0; p < Packets; ++p) sums[p] = ploadu<Packet>(t.bias + c + p * kPacket);
  for (std::int64_t ky = rows.first; ky < rows.last; ++ky) {
    const float* line = t.x + (rows.start + ky * t.dilation_h) * t.w * t.c + c;
    for (std::int64_t kx = columns.first; kx < columns.last; ++kx) {
      const float* pixel = line + (columns.start + kx * t.dilation_w) * t.c;
      const float* weight = t.packed + (ky * t.kernel_w + kx) * t.c + c;
#pragma GCC unroll 4
      for (int p = 0; p < Packets; ++p) {
        sums[p] = pmadd(ploadu<Packet>(pixel + p * kPacket), ploadu<Packet>(weight + p * kPacket), sums[p]);
      }
    }
  }
  const std::int64_t at = ox * t.c + c;
  for (int p = 0; p < Packets; ++p) {
    if (t.residual != nullptr) sums[p] = padd(sums[p], ploadu<Packet>(t.residual + at + p * kPacket));
    pstoreu(t.y + at + p * kPacket, clamp(sums[p], pset1<Packet>(t.lo), pset1<Packet>(t.hi)));
  }
}

inline void depthwise_channel(const DepthwiseTask& t, const Taps& rows, const Taps& columns, std::int64_t ox,
                              std::int64_t c) {
  float sum = t.bias[c];
  for (std::int64_t ky = rows.first; ky < rows.last; ++ky) {
    const std::int64_t iy = rows.start + ky * t.dilation_h;
    for (std::int64_t kx = columns.first; kx < columns.last; ++kx) {
      const std::int64_t ix = columns.start + kx * t.dilation_w;
      sum += t.x[(iy * t.w + ix) * t.c + c] * t.packed[(ky * t.kernel_w + kx) * t.c + c];
    }
  }
  const std::int64_t at = ox * t.c + c;
  if (t.residual != nullptr) sum += t.residual[at];
  t.y[at] = clamp(sum, t.lo, t.hi);
}

void depthwise_conv(const DepthwiseTask& t) {
  const Taps rows = taps_at(t.oy, t.kernel_h, t.stride_h, t.dilation_h, t.pad_top, t.h);
  for (std::int64_t ox = 0; ox < t.out_w; ++ox) {
    const Taps columns = taps_at(ox, t.kernel_w, t.stride_w, t.dilation_w, t.pad_left, t.w);
    std::int64_t c = 0;
    for (; c + 4 * kPacket <= t.c; c += 4 * kPacket) depthwise_packets<4>(t, rows, columns, ox, c);
    for (; c + kPacket <= t.c; c += kPacket) depthwise_packets<1>(t, rows, columns, ox, c);
    for (; c < t.c; ++c) depthwise_channel(t, rows, columns, ox, c);
  }
}

}  // namespace
}  // namespace mobicuda::cpu
