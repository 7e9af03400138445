// Pointwise convolution, clip and mean of images of 49 pixels with wgmma. A block owns kChannels channels, whose
// weights stay in shared memory, and walks over groups of kPictures pictures; slices of 64 of k of a group pass through
// a ring. Two groups of four warps have 64 channels each, as rows of the products; pixels are the columns: 48 of each
// image, then the last of each together in 8 columns. An image's values are added in the same order wherever it
// lies. The two blocks of a cluster own neighbouring channels of the same images: each copies half of every slice,
// for both.
// Shared memory: weights (slice, channel) | ring | barriers.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/clip.cuh"
#include "kernels/common/hardware_limits.h"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/named_barrier.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/tensor_map.h"
#include "kernels/ptx/wgmma.cuh"

namespace mobicuda::kernels::pooled_wgmma {

inline constexpr int kPixels = 49;
inline constexpr int kWholePixels = 48;  // whole 8 columns
inline constexpr int kChannels = 128;
inline constexpr int kGroups = 2;  // of four warps
inline constexpr int kGroupThreads = 128;
inline constexpr int kThreads = kGroups * kGroupThreads + 32;
inline constexpr int kBlocks = 2;  // of a cluster
inline constexpr int kSliceK = 64;
inline constexpr int kMaxSlices = 5;
inline constexpr int kRowBytes = kSliceK * 2;
inline constexpr int kWeightSliceBytes = kChannels * kRowBytes;
inline constexpr int kWeightBytes = kMaxSlices * kWeightSliceBytes;
inline constexpr int kSharedLimit = limits_of(90).shared_bytes_per_block;
inline constexpr int kMaxStages = 10;
inline constexpr int kBarrierBytes = 256;

struct Arguments {
  CUtensorMap weights;      ///< (c, c_in), boxes of kChannels x kSliceK
  CUtensorMap pixels;       ///< (n, pixel, c_in), boxes of kWholePixels x kSliceK
  CUtensorMap last_pixels;  ///< the same, boxes of kPictures x 1 x kSliceK
  const float* bias;        ///< or null
  __half* y;
  int n, c;
  int groups;  ///< of images
  int slices;  ///< of k
  Clip clip;
};

template <int kPictures>
struct Ring {
  static constexpr int kSums = kPictures * kWholePixels / 2 + 4;  // of a thread
  static constexpr int kStageBytes = 2 * kSums * kRowBytes;
  static constexpr int kCopiedBytes = kPictures * kPixels * kRowBytes;
  static constexpr int kFitting = (kSharedLimit - kWeightBytes - kBarrierBytes) / kStageBytes;
  static constexpr int kStages = kFitting < kMaxStages ? kFitting : kMaxStages;
  static constexpr int kSharedBytes = kWeightBytes + kStages * kStageBytes + kBarrierBytes;
  static_assert((2 * kStages + kMaxSlices) * 8 <= kBarrierBytes);
};

/// A place in the ring.
template <int kStages>
struct Place {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

struct Barriers {
  std::uint32_t full, empty, weights;  // of stage 0 or slice 0
};

__device__ __forceinline__ void fill_weights(const Arguments& a, std::uint32_t weights, std::uint32_t barrier) {
  const int c0 = static_cast<int>(blockIdx.x) * kChannels;
  for (int slice = 0; slice < a.slices; ++slice) {
    ptx::mbarrier_arrive_expect(barrier + slice * 8, kWeightSliceBytes);
    ptx::copy_box(weights + slice * kWeightSliceBytes, a.weights, slice * kSliceK, c0, barrier + slice * 8);
  }
}

template <int kPictures>
__device__ __forceinline__ void fill_pixels(const Arguments& a, std::uint32_t ring, const Barriers& barriers) {
  using R = Ring<kPictures>;
  const int rank = ptx::rank_in_cluster();
  wait_for_predecessor();
  Place<R::kStages> place;
  for (int group = static_cast<int>(blockIdx.y); group < a.groups; group += static_cast<int>(gridDim.y)) {
    const int picture = group * kPictures;
    for (int slice = 0; slice < a.slices; ++slice) {
      const std::uint32_t stage = ring + place.stage * R::kStageBytes;
      const std::uint32_t full = barriers.full + place.stage * 8;
      ptx::mbarrier_wait(barriers.empty + place.stage * 8, place.parity ^ 1U);
      ptx::mbarrier_arrive_expect(full, R::kCopiedBytes);
      for (int i = rank; i <= kPictures; i += kBlocks) {
        const std::uint32_t to = stage + i * (kWholePixels * kRowBytes);
        if (i < kPictures) {
          ptx::copy_box<kBlocks>(to, a.pixels, slice * kSliceK, 0, picture + i, full);
        } else {
          ptx::copy_box<kBlocks>(to, a.last_pixels, slice * kSliceK, kWholePixels, picture, full);
        }
      }
      place.advance();
    }
  }
}

/// A thread's two channels. The mean of clip(sum + bias) is bias plus that of the sums within bounds that are lower by
/// bias: an addition less for every value.
struct Channels {
  float bias[2];
  Clip bounds[2];
};

/// The means of a group of images from the sums of a thread, whose channels are `channel` and + 8.
template <int kPictures>
__device__ __forceinline__ void finish(const Arguments& a, const float (&sums)[Ring<kPictures>::kSums],
                                       const Channels& own, int picture, int channel) {
  constexpr float kShare = 1.0F / kPixels;
  constexpr int kLast = kPictures * (kWholePixels / 2);
  const auto clipped = [&](int at, int half) { return apply(own.bounds[half], sums[at + half * 2]); };
  // Many independent sums at a time: the other group's products leave this one's threads alone on their schedulers.
  float total[kPictures][2];
#pragma unroll
  for (int block = 0; block < kWholePixels / 8; ++block) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
#pragma unroll
      for (int i = 0; i < kPictures; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float value = clipped((i * (kWholePixels / 8) + block) * 4 + e, half);
          total[i][half] = block + e > 0 ? total[i][half] + value : value;
        }
      }
    }
  }
#pragma unroll
  for (int distance = 1; distance < 4; distance *= 2) {
#pragma unroll
    for (int i = 0; i < kPictures; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) total[i][half] += __shfl_xor_sync(0xFFFFFFFFU, total[i][half], distance);
    }
  }
  // The last pixels of images 2t and 2t + 1 are lane t's of each quad.
  const int first = static_cast<int>(threadIdx.x % 4) * 2;
  __half* const y = a.y + static_cast<std::size_t>(picture + first) * static_cast<std::size_t>(a.c) + channel;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const bool is_there = first + e < kPictures && picture + first + e < a.n;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float mine = total[e % kPictures][half];
#pragma unroll
      for (int i = 2 + e; i < kPictures; i += 2) mine = first + e == i ? total[i][half] : mine;
      mine = apply(a.clip, (mine + clipped(kLast + e, half)) * kShare + own.bias[half]);
      if (is_there) y[e * a.c + half * 8] = __float2half_rn(mine);
    }
  }
}

template <int kPictures>
__device__ __forceinline__ void multiply(const Arguments& a, std::uint32_t weights, std::uint32_t ring,
                                         const Barriers& barriers) {
  using R = Ring<kPictures>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warps = static_cast<int>(threadIdx.x / kGroupThreads);
  const int channel = static_cast<int>(blockIdx.x) * kChannels + static_cast<int>(threadIdx.x / 32) * 16 + lane / 4;
  Channels own{};
  if (a.bias != nullptr) {
    own.bias[0] = ptx::load_global<float>(a.bias + channel);
    own.bias[1] = ptx::load_global<float>(a.bias + channel + 8);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    own.bounds[half] = {a.clip.lo - own.bias[half], a.clip.hi - own.bias[half]};
  }
  wait_for_predecessor();

  const std::uint32_t own_weights = ptx::wgmma_operand_128b(weights + warps * 64 * kRowBytes);
  const std::uint32_t pixels = ptx::wgmma_operand_128b(ring);
  const auto release = [&](int stage) {
    if (lane < kBlocks) ptx::mbarrier_arrive_at(barriers.empty + stage * 8, lane);
  };
  Place<R::kStages> place;
  float sums[R::kSums];
  int round = 0;
  // The second group of warps starts later, so that one multiplies while the other clips its sums.
  const bool is_apart = static_cast<int>(blockIdx.y + gridDim.y) < a.groups;
  const int start_slice = min(1, a.slices - 1);
  for (int group = static_cast<int>(blockIdx.y); group < a.groups; group += static_cast<int>(gridDim.y), ++round) {
    if (round == 0 && is_apart && warps == 1) ptx::sync_threads_of(1, 2 * kGroupThreads);
    ptx::pin_accumulators(sums);
    int before = 0;
    for (int slice = 0; slice < a.slices; ++slice) {
      if (round == 0) ptx::mbarrier_wait(barriers.weights + slice * 8, 0);
      ptx::mbarrier_wait(barriers.full + place.stage * 8, place.parity);
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < kSliceK / 16; ++step) {
        ptx::start_wgmma(sums, own_weights + (slice * kWeightSliceBytes + step * 32) / 16,
                         pixels + (place.stage * R::kStageBytes + step * 32) / 16, slice + step > 0 ? 1 : 0);
      }
      ptx::wgmma_commit();
      if (round == 0 && is_apart && warps == 0 && slice == start_slice)
        ptx::arrive_for_threads_of(1, 2 * kGroupThreads);
      ptx::wgmma_wait<1>();
      if (slice > 0) release(before);
      before = place.stage;
      place.advance();
    }
    ptx::wgmma_wait<0>();
    ptx::pin_accumulators(sums);
    release(before);
    finish<kPictures>(a, sums, own, group * kPictures, channel);
  }
}

template <int kPictures>
__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
    pooled_wgmma_kernel(const __grid_constant__ Arguments a) {
  using R = Ring<kPictures>;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  const std::uint32_t weights = ptx::shared_address(shared);
  const std::uint32_t ring = weights + kWeightBytes;
  const std::uint32_t full = ring + R::kStages * R::kStageBytes;
  const Barriers barriers{full, full + R::kStages * 8, full + 2 * R::kStages * 8};
  if (threadIdx.x == kThreads - 32) {
    ptx::prefetch_tensor_map(a.weights);
    ptx::prefetch_tensor_map(a.pixels);
    ptx::prefetch_tensor_map(a.last_pixels);
    for (int i = 0; i < R::kStages; ++i) {
      ptx::mbarrier_init(barriers.full + i * 8, 1);
      ptx::mbarrier_init(barriers.empty + i * 8, kBlocks * kGroups * 4);
    }
    for (int i = 0; i < kMaxSlices; ++i) ptx::mbarrier_init(barriers.weights + i * 8, 1);
    ptx::fence_mbarrier_init();
    fill_weights(a, weights, barriers.weights);
  }
  __syncwarp();
  arrive_at_cluster_begin();
  wait_for_cluster_begin();
  if (threadIdx.x < kGroups * kGroupThreads) {
    multiply<kPictures>(a, weights, ring, barriers);
  } else if (threadIdx.x == kThreads - 32) {
    fill_pixels<kPictures>(a, ring, barriers);
  } else {
    wait_for_predecessor();
  }
  __syncwarp();
  end_cluster();  // nobody here waits for the other block's last arrivals at `empty`
}

}  // namespace mobicuda::kernels::pooled_wgmma
