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

/// The operands of a lane: in registers or, with kShared, in shared memory, which all warps read alike.
template <class S, bool kShared>
class Weights {
  // Vectors of shared memory: stem (group) | projection, as packed | depthwise (group, 9 words and what is left of 3).
  static constexpr int kDepthwiseVectors = 3;  ///< of a group
  static constexpr int kVectors = (1 + kDepthwiseVectors) * S::kGroups + S::kProjectVectors;

 public:
  static constexpr int kSharedBytes = kShared ? kVectors * kVectorBytes : 0;

  /// `shared`: kSharedBytes, which are filled behind a barrier; null where there are none.
  __device__ __forceinline__ Weights(const unsigned char* packed, [[maybe_unused]] unsigned char* shared) {
    const unsigned char* const from = packed + S::kBiasBytes + ptx::lane() * 16;
#pragma unroll
    for (int i = 0; i < S::kGroups; ++i) ptx::load_global_words<4>(from + i * kVectorBytes, stem_[i]);
#pragma unroll
    for (int i = 0; i < S::kDepthwiseVectors; ++i) {
      std::uint32_t words[4];
      ptx::load_global_words<4>(from + (S::kGroups + i) * kVectorBytes, words);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int word = 4 * i + j;
        if (word >= 9 * S::kGroups) break;
        depthwise_[word / 3 % S::kGroups][word / (3 * S::kGroups)][word % 3] = words[j];
      }
    }
#pragma unroll
    for (int i = 0; i < S::kProjectVectors; ++i) {
      ptx::load_global_words<4>(from + (S::kGroups + S::kDepthwiseVectors + i) * kVectorBytes, project_[i]);
    }
    if constexpr (kShared) {
      shared_ = ptx::shared_address(shared) + ptx::lane() * 16;
      if (ptx::warp() == 0) put();
    }
  }

  /// Of group q: two steps of k.
  __device__ __forceinline__ void stem(int q, std::uint32_t (&words)[4]) const {
    if constexpr (kShared) {
      ptx::load_shared_words<4>(vector(q), words);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = stem_[q][i];
    }
  }

  /// Of group q: (ky, kx).
  __device__ __forceinline__ void depthwise(int q, std::uint32_t (&taps)[3][3]) const {
    if constexpr (kShared) {
#pragma unroll
      for (int i = 0; i < kDepthwiseVectors; ++i) {
        std::uint32_t words[4];
        ptx::load_shared_words<4>(vector(kDepthwiseFrom + q * kDepthwiseVectors + i), words);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (4 * i + j < 9) taps[(4 * i + j) / 3][(4 * i + j) % 3] = words[j];
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < 9; ++i) taps[i / 3][i % 3] = depthwise_[q][i / 3][i % 3];
    }
  }

  /// Of step k and fragment f.
  __device__ __forceinline__ void project(int k, int f, std::uint32_t (&words)[2]) const {
    const int first = (k * S::kFragments + f) * 2;
    if constexpr (kShared) {
      ptx::load_shared_words<2>(vector(S::kGroups + first / 4) + first % 4 * 4, words);
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) words[i] = project_[first / 4][first % 4 + i];
    }
  }

 private:
  static constexpr int kDepthwiseFrom = S::kGroups + S::kProjectVectors;

  __device__ __forceinline__ std::uint32_t vector(int i) const {
    return shared_ + static_cast<std::uint32_t>(i * kVectorBytes);
  }

  __device__ __forceinline__ void put() const {
#pragma unroll
    for (int q = 0; q < S::kGroups; ++q) {
      ptx::store_shared(vector(q), stem_[q]);
      const auto& taps = depthwise_[q];
      const int to = kDepthwiseFrom + q * kDepthwiseVectors;
      ptx::store_shared(vector(to), {taps[0][0], taps[0][1], taps[0][2], taps[1][0]});
      ptx::store_shared(vector(to + 1), {taps[1][1], taps[1][2], taps[2][0], taps[2][1]});
      ptx::store_shared(vector(to + 2), taps[2][2]);
    }
#pragma unroll
    for (int i = 0; i < S::kProjectVectors; ++i) ptx::store_shared(vector(S::kGroups + i), project_[i]);
  }

  std::uint32_t stem_[S::kGroups][4];
  std::uint32_t depthwise_[S::kGroups][3][3];
  std::uint32_t project_[S::kProjectVectors][4];
  std::uint32_t shared_ = 0;
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
template <bool kPlain, class S, bool kShared>
__device__ __forceinline__ void compute_stem(const Arguments& a, const Weights<S, kShared>& weights,
                                             const LaneWindow& from, int first, std::uint32_t (&stem)[S::kGroups][2]) {
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
    std::uint32_t words[4];
    weights.stem(q, words);
    float values[4];
    ptx::mma_16x8x16(values, window[0], words[0], words[1], kZeros);
    ptx::mma_16x8x16(values, window[1], words[2], words[3], values);
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
  for (int q = 0; q + 1 < kGroups; q += 2) {
    ptx::stmatrix_x4(to + static_cast<std::uint32_t>(q * 16), {stem[q][0], stem[q][1], stem[q + 1][0], stem[q + 1][1]});
  }
  if constexpr (kGroups % 2 == 1) {
    ptx::stmatrix_x2(to + (kGroups - 1) * 16, {stem[kGroups - 1][0], stem[kGroups - 1][1]});
  }
}

/// sum = before + a row of the window, of 8 channels.
__device__ __forceinline__ void add_row(const std::uint32_t (&taps)[3], const std::uint32_t (&left)[2],
                                        const std::uint32_t (&right)[4], const float (&before)[4], float (&sum)[4]) {
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

/// Behind group q of the depthwise: the step of k that it completes, where it does.
template <class S, bool kShared>
__device__ __forceinline__ void project(const Weights<S, kShared>& weights, int q, const std::uint32_t (&filtered)[4],
                                        float (&result)[S::kFragments][4]) {
  if (q % 2 == 0 && q + 1 < S::kGroups) return;
#pragma unroll
  for (int f = 0; f < S::kFragments; ++f) {
    std::uint32_t words[2];
    weights.project(q / 2, f, words);
    if (q % 2 == 1) {
      ptx::mma_16x8x16(result[f], filtered, words[0], words[1], result[f]);
    } else {
      ptx::mma_16x8x8(result[f], filtered[0], filtered[1], words[0]);
    }
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
