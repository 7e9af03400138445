// The beginning of a quantised MobileNetV2: a block of threads computes a tile of outputs. The tile's patch of the
// image becomes bytes, of which the stem makes a patch of s; both stay in shared memory. Depthwise and projection then
// follow each other in registers. sm_80 and newer.
#pragma once

#include "kernels/int8_stem_block/stages.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::int8_stem {

template <class S, bool kFast>
__device__ __forceinline__ void compute(const Arguments& a, const Place& place, unsigned char* shared,
                                        unsigned char* y) {
#pragma unroll 1
  for (int slice = 0; slice < S::kSlices; ++slice) stem<S, kFast>(a, place, slice, shared);
  __syncthreads();
  Filter<S, kFast> filter;
#pragma unroll
  for (int slice = 0; slice < S::kSlices; ++slice) filter.run(a, slice, shared);
  filter.store(a, place, shared, y);
}

template <class S, InputForm kForm>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    stem_block_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
  const Place place = locate<S>(a, blockIdx.x);
  copy_weights<S>(packed, shared);
  fill_hidden<S>(a, place, shared);
  ptx::copy_async_wait_all();
  __syncthreads();
  const auto head = at<Head>(shared);
  wait_for_predecessor();
  if (kForm == InputForm::Words || head.quantizer.divides == 0) {
    read_patch<S, kForm, false>(a, place, head.quantizer, x, shared);
  } else {
    read_patch<S, kForm, true>(a, place, head.quantizer, x, shared);
  }
  __syncthreads();
  if (head.large_sums == 0) {
    compute<S, true>(a, place, shared, y);
  } else {
    compute<S, false>(a, place, shared, y);
  }
#endif
}

}  // namespace mobicuda::kernels::int8_stem
