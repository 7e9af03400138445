#pragma once

#include <cooperative_groups.h>

#include "kernels/common/activation.cuh"
#include "kernels/common/packet.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::squeeze {

inline constexpr int kThreads = 512;
inline constexpr int kMostGroups = 8;  // of threads that share a dot product

/// Where things lie in a block's shared memory, in bytes.
struct Layout {
  int x, sums, partial, mean, parts, reduced, squeezed, gate, all;
};

struct Arguments {
  const void* x;
  const unsigned char* packed;  ///< a slice for each rank; then reduce_bias (squeezed) and expand_bias (c) in float
  void* y;
  int n, pixels, c, squeezed;
  int ranks;
  int band;      ///< pixels of a rank
  int channels;  ///< c / ranks: of the dot products that are a rank's own
  int slice_bytes;
  Activation squeeze_activation, gate_activation;
  Layout at;
};

__host__ __device__ constexpr int even(int count) { return count + count % 2; }

template <class T>
__device__ __forceinline__ float2 load_pair(const T* from) {
  const auto pair = load<2>(from);
  return {to_float(pair.item[0]), to_float(pair.item[1])};
}

/// parts[group][column] = sum over this group's rows of vector[row] * matrix[row][column], columns in pairs. Returns
/// the number of groups; the caller synchronizes and adds them up.
template <class T>
__device__ __forceinline__ int multiply_parts(const T* matrix, const float* vector, int rows, int columns,
                                              float* parts) {
  const int pairs = columns / 2;
  const int groups = min(min(kThreads / pairs, kMostGroups), rows);
  const int group = static_cast<int>(threadIdx.x) / pairs;
  const int column = static_cast<int>(threadIdx.x) % pairs * 2;
  if (group < groups) {
    float2 sum{0.0F, 0.0F};
#pragma unroll 8
    for (int row = group; row < rows; row += groups) {
      const float2 factor = load_pair(matrix + row * columns + column);
      sum.x = fmaf(vector[row], factor.x, sum.x);
      sum.y = fmaf(vector[row], factor.y, sum.y);
    }
    parts[group * columns + column] = sum.x;
    parts[group * columns + column + 1] = sum.y;
  }
  return groups;
}

__device__ __forceinline__ float add_up(const float* parts, int count, int stride) {
  float sum = 0.0F;
#pragma unroll 8
  for (int i = 0; i < count; ++i) sum += parts[i * stride];
  return sum;
}

/// A cluster takes every so-manieth image; its blocks share the pixels, and then the channels.
template <class T, bool kHeld>
__global__ void __launch_bounds__(kThreads) squeeze_excite_kernel([[maybe_unused]] const Arguments a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr int kN = kWide<T>;
  const auto cluster = cooperative_groups::this_cluster();
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 16, shared);
  const int rank = static_cast<int>(blockIdx.x) % a.ranks;
  const int thread = static_cast<int>(threadIdx.x);
  const auto* const reduce = reinterpret_cast<const T*>(shared);   // (channels, even(squeezed))
  const T* const expand = reduce + a.channels * even(a.squeezed);  // (squeezed, even(channels))
  const auto floats = [&](int at) { return reinterpret_cast<float*>(shared + at); };
  float* const sums = floats(a.at.sums);
  float* const partial = floats(a.at.partial);
  float* const mean = floats(a.at.mean);
  float* const parts = floats(a.at.parts);
  float* const reduced = floats(a.at.reduced);
  float* const squeezed = floats(a.at.squeezed);
  float* const gate = floats(a.at.gate);

  const unsigned char* const slice = a.packed + static_cast<std::size_t>(rank) * a.slice_bytes;
  for (int i = thread * 16; i < a.slice_bytes; i += kThreads * 16)
    ptx::copy_async_cg(ptx::shared_address(shared + i), slice + i);
  const auto* const biases =
      reinterpret_cast<const float*>(a.packed + static_cast<std::size_t>(a.ranks) * a.slice_bytes);
  const int own = rank * a.channels;
  const float squeeze_bias = thread < a.squeezed ? biases[thread] : 0.0F;
  const float gate_bias = thread < a.channels ? biases[a.squeezed + own + thread] : 0.0F;
  wait_for_predecessor();

  // A thread has one packet of channels (more where they are many) of every groups-th pixel of the band.
  const int first = min(rank * a.band, a.pixels);
  const int pixels = min(a.band, a.pixels - first);
  const int packets = a.c / kN;
  const int groups = max(1, kThreads / packets);
  const int items = packets * groups;
  T* const held = reinterpret_cast<T*>(shared + a.at.x);
  const int clusters = static_cast<int>(gridDim.x) / a.ranks;
  for (int n = static_cast<int>(blockIdx.x) / a.ranks; n < a.n; n += clusters) {
    const std::size_t start = (static_cast<std::size_t>(n) * a.pixels + first) * a.c;
    const T* const x = static_cast<const T*>(a.x) + start;
    const T* const source = kHeld ? held : x;
    if constexpr (kHeld) {
      __syncthreads();  // the last image's pixels have been used
      for (int i = thread; i < pixels * packets; i += kThreads)
        ptx::copy_async_cg(ptx::shared_address(held + i * kN), x + i * kN);
    }
    ptx::copy_async_wait_all();
    __syncthreads();

    // The mean: groups of threads take every groups-th pixel, the block adds them up, then the cluster.
    for (int i = thread; i < items; i += kThreads) {
      const int group = i / packets;
      const int channel = i % packets * kN;
      float sum[kN] = {};
#pragma unroll 8
      for (int pixel = group; pixel < pixels; pixel += groups) {
        const auto values = load<kN>(source + static_cast<std::size_t>(pixel) * a.c + channel);
#pragma unroll
        for (int j = 0; j < kN; ++j) sum[j] += to_float(values.item[j]);
      }
#pragma unroll
      for (int j = 0; j < kN; ++j) sums[group * a.c + channel + j] = sum[j];
    }
    __syncthreads();
    for (int c = thread; c < a.c; c += kThreads) partial[c] = add_up(sums + c, groups, a.c);
    sync_cluster();
    if (thread < a.channels) {
      float sum = 0.0F;
#pragma unroll 8
      for (int q = 0; q < a.ranks; ++q) sum += cluster.map_shared_rank(partial, q)[own + thread];
      mean[thread] = sum / static_cast<float>(a.pixels);
    }
    __syncthreads();

    // Each rank multiplies its channels' part of the first matrix.
    const int reduce_groups = multiply_parts(reduce, mean, a.channels, even(a.squeezed), parts);
    __syncthreads();
    if (thread < a.squeezed) reduced[thread] = add_up(parts + thread, reduce_groups, even(a.squeezed));
    sync_cluster();
    if (thread < a.squeezed) {
      float sum = 0.0F;
#pragma unroll 8
      for (int q = 0; q < a.ranks; ++q) sum += cluster.map_shared_rank(reduced, q)[thread];
      squeezed[thread] = apply(a.squeeze_activation, sum + squeeze_bias);
    }
    __syncthreads();

    // And makes the gates of its channels for all ranks.
    const int expand_groups = multiply_parts(expand, squeezed, a.squeezed, even(a.channels), parts);
    __syncthreads();
    if (thread < a.channels) {
      const float sum = add_up(parts + thread, expand_groups, even(a.channels));
      const float value = apply(a.gate_activation, sum + gate_bias);
#pragma unroll 8
      for (int q = 0; q < a.ranks; ++q) cluster.map_shared_rank(gate, q)[own + thread] = value;
    }
    sync_cluster();  // the end as well: behind it no block touches another's memory for this image

    T* const y = static_cast<T*>(a.y) + start;
    for (int i = thread; i < items; i += kThreads) {
      const int channel = i % packets * kN;
      float factors[kN];
#pragma unroll
      for (int j = 0; j < kN; ++j) factors[j] = gate[channel + j];
#pragma unroll 4
      for (int pixel = i / packets; pixel < pixels; pixel += groups) {
        const std::size_t at = static_cast<std::size_t>(pixel) * a.c + channel;
        auto values = load<kN>(source + at);
#pragma unroll
        for (int j = 0; j < kN; ++j) values.item[j] = from_float<T>(to_float(values.item[j]) * factors[j]);
        store<kN>(y + at, values);
      }
    }
  }
#endif
}

}  // namespace mobicuda::kernels::squeeze
