// An inverted residual block whose 1x1 convolutions are split products: one block of threads makes one tile of the
// output, hidden channels in chunks.
#pragma once

#include "kernels/inverted_residual/split/stages.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::inverted_split {

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    split_kernel(Arguments a, const float* x, const float* packed, float* y) {
  constexpr Config kConfig = S::kConfig;
  constexpr Sizes kSizes = S::kSizes;
  MOBICUDA_DYNAMIC_SHARED(float4, 16, shared_memory);
  float* const shared = reinterpret_cast<float*>(shared_memory);
  float* const hidden = shared + kSizes.hidden_at;
  float* const filtered = shared + kSizes.filtered_at;
  float* const project_weights = shared + kSizes.project_at;
  const int units = (a.c_hidden + kUnit - 1) / kUnit;
  const float* const fronts = packed + kSizes.front_at;
  const float* const project = fronts + units * kSizes.unit_floats;

  copy_floats<S::kThreads, kSizes.front_at + kSizes.front_floats>(shared, packed);
  copy_floats<S::kThreads, kSizes.project_floats>(project_weights, project);
  ptx::copy_async_commit();
  const auto x_scale = ptx::load_global_nc<float>(packed);
  const Place place = locate<kConfig>(a);
  wait_for_predecessor();
  Expand<S> expand;
  expand.load(a, place, x, x_scale);
  ptx::copy_async_wait<0>();
  __syncthreads();

  const float scale = shared[1];
  const Clip depthwise_clip{a.depthwise_clip.lo * scale, a.depthwise_clip.hi * scale};
  Project<S> sums;
  const int chunks = S::kOneChunk ? 1 : units / kSizes.units;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const float* const front = shared + kSizes.front_at + (S::kOneChunk ? 0 : chunk % 2 * kSizes.front_floats);
    expand.run(a, front, hidden);
    __syncthreads();  // hidden is complete; the preceding chunk's weights are free
    if constexpr (!S::kOneChunk) {
      if (chunk > 0) {
        copy_floats<S::kThreads, kSizes.project_floats>(project_weights, project + chunk * kSizes.project_floats);
      }
      if (chunk + 1 < chunks) {
        copy_floats<S::kThreads, kSizes.front_floats>(shared + kSizes.front_at + (chunk + 1) % 2 * kSizes.front_floats,
                                                      fronts + (chunk + 1) * kSizes.front_floats);
      }
      ptx::copy_async_commit();
    }
    depthwise<S>(depthwise_clip, hidden, front, filtered);
    if constexpr (!S::kOneChunk) ptx::copy_async_wait<0>();
    __syncthreads();  // filtered is complete, and so are the weights
    sums.add(filtered, project_weights);
  }
  sums.finish(a, place, shared, x, y);
}

}  // namespace mobicuda::kernels::inverted_split
