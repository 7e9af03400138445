// layout_transform:  NCHW <-> NHWC and float <-> half or double in one pass. For each image that is a transpose of a
//   (rows, columns) matrix, through a kTile x kTile tile of shared memory (4.1 KB, of double 8.3), padded by one column
//   against bank conflicts, so that reads and writes are both contiguous. With at most kFewChannels channels, as the
//   network's input has, tiles would be nearly empty: a thread takes a whole pixel instead, the planes are read
//   (written) contiguously and the caches merge the rest. Equal orders: a conversion in packets of kConverted elements.
// convert_pictures:  a thread takes a pixel, as with few channels.
// pad:               one packet of the padded image for each thread.
// transpose:         one packet of y for each thread, reads by stride; packets where the last axis stays in place.
// pad and transpose move raw words of 2, 4, 8 or 16 bytes.
#include "kernels/streaming/layout_transform.h"

#include <algorithm>

#include "kernels/common/real.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;
constexpr int kTileRows = kThreads / kTile;
constexpr int kFewChannels = 8;
constexpr int kMostPictureChannels = 4;
constexpr int kConverted = 8;  // elements of a thread in convert_kernel: 16 bytes of half, 32 of float

// y(n, column, row) = x(n, row, column); grid (tiles, images), block (kTile, kTileRows)
template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    transpose_tiles_kernel(int n, int rows, int columns, int tiles_across, const From* x, To* y) {
  using R = Real<From>;
  __shared__ R tile[kTile][kTile + 1];
  wait_for_predecessor();
  const int tile_row = static_cast<int>(blockIdx.x) / tiles_across;
  const int first_row = tile_row * kTile;
  const int first_column = (static_cast<int>(blockIdx.x) - tile_row * tiles_across) * kTile;
  const int tx = static_cast<int>(threadIdx.x);
  const int ty = static_cast<int>(threadIdx.y);
  for (int picture = static_cast<int>(blockIdx.y); picture < n; picture += static_cast<int>(gridDim.y)) {
    const std::int64_t base = static_cast<std::int64_t>(picture) * rows * columns;
#pragma unroll
    for (int i = 0; i < kTile; i += kTileRows) {
      const int row = first_row + ty + i;
      const int column = first_column + tx;
      if (row < rows && column < columns) {
        tile[ty + i][tx] = to_real(x[base + static_cast<std::int64_t>(row) * columns + column]);
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; i += kTileRows) {
      const int column = first_column + ty + i;
      const int row = first_row + tx;
      if (row < rows && column < columns) {
        y[base + static_cast<std::int64_t>(column) * rows + row] = from_real<To>(tile[tx][ty + i]);
      }
    }
    __syncthreads();  // before the next image's tile
  }
}

// grid (pixels, images)
template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    few_channels_kernel(int n, int c, int pixels, bool to_nhwc, const From* x, To* y) {
  wait_for_predecessor();
  const std::int64_t pixel = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pixel >= pixels) return;
  for (int picture = static_cast<int>(blockIdx.y); picture < n; picture += static_cast<int>(gridDim.y)) {
    const std::int64_t base = static_cast<std::int64_t>(picture) * pixels * c;
    for (int channel = 0; channel < c; ++channel) {
      const std::int64_t planar = base + static_cast<std::int64_t>(channel) * pixels + pixel;
      const std::int64_t packed = base + pixel * c + channel;
      y[to_nhwc ? packed : planar] = from_real<To>(to_real(x[to_nhwc ? planar : packed]));
    }
  }
}

template <class From, class To, int N>
__global__ void __launch_bounds__(kThreads) convert_kernel(std::int64_t elements, const From* x, To* y) {
  wait_for_predecessor();
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (first + N <= elements) {
    const Packet<From, N> from = load<N>(x + first);
    Packet<To, N> to;
#pragma unroll
    for (int j = 0; j < N; ++j) to.item[j] = from_real<To>(to_real(from.item[j]));
    store<N>(y + first, to);
    return;
  }
  for (std::int64_t i = first; i < elements; ++i) y[i] = from_real<To>(to_real(x[i]));
}

// grid (pixels, images)
__global__ void __launch_bounds__(kThreads)
    convert_pictures_kernel(ConvertPicturesParams p, const std::uint8_t* x, float* y) {
  wait_for_predecessor();
  const std::int64_t pixels = static_cast<std::int64_t>(p.h) * p.w;
  const std::int64_t pixel = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pixel >= pixels) return;
  for (int picture = static_cast<int>(blockIdx.y); picture < p.n; picture += static_cast<int>(gridDim.y)) {
    const std::int64_t base = static_cast<std::int64_t>(picture) * pixels * p.c;
#pragma unroll
    for (int channel = 0; channel < kMostPictureChannels; ++channel) {
      if (channel >= p.c) break;
      const std::int64_t packed = base + pixel * p.c + channel;
      const std::int64_t planar = base + channel * pixels + pixel;
      y[p.to_nhwc ? packed : planar] = static_cast<float>(x[packed]) * p.scale[channel] + p.shift[channel];
    }
  }
}

/// PadParams in words.
struct PadSizes {
  int n, h, w, words;  ///< of x; words of a pixel
  int out_h, out_w;
  int top, left;
  PadMode mode;
};

/// The pixel of 0..extent that stands at position i of a padded axis; may lie outside where the mode is Constant.
__device__ __forceinline__ int padded_source(PadMode mode, int i, int extent) {
  if (mode == PadMode::Constant) return i;
  if (mode == PadMode::Edge) return min(max(i, 0), extent - 1);
  const int mirrored = i < 0 ? -i : i;
  return mirrored < extent ? mirrored : 2 * (extent - 1) - mirrored;
}

// grid (words of a row of y, rows of y, images)
template <class Word>
__global__ void __launch_bounds__(kThreads) pad_kernel(PadSizes p, Word fill, const Word* x, Word* y) {
  wait_for_predecessor();
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int ox = static_cast<int>(at / p.words);
  if (ox >= p.out_w) return;
  const std::int64_t word = at - static_cast<std::int64_t>(ox) * p.words;
  const int ix = padded_source(p.mode, ox - p.left, p.w);
  for (int n = static_cast<int>(blockIdx.z); n < p.n; n += static_cast<int>(gridDim.z)) {
    for (int oy = static_cast<int>(blockIdx.y); oy < p.out_h; oy += static_cast<int>(gridDim.y)) {
      const int iy = padded_source(p.mode, oy - p.top, p.h);
      const bool inside = iy >= 0 && iy < p.h && ix >= 0 && ix < p.w;
      const std::int64_t from = ((static_cast<std::int64_t>(n) * p.h + iy) * p.w + ix) * p.words + word;
      const std::int64_t to = ((static_cast<std::int64_t>(n) * p.out_h + oy) * p.out_w + ox) * p.words + word;
      y[to] = inside ? x[from] : fill;
    }
  }
}

/// y's extents, and how far a step along each of its axes goes in x; in words.
struct TransposeSizes {
  std::int64_t extent[4];
  std::int64_t stride[4];
};

// grid (words of y's inner two axes, axis 1, axis 0)
template <class Word>
__global__ void __launch_bounds__(kThreads) transpose_kernel(TransposeSizes p, const Word* x, Word* y) {
  wait_for_predecessor();
  const std::int64_t inner = p.extent[2] * p.extent[3];
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= inner) return;
  const std::int64_t i2 = at / p.extent[3];
  const std::int64_t from = i2 * p.stride[2] + (at - i2 * p.extent[3]) * p.stride[3];
  for (std::int64_t i0 = blockIdx.z; i0 < p.extent[0]; i0 += gridDim.z) {
    for (std::int64_t i1 = blockIdx.y; i1 < p.extent[1]; i1 += gridDim.y) {
      y[(i0 * p.extent[1] + i1) * inner + at] = x[i0 * p.stride[0] + i1 * p.stride[1] + from];
    }
  }
}

unsigned grid_yz(std::int64_t extent) { return static_cast<unsigned>(std::min<std::int64_t>(extent, kMaxGridYz)); }

template <class From, class To>
cudaError_t convert(std::int64_t elements, const void* x, void* y, const Launch& where) {
  const bool wide = aligned_16(x, y);
  const std::int64_t blocks = ceil_div(elements, std::int64_t{kThreads} * (wide ? kConverted : 1));
  if (blocks > kMaxGridX) return cudaErrorInvalidValue;
  return launch(wide ? convert_kernel<From, To, kConverted> : convert_kernel<From, To, 1>,
                dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, where, elements, static_cast<const From*>(x),
                static_cast<To*>(y));
}

template <class From, class To>
cudaError_t layout_transform_of(const LayoutTransformParams& p, const void* x, void* y, const Launch& where) {
  const std::int64_t pixels = static_cast<std::int64_t>(p.h) * p.w;
  const std::int64_t elements = pixels * p.n * p.c;
  if (p.from_nhwc == p.to_nhwc || pixels == 1 || p.c == 1) return convert<From, To>(elements, x, y, where);
  const From* from = static_cast<const From*>(x);
  To* to = static_cast<To*>(y);
  const int area = static_cast<int>(pixels);
  if (p.c <= kFewChannels) {
    const dim3 grid(static_cast<unsigned>(ceil_div(pixels, std::int64_t{kThreads})), grid_yz(p.n));
    return launch(few_channels_kernel<From, To>, grid, dim3(kThreads), 0, where, p.n, p.c, area, p.to_nhwc, from, to);
  }
  const int rows = p.from_nhwc ? area : p.c;
  const int columns = p.from_nhwc ? p.c : area;
  const int tiles_across = ceil_div(columns, kTile);
  const std::int64_t tiles = static_cast<std::int64_t>(tiles_across) * ceil_div(rows, kTile);
  if (tiles > kMaxGridX) return cudaErrorInvalidValue;
  return launch(transpose_tiles_kernel<From, To>, dim3(static_cast<unsigned>(tiles), grid_yz(p.n)),
                dim3(kTile, kTileRows), 0, where, p.n, rows, columns, tiles_across, from, to);
}

template <class Word>
cudaError_t launch_pad(const PadParams& p, int words, Word fill, const void* x, void* y, const Launch& where) {
  const PadSizes sizes{p.n, p.h, p.w, words, p.h + p.top + p.bottom, p.w + p.left + p.right, p.top, p.left, p.mode};
  const std::int64_t row_words = static_cast<std::int64_t>(sizes.out_w) * words;
  const std::int64_t blocks = ceil_div(row_words, std::int64_t{kThreads});
  return launch(pad_kernel<Word>, dim3(static_cast<unsigned>(blocks), grid_yz(sizes.out_h), grid_yz(p.n)),
                dim3(kThreads), 0, where, sizes, fill, static_cast<const Word*>(x), static_cast<Word*>(y));
}

template <class Word>
cudaError_t launch_transpose(const TransposeParams& p, int words_divisor, const void* x, void* y, const Launch& where) {
  std::int64_t extent_x[4];
  std::int64_t stride_x[4];
  std::int64_t stride = 1;
  for (int axis = 3; axis >= 0; --axis) {
    extent_x[axis] = axis == 3 ? p.shape[3] / words_divisor : p.shape[axis];
    stride_x[axis] = stride;
    stride *= extent_x[axis];
  }
  TransposeSizes sizes{};
  for (int axis = 0; axis < 4; ++axis) {
    sizes.extent[axis] = extent_x[p.permutation[axis]];
    sizes.stride[axis] = stride_x[p.permutation[axis]];
  }
  const std::int64_t blocks = ceil_div(sizes.extent[2] * sizes.extent[3], std::int64_t{kThreads});
  if (blocks > kMaxGridX) return cudaErrorInvalidValue;
  return launch(transpose_kernel<Word>,
                dim3(static_cast<unsigned>(blocks), grid_yz(sizes.extent[1]), grid_yz(sizes.extent[0])), dim3(kThreads),
                0, where, sizes, static_cast<const Word*>(x), static_cast<Word*>(y));
}

/// Whether every pixel that a mode takes from the image is there.
bool pads_from_picture(const PadParams& p) {
  if (p.mode == PadMode::Constant) return true;
  if (p.mode == PadMode::Edge) return p.h > 0 && p.w > 0;
  return std::max(p.top, p.bottom) < p.h && std::max(p.left, p.right) < p.w;
}

bool is_permutation(const int (&permutation)[4]) {
  unsigned seen = 0;
  for (const int axis : permutation) {
    if (axis < 0 || axis > 3) return false;
    seen |= 1U << static_cast<unsigned>(axis);
  }
  return seen == 0xFU;
}

}  // namespace

cudaError_t layout_transform(const LayoutTransformParams& p, const void* x, void* y, const Launch& where) {
  const std::int64_t pixels = static_cast<std::int64_t>(p.h) * p.w;
  if (p.n < 0 || p.c < 0 || p.h < 0 || p.w < 0 || pixels > kMaxGridX) return cudaErrorInvalidValue;
  if (p.n == 0 || p.c == 0 || pixels == 0) return cudaSuccess;
  if (p.from == Elem::F32) {
    if (p.to == Elem::F64) return layout_transform_of<float, double>(p, x, y, where);
    return p.to == Elem::F32 ? layout_transform_of<float, float>(p, x, y, where)
                             : layout_transform_of<float, __half>(p, x, y, where);
  }
  if (p.from == Elem::F64) {
    if (p.to == Elem::F16) return cudaErrorInvalidValue;
    return p.to == Elem::F32 ? layout_transform_of<double, float>(p, x, y, where)
                             : layout_transform_of<double, double>(p, x, y, where);
  }
  if (p.to == Elem::F64) return cudaErrorInvalidValue;
  return p.to == Elem::F32 ? layout_transform_of<__half, float>(p, x, y, where)
                           : layout_transform_of<__half, __half>(p, x, y, where);
}

cudaError_t convert_pictures(const ConvertPicturesParams& p, const void* x, void* y, const Launch& where) {
  const std::int64_t pixels = static_cast<std::int64_t>(p.h) * p.w;
  if (p.n < 0 || p.c < 0 || p.c > kMostPictureChannels || p.h < 0 || p.w < 0 || pixels > kMaxGridX) {
    return cudaErrorInvalidValue;
  }
  if (p.n == 0 || p.c == 0 || pixels == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(ceil_div(pixels, std::int64_t{kThreads})), grid_yz(p.n));
  return launch(convert_pictures_kernel, grid, dim3(kThreads), 0, where, p, static_cast<const std::uint8_t*>(x),
                static_cast<float*>(y));
}

cudaError_t pad(const PadParams& p, const void* x, void* y, const Launch& where) {
  const int out_h = p.h + p.top + p.bottom;
  const int out_w = p.w + p.left + p.right;
  if (p.n < 0 || p.h < 0 || p.w < 0 || p.c < 0 || out_h < 0 || out_w < 0) return cudaErrorInvalidValue;
  if (!pads_from_picture(p)) return cudaErrorInvalidValue;
  if (p.n == 0 || p.c == 0 || out_h == 0 || out_w == 0) return cudaSuccess;
  const std::int64_t bytes = static_cast<std::int64_t>(p.c) * static_cast<std::int64_t>(size_of(p.elem));
  const bool wide = bytes % 16 == 0 && aligned_16(x, y);
  const int words = wide ? static_cast<int>(bytes / 16) : p.c;
  if (p.elem == Elem::F32) {
    return wide ? launch_pad(p, words, make_float4(p.value, p.value, p.value, p.value), x, y, where)
                : launch_pad(p, words, p.value, x, y, where);
  }
  if (p.elem == Elem::F64) {
    const double value = p.value;
    return wide ? launch_pad(p, words, make_double2(value, value), x, y, where)
                : launch_pad(p, words, value, x, y, where);
  }
  const __half_raw raw = __float2half_rn(p.value);
  const unsigned pair = raw.x | static_cast<unsigned>(raw.x) << 16U;
  return wide ? launch_pad(p, words, make_uint4(pair, pair, pair, pair), x, y, where)
              : launch_pad(p, words, raw.x, x, y, where);
}

cudaError_t transpose(const TransposeParams& p, const void* x, void* y, const Launch& where) {
  if (!is_permutation(p.permutation)) return cudaErrorInvalidValue;
  for (const int extent : p.shape) {
    if (extent < 0) return cudaErrorInvalidValue;
  }
  for (const int extent : p.shape) {
    if (extent == 0) return cudaSuccess;
  }
  const int wide = 16 / static_cast<int>(size_of(p.elem));
  if (p.permutation[3] == 3 && p.shape[3] % wide == 0 && aligned_16(x, y)) {
    return launch_transpose<uint4>(p, wide, x, y, where);
  }
  switch (p.elem) {
    case Elem::F32:
      return launch_transpose<std::uint32_t>(p, 1, x, y, where);
    case Elem::F16:
      return launch_transpose<std::uint16_t>(p, 1, x, y, where);
    case Elem::F64:
      return launch_transpose<std::uint64_t>(p, 1, x, y, where);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mobicuda::kernels
