// An inverted residual block in int8: a block of threads computes a tile of output pixels. Hidden channels pass by in
// chunks, each of which is expanded for the tile's patch of the input, filtered and projected; the sums of the
// projection stay in registers. sm_80 and newer.
#pragma once

#include "kernels/int8_inverted_residual/stages.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::int8_block {

template <class S, Rounding kHow>
__device__ __forceinline__ void run_chunks(const Arguments& a, int pixels, const unsigned char* packed,
                                           unsigned char* shared, Project<S>& project) {
#pragma unroll 1
  for (int chunk = 0; chunk < S::kChunks; ++chunk) {
    const unsigned char* const weights = shared + S::kStagesAt + chunk % kStages * S::kSizes.stage_bytes;
    expand<S, kHow>(a, pixels, weights, chunk, shared);
    ptx::copy_async_wait<0>();  // the next chunk's weights
    __syncthreads();
    if (chunk + 2 < S::kChunks) copy_stage<S>(packed, chunk + 2, shared);
    ptx::copy_async_commit();
    project.template run<kHow>(a, weights, chunk, shared);
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    block_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
  const Place place = locate<S>(a, blockIdx.x);
#pragma unroll
  for (int chunk = 0; chunk < 2 && chunk < S::kChunks; ++chunk) copy_stage<S>(packed, chunk, shared);
  write_slots<S>(place, shared);
  if (place.pixels() < S::kPatchH * S::kPatchW) fill_hidden<S>(a, shared);
  Project<S> project;
  const auto rounding = static_cast<Rounding>(ptx::load_global_nc<uint4>(packed).x);
  wait_for_predecessor();
  copy_patch<S>(a, place, x, shared);
  ptx::copy_async_wait_all();
  __syncthreads();
  switch (rounding) {
    case Rounding::Bytes: run_chunks<S, Rounding::Bytes>(a, place.pixels(), packed, shared, project); break;
    case Rounding::Pairs: run_chunks<S, Rounding::Pairs>(a, place.pixels(), packed, shared, project); break;
    case Rounding::Any: run_chunks<S, Rounding::Any>(a, place.pixels(), packed, shared, project); break;
  }
  project.finish(a, place, packed, shared, y);
}

}  // namespace mobicuda::kernels::int8_block
