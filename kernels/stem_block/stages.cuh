// The stages of the stem block for a strip: a row of 16 pixels of the stem, 14 pixels of output, all by mma.sync with
// the pixels as the instruction's rows.
//   stem: k is the window of 27 and, in what is left of 32, a one that meets the bias in two halves. A window is three
//     times 9 neighbouring halves in shared memory, so that operands are read from there as they lie: word t of a
//     quarter of k; quarters 0 to 2 are 8 of the 9 halves of row ky; the last one has the ninth of each row and the
//     one.
//   depthwise: 8 channels at a time, kx 1 and 2 in the two halves of k, kx 0 by itself; weights are diagonal matrices.
//     The stem's results are operands as they are for kx 0, and go through shared memory for kx 1 and 2.
//   projection: the clipped sums of the depthwise are operands as they are.
#pragma once

#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/stem_block/values.cuh"

namespace mobicuda::kernels::stem_block_detail {

inline constexpr int kInputPixelBytes = 6;

/// The operands of a lane.
template <class S>
struct Weights {
  std::uint32_t stem[S::kGroups][4];  // two steps of k
  std::uint32_t depthwise[3][S::kGroups][3];
  std::uint32_t project[S::kProjectSteps][S::kFragments][2];

  __device__ __forceinline__ explicit Weights(const unsigned char* packed) {
    const unsigned char* const from = packed + S::kBiasBytes + ptx::lane() * 16;
#pragma unroll
    for (int i = 0; i < S::kGroups; ++i) ptx::load_global_words<4>(from + i * kVectorBytes, stem[i]);
#pragma unroll
    for (int i = 0; i < S::kDepthwiseVectors; ++i) {
      std::uint32_t words[4];
      ptx::load_global_words<4>(from + (S::kGroups + i) * kVectorBytes, words);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int word = 4 * i + j;
        if (word >= 9 * S::kGroups) break;
        depthwise[word / (3 * S::kGroups)][word / 3 % S::kGroups][word % 3] = words[j];
      }
    }
#pragma unroll
    for (int i = 0; i < S::kProjectVectors; ++i) {
      std::uint32_t words[4];
      ptx::load_global_words<4>(from + (S::kGroups + S::kDepthwiseVectors + i) * kVectorBytes, words);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int word = 4 * i + j;
        if (word >= S::kProjectSteps * S::kFragments * 2) break;
        project[word / (2 * S::kFragments)][word / 2 % S::kFragments][word % 2] = words[j];
      }
    }
  }
};

/// Biases to shared memory; returns the lane's address of them, valid behind a barrier.
template <class S>
__device__ __forceinline__ std::uint32_t load_biases(const unsigned char* packed, unsigned char* biases) {
  if (threadIdx.x < S::kBiasVectors) {
    std::uint32_t words[4];
    ptx::load_global_words<4>(packed + threadIdx.x * 16, words);
    ptx::store_shared(ptx::shared_address(biases + threadIdx.x * 16), words);
  }
  return ptx::shared_address(biases) + ptx::lane() % 4 * 16;
}

/// The depthwise's of channels 8q to 8q + 7; behind them the projection's.
__device__ __forceinline__ void load_bias(std::uint32_t biases, int q, float (&sums)[4]) {
  const auto four = ptx::load_shared<float4>(biases + static_cast<std::uint32_t>(q * 64));
  sums[0] = four.x;
  sums[1] = four.y;
  sums[2] = four.z;
  sums[3] = four.w;
}

/// Addresses of a lane in the rows of input that a row of the stem sees.
struct LaneWindow {
  std::uint32_t rows[3];
  std::uint32_t ninths;
};

/// Of 16 pixels from pixel `first` on.
template <class S, bool kPlain>
__device__ __forceinline__ void compute_stem(const Arguments& a, const Weights<S>& weights, const LaneWindow& from,
                                             int first, std::uint32_t (&stem)[S::kGroups][2]) {
  constexpr std::uint32_t kOnes = 0x3C003C00;
  const bool one = ptx::lane() % 4 == 3;
  std::uint32_t window[2][4];
#pragma unroll
  for (int lower = 0; lower < 2; ++lower) {
    const auto pixels = static_cast<std::uint32_t>((first + lower * 8) * 2 * kInputPixelBytes);
    window[0][lower] = ptx::load_shared<std::uint32_t>(from.rows[0] + pixels);
    window[0][2 + lower] = ptx::load_shared<std::uint32_t>(from.rows[1] + pixels);
    window[1][lower] = ptx::load_shared<std::uint32_t>(from.rows[2] + pixels);
    window[1][2 + lower] =
        (ptx::load_shared<std::uint32_t>(from.ninths + pixels) & (one ? 0 : 0xFFFFU)) | (one ? kOnes : 0);
  }
#pragma unroll
  for (int q = 0; q < S::kGroups; ++q) {
    constexpr float kZeros[4] = {};
    float values[4];
    ptx::mma_16x8x16(values, window[0], weights.stem[q][0], weights.stem[q][1], kZeros);
    ptx::mma_16x8x16(values, window[1], weights.stem[q][2], weights.stem[q][3], values);
    stem[q][0] = round_and_clip<kPlain>(a.stem_clip, values[0], values[1]);
    stem[q][1] = round_and_clip<kPlain>(a.stem_clip, values[2], values[3]);
  }
}

/// Zeros where the stem's image has no pixel; `column` of the first pixel.
template <int kGroups>
__device__ __forceinline__ void mask_stem(const Arguments& a, bool row_present, int column,
                                          std::uint32_t (&stem)[kGroups][2]) {
#pragma unroll
  for (int lower = 0; lower < 2; ++lower) {
    const int x = column + lower * 8 + static_cast<int>(ptx::lane() / 4);
    const bool present = row_present && x >= 0 && x < a.stem_w;
#pragma unroll
    for (auto& group : stem) group[lower] = present ? group[lower] : 0;
  }
}

/// `to` is the lane's address: row lane % 16, chunk lane / 16.
template <int kGroups>
__device__ __forceinline__ void store_stem(const std::uint32_t (&stem)[kGroups][2], std::uint32_t to) {
#pragma unroll
  for (int q = 0; q < kGroups; q += 2) {
    ptx::stmatrix_x4(to + static_cast<std::uint32_t>(q * 16), {stem[q][0], stem[q][1], stem[q + 1][0], stem[q + 1][1]});
  }
}

/// sum = before + row ky of the window, channels 8q to 8q + 7.
template <class S>
__device__ __forceinline__ void add_row(const Weights<S>& weights, int ky, int q, const std::uint32_t (&left)[2],
                                        const std::uint32_t (&right)[4], const float (&before)[4], float (&sum)[4]) {
  const auto& taps = weights.depthwise[ky][q];
  float part[4];
  ptx::mma_16x8x8(part, left, taps[0], before);
  ptx::mma_16x8x16(sum, right, taps[1], taps[2], part);
}

/// Half of the operand of the projection's step q / 2.
template <bool kPlain>
__device__ __forceinline__ void filter(const Arguments& a, int q, const float (&sums)[4],
                                       std::uint32_t (&filtered)[4]) {
  filtered[q % 2 * 2] = round_and_clip<kPlain>(a.depthwise_clip, sums[0], sums[1]);
  filtered[q % 2 * 2 + 1] = round_and_clip<kPlain>(a.depthwise_clip, sums[2], sums[3]);
}

template <class S>
__device__ __forceinline__ void project(const Weights<S>& weights, int k, const std::uint32_t (&filtered)[4],
                                        float (&result)[S::kFragments][4]) {
#pragma unroll
  for (int f = 0; f < S::kFragments; ++f) {
    ptx::mma_16x8x16(result[f], filtered, weights.project[k][f][0], weights.project[k][f][1], result[f]);
  }
}

/// Channels 4t to 4t + 3 of pixels g and g + 8, and of a third fragment 16 + 2t and the next. `to` is of pixel g;
/// `columns` there are from it on.
template <bool kPlain, int kFragments>
__device__ __forceinline__ void store_result(const Arguments& a, const float (&result)[kFragments][4], int columns,
                                             std::uintptr_t to) {
#pragma unroll
  for (int lower = 0; lower < 2; ++lower) {
    std::uint32_t words[kFragments];
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
      words[f] = ptx::to_half2(result[f][2 * lower], result[f][2 * lower + 1]);
      if constexpr (!kPlain) words[f] = clipped(a.project_clip, words[f]);
    }
    const bool in_strip = lower == 0 || ptx::lane() / 4 + 8 < kStrip;
    if (lower * 8 < columns && in_strip) {
      const std::uintptr_t pixel = to + static_cast<std::uintptr_t>(lower * a.eight_pixels);
      ptx::store_global<2>(reinterpret_cast<void*>(pixel), {words[0], words[1]});
      if constexpr (kFragments == 3) {
        const auto t = static_cast<int>(ptx::lane() % 4);
        const std::uintptr_t third = pixel + static_cast<std::uintptr_t>((16 + 2 * t - 4 * t) * 2);
        if (16 + 2 * t < a.c_out) ptx::store_global<1>(reinterpret_cast<void*>(third), {words[2]});
      }
    }
  }
}

}  // namespace mobicuda::kernels::stem_block_detail
