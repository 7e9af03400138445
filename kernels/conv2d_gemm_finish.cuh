// The end of the matrix products of conv2d whose sums lie in shared memory, that of several blocks or of one.
#pragma once

#include "conv2d_gemm_arguments.cuh"

namespace mobicuda::kernels::conv_gemm {

/// Adds 8 floats that lie at `from` in the shared memory of block `block` of the cluster.
template <int kBlocks>
__device__ __forceinline__ void add_from(float (&value)[8], const float* from, [[maybe_unused]] int block) {
  float4 part[2] = {};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (kBlocks > 1) {
    std::uint32_t there;
    const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(from));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(block));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(part[i].x), "=f"(part[i].y), "=f"(part[i].z), "=f"(part[i].w)
                   : "r"(there + i * 16));
    }
  }
#endif
  if constexpr (kBlocks == 1) {
    part[0] = reinterpret_cast<const float4*>(from)[0];
    part[1] = reinterpret_cast<const float4*>(from)[1];
  }
  const float all[8] = {part[0].x, part[0].y, part[0].z, part[0].w, part[1].x, part[1].y, part[1].z, part[1].w};
#pragma unroll
  for (int i = 0; i < 8; ++i) value[i] += all[i];
}

/// A block's share of the tile's outputs, in runs of 8 channels.
template <class Tile, bool kClip = false>
__device__ __forceinline__ void finish_tile(const Arguments& a, const TilePlace& place, const float* sums, int rank) {
  constexpr int kRowRuns = Tile::kBn / 8;
  constexpr int kRuns = Tile::kBm * kRowRuns / Tile::kBlocks;
  constexpr int kRounds = (kRuns + Tile::kThreads - 1) / Tile::kThreads;
#pragma unroll 2
  for (int round = 0; round < kRounds; ++round) {
    const int own = static_cast<int>(threadIdx.x) + round * Tile::kThreads;
    if (kRuns % Tile::kThreads != 0 && own >= kRuns) break;
    const int run = rank * kRuns + own;
    const int row = run / kRowRuns;
    const int column = run % kRowRuns * 8;
    if (place.m0 + row >= a.m || place.n0 + column >= place.n_end) continue;
    float value[8] = {};
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; ++block) {
#pragma unroll
      for (int warp = 0; warp < Tile::kWarpsK; ++warp) {
        add_from<Tile::kBlocks>(value, sums + (warp * Tile::kBm + row) * Tile::kSumPitch + column, block);
      }
    }
    finish_run<8, kClip>(a, place.m0 + row, place.n0 + column, place.n_end, value);
  }
}

}  // namespace mobicuda::kernels::conv_gemm
