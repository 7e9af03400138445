// Stages of the image kernels for 7x7 images. sm_90a.
//
// An image is the 64 rows of a warpgroup's products: warp w has rows 2 w and 2 w + 1 of pixels, lane / 4 is the
// column.
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
__device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x % kWarpgroup / 32); }

/// The pixels of a thread: `half` 0 and 1 are below each other.
__device__ __forceinline__ int row_of(int half) { return warp() * 2 + half; }
__device__ __forceinline__ int column() { return lane() / 4; }
__device__ __forceinline__ bool inside(const Arguments& a, int half) { return row_of(half) < a.h && column() < a.w; }

/// Byte offset of 8 channels of one of the thread's pixels.
template <int kChannels>
__device__ __forceinline__ std::size_t offset_of(const Arguments& a, int picture, int row, int column, int channel) {
  return (static_cast<std::size_t>(picture) * static_cast<std::size_t>(a.h * a.w) +
          static_cast<std::size_t>(row * a.w + column)) *
             (kChannels * 2) +
         static_cast<std::size_t>(channel * 2);
}

/// The thread's pixels of x: of every 32 channels 8 neighbouring ones, which are parts of two operands as they come.
template <class S>
class Pixels {
 public:
  __device__ __forceinline__ explicit Pixels(std::uint32_t shared) : shared_(shared) {}

  __device__ __forceinline__ void load(const Arguments& a, const unsigned char* x, int picture) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned char* const from =
          x + offset_of<S::kConfig.c_in>(a, picture, row_of(half), column(), lane() % 4 * 8);
#pragma unroll
      for (int block = 0; block < S::kBlocksIn; ++block) {
        ptx::load_global_words_if<4>(inside(a, half), from + block * 64, words_[block][half]);
      }
    }
    if constexpr (S::kSharedPixels) {
      const std::uint32_t to = shared_ + static_cast<std::uint32_t>(warp() * 512 + lane() * 4);
#pragma unroll
      for (int i = 0; i < S::kBlocksIn * 8; ++i) {
        // Steps of 16 channels, rows of 8 pixels, 8 channels.
        const int offset = (i / 8 * 2 + i / 4 % 2) * 2048 + i % 2 * 256 + i / 2 % 2 * 128;
        ptx::store_shared(to + offset, words_[i / 8][i % 2][i / 2 % 4]);
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

  /// Two of the 8 channels.
  __device__ __forceinline__ std::uint32_t pair(int block, int half, int i) const { return words_[block][half][i]; }

 private:
  std::uint32_t shared_;
  std::uint32_t words_[S::kBlocksIn][2][4];
};

template <class S>
class Expand {
 public:
  __device__ __forceinline__ Expand(const Arguments& a, std::uint32_t patch) {
    const int row = row_of(lane() / 8 % 2) + 1;
    to_ = patch + static_cast<std::uint32_t>(lane() / 16 * S::kGroupBytes + (row * 8 + 1 + lane() % 8) * 16);
    ptx::pin(to_);
    for (int half = 0; half < 2; ++half) {
      hi_[half] = inside(a, half) ? ptx::bits(a.expand_hi) : 0U;
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
      ptx::load_shared_words<2>(
          stage + static_cast<std::uint32_t>(S::kLayout.expand_bias + lane() % 4 * 8 + group * 32), bias_[group]);
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
    from_ = patch + static_cast<std::uint32_t>((row_of(0) * 8 + lane()) * 16);
    if (lane() / 8 == lane() % 4) {
      even_ = lane() / 4 % 2 == 0 ? 0x4410 : 0x1044;
      odd_ = lane() / 4 % 2 == 0 ? 0x4432 : 0x3244;
    }
    taps_offset_ = static_cast<std::uint32_t>(S::kLayout.taps + lane() / 4 * 16);
    last_offset_ = static_cast<std::uint32_t>(S::kLayout.last_tap + lane() / 4 * 4);
    bias_offset_ = static_cast<std::uint32_t>(S::kLayout.depthwise_bias + lane() % 4 * 8);
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
using Sums = float[S::kProducts][kColumns / 2];

template <class S>
__device__ __forceinline__ void begin_project(const std::uint32_t (&filtered)[kChunk / 16][4], std::uint64_t weights,
                                              Sums<S>& sums) {
  ptx::wgmma_fence();
#pragma unroll
  for (int product = 0; product < S::kProducts; ++product) {
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      ptx::start_wgmma(sums[product], filtered[step][0], filtered[step][1], filtered[step][2], filtered[step][3],
                       weights + (S::kLayout.project + product * S::kLayout.product_bytes + step * kColumns * 32 >> 4));
    }
  }
  ptx::wgmma_commit();
}

/// Sums of 8 neighbouring output channels of a thread's pixel.
template <class S>
__device__ __forceinline__ void gather(const Sums<S>& sums, int block, int half, float (&sum)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum[i] = sums[block / 5][(block % 5 * 4 + i / 2) * 4 + half * 2 + i % 2];
}

/// Bias, residual, clip and store of 8 neighbouring channels.
__device__ __forceinline__ void finish(const Arguments& a, const float (&sum)[8], std::uint32_t bias,
                                       const std::uint32_t (&residual)[4], unsigned char* to) {
  std::uint32_t result[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
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
