// An inverted residual block in exact float: one block of threads makes one tile of the output, hidden channels in
// chunks.
#pragma once

#include "kernels/common/simt_stages.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::inverted_simt {

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    fused_kernel(Arguments a, const float* x, const float* packed, float* y) {
  constexpr Config kConfig = S::kConfig;
  MOBICUDA_DYNAMIC_SHARED(float4, 16, shared_memory);
  float* const shared = reinterpret_cast<float*>(shared_memory);
  float* const patch = shared + S::kPatchAt;
  float* const hidden = shared + S::kHiddenAt;
  float* const filtered = shared + S::kFilteredAt;
  float* const project_weights = shared + S::kProjectAt;
  const float* const fronts = packed + kConfig.c_out;
  const float* const project = fronts + a.c_hidden / S::kUnit * S::kUnitFloats;

  copy_floats<S::kThreads, kConfig.c_out + S::kFrontFloats>(shared, packed);
  copy_floats<S::kThreads, S::kProjectFloats>(project_weights, project);
  const Place place = locate<kConfig>(a);
  wait_for_predecessor();
  copy_patch<S>(a, place, x, shared);
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
  __syncthreads();

  Project<S> sums;
  if constexpr (!S::kExpand) {
    depthwise<S>(a, hidden, shared + S::kFrontAt, filtered);
    __syncthreads();
    sums.add(filtered, project_weights);
  } else {
    const bool border = place.iy < 0 || place.ix < 0 || place.iy + S::kPatchH > a.h || place.ix + S::kPatchW > a.w;
    const int chunks = S::kOneChunk ? 1 : a.c_hidden / kConfig.chunk;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const float* const front = shared + S::kFrontAt + (S::kOneChunk ? 0 : chunk % 2 * S::kFrontFloats);
      expand<S>(a, border, patch, front, hidden);
      __syncthreads();  // hidden is complete; the preceding chunk's weights are free
      if constexpr (!S::kOneChunk) {
        if (chunk > 0) {
          copy_floats<S::kThreads, S::kProjectFloats>(project_weights, project + chunk * S::kProjectFloats);
        }
        if (chunk + 1 < chunks) {
          copy_floats<S::kThreads, S::kFrontFloats>(shared + S::kFrontAt + (chunk + 1) % 2 * S::kFrontFloats,
                                                    fronts + (chunk + 1) * S::kFrontFloats);
        }
        ptx::copy_async_commit();
      }
      depthwise<S>(a, hidden, front, filtered);
      if constexpr (!S::kOneChunk) ptx::copy_async_wait<0>();
      __syncthreads();  // filtered is complete, and so are the weights
      sums.add(filtered, project_weights);
      if constexpr (S::kInPlace && !S::kOneChunk) __syncthreads();
    }
  }
  sums.finish(a, place, shared, hidden, y);
}

}  // namespace mobicuda::kernels::inverted_simt
