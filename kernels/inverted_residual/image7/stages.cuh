// Stages of the image kernels for small images. sm_90a.
//
// The 64 rows of a warpgroup's products are 32 units, eight of a warp: lane / 4 is the unit, which is two pixels below
// each other. Of images of 6 to 8 columns a warp has two rows, and lane / 4 is the column.
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/inverted_residual/image7/shape.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace mobicuda::kernels::inverted_image7 {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

using ptx::as_int::lane;
/// Of the tile's.
template <class S>
__device__ __forceinline__ int warp() {
  if constexpr (S::kSpans == 1) {
    return static_cast<int>(threadIdx.x % kWarpgroup / 32);
  } else {
    return static_cast<int>(threadIdx.x / (S::kParts * kWarpgroup) % S::kSpans * 4 + threadIdx.x % kWarpgroup / 32);
  }
}

/// A unit of the tile's: its image, its upper pixel's row, its column.
struct Unit {
  int image, row, column;
};

template <class S>
__device__ __forceinline__ Unit unit_of(int warp, int eighth) {
  if constexpr (S::kWarpColumns) {
    return {0, warp * 2, eighth};
  } else {
    const int unit = warp * kLineUnits + eighth;
    const int rest = unit % S::kSizes.image_units;
    return {unit / S::kSizes.image_units, rest / S::kSizes.columns * 2, rest % S::kSizes.columns};
  }
}

/// The thread's.
template <class S>
__device__ __forceinline__ Unit own_unit() {
  return unit_of<S>(warp<S>(), lane() / 4);
}

/// Images of a tile, and which of its pixels are there.
template <class S>
struct Tile {
  int first;  ///< image

  /// `half` 0 and 1 are the unit's upper and lower pixel.
  __device__ __forceinline__ bool has(const Arguments& a, const Unit& unit, int half) const {
    bool present = unit.row + half < a.h && unit.column < a.w;
    if constexpr (!S::kWarpColumns) present = present && unit.image < min(S::kImages, a.n - first);
    return present;
  }
};

/// Byte offset of channels of a pixel.
template <int kChannels>
__device__ __forceinline__ std::size_t offset_of(const Arguments& a, int picture, int row, int column, int channel) {
  return (static_cast<std::size_t>(picture) * static_cast<std::size_t>(a.h * a.w) +
          static_cast<std::size_t>(row * a.w + column)) *
             (kChannels * 2) +
         static_cast<std::size_t>(channel * 2);
}

/// Whether a thread that has kCount neighbouring channels of each quad's share from kFirst on has any of kChannels,
/// which are a multiple of 8.
template <int kChannels, int kCount>
__device__ __forceinline__ bool has_channels(int first) {
  return first + 4 * kCount <= kChannels || first + lane() % 4 * kCount < kChannels;
}

/// The thread's pixels of x: of every 32 channels 8 neighbouring ones, which are parts of two operands as they come; of
/// a rest 4, parts of one.
template <class S>
class Pixels {
 public:
  __device__ __forceinline__ explicit Pixels(std::uint32_t shared) : shared_(shared) {}

  __device__ __forceinline__ void load(const Arguments& a, const unsigned char* x, const Tile<S>& tile) {
    constexpr int kChannels = S::kConfig.c_in;
    const Unit unit = own_unit<S>();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool inside = tile.has(a, unit, half);
      const unsigned char* const from =
          x + offset_of<kChannels>(a, tile.first + unit.image, unit.row + half, unit.column, lane() % 4 * 8);
#pragma unroll
      for (int block = 0; block < S::kIn.blocks; ++block) {
        ptx::load_global_words_if<4>(inside && has_channels<kChannels, 8>(block * 32), from + block * 64,
                                     words_[block][half]);
      }
      if constexpr (S::kIn.rests > 0) {
        ptx::load_global_words_if<2>(inside && has_channels<kChannels, 4>(kRest), from + kRest * 2 - lane() % 4 * 8,
                                     words_[S::kIn.blocks][half]);
      }
    }
    if constexpr (S::kSharedPixels) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int pair = 0; pair < kPairs; ++pair) {
          ptx::store_shared(place(half, pair), words_[pair / 4][half][pair % 4]);
        }
      }
      ptx::fence_proxy_async();
    }
  }

  /// sum += 16 channels of the pixels * b, in the background; the first step's sum begins with it.
  __device__ __forceinline__ void multiply(int step, std::uint64_t b, float (&sum)[kChunk / 2]) const {
    if constexpr (S::kSharedPixels) {
      ptx::start_wgmma(sum, ptx::wgmma_operand(shared_) + step * (2048 >> 4), b, step == 0);
    } else {
      const std::uint32_t(&words)[2][4] = words_[step / 2];
      const int i = step % 2 * 2;
      ptx::start_wgmma(sum, words[0][i], words[1][i], words[0][i + 1], words[1][i + 1], b, step == 0);
    }
  }

  /// Two of the thread's channels of a block, or of the rest behind the last block.
  __device__ __forceinline__ std::uint32_t pair(int block, int half, int i) const {
    if constexpr (S::kSharedPixels) {
      return ptx::load_shared<std::uint32_t>(place(half, block * 4 + i));
    } else {
      return words_[block][half][i];
    }
  }

 private:
  static constexpr int kRest = S::kIn.blocks * 32;  // its first channel
  static constexpr int kPairs = S::kIn.padded / 8;  // of channels, of a thread
  static constexpr int kBlocks = S::kIn.blocks + S::kIn.rests;

  /// In shared memory: steps of 16 channels, rows of 8 pixels, 8 channels.
  __device__ __forceinline__ std::uint32_t place(int half, int pair) const {
    return shared_ + static_cast<std::uint32_t>(static_cast<int>(threadIdx.x) % kWarpgroup / 32 * 512 + lane() * 4) +
           static_cast<std::uint32_t>(pair / 2 * 2048 + half * 256 + pair % 2 * 128);
  }

  std::uint32_t shared_;
  std::uint32_t words_[kBlocks][2][4];
};

/// Of an image's hidden pixels; row and column 0 are zeros.
template <class S>
__device__ __forceinline__ int slot(int image, int row, int column) {
  return (image * (S::kSide + 1) + row) * S::kSlotColumns + column;
}

template <class S>
class Expand {
 public:
  __device__ __forceinline__ Expand(const Arguments& a, const Tile<S>& tile, std::uint32_t patch) {
    const Unit to = unit_of<S>(warp<S>(), lane() % 8);
    to_ = patch + static_cast<std::uint32_t>(lane() / 16 * S::kGroupBytes +
                                             slot<S>(to.image, to.row + lane() / 8 % 2 + 1, to.column + 1) * 16);
    ptx::pin(to_);
    const Unit own = own_unit<S>();
    for (int half = 0; half < 2; ++half) {
      hi_[half] = tile.has(a, own, half) ? ptx::bits(a.expand_hi) : 0U;
      ptx::pin(hi_[half]);
    }
  }

  /// Begins to expand to the channels of a chunk; ptx::pin_accumulators(sum) after waiting.
  __device__ __forceinline__ static void begin(const Pixels<S>& pixels, std::uint64_t weights,
                                               float (&sum)[kChunk / 2]) {
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < S::kStepsIn; ++step) {
      pixels.multiply(step, weights + step * (kChunk * 32 >> 4), sum);
    }
    ptx::wgmma_commit();
  }

  __device__ __forceinline__ void load_bias(std::uint32_t stage) {
#pragma unroll
    for (int group = 0; group < S::kGroups; ++group) {
      ptx::load_shared_words<2>(stage + static_cast<std::uint32_t>(S::kSizes.expand_bias + lane() % 4 * 8 + group * 32),
                                bias_[group]);
    }
  }

  __device__ __forceinline__ void store(int buffer, const float (&sum)[kChunk / 2]) const {
#pragma unroll
    for (int group = 0; group < S::kGroups; group += 2) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int from = (group + i / 2) * 4 + i % 2 * 2;
        const std::uint32_t(&bias)[2] = bias_[group + i / 2];
        words[i] = ptx::to_half2_clipped(sum[from] + __uint_as_float(bias[0]), sum[from + 1] + __uint_as_float(bias[1]),
                                         hi_[i % 2]);
      }
      ptx::stmatrix_x4(to_ + buffer * S::kPatchBytes + group * S::kGroupBytes, words);
    }
  }

 private:
  std::uint32_t to_;
  std::uint32_t hi_[2];  ///< zero outside the image
  std::uint32_t bias_[S::kGroups][2];
};

/// Of a diagonal matrix a lane has rows lane % 4 * 2 and the next of column lane / 4.
template <class S>
class Depthwise {
 public:
  __device__ __forceinline__ explicit Depthwise(std::uint32_t patch) {
    const Unit unit = unit_of<S>(warp<S>(), lane() % 8);
    from_ = patch + static_cast<std::uint32_t>(slot<S>(unit.image, unit.row + lane() / 8, unit.column) * 16);
    if (lane() / 8 == lane() % 4) {
      even_ = lane() / 4 % 2 == 0 ? 0x4410 : 0x1044;
      odd_ = lane() / 4 % 2 == 0 ? 0x4432 : 0x3244;
    }
    taps_offset_ = static_cast<std::uint32_t>(S::kSizes.taps + lane() / 4 * 16);
    last_offset_ = static_cast<std::uint32_t>(S::kSizes.last_tap + lane() / 4 * 4);
    bias_offset_ = static_cast<std::uint32_t>(S::kSizes.depthwise_bias + lane() % 4 * 8);
    // Else the compiler computes them again for every chunk; where registers are few, it may.
    if constexpr (!S::kSharedPixels) {
      for (std::uint32_t* value : {&from_, &even_, &odd_, &taps_offset_, &last_offset_, &bias_offset_}) {
        ptx::pin(*value);
      }
    }
  }

  /// Operands of project, 16 channels each.
  __device__ __forceinline__ void run(__half2 hi, std::uint32_t stage, int buffer,
                                      std::uint32_t (&result)[kChunk / 16][4]) const {
#pragma unroll
    for (int group = 0; group < S::kGroups; ++group) {
      const std::uint32_t from = from_ + static_cast<std::uint32_t>(buffer * S::kPatchBytes + group * S::kGroupBytes);
      std::uint32_t pixels[3][4];  // column of the window, row
      std::uint32_t taps[4];
      std::uint32_t bias[2];
      ptx::load_shared_words<4>(stage + taps_offset_ + group * 128, taps);
      ptx::load_shared_words<2>(stage + bias_offset_ + group * 32, bias);
      const std::uint32_t last_tap = ptx::load_shared<std::uint32_t>(stage + last_offset_ + group * 32);
#pragma unroll
      for (int i = 0; i < 3; ++i) ptx::ldmatrix_x4(pixels[i], from + i * 16);
      float sum[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] = __uint_as_float(bias[i % 2]);
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        ptx::mma_16x8x16(sum, pixels[i], diagonal(taps[i], even_), diagonal(taps[i], odd_));
      }
      const std::uint32_t middle[4] = {pixels[0][1], pixels[0][2], pixels[1][1], pixels[1][2]};
      ptx::mma_16x8x16(sum, middle, diagonal(taps[3], even_), diagonal(taps[3], odd_));
      ptx::mma_16x8x8(sum, pixels[2][1], pixels[2][2], diagonal(last_tap, even_));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        result[group / 2][group % 2 * 2 + half] =
            ptx::to_half2_clipped(sum[half * 2], sum[half * 2 + 1], ptx::bits(hi));
      }
    }
  }

 private:
  __device__ __forceinline__ static std::uint32_t diagonal(std::uint32_t taps, std::uint32_t selector) {
    return __byte_perm(taps, 0, selector);
  }

  std::uint32_t from_;
  std::uint32_t taps_offset_, last_offset_, bias_offset_;
  std::uint32_t even_ = 0x4444;  ///< selects the first tap of a pair, or zeros
  std::uint32_t odd_ = 0x4444;
};

/// What a thread has of an image's sums.
template <class S>
using Sums = float[S::kProducts][S::kColumns / 2];

template <class S>
__device__ __forceinline__ void begin_project(const std::uint32_t (&filtered)[kChunk / 16][4], std::uint64_t weights,
                                              Sums<S>& sums) {
  ptx::wgmma_fence();
#pragma unroll
  for (int product = 0; product < S::kProducts; ++product) {
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      ptx::start_wgmma(
          sums[product], filtered[step][0], filtered[step][1], filtered[step][2], filtered[step][3],
          weights + (S::kSizes.project + product * S::kSizes.product_bytes + step * S::kColumns * 32 >> 4));
    }
  }
  ptx::wgmma_commit();
}

/// Sums of a thread's neighbouring output channels of a block, or of the rest, of one of its pixels.
template <class S, int kCount>
__device__ __forceinline__ void gather(const Sums<S>& sums, int block, int half, float (&sum)[kCount]) {
  constexpr int kProductGroups = S::kColumns / 8;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int group = block * 4 + i / 2;
    sum[i] = sums[group / kProductGroups][group % kProductGroups * 4 + half * 2 + i % 2];
  }
}

/// Bias, residual, clip and store of neighbouring channels.
template <int kCount>
__device__ __forceinline__ void finish(const Arguments& a, const float (&sum)[kCount], std::uint32_t bias,
                                       const std::uint32_t (&residual)[kCount / 2], unsigned char* to) {
  std::uint32_t result[kCount / 2];
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    std::uint32_t start[2];
    ptx::load_shared_words<2>(bias + i * 8, start);
    const float2 added = __half22float2(*reinterpret_cast<const __half2*>(&residual[i]));
    const float first = apply(a.project_clip, sum[2 * i] + __uint_as_float(start[0]) + added.x);
    const float second = apply(a.project_clip, sum[2 * i + 1] + __uint_as_float(start[1]) + added.y);
    result[i] = ptx::bits(__floats2half2_rn(first, second));
  }
  ptx::store_global(to, result);
}

#endif

}  // namespace mobicuda::kernels::inverted_image7
