// Register-level stages of the small inverted residual kernel. sm_80 and newer.
//
// A warp owns a slice of the hidden channels, and with kParts > 1 shares it with other warps that own other pixels. All
// three convolutions are mma.sync; the hidden pixels of a slice pass through shared memory once.
#pragma once

#include "kernels/inverted_residual/hidden_halves.cuh"
#include "kernels/inverted_residual/small/shape.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_small {

/// A warp's part of the weights, in registers as the instructions want them.
template <class S>
struct Weights {
  std::uint32_t expand[S::kUnits][S::kStepsK][4];  ///< A operands of 16 channels: weights stand on the left
  std::uint32_t project[S::kUnits][S::kStrips + S::kStrips % 2][2];
  std::uint32_t taps[S::kUnits][2][8];  ///< B operands of diagonal matrices
  std::uint32_t last_tap[S::kUnits][2];
  std::uint32_t expand_bias[S::kUnits][4];        ///< of channel lane / 4 of the groups, each twice
  std::uint32_t depthwise_bias[S::kUnits][2][4];  ///< of channels lane % 4 * 2 and the next, twice

  __device__ __forceinline__ void load(const unsigned char* packed, unsigned slice) {
    constexpr UnitLayout kLayout = S::kLayout;
    // Of a diagonal matrix a lane has rows lane % 4 * 2 and the next of column lane / 4.
    const bool on_diagonal = ptx::lane() / 8 == ptx::lane() % 4;
    packed += S::kUnitsOffset + slice * (S::kUnits * kLayout.bytes);
#pragma unroll
    for (int u = 0; u < S::kUnits; ++u, packed += kLayout.bytes) {
#pragma unroll
      for (int k = 0; k < S::kCIn / 16; ++k) {
        ptx::load_global_words<4>(packed + k * 512 + ptx::lane() * 16, expand[u][k]);
      }
      if constexpr (S::kCIn % 16 == 8) {
        constexpr int kLast = S::kStepsK - 1;
        ptx::load_global_words<2>(packed + kLast * 512 + ptx::lane() * 16, expand[u][kLast]);
      }
      ptx::load_global_words<4>(packed + kLayout.expand_bias + ptx::lane() / 4 * 16, expand_bias[u]);
#pragma unroll
      for (int g = 0; g < 2; ++g) {
        const unsigned char* const from = packed + kLayout.taps + (g * 8 + ptx::lane() / 4) * 32;
        ptx::load_global_words_if<4>(on_diagonal, from, taps[u][g]);
        ptx::load_global_words_if<4>(on_diagonal, from + 16, taps[u][g] + 4);
        ptx::load_global_words<4>(packed + kLayout.depthwise_bias + (g * 4 + ptx::lane() % 4) * 16,
                                  depthwise_bias[u][g]);
      }
      ptx::load_global_words_if<2>(on_diagonal, packed + kLayout.last_tap + ptx::lane() / 4 * 8, last_tap[u]);
#pragma unroll
      for (int strip = 0; strip < S::kStrips; strip += 2) {
        ptx::load_global_words<4>(packed + kLayout.project + strip / 2 * 512 + ptx::lane() * 16, project[u][strip]);
      }
    }
  }
};

/// A tile of the output.
struct Place {
  std::uint32_t n;
  int oy, ox;
};

template <class S>
__device__ __forceinline__ Place locate(const Arguments& a, std::uint32_t tile) {
  std::uint32_t column;
  std::uint32_t row;
  Place place;
  place.n = a.tiles_y.divide(a.tiles_x.divide(tile, column), row);
  place.oy = static_cast<int>(row) * S::kTileH;
  place.ox = static_cast<int>(column) * S::kTileW;
  return place;
}

/// Where the pixels of a tile's patch lie in x, and the upper bounds of their hidden pixels: zero outside the image,
/// where x is taken from some zeros. In shared memory, as all warps want the same.
template <class S>
class Table {
 public:
  /// `shared` has kTableBytes, 8-byte aligned. All threads of the block take part; then they synchronize.
  __device__ __forceinline__ static void fill(const Arguments& a, const Place& place, const unsigned char* x,
                                              const unsigned char* zeros, std::uint32_t shared) {
    x += static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.h * a.w) * (S::kCIn * 2);
#pragma unroll
    for (unsigned first = 0; first < S::kTableSlots; first += S::kThreads) {
      const unsigned slot = first + threadIdx.x;
      if (S::kTableSlots % S::kThreads != 0 && slot >= S::kTableSlots) break;
      const int row = place.oy * S::kStride - a.pad_top + static_cast<int>(S::row_of(slot));
      const int column = place.ox * S::kStride - a.pad_left + static_cast<int>(S::column_of(slot));
      const bool inside = S::row_of(slot) < S::kPatchH && S::column_of(slot) < S::kPatchW &&
                          static_cast<unsigned>(row) < static_cast<unsigned>(a.h) &&
                          static_cast<unsigned>(column) < static_cast<unsigned>(a.w);
      ptx::store_shared(shared + slot * 8, inside ? x + (row * a.w + column) * (S::kCIn * 2) : zeros);
      ptx::store_shared_half(shared + S::kTableSlots * 8 + slot * 2, inside ? ptx::bits(a.expand_hi) : 0U);
    }
  }
};

/// The pixels of x that a lane has in the B operands of its warp's tiles: slot lane / 4 of each.
template <class S>
class Patch {
 public:
  /// Finds the pixels.
  __device__ __forceinline__ void aim(std::uint32_t table, unsigned part) {
    const std::uint32_t pixels = table + (part * 8 + ptx::lane() / 4) * 8;
    const std::uint32_t bounds = table + S::kTableSlots * 8 + (part * 8 + ptx::lane() % 4 * 2) * 2;
#pragma unroll
    for (int i = 0; i < S::kMyPatchTiles; ++i) {
      pixels_[i] = ptx::load_shared<const unsigned char*>(pixels + i * (S::kParts * 64)) + ptx::lane() % 4 * kLaneBytes;
      hi_[i] = ptx::load_shared<std::uint32_t>(bounds + i * (S::kParts * 16));
    }
  }

  __device__ __forceinline__ void load() {
#pragma unroll
    for (int i = 0; i < S::kMyPatchTiles; ++i) {
#pragma unroll
      for (int block = 0; block < kBlocks32; ++block) {
        ptx::load_global_words<4>(pixels_[i] + block * 64, words_[i] + block * 4);
      }
      if constexpr (S::kCIn % 32 >= 16) {
        ptx::load_global_words<2>(behind<8, kBlocks32 * 64>(i), words_[i] + kBlocks32 * 4);
      }
      if constexpr (S::kCIn % 16 == 8) {
        ptx::load_global_words<1>(behind<4, S::kCIn / 16 * 32>(i), words_[i] + kWords - 1);
      }
    }
  }

  /// Tile `i` of the hidden pixels: two words for 8 channels each, of neighbouring pixels.
  __device__ __forceinline__ void expand(const Weights<S>& weights, int unit, int i, std::uint32_t* result) const {
    float sum[4];
    if constexpr (S::kCIn == 8) {
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] = __uint_as_float(weights.expand_bias[unit][j]);
    } else {
      ptx::mma_16x8x16(sum, weights.expand[unit][0], words_[i][0], words_[i][1], weights.expand_bias[unit]);
    }
#pragma unroll
    for (int k = 1; k < S::kCIn / 16; ++k) {
      ptx::mma_16x8x16(sum, weights.expand[unit][k], words_[i][2 * k], words_[i][2 * k + 1]);
    }
    if constexpr (S::kCIn % 16 == 8) {
      const std::uint32_t(&last)[4] = weights.expand[unit][S::kStepsK - 1];
      ptx::mma_16x8x8(sum, last[0], last[1], words_[i][kWords - 1]);
    }
    result[0] = expanded_halves<S::kHardSwish>(sum[0], sum[1], hi_[i]);
    result[1] = expanded_halves<S::kHardSwish>(sum[2], sum[3], hi_[i]);
  }

 private:
  // Of each 32 channels a lane takes 16 neighbouring bytes, of 16 that are left over 8, of the last 8 channels 4.
  static constexpr int kBlocks32 = S::kCIn / 32;
  static constexpr int kLaneBytes = S::kCIn >= 32 ? 16 : S::kCIn >= 16 ? 8 : 4;
  static constexpr int kWords = S::kCIn / 8;

  /// A lane's kBytes of those that lie kAt bytes behind a pixel's first, where its first part is of kLaneBytes.
  template <int kBytes, int kAt>
  __device__ __forceinline__ const unsigned char* behind(int i) const {
    return pixels_[i] + kAt - ptx::lane() % 4 * (kLaneBytes - kBytes);
  }

  const unsigned char* pixels_[S::kMyPatchTiles];
  std::uint32_t hi_[S::kMyPatchTiles];
  std::uint32_t words_[S::kMyPatchTiles][kWords];
};

/// Expands the warp's tiles of the patch into (group, slot, 8 channels). `hidden` is a lane's row of its matrix.
template <class S>
__device__ __forceinline__ void expand(const Patch<S>& patch, const Weights<S>& weights, std::uint32_t hidden) {
#pragma unroll
  for (int i = 0; i < S::kMyPatchTiles; i += 2) {
#pragma unroll
    for (int unit = 0; unit < S::kUnits; ++unit) {
      const std::uint32_t to = hidden + unit * 2 * S::kGroupBytes + i * S::kParts * 128;
      std::uint32_t words[4];
      patch.expand(weights, unit, i, words);
      if (i + 1 < S::kMyPatchTiles) {
        patch.expand(weights, unit, i + 1, words + 2);
        ptx::stmatrix_x4_trans(to, words);
      } else {
        ptx::stmatrix_x2_trans(to, words);
      }
    }
  }
}

/// Where a lane's row lies for expand(): matrices are (tile, group).
template <class S>
__device__ __forceinline__ std::uint32_t hidden_row(std::uint32_t hidden, unsigned part) {
  return hidden + ptx::lane() / 8 % 2 * S::kGroupBytes + (part + ptx::lane() / 16 * S::kParts) * 128 +
         ptx::lane() % 8 * 16;
}

/// Depthwise convolution of 16 pixels, or of up to 8, as products with diagonal 8x8 matrices, two taps an instruction.
template <class S>
class Depthwise {
 public:
  /// `hidden` is the slice's, in the shared address space.
  __device__ __forceinline__ Depthwise(std::uint32_t hidden, unsigned part) {
    const unsigned matrix = ptx::lane() / 8;
    const unsigned pixel = (S::kOneBand ? 0 : matrix % 2 * 8) + ptx::lane() % 8;
    const unsigned oy = (pixel < S::kPixels ? pixel / S::kTileW : 0) + part * (16 / S::kTileW);
    const unsigned ox = pixel < S::kPixels ? pixel % S::kTileW : 0;
    const std::uint32_t origin = hidden + S::slot_of(oy * S::kStride, ox * S::kStride) * 16;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      // Pixels of one band only: rows 0..7 have two taps of them, rows 8..15 the next two, which another product takes.
      const auto tap = [i](unsigned matrix) {
        return i == kLoads - 1 ? 8U : S::kOneBand ? 4U * i + matrix / 2 + matrix % 2 * 2 : 2U * i + matrix / 2;
      };
      if constexpr (S::kRowPairs) {
        rows_[i] = hidden + S::slot_of(oy + tap(matrix) / 3, ox + tap(matrix) % 3) * 16;
      } else {
        const auto offset = [tap](unsigned matrix) { return S::slot_of(tap(matrix) / 3, tap(matrix) % 3) * 16; };
        rows_[i] = origin + (matrix < 2 ? (matrix == 0 ? offset(0) : offset(1)) : matrix == 2 ? offset(2) : offset(3));
      }
    }
  }

  __device__ __forceinline__ void pin(std::uint32_t scratch) { ptx::pin_by_memory(scratch, rows_); }

  /// A group of the warp's pixels `tile`, as half of an A operand.
  __device__ __forceinline__ void apply(__half2 hi, const Weights<S>& weights, int unit, int group, int tile,
                                        std::uint32_t (&result)[2]) const {
    const std::uint32_t offset = (unit * 2 + group) * S::kGroupBytes + tile * kTileBytes;
    const std::uint32_t(&taps)[8] = weights.taps[unit][group];
    float first[4];
    float second[4] = {};
    std::uint32_t last[2];
#pragma unroll
    for (int i = 0; i < kLoads - 1; ++i) {
      std::uint32_t pixels[4];
      ptx::ldmatrix_x4(pixels, rows_[i] + offset);
      if constexpr (S::kOneBand) {
        if (i == 0) {
          ptx::mma_16x8x16(first, pixels, taps[0], taps[1], weights.depthwise_bias[unit][group]);
        } else {
          ptx::mma_16x8x16(first, pixels, taps[4 * i], taps[4 * i + 1]);
        }
        ptx::mma_16x8x16(second, pixels, taps[4 * i + 2], taps[4 * i + 3]);
      } else {
        if (i == 0) {
          ptx::mma_16x8x16(first, pixels, taps[0], taps[1], weights.depthwise_bias[unit][group]);
        } else {
          ptx::mma_16x8x16(i % 2 == 0 ? first : second, pixels, taps[2 * i], taps[2 * i + 1]);
        }
      }
    }
    ptx::ldmatrix_x2(last, rows_[kLoads - 1] + offset);
    ptx::mma_16x8x8(first, last[0], last[1], weights.last_tap[unit][group]);
    constexpr int kUpper = S::kOneBand ? 2 : 0;
    const auto halves = [&](float left, float right) {
      return filtered_halves<S::kHardSwish>(left, right, ptx::bits(hi));
    };
    result[0] = halves(first[0] + second[kUpper], first[1] + second[kUpper + 1]);
    result[1] = S::kOneBand ? 0U : halves(first[2] + second[2], first[3] + second[3]);
  }

 private:
  static constexpr int kLoads = S::kOneBand ? 3 : 5;
  static constexpr int kTileBytes = S::kParts * (S::slot_of(16 / S::kTileW * S::kStride, 0) - S::slot_of(0, 0)) * 16;

  std::uint32_t rows_[kLoads];
};

/// Depthwise convolution, then the sums of the projection over the warp's slice, which finish() adds up. `partial` is
/// where the slice's sums of a lane's first row and columns go.
template <class S>
__device__ __forceinline__ void filter_and_project(const Arguments& a, const Weights<S>& weights,
                                                   const Depthwise<S>& depthwise, std::uint32_t partial) {
#pragma unroll
  for (int tile = 0; tile < S::kMyOutTiles; ++tile) {
    float sums[S::kStrips][4] = {};
#pragma unroll
    for (int unit = 0; unit < S::kUnits; ++unit) {
      std::uint32_t lower[2];
      std::uint32_t upper[2];
      depthwise.apply(a.depthwise_hi, weights, unit, 0, tile, lower);
      depthwise.apply(a.depthwise_hi, weights, unit, 1, tile, upper);
      const std::uint32_t operand[4] = {lower[0], lower[1], upper[0], upper[1]};
#pragma unroll
      for (int strip = 0; strip < S::kStrips; ++strip) {
        ptx::mma_16x8x16(sums[strip], operand, weights.project[unit][strip][0], weights.project[unit][strip][1]);
      }
    }
    if (S::kPixels < 8 && ptx::lane() / 4 >= S::kPixels) break;
#pragma unroll
    for (int half = 0; half < (S::kOneBand ? 1 : 2); ++half) {
#pragma unroll
      for (int strip = 0; strip < S::kStrips; ++strip) {
        ptx::store_shared(partial + ((tile * S::kParts * 16 + half * 8) * S::kPartialRow + strip * 8) * 4,
                          float2{sums[strip][2 * half], sums[strip][2 * half + 1]});
      }
    }
  }
}

}  // namespace mobicuda::kernels::inverted_small
