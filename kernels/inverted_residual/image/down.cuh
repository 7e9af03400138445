// An inverted residual block with stride 2, sm_90 and newer. Blocks, tiles, chunks and expand are those of kernel.cuh.
//
// A tile of eight rows has four rows of outputs at most, 8 of them in each: two mmas of two rows of 8, the second rows
// of an mma being its upper half. Two warps share an mma's outputs, each with half of the hidden channels. The sums of
// a piece, 8 channels of a lane's pixel, meet in the warp that finishes it.
#pragma once

#include "kernels/inverted_residual/image/kernel.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::inverted_image {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// Which outputs a tile finishes, along one axis.
struct Outputs {
  int first;  ///< of the image
  int count;
  int first_slot;  ///< row or slot of the patch where the first one's window begins

  /// `step`: between two tiles, in outputs; `last`: of the tiles.
  __device__ __forceinline__ Outputs(int tile, int last, int step, int pad, int extent)
      : first(tile == 0 ? 0 : tile * step + pad),
        count((tile == last ? (extent + pad) / 2 : (tile + 1) * step + pad) - first),
        first_slot(tile == 0 ? 1 - pad : 1 + pad) {}
};

/// Outputs of a block's tile.
template <class S>
struct OutputTile {
  std::size_t image;
  Outputs rows, columns;
  int pixels, width;  ///< of an image of outputs

  __device__ __forceinline__ OutputTile(const Tile<S>& tile, const Arguments& a)
      : image(tile.image()),
        rows(tile.row(), S::kRowTiles - 1, (S::kRows - kHalo) / 2, a.pad_top, S::kConfig.h),
        columns(tile.column(), S::kColumnTiles - 1, (kColumns - kHalo) / 2, a.pad_left, S::kConfig.w),
        pixels((S::kConfig.h + a.pad_top) / 2 * ((S::kConfig.w + a.pad_left) / 2)),
        width((S::kConfig.w + a.pad_left) / 2) {}
};

/// Depthwise convolution of a tile. Of two blocks of a cluster the second one has a tile's rows the other way round.
template <class S>
class DownDepthwise {
 public:
  __device__ __forceinline__ DownDepthwise(const Arguments& a, const OutputTile<S>& outputs, int rank,
                                           std::uint32_t shared)
      : weights_(a, shared) {
    const unsigned row = ptx::lane() / 8 % 2 ^ static_cast<unsigned>(rank);
    const unsigned first = static_cast<unsigned>(outputs.rows.first_slot) + ptx::warp() / 2 * 4 + row * 2;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const auto taken = static_cast<unsigned>(ptx::lane() < 16 ? tap(2 * i) : tap(i == kLoads - 1 ? 8 : 2 * i + 1));
      const unsigned slot = taken % 3 + static_cast<unsigned>(outputs.columns.first_slot);
      rows_[i] =
          shared + S::kPatchAt + (first + taken / 3) * S::kRowBytes + (S::split_slot(slot) + ptx::lane() % 8) * 16;
      ptx::pin(rows_[i]);
    }
  }

  /// result: a half of an A operand.
  __device__ __forceinline__ void run(int stage, int buffer, int unit, int group, std::uint32_t (&result)[2]) const {
    std::uint32_t bias[4];
    std::uint32_t taps[9];
    weights_.load(stage, unit, group, bias, taps);
    const std::uint32_t offset = buffer * S::kPatchBytes + (unit * 2 + group) * S::kGroupBytes;
    std::uint32_t pixels[kLoads - 1][4];
    std::uint32_t last[2];
#pragma unroll
    for (int i = 0; i < kLoads - 1; ++i) ptx::ldmatrix_x4(pixels[i], rows_[i] + offset);
    ptx::ldmatrix_x2(last, rows_[kLoads - 1] + offset);
    float first[4];
    float second[4] = {};
    ptx::mma_16x8x16(first, pixels[0], taps[0], taps[1], bias);
    ptx::mma_16x8x16(second, pixels[1], taps[2], taps[3]);
    ptx::mma_16x8x16(first, pixels[2], taps[4], taps[5]);
    ptx::mma_16x8x16(second, pixels[3], taps[6], taps[7]);
    ptx::mma_16x8x8(first, last[0], last[1], taps[8]);
    result[0] = weights_.filtered(first[0] + second[0], first[1] + second[1]);
    result[1] = weights_.filtered(first[2] + second[2], first[3] + second[3]);
  }

 private:
  static constexpr int kLoads = 5;

  DepthwiseWeights<S> weights_;
  std::uint32_t rows_[kLoads];
};

/// The sums of a warp: of a tile, over half of the hidden channels.
template <class S>
class DownProject {
 public:
  __device__ __forceinline__ DownProject(const unsigned char* packed, int rank, std::uint32_t shared)
      : weights_(shared + S::kProjectAt + ptx::lane() * 16) {
    ptx::pin(weights_);
    const bool adds_bias = rank == 0 && part() == 0;
#pragma unroll
    for (int b = 0; b < S::kOutBlocks; ++b) {
      std::uint32_t bias[8];
      load_project_biases<S>(adds_bias, packed, b, bias);
#pragma unroll
      for (int i = 0; i < 16 && b * 4 + i / 4 < S::kStrips; ++i) {
        sums_[b * 4 + i / 4][i % 4] = __uint_as_float(bias[i / 4 * 2 + i % 2]);
      }
    }
  }

  __device__ __forceinline__ static int tile() { return static_cast<int>(ptx::warp()) / 2; }
  __device__ __forceinline__ static int part() { return static_cast<int>(ptx::warp()) % 2; }

  __device__ __forceinline__ void add(int stage, int unit, const std::uint32_t (&filtered)[4]) {
#pragma unroll
    for (int strip = 0; strip < S::kStrips; strip += 2) {
      std::uint32_t w[4];
      ptx::load_shared_words<4>(
          weights_ + stage * S::kProjectBytes + unit * S::kProjectUnitBytes + strip / 2 * kFragmentBytes, w);
      ptx::mma_16x8x16(sums_[strip], filtered, w[0], w[1]);
      ptx::mma_16x8x16(sums_[strip + 1], filtered, w[2], w[3]);
    }
  }

  /// To the warps that finish the pieces, which are numbered (half of the tile, 32 channels) and dealt to the two parts
  /// in turn. The second half is the other block's, if there is one.
  __device__ __forceinline__ void send(std::uint32_t pieces, std::uint32_t barrier, int rank) const {
    pieces += ptx::lane() * 16;
#pragma unroll
    for (int piece = 0; piece < 2 * S::kOutBlocks; ++piece) {
      float v[8];
      get(piece, v);
      if (kIsPair && piece >= S::kOutBlocks) {
        const std::uint32_t to = pieces + remote(part(), piece - S::kOutBlocks);
        ptx::send(to, {v[0], v[1], v[2], v[3]}, barrier, rank ^ 1);
        if (is_full(piece)) ptx::send(to + kPieceBytes / 2, {v[4], v[5], v[6], v[7]}, barrier, rank ^ 1);
      } else if (piece % 2 != part()) {
        const std::uint32_t to = pieces + local(piece);
        ptx::store_shared(to, float4{v[0], v[1], v[2], v[3]});
        if (is_full(piece)) ptx::store_shared(to + kPieceBytes / 2, float4{v[4], v[5], v[6], v[7]});
      }
    }
  }

  /// Adds what was sent, clips, stores. `y` is the lane's pixel of the first row of outputs that the tile's first half
  /// is.
  __device__ __forceinline__ void finish(const Arguments& a, const OutputTile<S>& outputs, int rank,
                                         std::uint32_t pieces, unsigned char* y) {
    pieces += ptx::lane() * 16;
#pragma unroll
    for (int piece = 0; piece < (kIsPair ? 1 : 2) * S::kOutBlocks; ++piece) {
      const int half = piece / S::kOutBlocks;
      const int block = piece % S::kOutBlocks;
      const int row = tile() * 2 + (half ^ rank);
      if (piece % 2 != part()) continue;
      float v[8];
      get(piece, v);
      receive(pieces + local(piece), is_full(piece), v);
      if constexpr (kIsPair) {
        receive(pieces + remote(0, block), is_full(piece), v);
        receive(pieces + remote(1, block), is_full(piece), v);
      }
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = ptx::bits(__floats2half2_rn(apply(a.project_clip, v[2 * i]), apply(a.project_clip, v[2 * i + 1])));
      }
      if (row >= outputs.rows.count || static_cast<int>(ptx::lane()) / 4 >= outputs.columns.count) continue;
      store_outputs<S>(y + row * (outputs.width * S::kConfig.c_out * 2), block, words);
    }
  }

 private:
  static constexpr bool kIsPair = S::kConfig.blocks == 2;

  /// Whether it has 32 channels.
  __device__ __forceinline__ static constexpr bool is_full(int piece) {
    return piece % S::kOutBlocks < S::kFullOutBlocks;
  }
  __device__ __forceinline__ static std::uint32_t local(int piece) {
    return static_cast<std::uint32_t>((tile() * (kIsPair ? 1 : 2) * S::kOutBlocks + piece) * kPieceBytes);
  }
  __device__ __forceinline__ static std::uint32_t remote(int part, int block) {
    return static_cast<std::uint32_t>(((S::kTiles + tile() * 2 + part) * S::kOutBlocks + block) * kPieceBytes);
  }

  __device__ __forceinline__ void get(int piece, float (&v)[8]) const {
    const int half = piece / S::kOutBlocks;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      v[i] = i < 4 || is_full(piece) ? sums_[piece % S::kOutBlocks * 4 + i / 2][half * 2 + i % 2] : 0.0F;
    }
  }

  __device__ __forceinline__ static void receive(std::uint32_t from, bool full, float (&v)[8]) {
#pragma unroll
    for (int i = 0; i < (full ? 8 : 4); i += 4) {
      const float4 sum = ptx::load_shared<float4>(from + i / 4 * (kPieceBytes / 2));
      v[i] += sum.x;
      v[i + 1] += sum.y;
      v[i + 2] += sum.z;
      v[i + 3] += sum.w;
    }
  }

  std::uint32_t weights_;
  float sums_[S::kStrips][4];
};

/// A chunk: the warp's units.
template <class S>
__device__ __forceinline__ void filter_and_project(const DownDepthwise<S>& depthwise, DownProject<S>& project,
                                                   int stage, int buffer) {
#pragma unroll
  for (int i = 0; i < S::kUnits; i += 2) {
    const int unit = i + DownProject<S>::part();
    std::uint32_t lower[2];
    std::uint32_t upper[2];
    depthwise.run(stage, buffer, unit, 0, lower);
    depthwise.run(stage, buffer, unit, 1, upper);
    project.add(stage, unit, {lower[0], lower[1], upper[0], upper[1]});
  }
}

#endif

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kConfig.min_blocks)
    down_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr Config kConfig = S::kConfig;
  // NOLINTNEXTLINE(readability-redundant-declaration): of this kernel, as each has its own
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, dynamic_shared);
  const std::uint32_t shared = ptx::shared_address(dynamic_shared);
  const Block<S> block(packed, shared);
  const Tile<S> tile(block.row_tile, block.column_tile, a.images);
  const Columns<S> columns(block.row_tile, block.column_tile, a.images, 0);
  const OutputTile<S> outputs(tile, a);
  DownProject<S> project(packed, block.rank, shared);
  const Expand<S> expand(a, columns, shared);
  const DownDepthwise<S> depthwise(a, outputs, block.rank, shared);
  Pixels<S> pixels(columns, x, shared);
  y += (outputs.image * outputs.pixels +
        static_cast<std::size_t>(outputs.rows.first * outputs.width + outputs.columns.first)) *
           (kConfig.c_out * 2) +
       ptx::lane() / 4 * (kConfig.c_out * 2) + ptx::lane() % 4 * 16;
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
    filter_and_project(depthwise, project, chunk % kDepth, chunk % 2);
    expand.run(pixels, (chunk + 1) % kDepth, hidden);
    expand.store((chunk + 1) % 2, hidden);
  }
  constexpr int kLast = S::kChunks - 1;
  block.weights.last();
  filter_and_project(depthwise, project, kLast % kDepth, kLast % 2);
  project.send(shared + S::kExchangeAt, block.arrived(), block.rank);
  __syncthreads();
  if (kConfig.blocks == 2) ptx::mbarrier_wait(block.arrived(), 0);
  project.finish(a, outputs, block.rank, shared + S::kExchangeAt, y);
#endif
}

}  // namespace mobicuda::kernels::inverted_image
