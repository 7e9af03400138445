// Convolution of stride 1 from up to 64 channels as an implicit matrix product with wgmma (half, float sums), pixels as
// columns. A persistent block has 64 channels of y, whose weights of all taps stay in shared memory, and goes through
// patches of 16x16 output pixels; the input under a patch is one tensor copy, and stays for all taps. A patch is one
// group of warps' alone: y^T (64 channels x 256 pixels) = W^T x^T, by two halves of 8 pixels' width. wgmma takes 8 rows
// of pixels that lie side by side in a row of the input, and steps to the next row of the input by its descriptor: a
// tap only changes the address. Two groups of warps take patches in turns: while one multiplies, the other finishes
// what it has. y leaves in boxes of 8x8 pixels through a strip of shared memory. With pooling a box is the largest of
// 2x2 pixels of a patch; a thread has all four of them. Shared memory: weights, inputs, strips, barriers.
#pragma once

#include <cuda_fp16.h>

#include "kernels/conv2d/wgmma/shape.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/named_barrier.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace mobicuda::kernels::conv_wgmma {

inline constexpr int kPatchSide = 16;
inline constexpr int kPatchThreads = 2 * kGroupThreads + 32;
inline constexpr int kTapBytes = kSliceK * kRowBytes;  ///< weights of a tap
inline constexpr int kBoxSide = 8;
inline constexpr int kStripOfBox = kBoxSide * kBoxSide * kRowBytes;
inline constexpr int kHalfSums = kPatchSide * kBoxSide / 2;  ///< of a thread, of half a patch
inline constexpr int kMostInputs = 4;                        ///< in shared memory

struct PatchArguments {
  CUtensorMap pixels, weights, result;
  const float* bias;
  Clip clip;
  int c_out, channel_tiles;
  int kernel_h, kernel_w, pad_top, pad_left;
  int patches;                ///< of all images
  FastDivision of_image;      ///< patches
  FastDivision of_patch_row;  ///< patches
  int input_columns;          ///< under a patch
  int input_bytes;            ///< that a copy brings
  int input_pitch;            ///< bytes from one input in shared memory to the next
  int inputs;                 ///< in shared memory
};

template <bool kPooled>
struct PatchShape {
  static constexpr int kStrips = kPooled ? 1 : 2;  ///< of a group of warps
  static constexpr int kBarriers = 1 + 2 * kMostInputs + 2;

  static constexpr int shared_bytes(int taps, int inputs, int input_pitch) {
    return taps * kTapBytes + inputs * input_pitch + 2 * kStrips * kStripOfBox + kBarriers * 8;
  }
};

/// Addresses in shared memory.
struct PatchMemory {
  std::uint32_t weights, inputs, strips;
  std::uint32_t weights_full;
  std::uint32_t full, empty;  ///< of the inputs
  std::uint32_t turns;        ///< whether a group of warps may multiply

  template <class S>
  static __device__ __forceinline__ PatchMemory of(const PatchArguments& a, std::uint32_t shared) {
    const std::uint32_t inputs = shared + a.kernel_h * a.kernel_w * kTapBytes;
    const std::uint32_t strips = inputs + a.inputs * a.input_pitch;
    const std::uint32_t barriers = strips + 2 * S::kStrips * kStripOfBox;
    const std::uint32_t full = barriers + 8;
    return {shared, inputs, strips, barriers, full, full + kMostInputs * 8, full + kMostInputs * 16};
  }
};

/// A buffer, and the parity of the phase in which it is full, or in which it is free again.
struct InputPlace {
  int buffer = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance(int buffers) {
    if (++buffer == buffers) {
      buffer = 0;
      parity ^= 1U;
    }
  }
};

/// Where a patch of output pixels begins.
struct PatchPlace {
  int image, y, x;

  __device__ __forceinline__ PatchPlace(const PatchArguments& a, int patch) {
    std::uint32_t in_image;
    std::uint32_t column;
    image = static_cast<int>(a.of_image.divide(static_cast<std::uint32_t>(patch), in_image));
    y = static_cast<int>(a.of_patch_row.divide(in_image, column)) * kPatchSide;
    x = static_cast<int>(column) * kPatchSide;
  }
};

/// Patches of a block: of the blocks with the same channels every so-manieth.
struct Patches {
  int first, step, channel;

  __device__ __forceinline__ explicit Patches(const PatchArguments& a) {
    const auto block = static_cast<int>(blockIdx.x);
    step = static_cast<int>(gridDim.x) / a.channel_tiles;
    first = block / a.channel_tiles;
    channel = (block - first * a.channel_tiles) * kPanelColumns;
  }
};

/// What the thread that copies weights and inputs does. Weights are no predecessor's.
__device__ __forceinline__ void fill_patches(const PatchArguments& a, const PatchMemory& memory) {
  const Patches patches(a);
  const int taps = a.kernel_h * a.kernel_w;
  ptx::mbarrier_arrive_expect(memory.weights_full, taps * kTapBytes);
#pragma unroll 1
  for (int tap = 0; tap < taps; ++tap) {
    ptx::copy_box<1>(memory.weights + tap * kTapBytes, a.weights, patches.channel, 0, tap, memory.weights_full);
  }
  wait_for_predecessor();
  InputPlace at{0, 1};  // nobody has to free a buffer before its first input
#pragma unroll 1
  for (int patch = patches.first; patch < a.patches; patch += patches.step) {
    const PatchPlace place(a, patch);
    const std::uint32_t full = memory.full + at.buffer * 8;
    ptx::mbarrier_wait(memory.empty + at.buffer * 8, at.parity);
    ptx::mbarrier_arrive_expect(full, a.input_bytes);
    ptx::copy_box(memory.inputs + at.buffer * a.input_pitch, a.pixels, 0, place.x - a.pad_left, place.y - a.pad_top,
                  place.image, full);
    at.advance(a.inputs);
  }
}

/// The sums of a patch whose input begins at `input`: left and right half.
__device__ __forceinline__ void multiply_patch(const PatchArguments& a, const PatchMemory& memory, std::uint32_t input,
                                               float (&sums)[2][kHalfSums]) {
  const int row_bytes = a.input_columns * kRowBytes;
  const std::uint32_t upper = ptx::wgmma_upper_128b(row_bytes);
  std::uint32_t weights = ptx::wgmma_operand_128b(memory.weights);
  std::uint32_t row = ptx::wgmma_operand_128b(input);
  int adds = 0;
#pragma unroll
  for (auto& half : sums) ptx::pin_accumulators(half);
  ptx::wgmma_fence();
#pragma unroll 1
  for (int ky = 0; ky < a.kernel_h; ++ky) {
    std::uint32_t pixels = row;
#pragma unroll 1
    for (int kx = 0; kx < a.kernel_w; ++kx) {
#pragma unroll
      for (int k16 = 0; k16 < kSliceK / 16; ++k16) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          ptx::start_wgmma_transposed_a(sums[half], weights + k16 * 16 * kRowBytes / 16,
                                        pixels + (half * kBoxSide * kRowBytes + k16 * 32) / 16, upper,
                                        adds + k16 > 0 ? 1 : 0);
        }
      }
      adds = 1;
      weights += kTapBytes / 16;
      pixels += kRowBytes / 16;
    }
    row += row_bytes / 16;
  }
  ptx::wgmma_commit();
}

__device__ __forceinline__ void end_products(float (&sums)[2][kHalfSums]) {
  ptx::wgmma_wait<0>();
#pragma unroll
  for (auto& half : sums) ptx::pin_accumulators(half);
}

/// Bias of a thread's channels, row lane / 4 of its warp's 16, and 8 more.
struct PatchBias {
  float low = 0.0F, high = 0.0F;

  __device__ __forceinline__ PatchBias(const PatchArguments& a, int channel) {
    const int own = channel + static_cast<int>(threadIdx.x / 32 % 4) * kWarpRows + ptx::as_int::lane() / 4;
    if (a.bias == nullptr) return;
    if (own < a.c_out) low = a.bias[own];
    if (own + 8 < a.c_out) high = a.bias[own + 8];
  }
};

/// Writes a box of y in a strip, pixel by pixel, and has it copied out. words(pair, words) gives the fragments of rows
/// 2 * pair and the next: of each row those of 8 and of 8 more channels. `pixel`: which one of a row of 8 is column
/// `lane % 8` of a fragment.
template <class S, class Words>
__device__ __forceinline__ void put_box(const PatchArguments& a, const PatchMemory& memory, int channel, int x, int y,
                                        int image, int pixel, int& next, const Words& words) {
  const int lane = ptx::as_int::lane();
  const int group = static_cast<int>(threadIdx.x / kGroupThreads);
  const bool leads = threadIdx.x % kGroupThreads == 0;
  const std::uint32_t strip = memory.strips + (group * S::kStrips + next) * kStripOfBox;
  next = next + 1 == S::kStrips ? 0 : next + 1;
  if (leads) ptx::copy_out_wait_read<S::kStrips - 1>();
  ptx::sync_threads_of<kGroupThreads>(1 + group);  // the strip is free
  const int warp = static_cast<int>(threadIdx.x / 32 % 4);
  const std::uint32_t packet = ((warp * 2 + lane / 8 % 2) ^ pixel) * 16;  // a row of pixels begins at 1024 bytes
  const std::uint32_t to = strip + (lane / 16 * kBoxSide + pixel) * kRowBytes + packet;
#pragma unroll
  for (int pair = 0; pair < kBoxSide / 2; ++pair) {
    std::uint32_t fragments[4];
    words(pair, fragments);
    ptx::stmatrix_x4_trans(to + pair * 2 * kBoxSide * kRowBytes, fragments);
  }
  ptx::fence_proxy_async();
  ptx::sync_threads_of<kGroupThreads>(1 + group);
  if (leads) ptx::copy_box_out(a.result, channel, x, y, image, strip);
}

__device__ __forceinline__ std::uint32_t finish_pair(const Clip& clip, float bias, float first, float second) {
  const __half2 pair = __floats2half2_rn(apply(clip, first + bias), apply(clip, second + bias));
  return reinterpret_cast<const std::uint32_t&>(pair);
}

/// Sums of a thread in half a patch: of row y of 8 pixels two, of a channel and of the one 8 further.
__device__ __forceinline__ int sum_at(int y, int high) { return y * 4 + high * 2; }

template <class S>
__device__ __forceinline__ void finish_patch(const PatchArguments& a, const PatchMemory& memory, int channel,
                                             const PatchPlace& place, const PatchBias& bias,
                                             const float (&sums)[2][kHalfSums], int& next) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const auto words = [&](int pair, std::uint32_t(&to)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = sum_at(below * kBoxSide + pair * 2 + i / 2, i % 2);
          to[i] = finish_pair(a.clip, i % 2 == 0 ? bias.low : bias.high, sums[half][at], sums[half][at + 1]);
        }
      };
      put_box<S>(a, memory, channel, place.x + half * kBoxSide, place.y + below * kBoxSide, place.image,
                 ptx::as_int::lane() % 8, next, words);
    }
  }
}

/// The largest of 2x2 sums is what becomes the largest of the finished values: bias, clip and rounding keep the order,
/// and NaN stays. A thread has pixels t of the left half and of the right one, 4 further.
template <class S>
__device__ __forceinline__ void finish_pooled_patch(const PatchArguments& a, const PatchMemory& memory, int channel,
                                                    const PatchPlace& place, const PatchBias& bias,
                                                    const float (&sums)[2][kHalfSums], int& next) {
  const auto words = [&](int pair, std::uint32_t(&to)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int y = (pair * 2 + i / 2) * 2;
      const auto largest = [&](const float(&half)[kHalfSums]) {
        const int upper = sum_at(y, i % 2);
        const int lower = sum_at(y + 1, i % 2);
        return ptx::larger_or_nan(ptx::larger_or_nan(half[upper], half[upper + 1]),
                                  ptx::larger_or_nan(half[lower], half[lower + 1]));
      };
      to[i] = finish_pair(a.clip, i % 2 == 0 ? bias.low : bias.high, largest(sums[0]), largest(sums[1]));
    }
  };
  const int column = ptx::as_int::lane() % 8;
  put_box<S>(a, memory, channel, place.x / 2, place.y / 2, place.image, column % 2 * 4 + column / 2, next, words);
}

/// What a group of warps does: every second patch of the block.
template <bool kPooled>
__device__ __forceinline__ void compute_patches(const PatchArguments& a, const PatchMemory& memory) {
  using S = PatchShape<kPooled>;
  const Patches patches(a);
  const int group = static_cast<int>(threadIdx.x / kGroupThreads);
  const bool leads_warp = threadIdx.x % 32 == 0;
  const PatchBias bias(a, patches.channel);
  const std::uint32_t own_turn = memory.turns + group * 8;
  const std::uint32_t other_turn = memory.turns + (1 - group) * 8;
  InputPlace at;
  if (group == 1) at.advance(a.inputs);
  int next_strip = 0;
  std::uint32_t parity = group == 0 ? 1 : 0;  // the first turn is the first group's
  ptx::mbarrier_wait(memory.weights_full, 0);
#pragma unroll 1
  for (int patch = patches.first + group * patches.step; patch < a.patches; patch += 2 * patches.step) {
    ptx::mbarrier_wait(memory.full + at.buffer * 8, at.parity);
    ptx::mbarrier_wait(own_turn, parity);
    parity ^= 1U;
    float sums[2][kHalfSums];
    multiply_patch(a, memory, memory.inputs + at.buffer * a.input_pitch, sums);
    if (leads_warp) ptx::mbarrier_arrive(other_turn);  // what has begun is multiplied in this order
    end_products(sums);
    if (leads_warp) ptx::mbarrier_arrive(memory.empty + at.buffer * 8);
    at.advance(a.inputs);
    at.advance(a.inputs);
    const PatchPlace place(a, patch);
    if constexpr (kPooled) {
      finish_pooled_patch<S>(a, memory, patches.channel, place, bias, sums, next_strip);
    } else {
      finish_patch<S>(a, memory, patches.channel, place, bias, sums, next_strip);
    }
  }
  if (threadIdx.x % kGroupThreads == 0) ptx::copy_out_wait_read<0>();
}

template <bool kPooled>
__global__ void __launch_bounds__(kPatchThreads, 1) patch_kernel(const __grid_constant__ PatchArguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  const PatchMemory memory = PatchMemory::of<PatchShape<kPooled>>(a, ptx::shared_address(shared));
  constexpr unsigned kCopyThread = 2 * kGroupThreads;
  if (threadIdx.x == kCopyThread) {
    ptx::prefetch_tensor_map(a.weights);
    ptx::prefetch_tensor_map(a.pixels);
    ptx::prefetch_tensor_map(a.result);
    ptx::mbarrier_init(memory.weights_full, 1);
    for (int i = 0; i < a.inputs; ++i) {
      ptx::mbarrier_init(memory.full + i * 8, 1);
      ptx::mbarrier_init(memory.empty + i * 8, 4);
    }
    for (int group = 0; group < 2; ++group) ptx::mbarrier_init(memory.turns + group * 8, 4);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == kCopyThread) {
    fill_patches(a, memory);
    return;
  }
  wait_for_predecessor();
  if (threadIdx.x < kCopyThread) compute_patches<kPooled>(a, memory);
}

}  // namespace mobicuda::kernels::conv_wgmma
