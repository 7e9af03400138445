// 3x3 convolution of groups of 4, 8, 16 or 32 channels, as many in as out, with mma.sync (half, float sums), for sm_90
// and newer: windows come and results leave by tensor copies. A block owns 64 channels, of which each of its four warps
// has 16 with their weights in registers, and walks over tiles of up to 16 pixels in a row, or of 8 in each of two
// images, and several rows. A warp goes down the rows of the tile's window: the pixels of a row are read once for each
// tap of a row, and multiplied for the up to three rows of outputs that they count for.
// Shared memory: a ring of windows, pixels of 128 bytes swizzled by the copy engine; a row of outputs is put where the
// warp has read the window's last, in the same channels, so that the window becomes the tile, without gaps between
// rows. Behind the ring rows of weights on their way to registers, and the ring's barriers.
#pragma once

#include <cuda_fp16.h>

#include "kernels/conv2d/gemm_arguments.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/named_barrier.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::conv_grouped_tma {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = kWarps * 32;
inline constexpr int kWarpChannels = 16;
inline constexpr int kChannels = kWarps * kWarpChannels;  ///< of a block
inline constexpr int kPixelBytes = kChannels * 2;
inline constexpr int kPixels = 16;       ///< of a warp's product
inline constexpr int kMostParts = 2;     ///< images of a tile
inline constexpr int kMostWindow = 288;  ///< pixels of a tile's windows
inline constexpr int kMostStages = 3;
inline constexpr int kTaps = 9;
inline constexpr int kWeightsBytes = kThreads * 16;
inline constexpr int kBehindRing = kWeightsBytes + kMostStages * 8;
/// Rows of the copy engine's swizzle, which begins at multiples of as many bytes.
inline constexpr int kSwizzleRows = 8;

struct Arguments : conv_gemm::Arguments {
  CUtensorMap windows;  ///< of x, boxes of a part's window
  CUtensorMap results;  ///< of y, boxes of a part's outputs
  int out_h, out_w, pictures;
  int rows, columns;  ///< of a part: the tile's pixels of one image
  int parts;
  int copied_bytes;  ///< of a part's window
  int row_bytes;     ///< of its rows
  int part_bytes;    ///< from a part to the next
  int stages, tiles;
  FastDivision of_tile_columns, of_tile_rows;  ///< tiles of an image
};

/// What the size of a group and the rows' stride decide.
template <int kGroupChannels, int kRowStride>
struct Shape {
  static constexpr int kGroup = kGroupChannels;
  static constexpr int kStride = kRowStride;
  /// A product has 8 outputs: of groups of up to 8 it needs 8 inputs, the same channels.
  static constexpr bool kNarrow = kGroup <= 8;
  static constexpr int kSteps = kGroup > 16 ? 2 : 1;             ///< of 16 inputs
  static constexpr int kTapMatrices = kNarrow ? 2 : kSteps * 4;  ///< of 8 x 8 weights
  static constexpr int kMatrices = kTaps * kTapMatrices;
  static constexpr int kLoads = (kMatrices + 3) / 4;   ///< of four matrices
  static constexpr int kSlots = kStride == 1 ? 3 : 2;  ///< rows of outputs under way
  static constexpr int kPeriod = kSlots * kStride;     ///< rows of the window until slots repeat
  static constexpr int kMinBlocks = kGroup > 16 ? 3 : 4;
  /// Two warps read the same channels.
  static constexpr bool kSharesInputs = kSteps > 1;

  /// Of a row of the window, number `row` of a period, and a tap's row: the slot of the outputs; whether there is one.
  __host__ __device__ static constexpr int slot(int row, int ky) { return (row - ky + kPeriod) / kStride % kSlots; }
  __host__ __device__ static constexpr bool counts(int row, int ky) { return (row - ky + kPeriod) % kStride == 0; }
};

/// Weights of 16 outputs: of a narrow product {b} of 8 outputs and of the next 8; else {b0, b1} of each, step by step.
template <class S>
using Weights = std::uint32_t[S::kLoads * 4];
/// Sums of 16 pixels x 16 channels: of pixels lane / 4 and + 8, channels lane % 4 * 2 and + 1 of each 8.
using Sums = float[2][4];
/// A row's pixels at the three taps.
template <class S>
using Pixels = std::uint32_t[3][S::kSteps][4];

struct Tile {
  int n, oy, ox;
};

__device__ __forceinline__ Tile tile_at(const Arguments& a, int index) {
  std::uint32_t column;
  std::uint32_t row;
  const std::uint32_t above = a.of_tile_columns.divide(static_cast<std::uint32_t>(index), column);
  const std::uint32_t group = a.of_tile_rows.divide(above, row);
  return {static_cast<int>(group) * a.parts, static_cast<int>(row) * a.rows, static_cast<int>(column) * a.columns};
}

/// Where the copy engine puts those 16 bytes, and looks for them: exchanged within a pixel.
__device__ __forceinline__ std::uint32_t swizzled(std::uint32_t address) {
  return address ^ (address / kSwizzleRows & (kSwizzleRows - 1) * 16U);
}

/// The ring, from the view of the one thread that starts copies.
struct Ring {
  std::uint32_t windows, full;  // of stage 0
  int stage_bytes;

  __device__ __forceinline__ void fill(const Arguments& a, int stage, int index, int c0) const {
    const Tile tile = tile_at(a, index);
    ptx::mbarrier_arrive_expect(full + stage * 8, a.parts * a.copied_bytes);
    for (int part = 0; part < a.parts; ++part) {
      ptx::copy_box(windows + stage * stage_bytes + part * a.part_bytes, a.windows, c0,
                    tile.ox * a.stride_w - a.pad_left, tile.oy * a.stride_h - a.pad_top, tile.n + part,
                    full + stage * 8);
    }
  }
  __device__ __forceinline__ void store(const Arguments& a, int stage, const Tile& tile, int c0) const {
    for (int part = 0; part < a.parts; ++part) {
      ptx::copy_box_out(a.results, c0, tile.ox, tile.oy, tile.n + part,
                        windows + stage * stage_bytes + part * a.part_bytes);
    }
  }
  /// Waits until all tiles but the latest to be stored have been read.
  __device__ __forceinline__ void wait_for_older(const Arguments& a) const {
    if (a.parts == 1) {
      ptx::copy_out_wait_read<1>();
    } else {
      ptx::copy_out_wait_read<kMostParts>();
    }
  }
};

/// A lane's row of 8 outputs of four matrices, as packed, zeros between groups and where there are no channels.
template <class S>
__device__ __forceinline__ uint4 load_row(const Arguments& a, int load, int n0) {
  const int lane = ptx::as_int::lane();
  const int matrix = load * 4 + lane / 8;
  const int tap = matrix / S::kTapMatrices;
  const int place = matrix % S::kTapMatrices;
  const int n = n0 + (S::kNarrow ? place : place / 2 % 2) * 8;
  int k = lane % 8;
  if constexpr (!S::kNarrow) k += place / 4 * 16 + place % 2 * 8;
  uint4 row{0, 0, 0, 0};
  if (matrix >= S::kMatrices || n >= a.c_out) return row;
  const __half* const from = a.weight + static_cast<std::int64_t>(tap * S::kGroup + k % S::kGroup) * a.weight_pitch + n;
  if constexpr (S::kGroup >= 8) {
    row = ptx::load_global_nc<uint4>(from);
  } else {
    const auto half = ptx::load_global<uint2>(from + k / S::kGroup * S::kGroup);
    row = k < S::kGroup ? uint4{half.x, half.y, 0, 0} : uint4{0, 0, half.x, half.y};
  }
  return row;
}

/// All of a warp's weights, by way of 512 bytes of shared memory, where matrices are transposed.
template <class S>
__device__ __forceinline__ void arrange_weights(const uint4 (&rows)[S::kLoads], unsigned char* scratch,
                                                Weights<S>& weights) {
  unsigned char* const own = scratch + threadIdx.x * 16;
#pragma unroll
  for (int load = 0; load < S::kLoads; ++load) {
    const std::uint32_t words[4] = {rows[load].x, rows[load].y, rows[load].z, rows[load].w};
    std::uint32_t transposed[4];
    ptx::store_shared(ptx::shared_address(own), words);
    __syncwarp();
    ptx::ldmatrix_x4_trans(transposed, own);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[load * 4 + i] = transposed[i];
  }
}

/// `row`: where this lane's pixel and chunk of the row's first tap lie, but for the swizzle.
template <class S>
__device__ __forceinline__ void load_pixels(Pixels<S>& pixels, std::uint32_t row) {
#pragma unroll
  for (int kx = 0; kx < 3; ++kx) {
#pragma unroll
    for (int step = 0; step < S::kSteps; ++step) {
      ptx::ldmatrix_x4(pixels[kx][step], swizzled(row + kx * kPixelBytes + step * 32));
    }
  }
}

/// Adds a tap's products to the sums; the first tap begins them.
template <class S>
__device__ __forceinline__ void multiply_tap(Sums& sums, const Weights<S>& weights, const Pixels<S>& pixels, int ky,
                                             int kx) {
  constexpr float kZeros[4] = {};
#pragma unroll
  for (int step = 0; step < S::kSteps; ++step) {
    const std::uint32_t(&values)[4] = pixels[kx][step];
    const bool begins = ky == 0 && kx == 0 && step == 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (S::kNarrow) {
        const std::uint32_t own[2] = {values[half * 2], values[half * 2 + 1]};
        const std::uint32_t b = weights[(ky * 3 + kx) * 2 + half];
        if (begins) {
          ptx::mma_16x8x8(sums[half], own, b, kZeros);
        } else {
          ptx::mma_16x8x8(sums[half], own[0], own[1], b);
        }
      } else {
        const std::uint32_t* const b = weights + ((ky * 3 + kx) * S::kSteps + step) * 4 + half * 2;
        if (begins) {
          ptx::mma_16x8x16(sums[half], values, b[0], b[1], kZeros);
        } else {
          ptx::mma_16x8x16(sums[half], values, b[0], b[1]);
        }
      }
    }
  }
}

/// One row of the window, number kRow of a period and `row` of all: adds it to the sums of the outputs' rows, of which
/// there are `rows`. In the middle of the tile the products of all of these take turns, which do not wait for each
/// other.
template <class S, int kRow>
__device__ __forceinline__ void multiply_row(Sums (&sums)[S::kSlots], const Weights<S>& weights,
                                             const Pixels<S>& pixels, int row, int rows) {
  constexpr int kFirst = kRow % S::kStride;
  constexpr int kLast = kFirst + (2 - kFirst) / S::kStride * S::kStride;
  if (row >= kLast && row - kFirst < rows * S::kStride) {
#pragma unroll
    for (int kx = 0; kx < 3; ++kx) {
#pragma unroll
      for (int ky = kFirst; ky <= kLast; ky += S::kStride) {
        multiply_tap<S>(sums[S::slot(kRow, ky)], weights, pixels, ky, kx);
      }
    }
    return;
  }
#pragma unroll
  for (int ky = kFirst; ky <= kLast; ky += S::kStride) {
    if (row < ky || row - ky >= rows * S::kStride) continue;
#pragma unroll
    for (int kx = 0; kx < 3; ++kx) multiply_tap<S>(sums[S::slot(kRow, ky)], weights, pixels, ky, kx);
  }
}

/// What a lane knows of its place in every tile: of the pixels of a product its own is number lane % 16, where columns
/// are fewer the last one again.
struct Place {
  std::uint32_t read;     // from the window's begin: that pixel's first tap, the chunk of inputs of lane / 16
  std::uint32_t written;  // from the tile's begin: the same pixel's chunk of outputs
};

__device__ __forceinline__ int part_of(const Arguments& a, int pixel) {
  return a.parts == 1 ? 0 : pixel / (kPixels / kMostParts);
}
/// Of those that the tile has: behind the last one it comes again.
__device__ __forceinline__ int column_of(const Arguments& a, int pixel) {
  return min(a.parts == 1 ? pixel : pixel % (kPixels / kMostParts), a.columns - 1);
}

template <class S>
__device__ __forceinline__ Place place_of_lane(const Arguments& a) {
  const int pixel = ptx::as_int::lane() % kPixels;
  const int part = part_of(a, pixel) * a.part_bytes;
  const int column = column_of(a, pixel) * kPixelBytes;
  const int chunk = ptx::as_int::lane() / kPixels * 16;
  const int warp = ptx::as_int::warp();
  const int first_in = warp / S::kSteps * S::kSteps * kWarpChannels;
  return {static_cast<std::uint32_t>(part + column * a.stride_w + first_in * 2 + chunk),
          static_cast<std::uint32_t>(part + column + warp * kWarpChannels * 2 + chunk)};
}

/// What a thread keeps for all tiles.
template <class S>
struct Own {
  Weights<S> weights;
  float bias[4] = {};  // of its channels of the first 8, then of the second
  int n;               // the first of these
  Place place;
};

/// A tile, whose windows begin at `window`.
struct Work {
  Tile tile;
  std::uint32_t window;
  int rows;  // of outputs
};

/// Adds bias and residual to the sums of the outputs' row `row` of the tile. A residual is rare, so that it may be read
/// by pairs.
template <class S>
__device__ __forceinline__ void add_residual(const Arguments& a, const Own<S>& own, const Work& work, int row,
                                             Sums& sums) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int pixel = ptx::as_int::lane() / 4 + i * 8;
    const int picture = work.tile.n + part_of(a, pixel);
    const int x = work.tile.ox + column_of(a, pixel);
    const bool is_pixel = picture < a.pictures && x < a.out_w;
    const std::int64_t m = (static_cast<std::int64_t>(picture) * a.out_h + work.tile.oy + row) * a.out_w + x;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float2 added{};
      const int n = own.n + half * 8;
      if (is_pixel && n < a.c_out) {
        added = __half22float2(*reinterpret_cast<const __half2*>(a.residual + m * a.c_out + n));
      }
      sums[half][i * 2] += own.bias[half * 2] + added.x;
      sums[half][i * 2 + 1] += own.bias[half * 2 + 1] + added.y;
    }
  }
}

/// Two warps read the same channels: behind this both have read the rows of the window that the one or the other
/// writes to next.
__device__ __forceinline__ void sync_pair() {
  constexpr int kPairThreads = 64;
  // With a number that is not known the kernel would claim all of the block's barriers.
  if (ptx::as_int::warp() < kWarps / 2) {
    ptx::sync_threads_of<kPairThreads>(1);
  } else {
    ptx::sync_threads_of<kPairThreads>(2);
  }
}

/// Finishes the sums of the outputs' row `row` of the tile and puts them in their place. A lane whose column is none
/// has the last column's values, and writes them to the same place.
template <class S, bool kClip>
__device__ __forceinline__ void finish_row(const Arguments& a, const Own<S>& own, const Work& work, int row,
                                           Sums& sums) {
  if (a.residual != nullptr) {
    add_residual<S>(a, own, work, row, sums);
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[half][e] += own.bias[half * 2 + e % 2];
    }
  }
  std::uint32_t words[4];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if constexpr (kClip) {
#pragma unroll
      for (float& sum : sums[half]) sum = apply(Clip{a.activation.lo, a.activation.hi}, sum);
    } else {
      apply(a.activation, sums[half]);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const __half2 pair = __floats2half2_rn(sums[half][i * 2], sums[half][i * 2 + 1]);
      words[half * 2 + i] = reinterpret_cast<const std::uint32_t&>(pair);
    }
  }
  if constexpr (S::kSharesInputs) sync_pair();
  ptx::stmatrix_x4(swizzled(work.window + own.place.written + row * a.columns * kPixelBytes), words);
}

/// A period's rows of the window, from number kRow of it on. `pixels`: of that row; then of the next one.
template <class S, bool kClip, int kRow = 0>
__device__ __forceinline__ void walk_period(const Arguments& a, const Own<S>& own, const Work& work, int first_row,
                                            Sums (&sums)[S::kSlots], Pixels<S>& pixels) {
  const int row = first_row + kRow;
  const int last = (work.rows - 1) * S::kStride + 2;
  if (row > last) return;
  multiply_row<S, kRow>(sums, own.weights, pixels, row, work.rows);
  if (row < last) load_pixels<S>(pixels, work.window + own.place.read + (row + 1) * a.row_bytes);
  if constexpr (S::counts(kRow, 2)) {
    const int done = (row - 2) / S::kStride;
    if (row >= 2) finish_row<S, kClip>(a, own, work, done, sums[S::slot(kRow, 2)]);
  }
  if constexpr (kRow + 1 < S::kPeriod) walk_period<S, kClip, kRow + 1>(a, own, work, first_row, sums, pixels);
}

template <class S, bool kClip>
__global__ void __launch_bounds__(kThreads, S::kMinBlocks) grouped_tma_kernel(const __grid_constant__ Arguments a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  const int stage_bytes = a.parts * a.part_bytes;
  unsigned char* const scratch = shared + a.stages * stage_bytes;
  const Ring ring{ptx::shared_address(shared), ptx::shared_address(scratch + kWeightsBytes), stage_bytes};
  const int c0 = static_cast<int>(blockIdx.x) * kChannels;
  const int n0 = c0 + ptx::as_int::warp() * kWarpChannels;
  const int first = static_cast<int>(blockIdx.y);
  const int step = static_cast<int>(gridDim.y);
  const bool copies = threadIdx.x == 0;
  if (copies) {
    ptx::prefetch_tensor_map(a.windows);
    ptx::prefetch_tensor_map(a.results);
    for (int stage = 0; stage < a.stages; ++stage) ptx::mbarrier_init(ring.full + stage * 8, 1);
    ptx::fence_mbarrier_init();
  }
  uint4 rows_of_weights[S::kLoads];
#pragma unroll
  for (int load = 0; load < S::kLoads; ++load) rows_of_weights[load] = load_row<S>(a, load, n0);
  Own<S> own;
  own.n = n0 + ptx::as_int::lane() % 4 * 2;
  own.place = place_of_lane<S>(a);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (a.bias == nullptr || own.n + half * 8 >= a.c_out) continue;
    const auto pair = ptx::load_global_nc<float2>(a.bias + own.n + half * 8);
    own.bias[half * 2] = pair.x;
    own.bias[half * 2 + 1] = pair.y;
  }
  wait_for_predecessor();
  if (copies) {
    for (int stage = 0; stage < a.stages && first + stage * step < a.tiles; ++stage) {
      ring.fill(a, stage, first + stage * step, c0);
    }
  }
  arrange_weights<S>(rows_of_weights, scratch, own.weights);
  __syncthreads();  // the ring's barriers are there

  int stage = 0;
  std::uint32_t parity = 0;
  for (int index = first; index < a.tiles; index += step) {
    const Tile tile = tile_at(a, index);
    const Work work{tile, ring.windows + stage * stage_bytes, min(a.rows, a.out_h - tile.oy)};
    ptx::mbarrier_wait(ring.full + stage * 8, parity);
    Sums sums[S::kSlots] = {};
    Pixels<S> pixels;
    load_pixels<S>(pixels, work.window + own.place.read);
#pragma unroll 1
    for (int row = 0; row < (work.rows - 1) * S::kStride + 3; row += S::kPeriod) {
      walk_period<S, kClip>(a, own, work, row, sums, pixels);
    }
    ptx::fence_proxy_async();
    __syncthreads();  // the tile is whole
    if (copies) {
      ring.store(a, stage, tile, c0);
      // The stage before this one gets the tile that comes when all others have had their turn.
      const int next = index + (a.stages - 1) * step;
      if (index > first && next < a.tiles) {
        ring.wait_for_older(a);
        ring.fill(a, stage == 0 ? a.stages - 1 : stage - 1, next, c0);
      }
    }
    if (++stage == a.stages) {
      stage = 0;
      parity ^= 1U;
    }
  }
  if (copies) ptx::copy_out_wait_read<0>();
#endif
}

}  // namespace mobicuda::kernels::conv_grouped_tma
