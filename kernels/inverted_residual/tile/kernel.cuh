// The inverted residual block on tiles of the output, one after another.
// A step is one chunk of hidden channels of one tile: expand | depthwise | project, with a barrier at each bar. The
// project of a step runs in the same phase as the expand of the next. The next chunk's weights, where not all fit, and
// the next tile's patch arrive during depthwise.
// Shared memory: project bias | weights | patches | hidden | filtered; see shared_bytes().
#pragma once

#include "kernels/inverted_residual/tile/stages.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::inverted {

inline constexpr int kPairBiasBytes = 16 * 4;

template <Config kConfig>
std::size_t shared_bytes(const Arguments& a) {
  using S = Shape<kConfig>;
  const std::int64_t weights = std::int64_t{a.weight_slots} * S::kUnits * a.unit.bytes;
  const std::int64_t patches = std::int64_t{a.patch_slots} * S::kPatchRows * (std::int64_t{a.patch_row_bytes} + 4);
  return static_cast<std::size_t>(a.n_pairs * kPairBiasBytes + weights + patches + S::hidden_bytes(a.n_pairs) +
                                  S::kFilteredBytes);
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    fused_kernel(const Arguments a, const __half* x, const unsigned char* packed, __half* y) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  constexpr Config kConfig = S::kConfig;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);

  const int bias_bytes = a.n_pairs * kPairBiasBytes;
  const int chunk_bytes = S::kUnits * a.unit.bytes;
  const int patch_bytes = S::patch_bytes(a.patch_row_bytes);
  const auto* const bias = reinterpret_cast<const float*>(shared);
  unsigned char* const weights = shared + bias_bytes;
  unsigned char* const patches = weights + a.weight_slots * chunk_bytes;
  unsigned char* const hidden = patches + a.patch_slots * patch_bytes;
  unsigned char* const filtered = hidden + S::hidden_bytes(a.n_pairs);
  const unsigned char* const packed_units = packed + bias_bytes;
  const bool resident = a.weight_slots == a.chunks;
  const auto live_units = [&](int chunk) { return min(S::kUnits, a.units - chunk * S::kUnits); };

  copy_bytes<S::kThreads>(shared, packed, bias_bytes + (resident ? a.units : live_units(0)) * a.unit.bytes);
  Place place = locate<kConfig>(a, blockIdx.x);
  PatchCopy<kConfig> first_patch(a, place, x, patches);
  wait_for_predecessor();
  first_patch.start();
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
  __syncthreads();

  Projection<kConfig> projection;
  int step = 0;  // over the chunks of all tiles
  int patch_slot = 0;
#pragma unroll 1
  for (std::uint32_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const bool more_tiles = tile + gridDim.x < a.tiles;
    const Place next_place = locate<kConfig>(a, more_tiles ? tile + gridDim.x : tile);
    const unsigned char* const patch = patches + patch_slot * patch_bytes;
    const auto units_of = [&](int chunk, int at_step) {
      return weights + (resident ? chunk : at_step % 2) * chunk_bytes;
    };
    projection.clear();
#pragma unroll 1
    for (int chunk = 0; chunk < a.chunks; ++chunk, ++step) {
      const int live = live_units(chunk);
      const unsigned char* const units = units_of(chunk, step);
      if (chunk > 0) projection.add(a, filtered, units_of(chunk - 1, step - 1), S::kUnits);
      if constexpr (kConfig.expand) expand<kConfig>(a, patch, units, live, hidden);
      __syncthreads();
      const bool last = chunk + 1 == a.chunks;
      if (!resident && (!last || more_tiles)) {
        const int next = last ? 0 : chunk + 1;
        copy_bytes<S::kThreads>(units_of(next, step + 1), packed_units + static_cast<std::size_t>(next) * chunk_bytes,
                                live_units(next) * a.unit.bytes);
        ptx::copy_async_commit();
      }
      if (chunk == 0) {
        if (more_tiles) PatchCopy<kConfig>(a, next_place, x, patches + (patch_slot ^ 1) * patch_bytes).start();
        ptx::copy_async_commit();
      }
      if constexpr (kConfig.expand) {
        depthwise<kConfig>(a, hidden, S::kHiddenRowBytes, units, live, filtered);
      } else {
        depthwise<kConfig>(a, patch + chunk * kConfig.chunk * 2, a.patch_row_bytes, units, live, filtered);
      }
      if (last || (!resident && chunk > 0)) {
        ptx::copy_async_wait<0>();
      } else if (!resident) {
        ptx::copy_async_wait<1>();  // all but the patch
      }
      __syncthreads();
    }
    projection.add(a, filtered, units_of(a.chunks - 1, step - 1), live_units(a.chunks - 1));
    projection.finish_tile(a, place, patch, bias, reinterpret_cast<float*>(hidden), y);
    if (kConfig.warps_k > 1 && more_tiles) __syncthreads();
    place = next_place;
    patch_slot ^= a.patch_slots - 1;
  }
#endif
}

}  // namespace mobicuda::kernels::inverted
