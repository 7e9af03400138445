// The small inverted residual kernel: a tile of the output with all its channels in one block of threads.
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/inverted_residual/small/stages.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/named_barrier.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::inverted_small {

/// Adds up the slices' sums for a few channels of a pixel.
template <class S>
class Finish {
 public:
  __device__ __forceinline__ Finish(const unsigned char* packed, std::uint32_t sums) {
    sums_ = sums + (pixel() * S::kPartialRow + channel()) * 4;
#pragma unroll
    for (int c = 0; c < kChannels; c += kAtOnce) {
      ptx::load_global_words_if<kAtOnce>(active(), packed + (channel() + c) * 4, bias_ + c);
    }
  }

  __device__ __forceinline__ void aim(const Arguments& a, const Place& place, const unsigned char* x,
                                      unsigned char* y) {
    const int oy = place.oy + static_cast<int>(pixel() / S::kTileW);
    const int ox = place.ox + static_cast<int>(pixel() % S::kTileW);
    inside_ = active() && oy < a.out_h && ox < a.out_w ? 1 : 0;
    const std::size_t at =
        static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.out_h * a.out_w) * (S::kCOut * 2) +
        static_cast<std::size_t>((oy * a.out_w + ox) * (S::kCOut * 2)) + channel() * 2;
    to_ = y + at;
    if constexpr (S::kMayAdd) residual_from_ = x + at;
  }

  __device__ __forceinline__ void pin(std::uint32_t scratch) {
    ptx::pin_by_memory(scratch, to_);
    ptx::pin_by_memory(scratch, inside_);
    ptx::pin_by_memory(scratch, sums_);
    if constexpr (S::kMayAdd) ptx::pin_by_memory(scratch, residual_from_);
  }

  __device__ __forceinline__ void load_residual(const Arguments& a) {
    if constexpr (S::kMayAdd)
      ptx::load_global_words_if<kChannels / 2>(a.residual && inside_ != 0, residual_from_, residual_);
  }

  /// `offset` is of the sums, in bytes.
  __device__ __forceinline__ void store(const Arguments& a, int offset) const {
    if (inside_ == 0) return;
    std::uint32_t parts[S::kSlices][kChannels];
#pragma unroll
    for (int s = 0; s < S::kSlices; ++s) {
#pragma unroll
      for (int c = 0; c < kChannels; c += kAtOnce) {
        ptx::load_shared_words<kAtOnce>(sums_ + offset + (s * S::kPartialFloats + c) * 4, parts[s] + c);
      }
    }
    float sum[kChannels];
#pragma unroll
    for (int c = 0; c < kChannels; ++c) sum[c] = __uint_as_float(bias_[c]);
#pragma unroll
    for (int s = 0; s < S::kSlices; ++s) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) sum[c] += __uint_as_float(parts[s][c]);
    }
    std::uint32_t result[kChannels / 2];
#pragma unroll
    for (int i = 0; i < kChannels / 2; ++i) {
      if constexpr (S::kMayAdd) {
        const float2 added = __half22float2(*reinterpret_cast<const __half2*>(&residual_[i]));
        sum[2 * i] += added.x;
        sum[2 * i + 1] += added.y;
      }
      result[i] =
          ptx::bits(__floats2half2_rn(apply(a.project_clip, sum[2 * i]), apply(a.project_clip, sum[2 * i + 1])));
    }
    ptx::store_global(to_, result);
  }

 private:
  static constexpr int kChannels = S::kFinishChannels;
  static constexpr int kAtOnce = kChannels == 2 ? 2 : 4;
  static constexpr int kChunks = S::kCOut / kChannels;

  __device__ __forceinline__ static bool active() { return threadIdx.x < S::kPixels * kChunks; }
  __device__ __forceinline__ static unsigned pixel() { return threadIdx.x / kChunks; }
  __device__ __forceinline__ static unsigned channel() { return threadIdx.x % kChunks * kChannels; }

  unsigned char* to_ = nullptr;
  const unsigned char* residual_from_ = nullptr;
  std::uint32_t sums_;
  std::uint32_t inside_ = 0;
  std::uint32_t bias_[kChannels];
  std::uint32_t residual_[kChannels / 2];
};

/// Waits for the warps that share a slice.
template <class S>
__device__ __forceinline__ void synchronize_slice([[maybe_unused]] unsigned slice) {
  if constexpr (S::kParts == 1) {
    __syncwarp();
  } else {
    ptx::sync_threads_of<S::kParts * 32>(1 + static_cast<int>(slice));
  }
}

/// S: Shape<...>.
template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    small_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 16, shared);
  const unsigned slice = ptx::warp() / S::kParts;
  const unsigned part = S::kParts == 1 ? 0 : ptx::warp() % S::kParts;
  const auto all_hidden = ptx::shared_address(shared);
  const std::uint32_t hidden = all_hidden + slice * (S::kUnits * 2 * S::kGroupBytes);
  const std::uint32_t sums = all_hidden + S::kHiddenBytes;
  const std::uint32_t slice_sums = sums + slice * (S::kPartialFloats * 4);
  const std::uint32_t table = sums + (S::kWalks ? 2 : 1) * S::kPartialBytes;
  const unsigned char* const zeros = packed + S::kCOut * 4;

  Weights<S> weights;
  weights.load(packed, slice);
  std::uint32_t tile = blockIdx.x;
  Place place = locate<S>(a, tile);
  Table<S>::fill(a, place, x, zeros, table);
  Finish<S> finish(packed, sums);
  finish.aim(a, place, x, y);
  Depthwise<S> depthwise(hidden, part);
  std::uint32_t rows[2] = {hidden_row<S>(hidden, part),
                           slice_sums + ((part * 16 + ptx::lane() / 4) * S::kPartialRow + ptx::lane() % 4 * 2) * 4};
  const std::uint32_t scratch = all_hidden + threadIdx.x * 8;
  depthwise.pin(scratch);
  finish.pin(scratch);
  ptx::pin_by_memory(scratch, rows);
  Place next = place;
  if constexpr (S::kWalks) {
    next = locate<S>(a, tile + gridDim.x);
    Table<S>::fill(a, next, x, zeros, table + S::kTableBytes);
  }
  __syncthreads();
  Patch<S> patch;
  patch.aim(table, part);
  if constexpr (S::kWalks) __syncthreads();  // before the table is filled again
  wait_for_predecessor();
  patch.load();

  for (int parity = 0;; parity ^= 1) {
    finish.load_residual(a);
    expand(patch, weights, rows[0]);
    bool more = false;
    if constexpr (S::kWalks) {
      tile += gridDim.x;
      more = tile < a.tiles;
      if (more) {
        patch.aim(table + (parity ^ 1) * S::kTableBytes, part);
        patch.load();
      }
    }
    synchronize_slice<S>(slice);
    filter_and_project(a, weights, depthwise, rows[1] + parity * S::kPartialBytes);
    if constexpr (S::kWalks) {
      place = next;
      next = locate<S>(a, tile + gridDim.x);
      Table<S>::fill(a, next, x, zeros, table + parity * S::kTableBytes);
    }
    __syncthreads();
    finish.store(a, parity * S::kPartialBytes);
    if (!more) break;
    finish.aim(a, place, x, y);
  }
}

}  // namespace mobicuda::kernels::inverted_small
