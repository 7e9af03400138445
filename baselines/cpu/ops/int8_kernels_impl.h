#pragma once

// The inner loops of int8_kernels.h over vectors whose width follows from the flags of the including file. Everything
// here has internal linkage, and uses no std template: a copy compiled for a newer processor must never serve the rest
// of the library.

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "baselines/cpu/ops/int8_kernels.h"

namespace mobicuda::cpu {
namespace {  // NOLINT(misc-anonymous-namespace-in-header): each source that includes this has instructions of its own

// Weights of a damaged plan file may have sums that leave int32, which wrap round with every instruction set.
inline std::uint32_t wrapping(std::int32_t value) { return static_cast<std::uint32_t>(value); }

// Sums of int32, one for each output. multiply_add: each with the products of a group of x and its group of w.
// store_integers: requantized() of each.
#if defined(__AVX512VNNI__)
constexpr Int8Operands kOperands = Int8Operands::Quads;
#else
constexpr Int8Operands kOperands = Int8Operands::Pairs;
#endif

#if defined(__AVX2__)
// requantized() of eight sums, as int32.
inline __m256i requantized_lanes(__m256i sums, const float* multiplier, const IntegerRounding& rounding) {
  __m256 reals = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_loadu_ps(multiplier));
  reals = _mm256_max_ps(reals, _mm256_set1_ps(rounding.low));  // NaN becomes the lowest: the second operand
  reals = _mm256_min_ps(reals, _mm256_set1_ps(rounding.high));
  return _mm256_add_epi32(_mm256_cvtps_epi32(reals), _mm256_set1_epi32(rounding.zero_point));
}
#endif

#if defined(__AVX512BW__)
struct Sums {
  static constexpr std::int64_t kLanes = 16;
  __m512i lanes;
  static Sums load(const void* from) { return {_mm512_loadu_si512(from)}; }
  void store(void* to) const { _mm512_storeu_si512(to, lanes); }
  static Sums group(std::int32_t operands) { return {_mm512_set1_epi32(operands)}; }
  void multiply_add(const Sums& x, const Sums& w) {
#if defined(__AVX512VNNI__)
    lanes = _mm512_dpbusd_epi32(lanes, x.lanes, w.lanes);
#else
    lanes = _mm512_add_epi32(lanes, _mm512_madd_epi16(x.lanes, w.lanes));
#endif
  }
  void store_integers(const float* multiplier, const IntegerRounding& rounding, std::uint8_t* to) const {
    __m512 reals = _mm512_mul_ps(_mm512_cvtepi32_ps(lanes), _mm512_loadu_ps(multiplier));
    reals = _mm512_max_ps(reals, _mm512_set1_ps(rounding.low));  // NaN becomes the lowest: the second operand
    reals = _mm512_min_ps(reals, _mm512_set1_ps(rounding.high));
    const __m512i whole = _mm512_add_epi32(_mm512_cvtps_epi32(reals), _mm512_set1_epi32(rounding.zero_point));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(whole));
  }
};
#elif defined(__AVX2__)
struct Sums {
  static constexpr std::int64_t kLanes = 8;
  __m256i lanes;
  static Sums load(const void* from) { return {_mm256_loadu_si256(static_cast<const __m256i*>(from))}; }
  void store(void* to) const { _mm256_storeu_si256(static_cast<__m256i*>(to), lanes); }
  static Sums group(std::int32_t operands) { return {_mm256_set1_epi32(operands)}; }
  void multiply_add(const Sums& x, const Sums& w) {
    lanes = _mm256_add_epi32(lanes, _mm256_madd_epi16(x.lanes, w.lanes));
  }
  void store_integers(const float* multiplier, const IntegerRounding& rounding, std::uint8_t* to) const {
    const __m256i whole = requantized_lanes(lanes, multiplier, rounding);
    const __m256i bytes = _mm256_and_si256(whole, _mm256_set1_epi32(0xFF));
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
  }
};
#elif defined(__SSE2__)
struct Sums {
  static constexpr std::int64_t kLanes = 4;
  __m128i lanes;
  static Sums load(const void* from) { return {_mm_loadu_si128(static_cast<const __m128i*>(from))}; }
  void store(void* to) const { _mm_storeu_si128(static_cast<__m128i*>(to), lanes); }
  static Sums group(std::int32_t operands) { return {_mm_set1_epi32(operands)}; }
  void multiply_add(const Sums& x, const Sums& w) { lanes = _mm_add_epi32(lanes, _mm_madd_epi16(x.lanes, w.lanes)); }
  void store_integers(const float* multiplier, const IntegerRounding& rounding, std::uint8_t* to) const {
    __m128 reals = _mm_mul_ps(_mm_cvtepi32_ps(lanes), _mm_loadu_ps(multiplier));
    reals = _mm_max_ps(reals, _mm_set1_ps(rounding.low));  // NaN becomes the lowest: the second operand
    reals = _mm_min_ps(reals, _mm_set1_ps(rounding.high));
    const __m128i whole = _mm_add_epi32(_mm_cvtps_epi32(reals), _mm_set1_epi32(rounding.zero_point));
    const __m128i bytes = _mm_and_si128(whole, _mm_set1_epi32(0xFF));
    const __m128i words = _mm_packs_epi32(bytes, bytes);
    const std::int32_t four = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    __builtin_memcpy(to, &four, sizeof(four));
  }
};
#elif defined(__ARM_NEON)
struct Sums {
  static constexpr std::int64_t kLanes = 4;
  int32x4_t lanes;
  static Sums load(const void* from) { return {vld1q_s32(static_cast<const std::int32_t*>(from))}; }
  void store(void* to) const { vst1q_s32(static_cast<std::int32_t*>(to), lanes); }
  static Sums group(std::int32_t operands) { return {vdupq_n_s32(operands)}; }
  void multiply_add(const Sums& x, const Sums& w) {
    const int16x8_t of_x = vreinterpretq_s16_s32(x.lanes);
    const int16x8_t of_w = vreinterpretq_s16_s32(w.lanes);
    const int32x4_t first = vmull_s16(vget_low_s16(of_x), vget_low_s16(of_w));
    lanes = vaddq_s32(lanes, vpaddq_s32(first, vmull_high_s16(of_x, of_w)));
  }
  void store_integers(const float* multiplier, const IntegerRounding& rounding, std::uint8_t* to) const {
    const float32x4_t scaled = vmulq_f32(vcvtq_f32_s32(lanes), vld1q_f32(multiplier));
    const float32x4_t low = vdupq_n_f32(rounding.low);
    const float32x4_t raised = vbslq_f32(vcgtq_f32(scaled, low), scaled, low);  // NaN becomes the lowest
    const int32x4_t whole = vcvtnq_s32_f32(vminq_f32(raised, vdupq_n_f32(rounding.high)));
    const int16x4_t words = vmovn_s32(vaddq_s32(whole, vdupq_n_s32(rounding.zero_point)));
    const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    __builtin_memcpy(to, &bytes, kLanes);
  }
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
  static Sums group(std::int32_t operands) { return {{operands, operands, operands, operands}}; }
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
  void store_integers(const float* multiplier, const IntegerRounding& rounding, std::uint8_t* to) const {
    for (std::int64_t i = 0; i < kLanes; ++i) {
      to[i] = static_cast<std::uint8_t>(requantized(lanes[i], multiplier[i], rounding));
    }
  }
};
#endif

constexpr bool kQuads = kOperands == Int8Operands::Quads;
constexpr std::int64_t kGroup = kQuads ? 4 : 2;  // operands of a sum in an instruction
constexpr std::int64_t kGroupBytes = 4;
constexpr std::int64_t kOperandBytes = kGroupBytes / kGroup;
constexpr std::int64_t kVectors = 2;  // side by side in a panel
constexpr std::int64_t kInt8Panel = kVectors * Sums::kLanes;

// Some of a vector's sums, or real numbers.
void write_some(const Sums& sums, const float* multiplier, std::int64_t count, const Int8Output& y) {
  std::int32_t line[Sums::kLanes];
  sums.store(line);
  for (std::int64_t i = 0; i < count; ++i) {
    if (y.integers == nullptr) {
      y.reals[i] = static_cast<float>(line[i]) * multiplier[i];
    } else {
      y.integers[i] = static_cast<std::uint8_t>(requantized(line[i], multiplier[i], y.rounding));
    }
  }
}

// ---- products

// kRows rows of x and one panel.
template <int kRows>
void product_tile(const Int8ProductTask& task, std::int64_t row, std::int64_t panel) {
  Sums sums[kRows][kVectors];
  const std::int32_t* const bias = task.bias + panel * kInt8Panel;
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) sums[i][v] = Sums::load(bias + v * Sums::kLanes);
  }
  const std::int64_t bytes = task.k * kOperandBytes;
  const std::int64_t stride = task.x_stride * kOperandBytes;
  const char* w = static_cast<const char*>(task.packed) + panel * bytes * kInt8Panel;
  const char* const x = static_cast<const char*>(task.x) + row * stride;
  for (std::int64_t at = 0; at < bytes; at += kGroupBytes, w += kGroupBytes * kInt8Panel) {
    Sums of_w[kVectors];
    for (int v = 0; v < kVectors; ++v) of_w[v] = Sums::load(w + v * kGroupBytes * Sums::kLanes);
    for (int i = 0; i < kRows; ++i) {
      std::int32_t operands = 0;
      __builtin_memcpy(&operands, x + i * stride + at, sizeof(operands));
      const Sums of_x = Sums::group(operands);
      for (int v = 0; v < kVectors; ++v) sums[i][v].multiply_add(of_x, of_w[v]);
    }
  }
  const std::int64_t first = panel * kInt8Panel;
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t output = first + v * Sums::kLanes;
    const std::int64_t count = task.n - output;
    if (count <= 0) break;
    const float* const multiplier = task.multiplier + output;
    for (int i = 0; i < kRows; ++i) {
      const Int8Output y = task.y.at((row + i) * task.y_stride + output);
      if (count >= Sums::kLanes && y.integers != nullptr) {
        sums[i][v].store_integers(multiplier, y.rounding, y.integers);
      } else {
        write_some(sums[i][v], multiplier, count < Sums::kLanes ? count : Sums::kLanes, y);
      }
    }
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

// ---- depthwise convolutions

#if defined(__AVX512VNNI__)
// For a block of channels and some output pixels, the columns under them are gathered as groups of rows, which lie side
// by side as the operands of an instruction do; then each output is a sum over its columns.

// Registers of 256 bits: on most processors as fast as twice as wide ones here, with half as many channels filled up.
struct ChannelSums {
  static constexpr std::int64_t kLanes = 8;
  __m256i lanes;
  static ChannelSums load(const void* from) { return {_mm256_loadu_si256(static_cast<const __m256i*>(from))}; }
  void store(void* to) const { _mm256_storeu_si256(static_cast<__m256i*>(to), lanes); }
  void multiply_add(const ChannelSums& x, const ChannelSums& w) {
    lanes = _mm256_dpbusd_epi32(lanes, x.lanes, w.lanes);
  }
};

// A block of channels: registers that a group of rows of a column takes.
constexpr int kRegisters = 4;
constexpr std::int64_t kBlock = kRegisters * ChannelSums::kLanes;
constexpr std::int64_t kBlockBytes = kBlock * kGroupBytes;

// A group of rows of `count` channels in one column, each of which may be a pixel outside the image.
struct ColumnRows {
  const std::uint8_t* rows[kGroup];
  std::int32_t zero_point;
  std::int64_t count;
};

template <class X>
[[gnu::always_inline]] inline void interleave(const ColumnRows& column, char* to) {
  const __mmask32 channels = column.count >= kBlock ? ~__mmask32{0} : (__mmask32{1} << column.count) - 1;
  __m256i rows[kGroup];
  for (int i = 0; i < kGroup; ++i) {
    rows[i] = _mm256_maskz_loadu_epi8(channels, column.rows[i]);
    if (static_cast<X>(-1) < static_cast<X>(0))
      rows[i] = _mm256_xor_si256(rows[i], _mm256_set1_epi8(-128));  // adds 128
  }
  const __m256i low_first = _mm256_unpacklo_epi8(rows[0], rows[1]);
  const __m256i high_first = _mm256_unpackhi_epi8(rows[0], rows[1]);
  const __m256i low_last = _mm256_unpacklo_epi8(rows[2], rows[3]);
  const __m256i high_last = _mm256_unpackhi_epi8(rows[2], rows[3]);
  __m256i* const groups = reinterpret_cast<__m256i*>(to);
  _mm256_storeu_si256(groups, _mm256_unpacklo_epi16(low_first, low_last));
  _mm256_storeu_si256(groups + 1, _mm256_unpackhi_epi16(low_first, low_last));
  _mm256_storeu_si256(groups + 2, _mm256_unpacklo_epi16(high_first, high_last));
  _mm256_storeu_si256(groups + 3, _mm256_unpackhi_epi16(high_first, high_last));
}

// Writes the channels of a block, which are by int8_channel_order() in `sums`.
void write_block(const ChannelSums (&sums)[kRegisters], const float* multiplier, std::int64_t count,
                 const Int8Output& y) {
  if (y.integers != nullptr) {
    const __mmask32 channels = count >= kBlock ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
    __m256i whole[kRegisters];
    for (int i = 0; i < kRegisters; ++i) {
      whole[i] = requantized_lanes(sums[i].lanes, multiplier + i * ChannelSums::kLanes, y.rounding);
    }
    const __m256i first = _mm256_packs_epi32(whole[0], whole[1]);  // lines of 16 channels, in their order
    const __m256i last = _mm256_packs_epi32(whole[2], whole[3]);
    const bool is_signed = y.rounding.low + static_cast<float>(y.rounding.zero_point) < 0;
    const __m256i bytes = is_signed ? _mm256_packs_epi16(first, last) : _mm256_packus_epi16(first, last);
    _mm256_mask_storeu_epi8(y.integers, channels, bytes);
    return;
  }
  std::int32_t line[kBlock];
  for (int i = 0; i < kRegisters; ++i) sums[i].store(line + i * ChannelSums::kLanes);
  for (std::int64_t c = 0; c < (count < kBlock ? count : kBlock); ++c) {
    const std::int64_t at = c % 16 / 4 * ChannelSums::kLanes + c / 16 * 4 + c % 4;
    y.reals[c] = static_cast<float>(line[at]) * multiplier[at];
  }
}

struct DepthwiseBlock {
  const Int8DepthwiseTask& task;
  Int8Columns columns;
  std::int64_t groups;  // of rows
  std::int64_t first;   // channel
  std::int64_t count;   // channels
  const char* weights;
  const std::int32_t* bias;
  const float* multiplier;
};

// The columns under `pixels` output pixels from ox on.
template <class X>
void gather_columns(const DepthwiseBlock& block, std::int64_t ox, std::int64_t pixels) {
  const Int8DepthwiseTask& t = block.task;
  std::uint8_t outside[kBlock];
  __builtin_memset(outside, static_cast<std::uint8_t>(t.x_zero_point), sizeof(outside));
  const std::int64_t count = (pixels - 1) * block.columns.of_pixel + (t.kernel_w - 1) * block.columns.of_tap + 1;
  const std::int64_t left = ox * t.stride_w - t.pad_left;
  for (std::int64_t group = 0; group < block.groups; ++group) {
    const std::uint8_t* rows[kGroup];  // of the column 0
    std::int64_t steps[kGroup];        // to the next column
    for (std::int64_t i = 0; i < kGroup; ++i) {
      const std::int64_t ky = group * kGroup + i;
      const std::int64_t iy = t.oy * t.stride_h + ky * t.dilation_h - t.pad_top;
      const bool inside = ky < t.kernel_h && iy >= 0 && iy < t.h;
      rows[i] = inside ? t.x + iy * t.w * t.c + block.first : outside;
      steps[i] = inside ? t.c : 0;
    }
    char* to = reinterpret_cast<char*>(t.scratch) + group * kBlockBytes;
    for (std::int64_t column = 0; column < count; ++column, to += block.groups * kBlockBytes) {
      const std::int64_t ix = block.columns.are_shared
                                  ? left + column
                                  : left + column / t.kernel_w * t.stride_w + column % t.kernel_w * t.dilation_w;
      const bool inside = ix >= 0 && ix < t.w;
      ColumnRows pixel{{}, t.x_zero_point, block.count};
      for (int i = 0; i < kGroup; ++i) pixel.rows[i] = inside ? rows[i] + ix * steps[i] : outside;
      interleave<X>(pixel, to);
    }
  }
}

// kPixels outputs side by side, the first of them pixel `pixel` of those that columns were gathered for.
template <int kPixels>
void depthwise_pixels(const DepthwiseBlock& block, std::int64_t pixel, const Int8Output& y) {
  const Int8DepthwiseTask& t = block.task;
  ChannelSums sums[kPixels][kRegisters];
  for (int p = 0; p < kPixels; ++p) {
    for (int i = 0; i < kRegisters; ++i) sums[p][i] = ChannelSums::load(block.bias + i * ChannelSums::kLanes);
  }
  const std::int64_t column_bytes = block.groups * kBlockBytes;
  const std::int64_t of_pixel = block.columns.of_pixel * column_bytes;
  const std::int64_t of_tap = block.columns.of_tap * column_bytes;
  const char* w = block.weights;
  const char* x = reinterpret_cast<const char*>(t.scratch) + pixel * of_pixel;
  for (std::int64_t kx = 0; kx < t.kernel_w; ++kx, x += of_tap) {
    for (std::int64_t group = 0; group < block.groups; ++group, w += kBlockBytes) {
      for (int i = 0; i < kRegisters; ++i) {
        const std::int64_t at = i * ChannelSums::kLanes * kGroupBytes;
        const ChannelSums of_w = ChannelSums::load(w + at);
        for (int p = 0; p < kPixels; ++p) {
          sums[p][i].multiply_add(ChannelSums::load(x + p * of_pixel + group * kBlockBytes + at), of_w);
        }
      }
    }
  }
  for (int p = 0; p < kPixels; ++p) write_block(sums[p], block.multiplier, block.count, y.at(p * t.c));
}

template <class X>
void depthwise_row(const Int8DepthwiseTask& t) {
  constexpr int kPixels = 4;
  const std::int64_t groups = (t.kernel_h + kGroup - 1) / kGroup;
  const Int8Columns columns = int8_columns(t);
  for (std::int64_t first = 0; first < t.c; first += kBlock) {
    const char* const weights = static_cast<const char*>(t.packed) + first / kBlock * t.kernel_w * groups * kBlockBytes;
    const DepthwiseBlock block{t, columns, groups, first, t.c - first, weights, t.bias + first, t.multiplier + first};
    for (std::int64_t ox = 0; ox < t.out_w; ox += columns.pixels) {
      const std::int64_t pixels = t.out_w - ox < columns.pixels ? t.out_w - ox : columns.pixels;
      gather_columns<X>(block, ox, pixels);
      const Int8Output y = t.y.at(ox * t.c + first);
      std::int64_t pixel = 0;
      for (; pixel + kPixels <= pixels; pixel += kPixels) depthwise_pixels<kPixels>(block, pixel, y.at(pixel * t.c));
      for (; pixel < pixels; ++pixel) depthwise_pixels<1>(block, pixel, y.at(pixel * t.c));
    }
  }
}

#else
// Tap by tap, the sums of a pixel in scratch memory: columns of pairs take up to twice as long with AVX2.
constexpr std::int64_t kBlock = 1;

void write_sums(const std::int32_t* sums, const float* multiplier, std::int64_t n, const Int8Output& y) {
  if (y.integers == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) y.reals[i] = static_cast<float>(sums[i]) * multiplier[i];
    return;
  }
  std::int64_t i = 0;
  for (; i + Sums::kLanes <= n; i += Sums::kLanes) {
    Sums::load(sums + i).store_integers(multiplier + i, y.rounding, y.integers + i);
  }
  for (; i < n; ++i) y.integers[i] = static_cast<std::uint8_t>(requantized(sums[i], multiplier[i], y.rounding));
}

template <class X>
void depthwise_row(const Int8DepthwiseTask& t) {
  const X* const image = reinterpret_cast<const X*>(t.x);
  const std::int32_t zero_point = t.x_zero_point;
  std::int32_t* const sums = reinterpret_cast<std::int32_t*>(t.scratch);
  for (std::int64_t ox = 0; ox < t.out_w; ++ox) {
    for (std::int64_t c = 0; c < t.c; ++c) sums[c] = t.bias[c];
    for (std::int64_t ky = 0; ky < t.kernel_h; ++ky) {
      const std::int64_t iy = t.oy * t.stride_h + ky * t.dilation_h - t.pad_top;
      if (iy < 0 || iy >= t.h) continue;
      for (std::int64_t kx = 0; kx < t.kernel_w; ++kx) {
        const std::int64_t ix = ox * t.stride_w + kx * t.dilation_w - t.pad_left;
        if (ix < 0 || ix >= t.w) continue;
        const X* const x = image + (iy * t.w + ix) * t.c;
        const std::int32_t* const w = static_cast<const std::int32_t*>(t.packed) + (ky * t.kernel_w + kx) * t.c;
        for (std::int64_t c = 0; c < t.c; ++c) {
          sums[c] = static_cast<std::int32_t>(wrapping(sums[c]) + wrapping(x[c] - zero_point) * wrapping(w[c]));
        }
      }
    }
    write_sums(sums, t.multiplier, t.c, t.y.at(ox * t.c));
  }
}
#endif

void int8_depthwise(const Int8DepthwiseTask& task) {
  if (task.is_signed) return depthwise_row<std::int8_t>(task);
  depthwise_row<std::uint8_t>(task);
}

constexpr Int8Kernels int8_kernels_named(const char* name) {
  return {name, kOperands, kInt8Panel, kBlock, &int8_products, &int8_depthwise};
}

}  // namespace
}  // namespace mobicuda::cpu
