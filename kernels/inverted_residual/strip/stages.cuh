// Register-level stages of the strip inverted residual kernel: a warp makes all channels of two strips of the output on
// its own, 16 hidden channels at a time.
//
// All three convolutions are mma.sync with pixels as rows, 8 of each strip. Row r of class c is column kClasses * r + c
// of the patch, so that the neighbours of a class's pixels are the next class's, or those of row r + 1, which is a
// shuffle; results of one convolution are operands of the next as they are. The depthwise one multiplies by diagonal
// 8 x 8 matrices, two taps an instruction where k is 16.
#pragma once

#include "kernels/inverted_residual/hidden_halves.cuh"
#include "kernels/inverted_residual/strip/patch.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"

namespace mobicuda::kernels::inverted_strip {

/// A lane's words of an operand, as they are packed.
template <int kWords>
__device__ __forceinline__ void load_lane_words(std::uint32_t from, unsigned lane, std::uint32_t* words) {
#pragma unroll
  for (int i = 0; i < kWords / 4; ++i) ptx::load_shared_words<4>(from + lane * 16 + i * kVector, words + 4 * i);
  if constexpr (kWords % 4 == 2) {
    ptx::load_shared_words<2>(from + lane * 8 + kWords / 4 * kVector, words + kWords / 4 * 4);
  }
}

/// A unit's operands of a lane that are needed first. Loaded during the unit before.
template <class S>
struct ExpandWeights {
  std::uint32_t biases[2][4];  ///< of two neighbouring channels of each group, for both strips
  std::uint32_t words[S::kExpands ? S::kExpandWords : 1];

  __device__ __forceinline__ void load(std::uint32_t unit) {
    if constexpr (!S::kExpands) return;
    const unsigned lane = reread_lane();
    load_lane_words<S::kExpandWords>(unit + kExpandAt, lane, words);
#pragma unroll
    for (int g = 0; g < 2; ++g) ptx::load_shared_words<4>(unit + lane % 4 * 16 + g * kRowVector, biases[g]);
  }

  __device__ __forceinline__ std::uint32_t of(int group, int word) const {
    return words[expand_word(S::kCIn, group, word)];
  }
};

/// The others.
template <class S>
struct Weights {
  std::uint32_t biases[2][4];
  std::uint32_t project[S::kResults][2];
  std::uint32_t taps[S::kTapVectors * 4];

  /// `weights` are those of all units.
  __device__ __forceinline__ void load(std::uint32_t weights, std::uint32_t unit) {
    const unsigned lane = reread_lane();
#pragma unroll
    for (int g = 0; g < 2; ++g) ptx::load_shared_words<4>(unit + lane % 4 * 16 + (2 + g) * kRowVector, biases[g]);
    // Of a diagonal matrix a lane has rows lane % 4 * 2 and the next of column lane / 4.
    const std::uint32_t from = lane / 8 == lane % 4 ? unit + S::kTapsAt + lane / 4 * 16 : weights + S::kZerosAt;
#pragma unroll
    for (int i = 0; i < S::kTapVectors; ++i) ptx::load_shared_words<4>(from + i * kDiagonalVector, taps + 4 * i);
    load_lane_words<S::kProjectWords>(unit + S::kProjectAt, lane, project[0]);
  }

  /// Taps kx and the next of row ky.
  __device__ __forceinline__ std::uint32_t first_tap(int group, int ky, int kx) const {
    return taps[tap_word(S::kStride, group, ky, kx, true)];
  }
  __device__ __forceinline__ std::uint32_t second_tap(int group, int ky, int kx) const {
    return taps[tap_word(S::kStride, group, ky, kx + 1, false)];
  }
  __device__ __forceinline__ std::uint32_t lone_tap(int group, int ky, int kx) const {
    return taps[tap_word(S::kStride, group, ky, kx, S::kStride == 1 && kx == 0)];
  }
};

/// A row of x: operands of each class.
template <class S>
struct InputRow {
  static constexpr int kPairs = S::kPairs > 0 ? S::kPairs : 1;
  std::uint32_t pairs[S::kClasses][kPairs][4];  ///< of 16 channels
  std::uint32_t last[S::kClasses][2];           ///< of the last 8 of an odd number of 8

  /// Lane's addresses in its warp's patch; load() adds what is known at compile time.
  struct Addresses {
    std::uint32_t pairs[kPairs];
    std::uint32_t last;
  };

  __device__ __forceinline__ static Addresses aim(std::uint32_t patch) {
    const unsigned lane = reread_lane();
    const int row = static_cast<int>(lane % 8);
    const int half = static_cast<int>(lane / 8 % 2);
    const int second = static_cast<int>(lane / 16);
    Addresses result{};
    const std::uint32_t strip = patch + static_cast<std::uint32_t>(half * S::kStripBytes);
#pragma unroll
    for (int k = 0; k < S::kPairs; ++k) {
      result.pairs[k] = strip + static_cast<std::uint32_t>(S::chunk_offset(row, 2 * k + second));
    }
    if constexpr (S::kOdd) {
      result.last = strip + static_cast<std::uint32_t>(second * S::kClassBytes + S::chunk_offset(row, 2 * S::kPairs));
    }
    return result;
  }

  __device__ __forceinline__ void load(const Addresses& from, int row) {
    const auto at = static_cast<std::uint32_t>(row * S::kRowBytes);
    constexpr std::uint32_t kClassBytes = S::kClassBytes;
#pragma unroll
    for (int c = 0; c < S::kClasses; ++c) {
#pragma unroll
      for (int k = 0; k < S::kPairs; ++k) {
        ptx::ldmatrix_x4(pairs[c][k], from.pairs[k] + at + static_cast<std::uint32_t>(c) * kClassBytes);
      }
    }
    if constexpr (S::kOdd) {
#pragma unroll
      for (int c = 0; c < S::kClasses; c += 2) {
        std::uint32_t words[4];
        ptx::ldmatrix_x4(words, from.last + at + static_cast<std::uint32_t>(c) * kClassBytes);
#pragma unroll
        for (int i = 0; i < 4; ++i) last[c + i / 2][i % 2] = words[i];
      }
    }
  }
};

/// A row of a unit's hidden pixels: operands of each group of 8 channels. Classes 2i and 2i + 1 stand together, for the
/// instructions that take two taps; behind the last ones come those of the next row of the operand.
template <class S>
struct HiddenRow {
  static constexpr int kQuads = S::kClasses / 2 + 1;
  std::uint32_t words[2][kQuads][4];

  template <bool kAllRows>
  __device__ __forceinline__ void expand(const InputRow<S>& input, const ExpandWeights<S>& weights,
                                         const Bounds<S>& bounds, int row) {
    float sum[S::kClasses][2][4];
#pragma unroll
    for (int c = 0; c < S::kClasses; ++c) {
#pragma unroll
      for (int g = 0; g < 2; ++g) {
#pragma unroll
        for (int k = 0; k < S::kPairs; ++k) {
          if (k == 0) {
            ptx::mma_16x8x16(sum[c][g], input.pairs[c][0], weights.of(g, 0), weights.of(g, 1), weights.biases[g]);
          } else {
            ptx::mma_16x8x16(sum[c][g], input.pairs[c][k], weights.of(g, 2 * k), weights.of(g, 2 * k + 1));
          }
        }
      }
    }
#pragma unroll
    for (int c = 0; c < S::kClasses; ++c) {
#pragma unroll
      for (int g = 0; g < 2; ++g) {
        if constexpr (S::kOdd) {
          if constexpr (S::kPairs == 0) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[c][g][i] = __uint_as_float(weights.biases[g][i]);
          }
          ptx::mma_16x8x8(sum[c][g], input.last[c][0], input.last[c][1], weights.of(g, 2 * S::kPairs));
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          words[g][c / 2][c % 2 * 2 + half] = expanded_halves<S::kHardSwish>(
              sum[c][g][2 * half], sum[c][g][2 * half + 1], bounds.template of<kAllRows>(row, c, half));
        }
      }
    }
    append_next();
  }

  /// Without expand: the row of x.
  __device__ __forceinline__ void take(const InputRow<S>& input) {
#pragma unroll
    for (int c = 0; c < S::kClasses; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i / 2][c / 2][c % 2 * 2 + i % 2] = input.pairs[c][0][i];
    }
    append_next();
  }

  /// Adds row ky of the window to a row of outputs; row 0 starts it.
  __device__ __forceinline__ void filter(const Weights<S>& weights, int ky, float (&sum)[2][2][4]) const {
    // Outputs j = 0 and 1 of a lane's row see classes j * kStride to j * kStride + 2.
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int g = 0; g < 2; ++g) {
        const int first = S::kStride == 1 ? j : 0;  // taps first and first + 1 stand together
        if (ky == 0) {
          ptx::mma_16x8x16(sum[j][g], words[g][j], weights.first_tap(g, ky, first), weights.second_tap(g, ky, first),
                           weights.biases[g]);
        } else {
          ptx::mma_16x8x16(sum[j][g], words[g][j], weights.first_tap(g, ky, first), weights.second_tap(g, ky, first));
        }
      }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int g = 0; g < 2; ++g) {
        const int kx = S::kStride == 1 && j == 1 ? 0 : 2;
        const int c = j * S::kStride + kx;
        const int word = S::kStride == 1 && j == 1 ? 2 : c * 2;
        ptx::mma_16x8x8(sum[j][g], words[g][word / 4][word % 4], words[g][word / 4][word % 4 + 1],
                        weights.lone_tap(g, ky, kx));
      }
    }
  }

 private:
  __device__ __forceinline__ void append_next() {
    constexpr int kNext = 3 - S::kStride;  // classes that outputs need of the next row
#pragma unroll
    for (int g = 0; g < 2; ++g) {
#pragma unroll
      for (int i = 0; i < 2 * kNext; ++i) {
        words[g][kQuads - 1][i] = __shfl_down_sync(~0U, words[g][i / 4][i % 4], 4);
      }
    }
  }
};

/// The projection's sums of a lane: two channels of each result, for pixels 2 * (lane / 4) and the next of both strips.
template <class S>
struct Sums {
  float sum[S::kRows][2][S::kResults][4];

  __device__ __forceinline__ void project(const Weights<S>& weights, std::uint32_t hi, int row,
                                          const float (&filtered)[2][2][4]) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      std::uint32_t operand[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        operand[i] =
            filtered_halves<S::kHardSwish>(filtered[j][i / 2][i % 2 * 2], filtered[j][i / 2][i % 2 * 2 + 1], hi);
      }
#pragma unroll
      for (int result = 0; result < S::kResults; ++result) {
        ptx::mma_16x8x16(sum[row][j][result], operand, weights.project[result][0], weights.project[result][1]);
      }
    }
  }

  /// Adds what the 16 channels of `unit` give. `expand` and `pixels` are its first weights and the patch's first row,
  /// and are loaded again for the `next` one.
  template <bool kAllRows>
  __device__ __forceinline__ void add_unit(const Arguments& a, const typename InputRow<S>::Addresses& input,
                                           Bounds<S>& bounds, std::uint32_t all_weights, std::uint32_t unit,
                                           std::uint32_t next, ExpandWeights<S>& expand, InputRow<S>& pixels) {
    if constexpr (!kAllRows) bounds.pin();
    Weights<S> weights;
    float filtered[S::kRows][2][2][4];
#pragma unroll
    for (int row = 0; row < S::kPatchH; ++row) {
      if (row == 0) weights.load(all_weights, unit);
      HiddenRow<S> hidden;
      if constexpr (S::kExpands) {
        hidden.template expand<kAllRows>(pixels, expand, bounds, row);
      } else {
        hidden.take(pixels);
      }
      if (S::kUnits > 1 || row + 1 < S::kPatchH) pixels.load(input, (row + 1) % S::kPatchH);
      __syncwarp();  // loads stay in their rows: the compiler would have all of the patch in registers
      if (row == S::kPatchH - 1) expand.load(next);
#pragma unroll
      for (int ky = 2; ky >= 0; --ky) {
        const int out = (row - ky) / S::kStride;
        if (row < ky || (row - ky) % S::kStride != 0 || out >= S::kRows) continue;
        hidden.filter(weights, ky, filtered[out]);
        if (ky == 2) project(weights, ptx::bits(a.depthwise_hi), out, filtered[out]);
      }
    }
  }
};

}  // namespace mobicuda::kernels::inverted_strip
