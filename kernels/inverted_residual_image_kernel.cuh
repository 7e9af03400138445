// An inverted residual block of whole 14x14 pictures, sm_90 and newer. A band of seven rows is the work of a block of
// threads, or of a cluster of two, which share the hidden channels.
//
// A block takes its hidden channels chunk by chunk: expand puts the next chunk into one of two patches in shared memory
// while other warps still take this one from the other patch through depthwise, in registers, into the sums of project.
// All three are mma.sync. Of two blocks each finishes half of the pixels.
#pragma once

#include "inverted_residual_image_stages.cuh"

namespace mobicuda::kernels::inverted_image {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// Rings of weights in shared memory. One thread fills them.
template <class S>
class Weights {
 public:
  __device__ __forceinline__ Weights(const unsigned char* packed, int rank, std::uint32_t shared)
      : expand_(packed + S::kPackedExpandAt + rank * (S::kChunks * S::kExpandBytes)),
        project_(packed + S::kPackedProjectAt + rank * (S::kChunks * S::kProjectBytes)),
        shared_(shared) {}

  __device__ __forceinline__ void load_expand(int chunk) const {
    const int stage = chunk % kDepth;
    copy_weights(shared_ + S::kExpandAt + stage * S::kExpandBytes, expand_ + chunk * S::kExpandBytes, S::kExpandBytes,
                 shared_ + stage * kBarrierBytes);
  }
  __device__ __forceinline__ void load_project(int chunk) const {
    const int stage = chunk % kDepth;
    copy_weights(shared_ + S::kProjectAt + stage * S::kProjectBytes, project_ + chunk * S::kProjectBytes,
                 S::kProjectBytes, shared_ + (kDepth + stage) * kBarrierBytes);
  }
  /// When all have done with expand of `chunk` and with project of the one before.
  __device__ __forceinline__ void refill(int chunk) const {
    if (chunk + kDepth < S::kChunks) load_expand(chunk + kDepth);
    if (chunk > 0 && chunk - 1 + kDepth < S::kChunks) load_project(chunk - 1 + kDepth);
  }
  __device__ __forceinline__ void wait_for_expand(int chunk) const {
    inverted_cluster::wait(shared_ + chunk % kDepth * kBarrierBytes, static_cast<std::uint32_t>(chunk / kDepth % 2));
  }
  __device__ __forceinline__ void wait_for_project(int chunk) const {
    inverted_cluster::wait(shared_ + (kDepth + chunk % kDepth) * kBarrierBytes,
                           static_cast<std::uint32_t>(chunk / kDepth % 2));
  }

 private:
  const unsigned char* expand_;
  const unsigned char* project_;
  std::uint32_t shared_;
};

/// A chunk.
template <class S>
__device__ __forceinline__ void filter_and_project(const Depthwise<S>& depthwise, Project<S>& project,
                                                   const typename Expand<S>::Values& hidden, int stage, int buffer) {
#pragma unroll
  for (int unit = 0; unit < S::kUnits; ++unit) {
    std::uint32_t filtered[2][kRowsOfWarp][2];
#pragma unroll
    for (int g = 0; g < 2; ++g) depthwise.run(stage, buffer, unit, g, hidden[unit][g], filtered[g]);
    std::uint32_t operand[kRowsOfWarp][4];
#pragma unroll
    for (int row = 0; row < kRowsOfWarp; ++row) {
#pragma unroll
      for (int i = 0; i < 4; ++i) operand[row][i] = filtered[i / 2][row][i % 2];
    }
    project.add(stage, unit, operand);
  }
}

__device__ __forceinline__ void clear_shared(std::uint32_t to) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" : : "r"(to), "r"(0) : "memory");
}

/// The padding: rows above and below the picture, and where the first row has its left zero.
template <class S>
__device__ __forceinline__ void clear_borders(std::uint32_t shared) {
  constexpr unsigned kSlots = 17 + 16;
  constexpr unsigned kGroups = 2 * S::kPatchBytes / S::kGroupBytes;
  for (unsigned i = threadIdx.x; i < kGroups * kSlots; i += kThreads) {
    const unsigned slot = i % kSlots;
    const unsigned at = i / kSlots * S::kGroupBytes + (slot < 17 ? slot : slot - 17 + (kRows + 1) * 16) * 16;
    clear_shared(shared + S::kPatchAt + at);
  }
}

#endif

template <class S>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    image_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr Config kConfig = S::kConfig;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const std::uint32_t shared = inverted_cluster::shared_address(dynamic_shared);
  const std::uint32_t arrived = shared + 2 * kDepth * kBarrierBytes;
  const int rank = kConfig.blocks == 1 ? 0 : static_cast<int>(blockIdx.x % kConfig.blocks);
  const int band = static_cast<int>(blockIdx.x / kConfig.blocks % kBands);
  const unsigned n = blockIdx.x / (kConfig.blocks * kBands);
  const std::size_t first = static_cast<std::size_t>(n) * (kSize * kSize) + band * ((kSize - kRows) * kSize);

  const Weights<S> weights(packed, rank, shared);
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kBarriers; ++i) inverted_cluster::initialize(shared + i * kBarrierBytes);
    for (int i = 0; i < kDepth && i < S::kChunks; ++i) {
      weights.load_expand(i);
      weights.load_project(i);
    }
    if (kConfig.blocks > 1) inverted_cluster::expect(arrived, S::kExchangeBytes);
  }
  if (kConfig.blocks > 1) inverted_cluster::arrive_in_cluster();
  clear_borders<S>(shared);
  const Columns columns{rank * 8};
  Project<S> project(packed, rank, shared);
  const Expand<S> expand(a, columns, shared);
  const Depthwise<S> depthwise(a, columns, shared);
  Pixels<S> pixels(columns, x + first * (kConfig.c_in * 2));
  const int row = static_cast<int>(warp()) * kRowsOfWarp;
  y += first * (kConfig.c_out * 2) + (row * kSize + columns.first()) * (kConfig.c_out * 2) + lane() % 4 * 16;
  asm volatile("" : "+l"(y));
  __syncthreads();
  typename Expand<S>::Values hidden;
  weights.wait_for_expand(0);
  if (kConfig.blocks > 1) inverted_cluster::wait_for_cluster();
  wait_for_predecessor();
  pixels.load();
  expand.run(pixels, 0, hidden);
  expand.store(0, hidden);
#pragma unroll 1
  for (int chunk = 0; chunk + 1 < S::kChunks; ++chunk) {
    weights.wait_for_project(chunk);
    weights.wait_for_expand(chunk + 1);
    __syncthreads();
    if (threadIdx.x == 0) weights.refill(chunk);
    filter_and_project(depthwise, project, hidden, chunk % kDepth, chunk % 2);
    expand.run(pixels, (chunk + 1) % kDepth, hidden);
    expand.store((chunk + 1) % 2, hidden);
  }
  constexpr int kLast = S::kChunks - 1;
  weights.wait_for_project(kLast);
  __syncthreads();
  filter_and_project(depthwise, project, hidden, kLast % kDepth, kLast % 2);

  if constexpr (kConfig.blocks == 2) {
    project.send(shared + S::kExchangeAt, arrived, rank ^ 1);
    inverted_cluster::wait(arrived, 0);
    project.receive(shared + S::kExchangeAt);
  }
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) {
    // Each band has a row of the other one.
    if (row + i == (band == 0 ? kRows - 1 : 0)) continue;
    unsigned char* const to = y + i * kSize * (kConfig.c_out * 2);
    if (columns.first() < kSize) project.finish(a, pixels, i, 0, to);
    if (kConfig.blocks == 1 && columns.second() < kSize) {
      project.finish(a, pixels, i, 1, to + 8 * (kConfig.c_out * 2));
    }
  }
#endif
}

}  // namespace mobicuda::kernels::inverted_image
