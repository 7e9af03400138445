// Pointwise convolution, activation and mean of small images with wgmma. A block owns kChannels channels, whose weights
// stay in shared memory, and walks over groups of images; slices of 64 of k of a group pass through a ring. Two groups
// of four warps have 64 channels each, as rows of the products; pixels are the columns, laid out as Columns say. An
// image's values are added in the same order wherever it lies. Shared memory: weights (slice, channel) | ring |
// barriers.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/activation.cuh"
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

inline constexpr int kChannels = 128;
inline constexpr int kGroups = 2;  // of four warps
inline constexpr int kGroupThreads = 128;
inline constexpr int kThreads = kGroups * kGroupThreads + 32;
inline constexpr int kSliceK = 64;
inline constexpr int kMaxSlices = 8;  // of c_in
inline constexpr int kRowBytes = kSliceK * 2;
inline constexpr int kWeightSliceBytes = kChannels * kRowBytes;
inline constexpr int kSharedLimit = limits_of(90).shared_bytes_per_block;
inline constexpr int kMaxStages = 10;
inline constexpr int kBarrierBytes = 256;
static_assert((2 * kMaxStages + kMaxSlices) * 8 <= kBarrierBytes);

struct Arguments {
  CUtensorMap weights;  ///< (c, c_in), boxes of kChannels x kSliceK
  CUtensorMap pixels;   ///< (n, pixel, c_in), boxes as Columns say
  CUtensorMap rest;     ///< the same, of what Columns copy apart
  const float* bias;    ///< or null
  __half* y;
  int n, c;
  int pixels_of_image;
  int pictures;  ///< of a group
  int groups;
  int slices;  ///< of k
  int stages;  ///< of the ring
  Activation activation;
};

/// Bytes of a stage of the ring.
template <class Columns>
inline constexpr int kStageBytes = Columns::kCount* kRowBytes;

/// How many stages fit beside the weights.
template <class Columns>
constexpr int stages_beside(int slices) {
  const int fitting = (kSharedLimit - kBarrierBytes - slices * kWeightSliceBytes) / kStageBytes<Columns>;
  return fitting < kMaxStages ? fitting : kMaxStages;
}

template <class Columns>
constexpr int shared_bytes(int slices, int stages) {
  return slices * kWeightSliceBytes + stages * kStageBytes<Columns> + kBarrierBytes;
}

/// A place in the ring.
struct Place {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance(int stages) {
    if (++stage == stages) {
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

/// A thread's two channels, of rows that are 8 apart. The mean of clip(sum + bias) is bias plus that of the sums within
/// bounds that are lower by bias: an addition less for every value.
struct Channels {
  int first;
  float bias[2];
  Clip bounds[2];

  /// What the mean is taken of, from a thread's accumulators.
  template <bool kSwish, int kCount>
  __device__ __forceinline__ void activate_all(const Activation& activation, float (&sums)[kCount]) const {
    if constexpr (kSwish) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums[i] += bias[i / 2 % 2];
      activate<true>(activation, sums);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums[i] = apply(bounds[i / 2 % 2], sums[i]);
    }
  }

  /// The mean of channel `half`, of that of what activate_all() left. A clip's bounds hold for it, too.
  template <bool kSwish>
  __device__ __forceinline__ float mean(const Activation& activation, float of_left, int half) const {
    if constexpr (kSwish) return of_left;
    return apply(Clip{activation.lo, activation.hi}, of_left + bias[half]);
  }
};

/// Groups of kPictures images of 49 pixels without padding: 48 pixels of each, then the last of each together in 8
/// columns. The two blocks of a cluster own neighbouring channels of the same images: each copies half of every slice,
/// for both.
template <int kPictures, bool kSwish>
struct Columns49 {
  static constexpr int kPixels = 49;
  static constexpr int kWholePixels = 48;  // whole 8 columns
  static constexpr int kCount = kPictures * kWholePixels + 8;
  static constexpr int kBlocks = 2;  // of a cluster

  __device__ static constexpr int copied_bytes(const Arguments& /*a*/) { return kPictures * kPixels * kRowBytes; }

  __device__ static __forceinline__ void copy(const Arguments& a, std::uint32_t stage, std::uint32_t full, int slice,
                                              int picture) {
    for (int i = ptx::rank_in_cluster(); i <= kPictures; i += kBlocks) {
      const std::uint32_t to = stage + i * (kWholePixels * kRowBytes);
      if (i < kPictures) {
        ptx::copy_box<kBlocks>(to, a.pixels, slice * kSliceK, 0, picture + i, full);
      } else {
        ptx::copy_box<kBlocks>(to, a.rest, slice * kSliceK, kWholePixels, picture, full);
      }
    }
  }

  __device__ static __forceinline__ void finish(const Arguments& a, float (&sums)[kCount / 2], const Channels& own,
                                                int picture) {
    constexpr float kShare = 1.0F / kPixels;
    constexpr int kLast = kPictures * (kWholePixels / 2);
    own.activate_all<kSwish>(a.activation, sums);
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
            const float value = sums[(i * (kWholePixels / 8) + block) * 4 + e + half * 2];
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
    __half* const y = a.y + static_cast<std::size_t>(picture + first) * static_cast<std::size_t>(a.c) + own.first;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const bool is_there = first + e < kPictures && picture + first + e < a.n;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float mine = total[e % kPictures][half];
#pragma unroll
        for (int i = 2 + e; i < kPictures; i += 2) mine = first + e == i ? total[i][half] : mine;
        mine = own.mean<kSwish>(a.activation, (mine + sums[kLast + e + half * 2]) * kShare, half);
        if (is_there) y[e * a.c + half * 8] = __float2half_rn(mine);
      }
    }
  }
};

/// Images of any number of pixels, each in columns of its own, a multiple of 8: what lies behind the last pixel is not
/// counted. A block by itself.
template <int kColumns, bool kSwish>
struct PaddedColumns {
  static constexpr int kCount = kColumns;
  static constexpr int kBlocks = 1;

  __host__ __device__ static constexpr int columns(int pixels) { return (pixels + 7) / 8 * 8; }

  __device__ static __forceinline__ int copied_bytes(const Arguments& a) {
    return a.pictures * columns(a.pixels_of_image) * kRowBytes;
  }

  __device__ static __forceinline__ void copy(const Arguments& a, std::uint32_t stage, std::uint32_t full, int slice,
                                              int picture) {
    ptx::copy_box<kBlocks>(stage, a.pixels, slice * kSliceK, 0, picture, full);
  }

  __device__ static __forceinline__ void finish(const Arguments& a, float (&sums)[kCount / 2], const Channels& own,
                                                int picture) {
    own.activate_all<kSwish>(a.activation, sums);
    const float share = 1.0F / static_cast<float>(a.pixels_of_image);
    const int quad_lane = static_cast<int>(threadIdx.x % 4);
    const int last = a.pictures < a.n - picture ? a.pictures : a.n - picture;
    __half* y = a.y + static_cast<std::size_t>(picture) * static_cast<std::size_t>(a.c) + own.first;
    float total[2] = {0.0F, 0.0F};
    int image = 0;
    int pixels = a.pixels_of_image - quad_lane * 2;  // of the image, from this lane's first column on
#pragma unroll
    for (int block = 0; block < kCount / 8; ++block) {
      if (image >= last) break;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float value = sums[block * 4 + half * 2 + e];
          total[half] += e < pixels ? value : 0.0F;
        }
      }
      pixels -= 8;
      if (pixels + quad_lane * 2 > 0) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        total[half] += __shfl_xor_sync(0xFFFFFFFFU, total[half], 1);
        total[half] += __shfl_xor_sync(0xFFFFFFFFU, total[half], 2);
        const float mean = own.mean<kSwish>(a.activation, total[half] * share, half);
        if (quad_lane == 0 && own.first + half * 8 < a.c) y[half * 8] = __float2half_rn(mean);
        total[half] = 0.0F;
      }
      y += a.c;
      ++image;
      pixels = a.pixels_of_image - quad_lane * 2;
    }
  }
};

template <class Columns>
__device__ __forceinline__ void fill_pixels(const Arguments& a, std::uint32_t ring, const Barriers& barriers) {
  wait_for_predecessor();
  Place place;
  for (int group = static_cast<int>(blockIdx.y); group < a.groups; group += static_cast<int>(gridDim.y)) {
    for (int slice = 0; slice < a.slices; ++slice) {
      const std::uint32_t full = barriers.full + place.stage * 8;
      ptx::mbarrier_wait(barriers.empty + place.stage * 8, place.parity ^ 1U);
      ptx::mbarrier_arrive_expect(full, Columns::copied_bytes(a));
      Columns::copy(a, ring + place.stage * kStageBytes<Columns>, full, slice, group * a.pictures);
      place.advance(a.stages);
    }
  }
}

template <class Columns>
__device__ __forceinline__ void multiply(const Arguments& a, std::uint32_t weights, std::uint32_t ring,
                                         const Barriers& barriers) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warps = static_cast<int>(threadIdx.x / kGroupThreads);
  Channels own{};
  own.first = static_cast<int>(blockIdx.x) * kChannels + static_cast<int>(threadIdx.x / 32) * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int channel = own.first + half * 8;
    if (a.bias != nullptr && channel < a.c) own.bias[half] = ptx::load_global<float>(a.bias + channel);
    own.bounds[half] = {a.activation.lo - own.bias[half], a.activation.hi - own.bias[half]};
  }
  wait_for_predecessor();

  const std::uint32_t own_weights = ptx::wgmma_operand_128b(weights + warps * 64 * kRowBytes);
  const std::uint32_t pixels = ptx::wgmma_operand_128b(ring);
  const auto release = [&](int stage) {
    if constexpr (Columns::kBlocks > 1) {
      if (lane < Columns::kBlocks) ptx::mbarrier_arrive_at(barriers.empty + stage * 8, lane);
    } else {
      if (lane == 0) ptx::mbarrier_arrive(barriers.empty + stage * 8);
    }
  };
  Place place;
  float sums[Columns::kCount / 2];
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
                         pixels + (place.stage * kStageBytes<Columns> + step * 32) / 16, slice + step > 0 ? 1 : 0);
      }
      ptx::wgmma_commit();
      if (round == 0 && is_apart && warps == 0 && slice == start_slice)
        ptx::arrive_for_threads_of(1, 2 * kGroupThreads);
      ptx::wgmma_wait<1>();
      if (slice > 0) release(before);
      before = place.stage;
      place.advance(a.stages);
    }
    ptx::wgmma_wait<0>();
    ptx::pin_accumulators(sums);
    release(before);
    Columns::finish(a, sums, own, group * a.pictures);
  }
}

/// The launch says how many blocks a cluster has: Columns::kBlocks.
template <class Columns>
__global__ void __launch_bounds__(kThreads, 1) pooled_wgmma_kernel(const __grid_constant__ Arguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  const std::uint32_t weights = ptx::shared_address(shared);
  const std::uint32_t ring = weights + a.slices * kWeightSliceBytes;
  const std::uint32_t full = ring + a.stages * kStageBytes<Columns>;
  const Barriers barriers{full, full + a.stages * 8, full + 2 * a.stages * 8};
  if (threadIdx.x == kThreads - 32) {
    ptx::prefetch_tensor_map(a.weights);
    ptx::prefetch_tensor_map(a.pixels);
    for (int i = 0; i < a.stages; ++i) {
      ptx::mbarrier_init(barriers.full + i * 8, 1);
      ptx::mbarrier_init(barriers.empty + i * 8, Columns::kBlocks * kGroups * 4);
    }
    for (int i = 0; i < a.slices; ++i) ptx::mbarrier_init(barriers.weights + i * 8, 1);
    ptx::fence_mbarrier_init();
    fill_weights(a, weights, barriers.weights);
  }
  __syncwarp();
  if constexpr (Columns::kBlocks > 1) {
    arrive_at_cluster_begin();
    wait_for_cluster_begin();
  } else {
    __syncthreads();
  }
  if (threadIdx.x < kGroups * kGroupThreads) {
    multiply<Columns>(a, weights, ring, barriers);
  } else if (threadIdx.x == kThreads - 32) {
    fill_pixels<Columns>(a, ring, barriers);
  } else {
    wait_for_predecessor();
  }
  if constexpr (Columns::kBlocks > 1) {
    __syncwarp();
    end_cluster();  // nobody here waits for the other block's last arrivals at `empty`
  }
}

}  // namespace mobicuda::kernels::pooled_wgmma
