// Convolution of stride 1 as an implicit matrix product with wgmma (half, float sums), pixels as columns. A tile is 64
// channels of a patch of 8x28 output pixels, or of 16x14 by two halves of 8 pixels' width, and one group of four warps'
// alone: y^T (64 channels x 224 pixels) = W^T x^T. The input under a patch, 64 channels at a time, is one tensor copy,
// and stays for all taps: wgmma takes 8 rows of pixels that lie side by side in a row of the input, and steps to the
// next row of the input by its descriptor, so that a tap only changes the address. One thread copies inputs, another
// slices of the weights, 64 channels of a tap; where a ring has room for all of a tile, and the block's tiles have the
// same channels, these stay for all tiles. A persistent block has every so-manieth tile; two groups of warps take its
// tiles in turns: while one multiplies, the other finishes what it has. y leaves in boxes of 56 pixels through a strip
// of shared memory. With pooling a box is the largest of 2x2 pixels of a patch; a thread has all four of them. Shared
// memory: weights, inputs, strips, barriers.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/activation.cuh"
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

inline constexpr int kPatchPixels = 224;
inline constexpr int kPatchThreads = 2 * kGroupThreads + 64;
inline constexpr int kSliceBytes = kSliceK * kRowBytes;  ///< of the weights
inline constexpr int kProductColumns = 8;                ///< pixels side by side that a step of a descriptor takes
inline constexpr int kBoxRows = 7;                       ///< of so many pixels
inline constexpr int kBoxBytes = kBoxRows * kProductColumns * kRowBytes;
inline constexpr int kMostInputs = 4;  ///< in shared memory

struct PatchArguments {
  CUtensorMap pixels, weights, result;
  const float* bias;
  Activation activation;
  int c_out;
  int kernel_h, kernel_w, pad_top, pad_left;
  int channel_slices;
  int tiles;
  FastDivision of_patch;      ///< tiles of the same patch
  FastDivision of_image;      ///< patches
  FastDivision of_patch_row;  ///< patches
  int input_columns;          ///< under a patch
  int input_bytes;            ///< that a copy brings
  int input_pitch;            ///< bytes from one input in shared memory to the next
  int inputs, stages;         ///< in shared memory
  bool weights_stay;          ///< all slices of the block's tiles are in the ring
  FastDivision of_inputs, of_stages;
};

struct PatchConfig {
  int columns;  ///< pixels: 8 or 16
  bool pooled;
  bool swish = false;  ///< the activation is one of is_swish(), else a clip
};

template <PatchConfig kConfig>
struct PatchShape {
  static constexpr bool kPooled = kConfig.pooled;
  static constexpr bool kSwish = kConfig.swish;
  static constexpr int kColumns = kConfig.columns;
  static constexpr int kRows = kPatchPixels / kColumns;
  static constexpr int kHalves = kColumns / kProductColumns;
  static constexpr int kSums = kRows * kProductColumns / 2;  ///< of a thread, of a half
  static constexpr int kStrips = kPooled ? 1 : 2;            ///< of a group of warps
  // Of a box of y.
  static constexpr int kBoxColumns = kPooled ? kColumns / 2 : kProductColumns;
  static constexpr int kBoxHeight = kBoxRows * kProductColumns / kBoxColumns;
  static_assert(kHalves == 1 || kHalves == 2);

  static constexpr int shared_bytes(int stages, int inputs, int input_pitch) {
    return stages * (kSliceBytes + 16) + inputs * input_pitch + 2 * kStrips * kBoxBytes + (2 * kMostInputs + 2) * 8;
  }
};

/// Addresses in shared memory.
struct PatchMemory {
  std::uint32_t weights, inputs, strips;
  std::uint32_t full, empty;              ///< of the weights' stages
  std::uint32_t input_full, input_empty;  ///< of the inputs
  std::uint32_t turns;                    ///< whether a group of warps may multiply

  template <class S>
  static __device__ __forceinline__ PatchMemory of(const PatchArguments& a, std::uint32_t shared) {
    const std::uint32_t inputs = shared + a.stages * kSliceBytes;
    const std::uint32_t strips = inputs + a.inputs * a.input_pitch;
    const std::uint32_t full = strips + 2 * S::kStrips * kBoxBytes;
    const std::uint32_t input_full = full + a.stages * 16;
    return {shared,
            inputs,
            strips,
            full,
            full + a.stages * 8,
            input_full,
            input_full + kMostInputs * 8,
            input_full + kMostInputs * 16};
  }
};

/// A place in a ring, and the parity of the phase in which it is full, or in which it is free again.
struct RingTurn {
  int place = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance(int places) {
    if (++place == places) {
      place = 0;
      parity ^= 1U;
    }
  }
  __device__ __forceinline__ void skip(int count, const FastDivision& of_places) {
    std::uint32_t rest;
    parity ^= of_places.divide(static_cast<std::uint32_t>(place + count), rest) & 1U;
    place = static_cast<int>(rest);
  }
};

/// Where a tile's output pixels begin, and its channels.
struct PatchPlace {
  int image, y, x;
  int channel;

  template <class S>
  static __device__ __forceinline__ PatchPlace of(const PatchArguments& a, int tile) {
    std::uint32_t channels;
    std::uint32_t in_image;
    std::uint32_t column;
    const std::uint32_t patch = a.of_patch.divide(static_cast<std::uint32_t>(tile), channels);
    const auto image = static_cast<int>(a.of_image.divide(patch, in_image));
    const auto row = static_cast<int>(a.of_patch_row.divide(in_image, column));
    return {image, row * S::kRows, static_cast<int>(column) * S::kColumns, static_cast<int>(channels) * kPanelColumns};
  }
};

/// What the thread that copies weights does; they are no predecessor's.
template <class S>
__device__ __forceinline__ void fill_weights_of_patches(const PatchArguments& a, const PatchMemory& memory) {
  const int taps = a.kernel_h * a.kernel_w;
  RingTurn at{0, 1};  // nobody has to free a stage before its first slice
#pragma unroll 1
  for (int tile = static_cast<int>(blockIdx.x); tile < a.tiles; tile += static_cast<int>(gridDim.x)) {
    const auto place = PatchPlace::of<S>(a, tile);
#pragma unroll 1
    for (int slice = 0; slice < a.channel_slices; ++slice) {
#pragma unroll 1
      for (int tap = 0; tap < taps; ++tap) {
        const std::uint32_t full = memory.full + at.place * 8;
        ptx::mbarrier_wait(memory.empty + at.place * 8, at.parity);
        ptx::mbarrier_arrive_expect(full, kSliceBytes);
        ptx::copy_box<1>(memory.weights + at.place * kSliceBytes, a.weights, place.channel, slice * kSliceK, tap, full);
        at.advance(a.stages);
      }
    }
    if (a.weights_stay) return;
  }
}

/// What the thread that copies inputs does.
template <class S>
__device__ __forceinline__ void fill_inputs_of_patches(const PatchArguments& a, const PatchMemory& memory) {
  wait_for_predecessor();
  RingTurn at{0, 1};
#pragma unroll 1
  for (int tile = static_cast<int>(blockIdx.x); tile < a.tiles; tile += static_cast<int>(gridDim.x)) {
    const auto place = PatchPlace::of<S>(a, tile);
#pragma unroll 1
    for (int slice = 0; slice < a.channel_slices; ++slice) {
      const std::uint32_t full = memory.input_full + at.place * 8;
      ptx::mbarrier_wait(memory.input_empty + at.place * 8, at.parity);
      ptx::mbarrier_arrive_expect(full, a.input_bytes);
      ptx::copy_box(memory.inputs + at.place * a.input_pitch, a.pixels, slice * kSliceK, place.x - a.pad_left,
                    place.y - a.pad_top, place.image, full);
      at.advance(a.inputs);
    }
  }
}

/// Tells a thread that fills a ring that this warp has read a place of it.
__device__ __forceinline__ void give_back_place(std::uint32_t barrier) {
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(barrier);
}

/// Starts the products of a tile. When this returns all but the last have ended; the last one's stage and input are
/// free only when it has. `stage`, `input`: of the first slices; then behind the last.
template <class S>
__device__ __forceinline__ void multiply_patch(const PatchArguments& a, const PatchMemory& memory, RingTurn& stage,
                                               RingTurn& input, float (&sums)[S::kHalves][S::kSums]) {
  const int row_bytes = a.input_columns * kRowBytes;
  const std::uint32_t upper = ptx::wgmma_upper_128b(row_bytes);
  int adds = 0;
  std::uint32_t before = 0;
#pragma unroll
  for (auto& half : sums) ptx::pin_accumulators(half);
#pragma unroll 1
  for (int slice = 0; slice < a.channel_slices; ++slice) {
    ptx::mbarrier_wait(memory.input_full + input.place * 8, input.parity);
    std::uint32_t row = ptx::wgmma_operand_128b(memory.inputs + input.place * a.input_pitch);
#pragma unroll 1
    for (int ky = 0; ky < a.kernel_h; ++ky) {
      std::uint32_t pixels = row;
#pragma unroll 1
      for (int kx = 0; kx < a.kernel_w; ++kx) {
        ptx::mbarrier_wait(memory.full + stage.place * 8, a.weights_stay ? 0 : stage.parity);
        const std::uint32_t weights = ptx::wgmma_operand_128b(memory.weights + stage.place * kSliceBytes);
        ptx::wgmma_fence();
#pragma unroll
        for (int k16 = 0; k16 < kSliceK / 16; ++k16) {
#pragma unroll
          for (int half = 0; half < S::kHalves; ++half) {
            ptx::start_wgmma_transposed_a(sums[half], weights + k16 * 16 * kRowBytes / 16,
                                          pixels + (half * kProductColumns * kRowBytes + k16 * 32) / 16, upper,
                                          adds + k16 > 0 ? 1 : 0);
          }
        }
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
        if (adds > 0) {
          if (!a.weights_stay) give_back_place(memory.empty + before * 8);
          if (slice > 0 && ky + kx == 0) {
            give_back_place(memory.input_empty + (input.place == 0 ? a.inputs - 1 : input.place - 1) * 8);
          }
        }
        adds = 1;
        before = stage.place;
        stage.advance(a.stages);
        pixels += kRowBytes / 16;
      }
      row += row_bytes / 16;
    }
    input.advance(a.inputs);
  }
}

/// Waits for a tile's last product.
template <class S>
__device__ __forceinline__ void end_patch(const PatchArguments& a, const PatchMemory& memory, const RingTurn& stage,
                                          const RingTurn& input, float (&sums)[S::kHalves][S::kSums]) {
  ptx::wgmma_wait<0>();
#pragma unroll
  for (auto& half : sums) ptx::pin_accumulators(half);
  if (!a.weights_stay) give_back_place(memory.empty + (stage.place == 0 ? a.stages - 1 : stage.place - 1) * 8);
  give_back_place(memory.input_empty + (input.place == 0 ? a.inputs - 1 : input.place - 1) * 8);
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

/// Writes a box of y in a strip, pixel by pixel, and has it copied out. words(row, words) gives the fragments of 8
/// pixels that lie side by side in the strip: of 8 and of 8 more channels. `pixel`: which one of them is column `lane %
/// 8` of a fragment.
template <class S, class Words>
__device__ __forceinline__ void put_box(const PatchArguments& a, const PatchMemory& memory, const PatchPlace& place,
                                        int x, int y, int pixel, int& next, const Words& words) {
  const int lane = ptx::as_int::lane();
  const int group = static_cast<int>(threadIdx.x / kGroupThreads);
  const bool leads = threadIdx.x % kGroupThreads == 0;
  const std::uint32_t strip = memory.strips + (group * S::kStrips + next) * kBoxBytes;
  next = next + 1 == S::kStrips ? 0 : next + 1;
  if (leads) ptx::copy_out_wait_read<S::kStrips - 1>();
  ptx::sync_threads_of<kGroupThreads>(1 + group);  // the strip is free
  const int warp = static_cast<int>(threadIdx.x / 32 % 4);
  const std::uint32_t packet = ((warp * 2 + lane / 8 % 2) ^ pixel) * 16;  // a row of 8 pixels begins at 1024 bytes
  const std::uint32_t to = strip + pixel * kRowBytes + packet;
#pragma unroll
  for (int row = 0; row < kBoxRows; ++row) {
    std::uint32_t fragments[4] = {};
    words(row, fragments);
    ptx::stmatrix_x2_trans(to + row * kProductColumns * kRowBytes, fragments);
  }
  ptx::fence_proxy_async();
  ptx::sync_threads_of<kGroupThreads>(1 + group);
  if (leads) ptx::copy_box_out(a.result, place.channel, x, y, place.image, strip);
}

template <class S>
__device__ __forceinline__ std::uint32_t finish_pair(const Activation& activation, float bias, float first,
                                                     float second) {
  float values[2] = {first + bias, second + bias};
  activate<S::kSwish>(activation, values);
  const __half2 pair = __floats2half2_rn(values[0], values[1]);
  return reinterpret_cast<const std::uint32_t&>(pair);
}

/// Sums of a thread in a half: of row y of 8 pixels two, of a channel and of the one 8 further.
__device__ __forceinline__ int sum_at(int y, int high) { return y * 4 + high * 2; }

template <class S>
__device__ __forceinline__ void finish_patch(const PatchArguments& a, const PatchMemory& memory,
                                             const PatchPlace& place, const float (&sums)[S::kHalves][S::kSums],
                                             int& next) {
  const PatchBias bias(a, place.channel);
#pragma unroll
  for (int half = 0; half < S::kHalves; ++half) {
#pragma unroll
    for (int first = 0; first < S::kRows; first += kBoxRows) {
      const auto words = [&](int row, std::uint32_t(&to)[4]) {
#pragma unroll
        for (int high = 0; high < 2; ++high) {
          const int at = sum_at(first + row, high);
          to[high] = finish_pair<S>(a.activation, high == 0 ? bias.low : bias.high, sums[half][at], sums[half][at + 1]);
        }
      };
      put_box<S>(a, memory, place, place.x + half * kProductColumns, place.y + first,
                 ptx::as_int::lane() % kProductColumns, next, words);
    }
  }
}

/// The largest of 2x2 sums is what becomes the largest of the finished values: bias, clip and rounding keep the order,
/// and NaN stays. Of 8 pixels in the strip thread t of a quad has number t and t + 4: of two halves those side by side,
/// of one half those of two rows.
template <class S>
__device__ __forceinline__ void finish_pooled_patch(const PatchArguments& a, const PatchMemory& memory,
                                                    const PatchPlace& place, const float (&sums)[S::kHalves][S::kSums],
                                                    int& next) {
  const PatchBias bias(a, place.channel);
  const auto words = [&](int row, std::uint32_t(&to)[4]) {
#pragma unroll
    for (int high = 0; high < 2; ++high) {
      const auto largest = [&](int which) {
        const float(&half)[S::kSums] = sums[S::kHalves == 2 ? which : 0];
        const int pooled_row = S::kHalves == 2 ? row : row * 2 + which;
        const int upper = sum_at(pooled_row * 2, high);
        const int lower = sum_at(pooled_row * 2 + 1, high);
        return ptx::larger_or_nan(ptx::larger_or_nan(half[upper], half[upper + 1]),
                                  ptx::larger_or_nan(half[lower], half[lower + 1]));
      };
      to[high] = finish_pair<S>(a.activation, high == 0 ? bias.low : bias.high, largest(0), largest(1));
    }
  };
  const int column = ptx::as_int::lane() % kProductColumns;
  put_box<S>(a, memory, place, place.x / 2, place.y / 2, column % 2 * 4 + column / 2, next, words);
}

/// What a group of warps does: every second tile of the block.
template <class S>
__device__ __forceinline__ void compute_patches(const PatchArguments& a, const PatchMemory& memory) {
  const int group = static_cast<int>(threadIdx.x / kGroupThreads);
  const int slices = a.channel_slices * a.kernel_h * a.kernel_w;
  const std::uint32_t own_turn = memory.turns + group * 8;
  const std::uint32_t other_turn = memory.turns + (1 - group) * 8;
  const auto blocks = static_cast<int>(gridDim.x);
  RingTurn stage;
  RingTurn input;
  int next_strip = 0;
  std::uint32_t parity = group == 0 ? 1 : 0;  // the first turn is the first group's
  if (group == 1) {
    stage.skip(slices, a.of_stages);
    input.skip(a.channel_slices, a.of_inputs);
  }
#pragma unroll 1
  for (int tile = static_cast<int>(blockIdx.x) + group * blocks; tile < a.tiles; tile += 2 * blocks) {
    if (a.weights_stay) stage = {};
    ptx::mbarrier_wait(own_turn, parity);
    parity ^= 1U;
    float sums[S::kHalves][S::kSums];
    multiply_patch<S>(a, memory, stage, input, sums);
    give_back_place(other_turn);  // what has begun is multiplied in this order
    end_patch<S>(a, memory, stage, input, sums);
    stage.skip(slices, a.of_stages);  // those of the other group's tile
    input.skip(a.channel_slices, a.of_inputs);
    const auto place = PatchPlace::of<S>(a, tile);
    if constexpr (S::kPooled) {
      finish_pooled_patch<S>(a, memory, place, sums, next_strip);
    } else {
      finish_patch<S>(a, memory, place, sums, next_strip);
    }
  }
  if (threadIdx.x % kGroupThreads == 0) ptx::copy_out_wait_read<0>();
}

template <class S>
__global__ void __launch_bounds__(kPatchThreads, 1) patch_kernel(const __grid_constant__ PatchArguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  const PatchMemory memory = PatchMemory::of<S>(a, ptx::shared_address(shared));
  constexpr unsigned kWeightsThread = 2 * kGroupThreads;
  constexpr unsigned kInputsThread = kWeightsThread + 32;
  if (threadIdx.x == kWeightsThread) {
    ptx::prefetch_tensor_map(a.weights);
    ptx::prefetch_tensor_map(a.pixels);
    ptx::prefetch_tensor_map(a.result);
    for (int i = 0; i < a.stages; ++i) {
      ptx::mbarrier_init(memory.full + i * 8, 1);
      ptx::mbarrier_init(memory.empty + i * 8, 4);
    }
    for (int i = 0; i < a.inputs; ++i) {
      ptx::mbarrier_init(memory.input_full + i * 8, 1);
      ptx::mbarrier_init(memory.input_empty + i * 8, 4);
    }
    for (int group = 0; group < 2; ++group) ptx::mbarrier_init(memory.turns + group * 8, 4);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWeightsThread) {
    wait_for_predecessor();
    compute_patches<S>(a, memory);
  } else if (threadIdx.x == kInputsThread) {
    fill_inputs_of_patches<S>(a, memory);  // waits where it has to
  } else {
    if (threadIdx.x == kWeightsThread) fill_weights_of_patches<S>(a, memory);
    wait_for_predecessor();
  }
}

}  // namespace mobicuda::kernels::conv_wgmma
