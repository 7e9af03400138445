// An inverted residual block in int8: a block of threads, or a cluster of them, computes a tile of output pixels.
// Hidden channels pass by in chunks, each of which is expanded for the tile's patch of the input, filtered and
// projected; the sums of the projection stay in registers. sm_80 and newer, clusters sm_90.
#pragma once

#include "kernels/int8_inverted_residual/exchange.cuh"
#include "kernels/int8_inverted_residual/stages.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/named_barrier.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::int8_block {

/// That is compiled for. The host's compiler reads kernels as well.
#if defined(__CUDA_ARCH__)
inline constexpr int kArchitecture = __CUDA_ARCH__ / 10;
#else
inline constexpr int kArchitecture = kOldestWithClusters;
#endif

/// Whether warps of different slices share nothing before they project: one chunk, and a barrier for each part.
template <class S>
inline constexpr bool kOneChunkInParts = S::kChunks == 1 && S::kParts > 1 && S::kParts < 16;

/// Takes the tile's pixels through a chunk of hidden channels. `slices`: of the block.
template <class S, Rounding kHow>
__device__ __forceinline__ void run_chunk(const Arguments& a, int pixels, const unsigned char* slices, int chunk,
                                          unsigned char* shared, const Expand<S, kHow>& expand,
                                          const Depthwise<S>& depthwise, Project<S>& project) {
  const unsigned char* const weights = stage_of<S>(shared, chunk);
  expand.run(a, pixels, weights, chunk, shared);
  if constexpr (kOneChunkInParts<S>) {
    // The warps that filter the pixels which they expanded.
    ptx::sync_threads_of<S::kPixelWarps * 32>(1 + warp() % S::kParts);
  } else {
    ptx::copy_async_wait<0>();  // the next chunk's weights
    __syncthreads();
    if (chunk + 2 < S::kChunks) copy_stage<S>(slices, chunk + 2, shared);
    ptx::copy_async_commit();
  }
  constexpr bool kAllFilter = (S::kPixelWarps - 1) * S::kMyOutTiles < S::kOutTiles;
  const bool filters = kAllFilter || tile_of_warp<S>(0) < S::kOutTiles;
  std::uint32_t filtered[S::kMyOutTiles][4];
  if constexpr (S::kParts == 1) {
    if (!filters) return;
    depthwise.template run<kHow>(a, weights, chunk, shared, filtered);
    project.add(weights, filtered);
  } else {
    if (filters) {
      depthwise.template run<kHow>(a, weights, chunk, shared, filtered);
      store_filtered<S>(filtered, shared);
    }
    __syncthreads();
    project.add(weights, shared);
  }
}

/// Waits for the kernel before, then until the tile's pixels are in shared memory, and all weights that are under way.
template <class S>
__device__ __forceinline__ void load_patch(const PatchCopy<S>& patch) {
  wait_for_predecessor();
  patch.begin();
  ptx::copy_async_wait_all();
  __syncthreads();
}

/// The sums of the tile, from its pixels on; with one chunk from before they are loaded, so that its weights are in
/// registers then. Stores them, unless that is done in rounds.
template <class S, Rounding kHow>
__device__ __forceinline__ void run_block(const Arguments& a, const Place& place, const PatchCopy<S>& patch,
                                          const unsigned char* slices, const Exchange<S>& exchange,
                                          // NOLINTNEXTLINE(readability-non-const-parameter): Store writes there
                                          unsigned char* shared, unsigned char* y, Project<S>& project) {
  const Depthwise<S> depthwise;
  if constexpr (S::kChunks == 1) {
    ptx::copy_async_wait_all();
    __syncthreads();
    const Expand<S, kHow> expand(a, stage_of<S>(shared, 0));
    load_patch(patch);
    run_chunk(a, place.pixels(), slices, 0, shared, expand, depthwise, project);
  } else {
#pragma unroll 1
    for (int chunk = 0; chunk < S::kChunks; ++chunk) {
      const Expand<S, kHow> expand(a, stage_of<S>(shared, chunk));
      run_chunk(a, place.pixels(), slices, chunk, shared, expand, depthwise, project);
    }
  }
  if constexpr (!S::kInRounds) exchange.finish(project, Store<S>(a, place, shared, y));
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    // NOLINTNEXTLINE(readability-non-const-parameter): Store writes there
    block_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
  if constexpr (kArchitecture >= S::kOldest) {
    MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
    const auto rounding = static_cast<Rounding>(ptx::load_global_nc<uint4>(packed).x);
    const int rank = static_cast<int>(blockIdx.x % S::kCluster);
    const Place place = locate<S>(a, blockIdx.x / S::kCluster);
    const unsigned char* const slices = packed + S::kSizes.head_bytes + rank * (S::kChunks * S::kSizes.stage_bytes);
#pragma unroll
    for (int chunk = 0; chunk < 2 && chunk < S::kChunks; ++chunk) copy_stage<S>(slices, chunk, shared);
    copy_bytes<S, S::kSizes.output_bytes>(packed + kFlagBytes, shared + S::kOutputAt);
    const Exchange<S> exchange(shared, rank);
    write_slots<S>(place, shared);
    if (place.pixels() < S::kPatchH * S::kPatchW) fill_hidden<S>(a, shared);
    const PatchCopy<S> patch(a, place, x, shared);
    exchange.meet();
    // The Rounding is waited for here only where its latency hides behind the kernel before.
    if constexpr (S::kChunks > 1) load_patch(patch);
    Project<S> project;
    switch (rounding) {
      case Rounding::Bytes:
        run_block<S, Rounding::Bytes>(a, place, patch, slices, exchange, shared, y, project);
        break;
      case Rounding::Pairs:
        run_block<S, Rounding::Pairs>(a, place, patch, slices, exchange, shared, y, project);
        break;
      case Rounding::Any:
        run_block<S, Rounding::Any>(a, place, patch, slices, exchange, shared, y, project);
        break;
    }
    // Behind the switch, so that much code exists once, not for each Rounding. Little code ends run_block(), where it
    // is fetched sooner.
    if constexpr (S::kInRounds) exchange.finish(project, Store<S>(a, place, shared, y));
  }
}

}  // namespace mobicuda::kernels::int8_block
