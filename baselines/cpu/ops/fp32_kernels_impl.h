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
using Eigen::internal::pcmp_lt;
using Eigen::internal::pdiv;
using Eigen::internal::pexp;
using Eigen::internal::ploadu;
using Eigen::internal::pmadd;
using Eigen::internal::pmax;
using Eigen::internal::pmin;
using Eigen::internal::pmul;
using Eigen::internal::pnegate;
using Eigen::internal::pselect;
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

// 1 / (1 + exp(-x)). pexp() is within 5 units in the last place; beyond 88 it gives the value at its bound, or
// infinity, so that a result below 2^-126 may be any other number below.
inline Packet sigmoid(Packet x) {
  const Packet one = pset1<Packet>(1.0F);
  return pdiv(one, padd(one, pexp(pnegate(x))));
}

template <ActivationKind kKind>
Packet activated(Packet x, const Activation& activation) {
  if constexpr (kKind == ActivationKind::Clip) {
    return clamp(x, pset1<Packet>(activation.lo), pset1<Packet>(activation.hi));
  } else if constexpr (kKind == ActivationKind::Sigmoid) {
    return sigmoid(x);
  } else if constexpr (kKind == ActivationKind::Silu) {
    return pmul(x, sigmoid(x));
  } else if constexpr (kKind == ActivationKind::HardSwish) {
    const Packet shifted = padd(pdiv(x, pset1<Packet>(6.0F)), pset1<Packet>(0.5F));
    return pmul(x, clamp(shifted, pset1<Packet>(0.0F), pset1<Packet>(1.0F)));
  } else {
    static_assert(kKind == ActivationKind::LeakyRelu);
    return pselect(pcmp_lt(x, pset1<Packet>(0.0F)), pmul(pset1<Packet>(activation.alpha), x), x);
  }
}

enum class ElementForm : std::uint8_t { Alone, Sum, Product, ScaleShift };

template <ElementForm kForm>
Packet combined(const float* a, Packet b, Packet c) {
  const Packet x = ploadu<Packet>(a);
  if constexpr (kForm == ElementForm::Sum) return padd(x, b);
  if constexpr (kForm == ElementForm::Product) return pmul(x, b);
  if constexpr (kForm == ElementForm::ScaleShift) return pmadd(x, b, c);
  return x;
}

template <ElementForm kForm, ActivationKind kKind>
void elements_of(const ElementTask& t) {
  constexpr bool kHasB = kForm != ElementForm::Alone;
  constexpr bool kHasC = kForm == ElementForm::ScaleShift;
  Packet b = pset1<Packet>(kHasB ? *t.b : 0.0F);
  Packet c = pset1<Packet>(kHasC ? *t.c : 0.0F);
  std::int64_t i = 0;
  for (; i + kPacket <= t.n; i += kPacket) {
    if (kHasB && !t.repeat) b = ploadu<Packet>(t.b + i);
    if (kHasC && !t.repeat) c = ploadu<Packet>(t.c + i);
    pstoreu(t.y + i, activated<kKind>(combined<kForm>(t.a + i, b, c), t.activation));
  }
  if (i == t.n) return;
  // The last ones by the same instructions.
  float values[3][kPacket] = {};
  for (std::int64_t k = 0; i + k < t.n; ++k) {
    values[0][k] = t.a[i + k];
    if (kHasB && !t.repeat) values[1][k] = t.b[i + k];
    if (kHasC && !t.repeat) values[2][k] = t.c[i + k];
  }
  if (kHasB && !t.repeat) b = ploadu<Packet>(values[1]);
  if (kHasC && !t.repeat) c = ploadu<Packet>(values[2]);
  const Packet y = activated<kKind>(combined<kForm>(values[0], b, c), t.activation);
  pstoreu(values[0], y);
  for (std::int64_t k = 0; i + k < t.n; ++k) t.y[i + k] = values[0][k];
}

template <ElementForm kForm>
void elements_of(const ElementTask& t) {
  switch (t.activation.kind) {
    case ActivationKind::Clip:
      return elements_of<kForm, ActivationKind::Clip>(t);
    case ActivationKind::Sigmoid:
      return elements_of<kForm, ActivationKind::Sigmoid>(t);
    case ActivationKind::Silu:
      return elements_of<kForm, ActivationKind::Silu>(t);
    case ActivationKind::HardSwish:
      return elements_of<kForm, ActivationKind::HardSwish>(t);
    case ActivationKind::LeakyRelu:
      return elements_of<kForm, ActivationKind::LeakyRelu>(t);
    case ActivationKind::Tanh:
    case ActivationKind::Elu:
      break;  // !is_vectorised()
  }
}

void elements(const ElementTask& t) {
  if (t.b == nullptr) return elements_of<ElementForm::Alone>(t);
  if (t.c != nullptr) return elements_of<ElementForm::ScaleShift>(t);
  if (t.multiply) return elements_of<ElementForm::Product>(t);
  elements_of<ElementForm::Sum>(t);
}

}  // namespace
}  // namespace mobicuda::cpu
