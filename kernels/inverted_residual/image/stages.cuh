// Register-level stages of the image inverted residual kernel. sm_90 and newer.
//
// A warp owns two neighbouring rows of a tile, or of two tiles side by side, each row the 16 rows of an mma's left
// operand. Hidden values of pixels that do not exist are clipped to zero and serve as the padding.
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/inverted_residual/hidden_halves.cuh"
#include "kernels/inverted_residual/image/tile.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_image {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// Begins to copy `bytes` of weights to shared memory; `barrier` is told.
__device__ __forceinline__ void copy_weights(std::uint32_t to, const unsigned char* from, int bytes,
                                             std::uint32_t barrier) {
  ptx::mbarrier_arrive_expect(barrier, bytes);
  ptx::copy_bulk(to, from, bytes, barrier);
}

/// Of two channels, where sums start: in both pixels of a lane.
__device__ __forceinline__ void load_biases(std::uint32_t from, std::uint32_t (&starts)[4]) {
  ptx::load_shared_words<2>(from, starts);
  starts[2] = starts[0];
  starts[3] = starts[1];
}

/// The operand of expand: the warp's pixels. Within 32 channels a lane has 8 neighbours, in the order of its loads;
/// within the last 16 it has 4.
template <class S>
class Pixels {
 public:
  __device__ __forceinline__ Pixels(const Columns<S>& columns, const unsigned char* x, std::uint32_t shared)
      : from_(x + columns.first_tile_pixel() * kPixelBytes + columns.first_offset() * kPixelBytes +
              ptx::lane() % 4 * 16),
        second_(columns.second() * kPixelBytes),
        staged_(shared + S::kPixelsAt + threadIdx.x * 16) {
#pragma unroll
    for (int i = 0; i < S::kBounds * 2; ++i) has_[i / 2][i % 2] = columns.has(i / 2, i % 2);
    ptx::pin(from_);
    ptx::pin(second_);
  }

  __device__ __forceinline__ void load() {
    std::uint32_t words[kRowsOfWarp][S::kInBlocks][2][4];
#pragma unroll
    for (int row = 0; row < kRowsOfWarp; ++row) {
#pragma unroll
      for (int b = 0; b < S::kInBlocks; ++b) {
        const unsigned char* const from = from_ + row * S::kConfig.w * kPixelBytes + b * 64;
        load_block(b, has_[row % S::kBounds][0], from, words[row][b][0]);
        load_block(b, has_[row % S::kBounds][1], from + second_, words[row][b][1]);
      }
    }
#pragma unroll
    for (int row = 0; row < kRowsOfWarp; ++row) {
#pragma unroll
      for (int i = 0; i < S::kInSteps * 4; ++i) {
        const int word = i % 8 / 4 * 2 + i % 4 / 2;
        quads_[row][i / 4][i % 4] = words[row][i / 8][i % 2][word];
      }
#pragma unroll
      for (int step = 0; kStaged && step < S::kInSteps; ++step) {
        ptx::store_shared(staged_ + quad(row, step), quads_[row][step]);
      }
    }
  }

  /// 16 channels.
  __device__ __forceinline__ void get(int row, int step, std::uint32_t (&operand)[4]) const {
    if constexpr (kStaged) {
      ptx::load_shared_words<4>(staged_ + quad(row, step), operand);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) operand[i] = quads_[row][step][i];
    }
  }

  /// Two of the lane's channels of a block of 32: what the residual connection adds.
  __device__ __forceinline__ float2 pair(int row, int block, int half, int i) const {
    const int step = block * 2 + i / 2;
    const int word = i % 2 * 2 + half;
    std::uint32_t halves;
    if constexpr (kStaged) {
      halves = ptx::load_shared<std::uint32_t>(staged_ + quad(row, step) + word * 4);
    } else {
      halves = quads_[row][step][word];
    }
    return __half22float2(*reinterpret_cast<const __half2*>(&halves));
  }

 private:
  static constexpr int kPixelBytes = S::kConfig.c_in * 2;
  static constexpr bool kStaged = S::kConfig.staged != 0;

  __device__ __forceinline__ static constexpr int quad(int row, int step) {
    return (row * S::kInSteps + step) * (S::kThreads * 16);
  }

  /// `from` is for blocks of 32.
  __device__ __forceinline__ static void load_block(int block, bool has, const unsigned char* from,
                                                    std::uint32_t (&words)[4]) {
    const int lane = static_cast<int>(ptx::lane()) % 4;
    if (block < S::kFullInBlocks) {
      const bool channels = S::kConfig.c_in % 32 != 24 || block < S::kFullInBlocks - 1 || lane < 3;
      ptx::load_global_words_if<4>(has && channels, from, words);
    } else {
      const bool channels = S::kConfig.c_in % 16 == 0 || lane < 2;
      ptx::load_global_words_if<2>(has && channels, from - lane * 8, words);
    }
  }

  const unsigned char* from_;
  int second_;
  bool has_[S::kBounds][2];
  std::uint32_t staged_;
  std::uint32_t quads_[kRowsOfWarp][S::kInSteps][4];
};

/// Expands a chunk of the warp's rows into a patch.
template <class S>
class Expand {
 public:
  __device__ __forceinline__ Expand(const Arguments& a, const Columns<S>& columns, std::uint32_t shared)
      : weights_(shared + S::kExpandAt + ptx::lane() * 16),
        bias_(shared + S::kExpandAt + S::kInSteps * kFragmentBytes + ptx::lane() % 4 * 8),
        patch_(shared + S::kPatchAt + (ptx::warp() * kRowsOfWarp + 1 + ptx::lane() / 16) * S::kRowBytes +
               S::slot_of(columns.slot()) * 16) {
    ptx::pin(weights_);
    ptx::pin(bias_);
    ptx::pin(patch_);
#pragma unroll
    for (int i = 0; i < S::kBounds * 2; ++i) {
      hi_[i / 2][i % 2] = columns.has(i / 2, i % 2) ? ptx::bits(a.expand_hi) : 0U;
      ptx::pin(hi_[i / 2][i % 2]);
    }
  }

  /// Hidden values of a chunk, of each 8 channels the operand that both rows are: (unit, group, row and pixel).
  using Values = std::uint32_t[S::kUnits][2][4];

  __device__ __forceinline__ void run(const Pixels<S>& x, int stage, Values& values) const {
#pragma unroll
    for (int unit = 0; unit < S::kUnits; unit += kUnitsAtOnce) run_units(x, stage, unit, values);
  }

  __device__ __forceinline__ void store(int buffer, const Values& values) const {
    const std::uint32_t patch = patch_ + buffer * S::kPatchBytes;
#pragma unroll
    for (int unit = 0; unit < S::kUnits; ++unit) {
#pragma unroll
      for (int g = 0; g < 2; ++g) ptx::stmatrix_x4(patch + (unit * 2 + g) * S::kGroupBytes, values[unit][g]);
    }
  }

 private:
  /// What comes from shared memory serves two units.
  static constexpr int kUnitsAtOnce = S::kConfig.staged != 0 && S::kUnits % 2 == 0 ? 2 : 1;

  __device__ __forceinline__ void run_units(const Pixels<S>& x, int stage, int first, Values& values) const {
    const std::uint32_t weights = weights_ + stage * S::kExpandBytes;
    const std::uint32_t bias = bias_ + stage * S::kExpandBytes;
    float sums[kUnitsAtOnce][kRowsOfWarp][2][4];
    std::uint32_t starts[kUnitsAtOnce][2][4];
#pragma unroll
    for (int i = 0; i < kUnitsAtOnce * 2; ++i) {
      load_biases(bias + (first + i / 2) * S::kExpandUnitBytes + i % 2 * kGroupBiasBytes, starts[i / 2][i % 2]);
    }
#pragma unroll
    for (int b = 0; b < S::kInBlocks; ++b) {
      std::uint32_t w[kUnitsAtOnce][2][4];
#pragma unroll
      for (int u = 0; u < kUnitsAtOnce; ++u) load_weights(weights + (first + u) * S::kExpandUnitBytes, b, w[u]);
#pragma unroll
      for (int step = b * 2; step < b * 2 + 2 && step < S::kInSteps; ++step) {
#pragma unroll
        for (int row = 0; row < kRowsOfWarp; ++row) {
          std::uint32_t pixels[4];
          x.get(row, step, pixels);
#pragma unroll
          for (int i = 0; i < kUnitsAtOnce * 2; ++i) {
            float(&sum)[4] = sums[i / 2][row][i % 2];
            const std::uint32_t* const pair = w[i / 2][i % 2] + step % 2 * 2;
            if (step == 0) {
              ptx::mma_16x8x16(sum, pixels, pair[0], pair[1], starts[i / 2][i % 2]);
            } else {
              ptx::mma_16x8x16(sum, pixels, pair[0], pair[1]);
            }
          }
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kUnitsAtOnce; ++u) {
#pragma unroll
      for (int row = 0; row < kRowsOfWarp; ++row) {
        const std::uint32_t(&hi)[2] = hi_[row % S::kBounds];
#pragma unroll
        for (int g = 0; g < 2; ++g) {
          const auto& s = sums[u][row][g];
          values[first + u][g][row * 2] = expanded_halves<S::kHardSwish>(s[0], s[1], hi[0]);
          values[first + u][g][row * 2 + 1] = expanded_halves<S::kHardSwish>(s[2], s[3], hi[1]);
        }
      }
    }
  }

  /// Of a block of 32 input channels: of each group of 8 hidden channels 4 words, or 2 where it is a half.
  __device__ __forceinline__ static void load_weights(std::uint32_t from, int block, std::uint32_t (&w)[2][4]) {
    if (block < S::kFullInBlocks) {
#pragma unroll
      for (int g = 0; g < 2; ++g) {
        ptx::load_shared_words<4>(from + (g * S::kFullInBlocks + block) * kFragmentBytes, w[g]);
      }
    } else {
      std::uint32_t both[4];
      ptx::load_shared_words<4>(from + S::kFullInBlocks * 2 * kFragmentBytes, both);
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i / 2][i % 2] = both[i];
    }
  }

  std::uint32_t weights_, bias_;
  std::uint32_t patch_;
  std::uint32_t hi_[S::kBounds][2];  ///< of the first and second pixels
};

/// Weights of depthwise as the operands of diagonal matrices.
template <class S>
class DepthwiseWeights {
 public:
  __device__ __forceinline__ DepthwiseWeights(const Arguments& a, std::uint32_t shared)
      : taps_(shared + S::kProjectAt + kProjectFragments + ptx::lane() / 4 * 16),
        last_tap_(shared + S::kProjectAt + kProjectFragments + kTapsBytes + ptx::lane() / 4 * 4),
        bias_(shared + S::kProjectAt + kProjectFragments + kTapsBytes + kLastTapBytes + ptx::lane() % 4 * 8),
        hi_(ptx::bits(a.depthwise_hi)) {
    // Of a diagonal matrix a lane has rows lane % 4 * 2 and the next of column lane / 4: a tap in one half of a word.
    const bool on_diagonal = ptx::lane() / 8 == ptx::lane() % 4;
    const bool upper = ptx::lane() / 4 % 2 == 1;
    even_taps_ = !on_diagonal ? 0x4444 : upper ? 0x1044 : 0x4410;
    odd_taps_ = !on_diagonal ? 0x4444 : upper ? 0x3244 : 0x4432;
    ptx::pin(taps_);
    ptx::pin(last_tap_);
    ptx::pin(bias_);
    ptx::pin(even_taps_);
    ptx::pin(odd_taps_);
  }

  /// Of a group of 8 channels; taps in the order of kTaps.
  __device__ __forceinline__ void load(int stage, int unit, int group, std::uint32_t (&bias)[4],
                                       std::uint32_t (&taps)[9]) const {
    const std::uint32_t offset = stage * S::kProjectBytes + unit * S::kProjectUnitBytes + group * kDepthwiseBytes;
    load_biases(bias_ + offset, bias);
    std::uint32_t words[4];
    ptx::load_shared_words<4>(taps_ + offset, words);
    const std::uint32_t last = ptx::load_shared<std::uint32_t>(last_tap_ + offset);
#pragma unroll
    for (int i = 0; i < 8; ++i) taps[i] = __byte_perm(words[i / 2], 0, i % 2 == 0 ? even_taps_ : odd_taps_);
    taps[8] = __byte_perm(last, 0, even_taps_);
  }

  /// Of two sums, as halves.
  __device__ __forceinline__ std::uint32_t filtered(float first, float second) const {
    return filtered_halves<S::kHardSwish>(first, second, hi_);
  }

 private:
  static constexpr int kProjectFragments = S::kStrips / 2 * kFragmentBytes;

  std::uint32_t taps_, last_tap_, bias_;
  std::uint32_t even_taps_, odd_taps_;  ///< of __byte_perm
  std::uint32_t hi_;
};

/// Depthwise convolution of a group of 8 channels as products with diagonal 8x8 matrices, two taps an instruction or
/// one. What a warp loads of the patch serves both of its rows.
template <class S>
class Depthwise {
 public:
  __device__ __forceinline__ Depthwise(const Arguments& a, const Columns<S>& columns, std::uint32_t shared)
      : weights_(a, shared) {
    const std::uint32_t patch =
        shared + S::kPatchAt + ptx::warp() * kRowsOfWarp * S::kRowBytes + S::window_slot(columns.slot()) * 16;
    pairs_ = patch + ptx::lane() / 16 * S::kRowBytes;
    outer_ = patch + 16 + ptx::lane() / 16 * (3 * S::kRowBytes);
    ptx::pin(pairs_);
    ptx::pin(outer_);
  }

  /// `own` are the hidden values of the warp's rows; result: halves of A operands, of each row.
  __device__ __forceinline__ void run(int stage, int buffer, int unit, int group, const std::uint32_t (&own)[4],
                                      std::uint32_t (&result)[kRowsOfWarp][2]) const {
    std::uint32_t bias[4];
    std::uint32_t taps[9];
    weights_.load(stage, unit, group, bias, taps);
    const std::uint32_t offset = buffer * S::kPatchBytes + (unit * 2 + group) * S::kGroupBytes;
    // Of rows 0 to 3 of the patch, of which the warp's are 1 and 2: 0 and 1, 2 and 3, at the left and at the right; 0
    // and 3 between them.
    std::uint32_t pairs[2][2][4];
    std::uint32_t outer[4];
    ptx::ldmatrix_x4(outer, outer_ + offset);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      ptx::ldmatrix_x4(pairs[i / 2][i % 2], pairs_ + offset + i / 2 * (2 * 16) + i % 2 * (2 * S::kRowBytes));
    }
    float sums[kRowsOfWarp][4];
    ptx::mma_16x8x16(sums[0], own, taps[1], taps[2], bias);
    ptx::mma_16x8x16(sums[1], own, taps[0], taps[1], bias);
    ptx::mma_16x8x8(sums[0], outer[0], outer[1], taps[0]);
    ptx::mma_16x8x8(sums[1], outer[2], outer[3], taps[2]);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const auto& upper = pairs[side][0];
      const auto& lower = pairs[side][1];
      const std::uint32_t* const t = taps + 3 + side * 3;
      ptx::mma_16x8x16(sums[0], upper, t[0], t[1]);
      ptx::mma_16x8x16(sums[1], lower, t[1], t[2]);
      ptx::mma_16x8x8(sums[0], lower[0], lower[1], t[2]);
      ptx::mma_16x8x8(sums[1], upper[2], upper[3], t[0]);
    }
#pragma unroll
    for (int row = 0; row < kRowsOfWarp; ++row) {
      result[row][0] = weights_.filtered(sums[row][0], sums[row][1]);
      result[row][1] = weights_.filtered(sums[row][2], sums[row][3]);
    }
  }

 private:
  DepthwiseWeights<S> weights_;
  std::uint32_t pairs_, outer_;
};

/// Of the lane's output channels in a block of 32, of which the last may be a half; zeros where not `present`.
template <class S>
__device__ __forceinline__ void load_project_biases(bool present, const unsigned char* packed, int block,
                                                    std::uint32_t (&bias)[8]) {
  if (block < S::kFullOutBlocks) {
    ptx::load_global_words_if<4>(present, packed + block * 128 + ptx::lane() % 4 * 32, bias);
    ptx::load_global_words_if<4>(present, packed + block * 128 + ptx::lane() % 4 * 32 + 16, bias + 4);
  } else {
    ptx::load_global_words_if<4>(present, packed + block * 128 + ptx::lane() % 4 * 16, bias);
  }
}

/// Whether the lane's output channels in the block exist.
template <class S>
__device__ __forceinline__ bool has_output(int block) {
  constexpr int kChannels = S::kConfig.c_out;
  if (block < S::kFullOutBlocks) return kChannels % 32 != 24 || block < S::kFullOutBlocks - 1 || ptx::lane() % 4 < 3;
  return kChannels % 16 == 0 || ptx::lane() % 4 < 2;
}

/// Stores the lane's output channels of a block. `pixel`: for blocks of 32, behind the pixels before this one.
template <class S>
__device__ __forceinline__ void store_outputs(unsigned char* pixel, int block, const std::uint32_t (&words)[4]) {
  if (!has_output<S>(block)) return;
  if (block < S::kFullOutBlocks) {
    ptx::store_global<4>(pixel + block * 64, words);
  } else {
    const std::uint32_t pair[] = {words[0], words[1]};
    ptx::store_global<2>(pixel + block * 64 - ptx::lane() % 4 * 8, pair);
  }
}

/// The sums that a block of a cluster finishes, by bits of its rank: one kind of pixels (Columns), from 4 blocks on one
/// of a warp's rows, with 8 blocks every other quad of a lane. kPart is the rank without its lowest bit.
template <class S, int kPart>
struct Share {
  static constexpr bool kOneRow = S::kConfig.blocks >= 4;
  static constexpr bool kOneQuad = S::kConfig.blocks == 8;
  static constexpr int kFirstRow = kOneRow ? kPart % 2 : 0;
  static constexpr int kRows = kOneRow ? 1 : kRowsOfWarp;
  static constexpr int kFirstQuad = kOneQuad ? kPart / 2 : 0;
  static constexpr int kQuads = kOneQuad ? 1 : 2;  // of 8 neighbouring channels
  static_assert(kRows * S::kStrips / 2 * kQuads / 2 == (S::kConfig.blocks == 1 ? S::kQuads / 2 : S::kQuads));

  /// Calls function(row, quad) for each, quads numbered through all output channels of a lane.
  template <class Function>
  __device__ __forceinline__ static void for_each(const Function& function) {
#pragma unroll
    for (int row = kFirstRow; row < kFirstRow + kRows; ++row) {
#pragma unroll
      for (int quad = kFirstQuad; quad < S::kStrips / 2; quad += kOneQuad ? 2 : 1) function(row, quad);
    }
  }
};

/// The sums of the projection. A lane has 8 neighbouring ones of 32 output channels, and 4 of the last 16.
template <class S>
class Project {
 public:
  /// Block `rank` 0 of the cluster adds the biases.
  __device__ __forceinline__ Project(const unsigned char* packed, int rank, std::uint32_t shared)
      : weights_(shared + S::kProjectAt + ptx::lane() * 16) {
    ptx::pin(weights_);
#pragma unroll
    for (int b = 0; b < S::kOutBlocks; ++b) {
      std::uint32_t bias[8] = {};
      load_project_biases<S>(rank == 0, packed, b, bias);
#pragma unroll
      for (int row = 0; row < kRowsOfWarp; ++row) {
#pragma unroll
        for (int i = 0; i < 16 && b * 4 + i / 4 < S::kStrips; ++i) {
          sums_[row][b * 4 + i / 4][i % 4] = __uint_as_float(bias[i / 4 * 2 + i % 2]);
        }
      }
    }
  }

  __device__ __forceinline__ void add(int stage, int unit, const std::uint32_t (&filtered)[kRowsOfWarp][4]) {
#pragma unroll
    for (int strip = 0; strip < S::kStrips; strip += 2) {
      std::uint32_t w[4];
      ptx::load_shared_words<4>(
          weights_ + stage * S::kProjectBytes + unit * S::kProjectUnitBytes + strip / 2 * kFragmentBytes, w);
#pragma unroll
      for (int row = 0; row < kRowsOfWarp; ++row) {
        ptx::mma_16x8x16(sums_[row][strip], filtered[row], w[0], w[1]);
        ptx::mma_16x8x16(sums_[row][strip + 1], filtered[row], w[2], w[3]);
      }
    }
  }

  /// To the other blocks of the cluster what they finish, from the one whose share is kPart. A block has the sums in
  /// the order of the others' ranks, its own being subtracted from them bit by bit.
  template <int kPart, int kDistance = 1>
  __device__ __forceinline__ void send(std::uint32_t sums, std::uint32_t barrier, int rank) const {
    if constexpr (kDistance < S::kConfig.blocks) {
      constexpr int kPixel = kDistance % 2 * 2;
      std::uint32_t to = sums + threadIdx.x * 16;
      Share<S, kPart ^ kDistance / 2>::for_each([&](int row, int quad) {
        const auto& s = sums_[row] + quad * 2;
        ptx::send(to, {s[0][kPixel], s[0][kPixel + 1], s[1][kPixel], s[1][kPixel + 1]}, barrier, rank ^ kDistance);
        to += S::kQuadBytes;
      });
      send<kPart, kDistance + 1>(sums + S::kQuads * S::kQuadBytes, barrier, rank);
    }
  }

  /// Adds what the other blocks sent.
  template <int kPart>
  __device__ __forceinline__ void receive(std::uint32_t sums) {
    sums += threadIdx.x * 16;
#pragma unroll
    for (int other = 1; other < S::kConfig.blocks; ++other) {
      Share<S, kPart>::for_each([&](int row, int quad) {
        const float4 v = ptx::load_shared<float4>(sums);
        auto* const s = sums_[row] + quad * 2;
        s[0][0] += v.x;
        s[0][1] += v.y;
        s[1][0] += v.z;
        s[1][1] += v.w;
        sums += S::kQuadBytes;
      });
    }
  }

  /// Adds x, clips, stores what is in kPart of the lane's first (half 0) or second pixel of a row.
  template <int kPart>
  __device__ __forceinline__ void finish(const Arguments& a, const Pixels<S>& x, int row, int half,
                                         unsigned char* y) const {
    using Mine = Share<S, kPart>;
#pragma unroll
    for (int b = 0; b < S::kOutBlocks; ++b) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = Mine::kFirstQuad * 2; i < (Mine::kFirstQuad + Mine::kQuads) * 2 && b * 4 + i < S::kStrips; ++i) {
        float2 sum = {sums_[row][b * 4 + i][half * 2], sums_[row][b * 4 + i][half * 2 + 1]};
        if constexpr (S::kMayAdd) {
          const float2 residual = x.pair(row, b, half, i);
          sum.x += a.residual ? residual.x : 0.0F;
          sum.y += a.residual ? residual.y : 0.0F;
        }
        words[i] = ptx::bits(__floats2half2_rn(apply(a.project_clip, sum.x), apply(a.project_clip, sum.y)));
      }
      if constexpr (Mine::kOneQuad) {
        const std::uint32_t quad[] = {words[Mine::kFirstQuad * 2], words[Mine::kFirstQuad * 2 + 1]};
        if (has_output<S>(b)) ptx::store_global<2>(y + b * 64 + Mine::kFirstQuad * 8, quad);
      } else {
        store_outputs<S>(y, b, words);
      }
    }
  }

 private:
  std::uint32_t weights_;
  float sums_[kRowsOfWarp][S::kStrips][4];
};

#endif

}  // namespace mobicuda::kernels::inverted_image
