// An inverted residual block in int8: a block of threads, or a cluster of them, computes a tile of output pixels.
// Hidden channels pass by in chunks, each of which is expanded for the tile's patch of the input, filtered and
// projected; the sums of the projection stay in registers. sm_80 and newer, clusters sm_90.
#pragma once

#include "kernels/int8_inverted_residual/exchange.cuh"
#include "kernels/int8_inverted_residual/stages.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::int8_block {

/// That is compiled for. The host's compiler reads kernels as well.
#if defined(__CUDA_ARCH__)
inline constexpr int kArchitecture = __CUDA_ARCH__ / 10;
#else
inline constexpr int kArchitecture = kOldestWithClusters;
#endif

/// `slices`: of the block.
template <class S, Rounding kHow>
__device__ __forceinline__ void run_chunks(const Arguments& a, int pixels, const unsigned char* slices,
                                           unsigned char* shared, const Depthwise<S>& depthwise, Project<S>& project) {
#pragma unroll 1
  for (int chunk = 0; chunk < S::kChunks; ++chunk) {
    const unsigned char* const weights = stage_of<S>(shared, chunk);
    expand<S, kHow>(a, pixels, weights, chunk, shared);
    ptx::copy_async_wait<0>();  // the next chunk's weights
    __syncthreads();
    if (chunk + 2 < S::kChunks) copy_stage<S>(slices, chunk + 2, shared);
    ptx::copy_async_commit();
    constexpr bool kAllFilter = (S::kPixelWarps - 1) * S::kMyOutTiles < S::kOutTiles;
    const bool filters = kAllFilter || tile_of_warp<S>(0) < S::kOutTiles;
    std::uint32_t filtered[S::kMyOutTiles][4];
    if constexpr (S::kParts == 1) {
      if (!filters) continue;
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
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    // NOLINTNEXTLINE(readability-non-const-parameter): Store writes there
    block_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
  if constexpr (kArchitecture >= S::kOldest) {
    MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
    const int rank = static_cast<int>(blockIdx.x % S::kCluster);
    const Place place = locate<S>(a, blockIdx.x / S::kCluster);
    const unsigned char* const slices = packed + S::kSizes.head_bytes + rank * (S::kChunks * S::kSizes.stage_bytes);
#pragma unroll
    for (int chunk = 0; chunk < 2 && chunk < S::kChunks; ++chunk) copy_stage<S>(slices, chunk, shared);
    copy_bytes<S, S::kSizes.output_bytes>(packed + kFlagBytes, shared + S::kOutputAt);
    const Exchange<S> exchange(shared, rank);
    write_slots<S>(place, shared);
    if (place.pixels() < S::kPatchH * S::kPatchW) fill_hidden<S>(a, shared);
    const Depthwise<S> depthwise;
    Project<S> project;
    const auto rounding = static_cast<Rounding>(ptx::load_global_nc<uint4>(packed).x);
    wait_for_predecessor();
    copy_patch<S>(a, place, x, shared);
    exchange.meet();
    ptx::copy_async_wait_all();
    __syncthreads();
    const auto run = [&]<Rounding kHow>() {
      run_chunks<S, kHow>(a, place.pixels(), slices, shared, depthwise, project);
    };
    switch (rounding) {
      case Rounding::Bytes:
        run.template operator()<Rounding::Bytes>();
        break;
      case Rounding::Pairs:
        run.template operator()<Rounding::Pairs>();
        break;
      case Rounding::Any:
        run.template operator()<Rounding::Any>();
        break;
    }
    exchange.finish(project, Store<S>(a, place, shared, y));
  }
}

}  // namespace mobicuda::kernels::int8_block
