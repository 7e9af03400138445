// An inverted residual block of whole 14x14 images, sm_90 and newer. A band of seven rows is the work of a block of
// threads, or of a cluster of up to eight, which share the hidden channels.
//
// A block takes its hidden channels chunk by chunk: expand puts the next chunk into one of two patches in shared memory
// while other warps still take this one from the other patch through depthwise, in registers, into the sums of project.
// All three are mma.sync. At the end the blocks of a cluster exchange their sums, and each finishes its share.
#pragma once

#include "kernels/inverted_residual/image/stages.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"

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
  __device__ __forceinline__ void wait_for_expand(int chunk) const {
    ptx::mbarrier_wait(shared_ + chunk % kDepth * kBarrierBytes, static_cast<std::uint32_t>(chunk / kDepth % 2));
  }
  __device__ __forceinline__ void wait_for_project(int chunk) const {
    ptx::mbarrier_wait(shared_ + (kDepth + chunk % kDepth) * kBarrierBytes,
                       static_cast<std::uint32_t>(chunk / kDepth % 2));
  }

  /// Between two chunks: all have done with expand of `chunk` and all before; its project and the next one's expand may
  /// begin.
  __device__ __forceinline__ void next(int chunk) const {
    wait_for_project(chunk);
    wait_for_expand(chunk + 1);
    __syncthreads();
    if (threadIdx.x == 0) refill(chunk);
  }
  __device__ __forceinline__ void last() const {
    wait_for_project(S::kChunks - 1);
    __syncthreads();
  }

 private:
  /// When all have done with expand of `chunk` and with project of the one before.
  __device__ __forceinline__ void refill(int chunk) const {
    if (chunk + kDepth < S::kChunks) load_expand(chunk + kDepth);
    if (chunk > 0 && chunk - 1 + kDepth < S::kChunks) load_project(chunk - 1 + kDepth);
  }
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

/// The padding: rows above and below the image, and where the first row has its left zero.
template <class S>
__device__ __forceinline__ void clear_borders(std::uint32_t shared) {
  constexpr unsigned kSlots = 17 + 16;
  constexpr unsigned kGroups = 2 * S::kPatchBytes / S::kGroupBytes;
  for (unsigned i = threadIdx.x; i < kGroups * kSlots; i += kThreads) {
    const unsigned slot = i % kSlots;
    const unsigned at = i / kSlots * S::kGroupBytes + (slot < 17 ? slot : slot - 17 + (kRows + 1) * 16) * 16;
    ptx::clear_shared(shared + S::kPatchAt + at);
  }
}

/// Where a block of threads belongs, and what it does before it touches activations.
template <class S>
struct Block {
  int rank;  ///< in its cluster
  int band;
  std::size_t n;
  std::uint32_t shared;
  Weights<S> weights;

  /// Lets the first weights come.
  __device__ __forceinline__ Block(const unsigned char* packed, std::uint32_t shared)
      : rank(kBlocks == 1 ? 0 : static_cast<int>(blockIdx.x % kBlocks)),
        band(static_cast<int>(blockIdx.x / kBlocks % kBands)),
        n(blockIdx.x / (kBlocks * kBands)),
        shared(shared),
        weights(packed, rank, shared) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < S::kBarriers; ++i) {
        ptx::mbarrier_init(shared + i * kBarrierBytes, 1);
        ptx::fence_mbarrier_init();
      }
      for (int i = 0; i < kDepth && i < S::kChunks; ++i) {
        weights.load_expand(i);
        weights.load_project(i);
      }
      if (kBlocks > 1) ptx::mbarrier_arrive_expect(arrived(), S::kRemoteBytes);
    }
    if (kBlocks > 1) arrive_at_cluster_begin();
    clear_borders<S>(shared);
  }

  /// Of x.
  __device__ __forceinline__ std::size_t first_pixel() const {
    return n * (kSize * kSize) + static_cast<std::size_t>(band * ((kSize - kRows) * kSize));
  }

  /// Told of sums that other warps send.
  __device__ __forceinline__ std::uint32_t arrived() const { return shared + 2 * kDepth * kBarrierBytes; }

  __device__ __forceinline__ void meet() const {
    __syncthreads();
    weights.wait_for_expand(0);
    if (kBlocks > 1) wait_for_cluster_begin();
    wait_for_predecessor();
  }

 private:
  static constexpr unsigned kBlocks = S::kConfig.blocks;
};

/// The end of a block, whose first row is `row` of the band.
template <class S, int kPart = 0>
__device__ __forceinline__ void share_and_finish(const Arguments& a, const Block<S>& block, const Columns& columns,
                                                 const Pixels<S>& pixels, Project<S>& project, int row,
                                                 unsigned char* y) {
  constexpr Config kConfig = S::kConfig;
  using Mine = Share<S, kPart>;
  if constexpr ((kPart + 1) * 2 < kConfig.blocks) {
    if (block.rank / 2 != kPart) {
      share_and_finish<S, kPart + 1>(a, block, columns, pixels, project, row, y);
      return;
    }
  }
  if constexpr (kConfig.blocks > 1) {
    project.template send<kPart>(block.shared + S::kExchangeAt, block.arrived(), block.rank);
    ptx::mbarrier_wait(block.arrived(), 0);
    project.template receive<kPart>(block.shared + S::kExchangeAt);
  }
#pragma unroll
  for (int i = Mine::kFirstRow; i < Mine::kFirstRow + Mine::kRows; ++i) {
    // Each band has a row of the other one.
    if (row + i == (block.band == 0 ? kRows - 1 : 0)) continue;
    unsigned char* const to = y + i * kSize * (kConfig.c_out * 2);
    if (columns.first() < kSize) project.template finish<kPart>(a, pixels, i, 0, to);
    if (kConfig.blocks == 1 && columns.second() < kSize) {
      project.template finish<kPart>(a, pixels, i, 1, to + 8 * (kConfig.c_out * 2));
    }
  }
}

#endif

template <class S>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    image_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr Config kConfig = S::kConfig;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, dynamic_shared);
  const std::uint32_t shared = ptx::shared_address(dynamic_shared);
  const Block<S> block(packed, shared);
  const Columns columns{block.rank % 2 * 8};
  Project<S> project(packed, block.rank, shared);
  const Expand<S> expand(a, columns, shared);
  const Depthwise<S> depthwise(a, columns, shared);
  Pixels<S> pixels(columns, x + block.first_pixel() * (kConfig.c_in * 2));
  const int row = static_cast<int>(ptx::warp()) * kRowsOfWarp;
  y += block.first_pixel() * (kConfig.c_out * 2) + (row * kSize + columns.first()) * (kConfig.c_out * 2) +
       ptx::lane() % 4 * 16;
  ptx::pin(y);
  block.meet();
  typename Expand<S>::Values hidden;
  pixels.load();
  expand.run(pixels, 0, hidden);
  expand.store(0, hidden);
#pragma unroll 1
  for (int chunk = 0; chunk + 1 < S::kChunks; ++chunk) {
    block.weights.next(chunk);
    filter_and_project(depthwise, project, hidden, chunk % kDepth, chunk % 2);
    expand.run(pixels, (chunk + 1) % kDepth, hidden);
    expand.store((chunk + 1) % 2, hidden);
  }
  constexpr int kLast = S::kChunks - 1;
  block.weights.last();
  filter_and_project(depthwise, project, hidden, kLast % kDepth, kLast % 2);
  share_and_finish(a, block, columns, pixels, project, row, y);
#endif
}

}  // namespace mobicuda::kernels::inverted_image
