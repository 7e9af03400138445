// An inverted residual block of small images, sm_90 and newer. A tile, e.g. seven rows of a 14x14 image, is the work of
// a block of threads, or of a cluster of up to eight, which share the hidden channels.
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

/// The padding: rows above and below the tile, and the zeros beside its pixels that expand does not write.
template <class S>
__device__ __forceinline__ void clear_borders(std::uint32_t shared) {
  constexpr bool kNarrow = S::kRowSlots == kColumns;  // a row's last column is its zero
  constexpr unsigned kColumnsOfZeros = kNarrow || (S::kConfig.stride == 1 && !S::kHasGap) ? 1 : 2;
  constexpr unsigned kSecond = S::kConfig.stride == 1 ? kColumns / 2 + 1 : S::kRowSlots - 1;
  constexpr unsigned kSides = kNarrow ? 1 : S::kRows * kColumnsOfZeros;
  constexpr unsigned kSlots = 2 * S::kRowSlots + kSides;
  constexpr unsigned kGroups = 2 * S::kPatchBytes / S::kGroupBytes;
  for (unsigned i = threadIdx.x; i < kGroups * kSlots; i += S::kThreads) {
    const unsigned slot = i % kSlots;
    unsigned place = slot;
    if (slot >= S::kRowSlots + kSides) {
      place = slot - (S::kRowSlots + kSides) + (S::kRows + 1) * S::kRowSlots;
    } else if (!kNarrow && slot >= S::kRowSlots) {
      const unsigned side = slot - S::kRowSlots;
      place = (1 + side / kColumnsOfZeros) * S::kRowSlots + side % kColumnsOfZeros * kSecond;
    }
    ptx::clear_shared(shared + S::kPatchAt + i / kSlots * S::kGroupBytes + place * 16);
  }
  if (S::kReadsTail && threadIdx.x == 0) ptx::clear_shared(shared + S::kPatchAt + 2 * S::kPatchBytes);
}

/// Where a block of threads belongs, and what it does before it touches activations.
template <class S>
struct Block {
  int rank;              ///< in its cluster
  int row_tile;          ///< of the image's
  unsigned column_tile;  ///< numbered through all images, or pairs of them
  std::uint32_t shared;
  Weights<S> weights;

  /// Lets the first weights come.
  __device__ __forceinline__ Block(const unsigned char* packed, std::uint32_t shared)
      : rank(kBlocks == 1 ? 0 : static_cast<int>(blockIdx.x % kBlocks)),
        row_tile(static_cast<int>(blockIdx.x / kBlocks % S::kRowTiles)),
        column_tile(blockIdx.x / (kBlocks * S::kRowTiles)),
        shared(shared),
        weights(packed, rank, shared) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < kBarriers; ++i) {
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

  /// Told of sums that other warps send.
  __device__ __forceinline__ std::uint32_t arrived() const { return shared + 2 * kDepth * kBarrierBytes; }

  __device__ __forceinline__ void meet() const {
    __syncthreads();
    if (kBlocks > 1) wait_for_cluster_begin();
    wait_for_predecessor();
  }

 private:
  static constexpr unsigned kBlocks = S::kConfig.blocks;
};

/// The end of a block. `y`: the lane's first pixel.
template <class S, int kPart = 0>
__device__ __forceinline__ void share_and_finish(const Arguments& a, const Block<S>& block, const Columns<S>& columns,
                                                 const Pixels<S>& pixels, Project<S>& project, unsigned char* y) {
  constexpr Config kConfig = S::kConfig;
  using Mine = Share<S, kPart>;
  if constexpr ((kPart + 1) * 2 < kConfig.blocks) {
    if (block.rank / 2 != kPart) {
      share_and_finish<S, kPart + 1>(a, block, columns, pixels, project, y);
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
    if (!columns.finishes_row(i)) continue;
    unsigned char* const to = y + i * kConfig.w * (kConfig.c_out * 2);
    if (columns.finishes_column(0)) project.template finish<kPart>(a, pixels, i, 0, to);
    if (kConfig.blocks == 1 && columns.finishes_column(1)) {
      project.template finish<kPart>(a, pixels, i, 1, to + columns.second() * (kConfig.c_out * 2));
    }
  }
}

#endif

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    image_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr Config kConfig = S::kConfig;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, dynamic_shared);
  const std::uint32_t shared = ptx::shared_address(dynamic_shared);
  const Block<S> block(packed, shared);
  const Columns<S> columns(block.row_tile, block.column_tile, a.images, block.rank);
  Project<S> project(packed, block.rank, shared);
  const Expand<S> expand(a, columns, shared);
  const Depthwise<S> depthwise(a, columns, shared);
  Pixels<S> pixels(columns, x, shared);
  y += columns.first_tile_pixel() * (kConfig.c_out * 2) + columns.first_offset() * (kConfig.c_out * 2) +
       ptx::lane() % 4 * 16;
  ptx::pin(y);
  block.meet();
  typename Expand<S>::Values hidden;
  pixels.load();
  block.weights.wait_for_expand(0);  // while pixels are under way
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
  share_and_finish(a, block, columns, pixels, project, y);
#endif
}

}  // namespace mobicuda::kernels::inverted_image
