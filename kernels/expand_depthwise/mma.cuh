// A block -> a slice of hidden channels, a band of output rows, every gridDim.z-th image. A warp expands 16 pixels at
// a time on tensor cores, straight from global memory into registers: k is dealt to the instruction's k so that each
// thread's operands are 16 neighbouring bytes of a pixel (and of a weight row). Channels are dealt out likewise, so
// that a thread's results of a pixel are neighbours. They meet in shared memory as (tile row, tile column, channel),
// with zeros where the depthwise window leaves the image; a thread then convolves 4 channels of a strip of kRows
// rows. It keeps the taps of a 3x3 window for all images, and reads those of a 5x5 window, which are too many, by the
// column. Two tiles in turn, where a block has several images, need one barrier an image. Shared memory: expand
// weights | depthwise weights | biases | hidden tile(s).
#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/common/conv_vector.cuh"
#include "kernels/common/direct_operands.cuh"
#include "kernels/common/fast_division.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::expand_depthwise_detail {

inline constexpr int kBlockK = kDirectBlockK;
inline constexpr int kVector = 4;  // channels of a depthwise thread
// Numbers of blocks of kBlockK that there is code for, ascending: c_in has that of the first one that holds it.
inline constexpr int kBlockCounts[] = {1, 2, 3, 5, 8};
inline constexpr int kMostBlocksK = kBlockCounts[sizeof(kBlockCounts) / sizeof(int) - 1];
inline constexpr int kMaxThreads = 256;
inline constexpr int kMinBlocks = 2;  // per multiprocessor: the next kernel's first blocks fit beside this one's

/// Blocks that c_in fills where it has the code of `blocks_k`.
constexpr int whole_blocks(int blocks_k) {
  int whole = 0;
  for (const int count : kBlockCounts) {
    if (count < blocks_k) whole = count;
  }
  return whole;
}
template <int kBlocksK>
inline constexpr int kWholeBlocks = whole_blocks(kBlocksK);

struct Arguments {
  int n, h, w, c_in, c, out_h, out_w;
  int stride, pad_top, pad_left;
  int band_rows;  ///< output rows of a block
  int columns;    ///< of the tile's columns, those inside the image
  int tile_rows;  ///< of hidden, with what lies outside
  int tile_columns;
  int buffers;  ///< hidden tiles: 1 or 2
  FastDivision by_columns;
  FastDivision by_out_w;
  Activation expand_activation, depthwise_activation;
};

/// kKernel: rows and columns of a window. kSlice: channels of a block. kRows: output rows of a depthwise thread; more
/// than 1 for stride 1 only. kBlocksK: one of kBlockCounts. kSwish: is_swish() of both activations, which else are
/// clips.
template <int kKernel_, int kSlice_, int kRows_, int kBlocksK_, bool kSwish_ = false>
struct Config {
  static constexpr bool kSwish = kSwish_;
  static constexpr int kKernel = kKernel_;
  static constexpr int kSlice = kSlice_;
  static constexpr int kRows = kRows_;
  static constexpr int kBlocksK = kBlocksK_;
  static constexpr int kGroups = kSlice / 8;           ///< of 8 channels, the instruction's n
  static constexpr int kRun = 2 * kGroups;             ///< neighbouring channels that a thread has of a pixel
  static constexpr int kChains = kGroups < 4 ? 2 : 1;  ///< independent sums, where there are few
  static constexpr int kVectors = kSlice / kVector;
  static constexpr int kTaps = kKernel * kKernel;
  // What registers have room for beside the pixels of kBlocksK blocks and the sums.
  static constexpr bool kReadsAhead = kBlocksK < kMostBlocksK;  ///< the next image's first pixels
  static constexpr bool kOverlaps = kBlocksK <= 3;  ///< the warp's next pixels arrive while it expands these
  static constexpr bool kKeepsTaps = kKernel == 3 && kReadsAhead;  ///< for all images
  // Bytes of the parts of shared memory.
  static constexpr int kExpandBytes = kGroups * kBlocksK * 32 * 16;
  static constexpr int kDepthwiseBytes = kTaps * kSlice * 2;
  static constexpr int kBiasBytes = kSlice * 4;
  static constexpr int kConstantBytes = kExpandBytes + kDepthwiseBytes + 2 * kBiasBytes;
};

/// Starts to copy the block's weights and biases.
template <class C>
__device__ __forceinline__ void copy_constants(unsigned char* shared, const Arguments& a, const __half* expand,
                                               const float* expand_bias, const __half* depthwise,
                                               const float* depthwise_bias, int c0) {
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  copy_weight_chunks<C::kGroups>(shared, expand, a.c_in, C::kBlocksK, c0);
  shared += C::kExpandBytes;
  constexpr int kChunks = C::kSlice / 8;
  for (int i = thread; i < C::kTaps * kChunks; i += threads) {
    ptx::copy_async_cg_128_or_zero(
        shared + i * 16, depthwise + static_cast<std::size_t>(i / kChunks) * a.c + c0 + i % kChunks * 8, true);
  }
  shared += C::kDepthwiseBytes;
  constexpr int kBiasChunks = C::kSlice / 4;
  for (int i = thread; i < 2 * kBiasChunks; i += threads) {
    const float* const bias = i < kBiasChunks ? expand_bias : depthwise_bias;
    const void* const from = bias != nullptr ? static_cast<const void*>(bias + c0 + i % kBiasChunks * 4) : expand;
    ptx::copy_async_cg_128_or_zero(shared + i * 16, from, bias != nullptr);
  }
}

/// kCount halves, a power of two of them, in one access.
template <int kCount>
__device__ __forceinline__ void store_halves(__half* to, const float (&values)[kCount]) {
  if constexpr (kCount == 2) {
    *reinterpret_cast<__half2*>(to) = __floats2half2_rn(values[0], values[1]);
  } else {
    using Vector = Words<2 * kCount>;
    *reinterpret_cast<Vector*>(to) = pack<__half, Vector>(values);
  }
}

/// 16 pixels of x, as the threads of a warp hold them.
template <int kBlocksK>
struct Pixels {
  uint4 x[2][kBlocksK];  // (pixel lane / 4 and + 8, block of k)
};

/// Where this thread's two pixels of a fragment lie. Pixels beyond the last are the last one, and stored nowhere.
struct Place {
  unsigned from[2];  ///< byte offset within the image
  int to[2];         ///< element offset within the hidden tile
  bool inside[2];
};

template <class C>
__device__ __forceinline__ Place place_of(const Arguments& a, int fragment, int pixels, int first_row, int tile_row) {
  Place place;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int pixel = fragment * 16 + static_cast<int>(threadIdx.x % 32 / 4) + i * 8;
    std::uint32_t column = 0;
    const int row = static_cast<int>(a.by_columns.divide(static_cast<unsigned>(min(pixel, pixels - 1)), column));
    place.inside[i] = pixel < pixels;
    place.from[i] =
        static_cast<unsigned>((first_row + row) * a.w + static_cast<int>(column)) * static_cast<unsigned>(a.c_in * 2) +
        threadIdx.x % 4 * 16;
    place.to[i] = ((tile_row + row) * a.tile_columns + static_cast<int>(column) + a.pad_left) * C::kSlice +
                  static_cast<int>(threadIdx.x % 4) * C::kRun;
  }
  return place;
}

/// Blocks from kBlock on. Only the last ones may lie beyond c_in, where zeros must meet the weights' zeros.
template <int kBlock, int kBlocksK>
__device__ __forceinline__ void load_blocks(const char* const (&from)[2], int channels, Pixels<kBlocksK>& pixels) {
  constexpr int kOffset = kBlock * kBlockK * 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (kBlock < kWholeBlocks<kBlocksK>) {
      ptx::load_global_at<kOffset>(from[i], pixels.x[i][kBlock]);
    } else {
      ptx::load_global_or_zero(from[i] + kOffset, static_cast<unsigned>(kBlock * kBlockK < channels),
                               pixels.x[i][kBlock]);
    }
  }
  if constexpr (kBlock + 1 < kBlocksK) load_blocks<kBlock + 1>(from, channels, pixels);
}

template <int kBlocksK>
__device__ __forceinline__ void load_pixels(const Arguments& a, const char* const (&from)[2],
                                            Pixels<kBlocksK>& pixels) {
  load_blocks<0>(from, a.c_in - static_cast<int>(threadIdx.x % 4) * 8, pixels);
}

/// Expands 16 pixels into the hidden tile. `weights` and `bias` are in shared memory.
template <class C>
__device__ __forceinline__ void expand_pixels(const Arguments& a, const Pixels<C::kBlocksK>& pixels, const Place& place,
                                              const uint4* weights, const float* bias, __half* hidden) {
  const int lane = ptx::as_int::lane();
  float sum[C::kChains][C::kGroups][4] = {};
#pragma unroll
  for (int block = 0; block < C::kBlocksK; ++block) {
    multiply_add_block(sum, pixels.x[0][block], pixels.x[1][block], weights + block * 32 + lane, C::kBlocksK * 32);
  }
  bias += lane % 4 * C::kRun;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float values[C::kRun];
#pragma unroll
    for (int e = 0; e < C::kRun; ++e) {
      values[e] = sum[0][e / 2][2 * i + e % 2];
      if constexpr (C::kChains == 2) values[e] += sum[1][e / 2][2 * i + e % 2];
      values[e] += bias[e];
    }
    activate<C::kSwish>(a.expand_activation, values);
    if (place.inside[i]) store_halves(hidden + place.to[i], values);
  }
}

/// 4 halves in shared memory.
__device__ __forceinline__ void load_halves(const __half* from, float (&values)[kVector]) {
  const uint2 words = *reinterpret_cast<const uint2*>(from);
  unpack<__half>(words, values);
}

template <int kRows>
__device__ __forceinline__ void begin_sums(float (&sums)[kRows][kVector], const float (&bias)[kVector]) {
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) sums[row][v] = bias[v];
  }
}

/// 4 channels of an output, 4 halves at `to`.
template <class C>
__device__ __forceinline__ void store_output(const Arguments& a, const float (&sums)[kVector], char* to) {
  float values[kVector];
#pragma unroll
  for (int v = 0; v < kVector; ++v) values[v] = sums[v];
  activate<C::kSwish>(a.depthwise_activation, values);
  *reinterpret_cast<uint2*>(to) = pack<__half, uint2>(values);
}

/// 4 channels of up to kRows output rows of one column. `tile` is the window's first element, `row_elems` a tile row.
/// `weights` is (tap, 4).
template <class C>
__device__ __forceinline__ void convolve_strip(const Arguments& a, const __half* tile, int row_elems,
                                               const float (&weights)[C::kTaps][kVector], const float (&bias)[kVector],
                                               int rows, char* to, unsigned out_row_bytes) {
  float sums[C::kRows][kVector];
  begin_sums(sums, bias);
#pragma unroll
  for (int iy = 0; iy < C::kRows + C::kKernel - 1; ++iy) {
#pragma unroll
    for (int kx = 0; kx < C::kKernel; ++kx) {
      float values[kVector];
      load_halves(tile + iy * row_elems + kx * C::kSlice, values);
#pragma unroll
      for (int ky = 0; ky < C::kKernel; ++ky) {
        const int row = iy - ky;
        if (row < 0 || row >= C::kRows) continue;
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          sums[row][v] = fmaf(values[v], weights[ky * C::kKernel + kx][v], sums[row][v]);
        }
      }
    }
    const int done = iy - (C::kKernel - 1);
    if (done >= 0 && done < rows) store_output<C>(a, sums[done], to + done * out_row_bytes);
  }
}

/// The same with `weights`, (tap, kSlice), in shared memory: each column's taps are read once for all rows.
template <class C>
__device__ __forceinline__ void convolve_strip(const Arguments& a, const __half* tile, int row_elems,
                                               const __half* weights, const float (&bias)[kVector], int rows, char* to,
                                               unsigned out_row_bytes) {
  float sums[C::kRows][kVector];
  begin_sums(sums, bias);
#pragma unroll
  for (int kx = 0; kx < C::kKernel; ++kx) {
    float column[C::kKernel][kVector];
#pragma unroll
    for (int ky = 0; ky < C::kKernel; ++ky) load_halves(weights + (ky * C::kKernel + kx) * C::kSlice, column[ky]);
#pragma unroll
    for (int iy = 0; iy < C::kRows + C::kKernel - 1; ++iy) {
      float values[kVector];
      load_halves(tile + iy * row_elems + kx * C::kSlice, values);
#pragma unroll
      for (int ky = 0; ky < C::kKernel; ++ky) {
        const int row = iy - ky;
        if (row < 0 || row >= C::kRows) continue;
#pragma unroll
        for (int v = 0; v < kVector; ++v) sums[row][v] = fmaf(values[v], column[ky][v], sums[row][v]);
      }
    }
  }
#pragma unroll
  for (int row = 0; row < C::kRows; ++row) {
    if (row < rows) store_output<C>(a, sums[row], to + row * out_row_bytes);
  }
}

template <class C>
__global__ void __launch_bounds__(kMaxThreads, kMinBlocks)
    expand_depthwise_kernel(const Arguments a, const __half* x, const __half* expand, const float* expand_bias,
                            const __half* depthwise, const float* depthwise_bias, __half* y) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);

  const int c0 = static_cast<int>(blockIdx.x) * C::kSlice;
  const int oy0 = static_cast<int>(blockIdx.y) * a.band_rows;
  const int band_rows = min(a.band_rows, a.out_h - oy0);
  const int top = oy0 * a.stride - a.pad_top;  // of the tile, within the image
  const int first_row = max(top, 0);
  const int end_row = min(top + (band_rows - 1) * a.stride + C::kKernel, a.h);
  const int pixels = max(end_row - first_row, 0) * a.columns;
  const int fragments = (pixels + 15) / 16;
  const int warps = static_cast<int>(blockDim.x / 32);
  const int warp = ptx::as_int::warp();
  const Place place = place_of<C>(a, warp, pixels, first_row, first_row - top);

  const int vector = static_cast<int>(threadIdx.x) % C::kVectors;
  const int strips = (band_rows + C::kRows - 1) / C::kRows * a.out_w;
  const int strip_step = static_cast<int>(blockDim.x) / C::kVectors;
  const unsigned out_row_bytes = static_cast<unsigned>(a.out_w * a.c) * 2U;
  const int row_elems = a.tile_columns * C::kSlice;
  const std::size_t picture_bytes = static_cast<std::size_t>(a.h) * a.w * a.c_in * 2;
  const std::size_t out_picture_bytes = static_cast<std::size_t>(a.out_h) * a.out_w * a.c * 2;
  int n = static_cast<int>(blockIdx.z);
  const int picture_step = static_cast<int>(gridDim.z);
  const char* picture = reinterpret_cast<const char*>(x) + n * picture_bytes;
  char* out = reinterpret_cast<char*>(y) + n * out_picture_bytes + static_cast<std::size_t>(c0 + vector * kVector) * 2;
  const char* from[2] = {picture + place.from[0], picture + place.from[1]};
  ptx::pin(from[0]);
  ptx::pin(from[1]);
  copy_constants<C>(shared, a, expand, expand_bias, depthwise, depthwise_bias, c0);
  ptx::copy_async_commit();
  const auto* const expand_weights = reinterpret_cast<const uint4*>(shared);
  const auto* const depthwise_weights = reinterpret_cast<const __half*>(shared + C::kExpandBytes) + vector * kVector;
  const auto* const biases = reinterpret_cast<const float*>(shared + C::kExpandBytes + C::kDepthwiseBytes);
  __half* hidden = reinterpret_cast<__half*>(shared + C::kConstantBytes);
  const int tile_elems = a.tile_rows * a.tile_columns * C::kSlice;
  for (int i = static_cast<int>(threadIdx.x) * 8; i < a.buffers * tile_elems; i += static_cast<int>(blockDim.x) * 8) {
    *reinterpret_cast<uint4*>(hidden + i) = uint4{0, 0, 0, 0};
  }
  wait_for_predecessor();

  Pixels<C::kBlocksK> ahead{};  // the warp's first pixels of an image
  if (warp < fragments) load_pixels(a, from, ahead);

  ptx::copy_async_wait<0>();
  __syncthreads();
  float taps[C::kTaps][kVector];
  if constexpr (C::kKeepsTaps) {
#pragma unroll
    for (int tap = 0; tap < C::kTaps; ++tap) load_halves(depthwise_weights + tap * C::kSlice, taps[tap]);
  }
  const auto depthwise_offset = load<kVector>(biases + C::kSlice + vector * kVector);

  int buffer_step = a.buffers > 1 ? tile_elems : 0;
  for (;;) {
    Place at = place;
    for (int fragment = warp; fragment < fragments; fragment += warps) {
      const Pixels<C::kBlocksK> these = ahead;
      const Place here = at;
      const auto load_next = [&] {
        if (fragment + warps >= fragments) return;
        at = place_of<C>(a, fragment + warps, pixels, first_row, first_row - top);
        const char* const other[2] = {picture + at.from[0], picture + at.from[1]};
        load_pixels(a, other, ahead);
      };
      if constexpr (C::kOverlaps) load_next();
      expand_pixels<C>(a, these, here, expand_weights, biases, hidden);
      if constexpr (!C::kOverlaps) load_next();
    }
    n += picture_step;
    picture += picture_step * picture_bytes;
    from[0] += picture_step * picture_bytes;
    from[1] += picture_step * picture_bytes;
    if (C::kReadsAhead && n < a.n && warp < fragments) load_pixels(a, from, ahead);
    __syncthreads();

    for (int strip = static_cast<int>(threadIdx.x) / C::kVectors; strip < strips; strip += strip_step) {
      std::uint32_t ox = 0;
      const int row = static_cast<int>(a.by_out_w.divide(static_cast<unsigned>(strip), ox)) * C::kRows;
      const __half* const window =
          hidden + row * a.stride * row_elems + static_cast<int>(ox) * a.stride * C::kSlice + vector * kVector;
      char* const to = out + static_cast<unsigned>(oy0 + row) * out_row_bytes + ox * static_cast<unsigned>(a.c) * 2U;
      if constexpr (C::kKeepsTaps) {
        convolve_strip<C>(a, window, row_elems, taps, depthwise_offset.item, band_rows - row, to, out_row_bytes);
      } else {
        convolve_strip<C>(a, window, row_elems, depthwise_weights, depthwise_offset.item, band_rows - row, to,
                          out_row_bytes);
      }
    }
    if (n >= a.n) break;
    if constexpr (!C::kReadsAhead) {
      ahead = {};  // of no use in the convolution, where there are no registers for it
      if (warp < fragments) load_pixels(a, from, ahead);
    }
    out += picture_step * out_picture_bytes;
    hidden += buffer_step;
    buffer_step = -buffer_step;
  }
}

}  // namespace mobicuda::kernels::expand_depthwise_detail
