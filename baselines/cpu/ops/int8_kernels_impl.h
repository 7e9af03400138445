#pragma once

// The inner loops of int8_kernels.h over vectors whose width follows from the flags of the including file. Everything
// here has internal linkage, and uses no std template: a copy compiled for a newer processor must never serve the rest
// of the library.

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "baselines/cpu/ops/int8_kernels.h"

namespace mobicuda::cpu {
namespace {  // NOLINT(misc-anonymous-namespace-in-header): each source that includes this has instructions of its own

// Weights of a damaged plan file may have sums that leave int32, which wrap round with every instruction set.
inline std::uint32_t wrapping(std::int32_t value) { return static_cast<std::uint32_t>(value); }

// Sums of int32, one for each output. multiply_add: each with the products of a pair of x and its pair of w.
#if defined(__AVX512BW__)
struct Sums {
  static constexpr std::int64_t kLanes = 16;
  __m512i lanes;
  static Sums load(const void* from) { return {_mm512_loadu_si512(from)}; }
  void store(void* to) const { _mm512_storeu_si512(to, lanes); }
  static Sums pair(std::int32_t both) { return {_mm512_set1_epi32(both)}; }
  void multiply_add(const Sums& x, const Sums& w) {
    lanes = _mm512_add_epi32(lanes, _mm512_madd_epi16(x.lanes, w.lanes));
  }
};
#elif defined(__AVX2__)
struct Sums {
  static constexpr std::int64_t kLanes = 8;
  __m256i lanes;
  static Sums load(const void* from) { return {_mm256_loadu_si256(static_cast<const __m256i*>(from))}; }
  void store(void* to) const { _mm256_storeu_si256(static_cast<__m256i*>(to), lanes); }
  static Sums pair(std::int32_t both) { return {_mm256_set1_epi32(both)}; }
  void multiply_add(const Sums& x, const Sums& w) {
    lanes = _mm256_add_epi32(lanes, _mm256_madd_epi16(x.lanes, w.lanes));
  }
};
#elif defined(__SSE2__)
struct Sums {
  static constexpr std::int64_t kLanes = 4;
  __m128i lanes;
  static Sums load(const void* from) { return {_mm_loadu_si128(static_cast<const __m128i*>(from))}; }
  void store(void* to) const { _mm_storeu_si128(static_cast<__m128i*>(to), lanes); }
  static Sums pair(std::int32_t both) { return {_mm_set1_epi32(both)}; }
  void multiply_add(const Sums& x, const Sums& w) { lanes = _mm_add_epi32(lanes, _mm_madd_epi16(x.lanes, w.lanes)); }
};
#else
struct Sums {
  static constexpr std::int64_t kLanes = 4;
  std::int32_t lanes[kLanes];
  static Sums load(const void* from) {
    Sums sums;
    __builtin_memcpy(sums.lanes, from, sizeof(sums.lanes));
    return sums;
  }
  void store(void* to) const { __builtin_memcpy(to, lanes, sizeof(lanes)); }
  static Sums pair(std::int32_t both) { return {{both, both, both, both}}; }
  void multiply_add(const Sums& x, const Sums& w) {
    for (std::int64_t i = 0; i < kLanes; ++i) {
      std::int16_t of_x[2];
      std::int16_t of_w[2];
      __builtin_memcpy(of_x, &x.lanes[i], sizeof(of_x));
      __builtin_memcpy(of_w, &w.lanes[i], sizeof(of_w));
      const auto product = [&](int side) { return wrapping(of_x[side]) * wrapping(of_w[side]); };
      lanes[i] = static_cast<std::int32_t>(wrapping(lanes[i]) + product(0) + product(1));
    }
  }
};
#endif

constexpr std::int64_t kVectors = 2;  // side by side in a panel
constexpr std::int64_t kInt8Panel = kVectors * Sums::kLanes;

void write_sums(const std::int32_t* sums, const float* multiplier, std::int64_t n, const Int8Output& y) {
  if (y.integers == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) y.reals[i] = static_cast<float>(sums[i]) * multiplier[i];
    return;
  }
  const IntegerRounding rounding = y.rounding;
  std::uint8_t* const to = y.integers;
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<std::uint8_t>(requantized(sums[i], multiplier[i], rounding));
}

// kRows rows of x and one panel.
template <int kRows>
void product_tile(const Int8ProductTask& task, std::int64_t row, std::int64_t panel) {
  Sums sums[kRows][kVectors];
  const std::int32_t* const bias = task.bias + panel * kInt8Panel;
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) sums[i][v] = Sums::load(bias + v * Sums::kLanes);
  }
  const std::int16_t* w = task.packed + panel * task.k * kInt8Panel;
  const std::int16_t* x = task.x + row * task.k;
  for (std::int64_t k = 0; k < task.k; k += 2, w += 2 * kInt8Panel) {
    Sums of_w[kVectors];
    for (int v = 0; v < kVectors; ++v) of_w[v] = Sums::load(w + v * 2 * Sums::kLanes);
    for (int i = 0; i < kRows; ++i) {
      std::int32_t both = 0;
      __builtin_memcpy(&both, x + i * task.k + k, sizeof(both));
      const Sums of_x = Sums::pair(both);
      for (int v = 0; v < kVectors; ++v) sums[i][v].multiply_add(of_x, of_w[v]);
    }
  }
  const std::int64_t first = panel * kInt8Panel;
  const std::int64_t count = task.n - first < kInt8Panel ? task.n - first : kInt8Panel;
  for (int i = 0; i < kRows; ++i) {
    std::int32_t line[kInt8Panel];
    for (int v = 0; v < kVectors; ++v) sums[i][v].store(line + v * Sums::kLanes);
    write_sums(line, task.multiplier + first, count, task.y.at((row + i) * task.y_stride + first));
  }
}

void int8_products(const Int8ProductTask& task) {
  constexpr int kTile = 6;
  for (std::int64_t panel = task.first_panel; panel < task.last_panel; ++panel) {
    std::int64_t row = 0;
    for (; row + kTile <= task.rows; row += kTile) product_tile<kTile>(task, row, panel);
    for (; row + 2 <= task.rows; row += 2) product_tile<2>(task, row, panel);
    if (row < task.rows) product_tile<1>(task, row, panel);
  }
}

template <class X>
void depthwise_row(const Int8DepthwiseTask& t, const X* image) {
  const std::int32_t zero_point = t.x_zero_point;
  for (std::int64_t ox = 0; ox < t.out_w; ++ox) {
    std::int32_t* const sums = t.sums;
    for (std::int64_t c = 0; c < t.c; ++c) sums[c] = t.bias[c];
    for (std::int64_t ky = 0; ky < t.kernel_h; ++ky) {
      const std::int64_t iy = t.oy * t.stride_h + ky * t.dilation_h - t.pad_top;
      if (iy < 0 || iy >= t.h) continue;
      for (std::int64_t kx = 0; kx < t.kernel_w; ++kx) {
        const std::int64_t ix = ox * t.stride_w + kx * t.dilation_w - t.pad_left;
        if (ix < 0 || ix >= t.w) continue;
        const X* const x = image + (iy * t.w + ix) * t.c;
        const std::int32_t* const w = t.packed + (ky * t.kernel_w + kx) * t.c;
        for (std::int64_t c = 0; c < t.c; ++c) {
          sums[c] = static_cast<std::int32_t>(wrapping(sums[c]) + wrapping(x[c] - zero_point) * wrapping(w[c]));
        }
      }
    }
    write_sums(sums, t.multiplier, t.c, t.y.at(ox * t.c));
  }
}

void int8_depthwise(const Int8DepthwiseTask& task) {
  if (task.is_signed) return depthwise_row(task, reinterpret_cast<const std::int8_t*>(task.x));
  depthwise_row(task, task.x);
}

constexpr Int8Kernels kInt8Kernels{kInt8Panel, &int8_products, &int8_depthwise};

}  // namespace
}  // namespace mobicuda::cpu
