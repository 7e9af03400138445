// pooling:              one output packet of channels for each thread, any window, NHWC. Threads run along channels
//                       first, then along a row, so that a warp reads whole cache lines. Halves under small square
//                       windows take strips instead: a thread goes down kColumns columns of outputs of a packet, keeps
//                       the windows that have begun, and so loads a pixel once for all of them, kAhead rows of outputs
//                       before it is used. Columns are cut into strips until all multiprocessors have enough threads.
//                       Both ways take the taps of a row from left to right, and then the rows from top to bottom, with
//                       the same operations, and give the same bits.
// global_average_pool:  y[n, c] = mean over pixels. A warp sums kLanes packets of channels (64 bytes of each
//                       pixel): kPixels groups of lanes take every kPixels-th pixel, kDepth loads in flight each, so
//                       that all of 7x7 pixels are under way at once. Three exchanges add the groups, in each of which
//                       a lane gives half of its channels away: no shared memory, no barrier, and a division for a
//                       lane. Batch 1 is the hard case: 7x7x1280 is only 125 KB in half, and one dependent step costs
//                       more than its transfer. It is 40 (half) or 80 (float) independent blocks of one warp; large
//                       batches take kManyWarps warps a block, few, so that all multiprocessors have equally many. The
//                       order of the sum depends on h * w only: an image's result does not depend on its batch.
#include "kernels/streaming/pooling.h"

#include <algorithm>

#include "kernels/common/conv_chunks.h"
#include "kernels/common/conv_vector.cuh"
#include "kernels/common/real.cuh"
#include "kernels/common/resident_blocks.h"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
constexpr int kLanes = 4;
constexpr int kPixels = kWarp / kLanes;
constexpr int kDepth = 8;
constexpr int kManyWarps = 2;
constexpr std::int64_t kFewWarps = 528;  // below this, one warp a block spreads over more multiprocessors
// Threads of strips for each multiprocessor. Two columns a thread keep enough loads in flight with few threads.
constexpr std::int64_t kThreadsOfTwoColumns = 512;
constexpr std::int64_t kThreadsOfOneColumn = 2048;

/// How many of a window's taps lie before `end`: they start at `start`, `step` apart.
__device__ __forceinline__ int taps_before(int end, int start, int taps, int step) {
  if (end <= start) return 0;
  const int count = step == 1 ? end - start : (end - start + step - 1) / step;
  return min(count, taps);
}

/// The larger of each channel; NaN stays.
template <class T, int N>
__device__ __forceinline__ Packet<T, N> larger(const Packet<T, N>& best, const Packet<T, N>& x) {
  Packet<T, N> result;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if constexpr (std::is_same_v<T, __half>) {
      result.item[j] = __low2half(__hmax2_nan(__half2half2(best.item[j]), __half2half2(x.item[j])));
    } else {
      result.item[j] = x.item[j] > best.item[j] || x.item[j] != x.item[j] ? x.item[j] : best.item[j];
    }
  }
  return result;
}

__device__ __forceinline__ uint4 larger(const uint4& best, const uint4& x) {
  constexpr int kPairs = kWide<__half> / 2;
  __half2 a[kPairs];
  __half2 b[kPairs];
  memcpy(a, &best, sizeof best);
  memcpy(b, &x, sizeof x);
#pragma unroll
  for (int i = 0; i < kPairs; ++i) a[i] = __hmax2_nan(a[i], b[i]);
  uint4 result;
  memcpy(&result, a, sizeof result);
  return result;
}

// What a thread has of a window so far. P is what it has of a pixel: a packet or, in strips, eight halves as words, as
// a packet that is loaded under a condition would be put together half by half, and the next load would wait for that.

template <class T, int N, class P>
struct Maximum {
  P best;

  /// A pixel outside of the image.
  static __device__ __forceinline__ P padding() {
    if constexpr (std::is_same_v<P, uint4>) {
      constexpr std::uint32_t kInfinities = 0xFC00FC00U;  // -infinity twice
      return {kInfinities, kInfinities, kInfinities, kInfinities};
    } else {
      P packet;
#pragma unroll
      for (int j = 0; j < N; ++j) packet.item[j] = from_real<T>(static_cast<Real<T>>(-INFINITY));
      return packet;
    }
  }

  __device__ __forceinline__ void begin(const P& pixel) { best = pixel; }
  __device__ __forceinline__ void begin(const Maximum& row) { best = row.best; }
  __device__ __forceinline__ void add(const P& pixel) { best = larger(best, pixel); }
  __device__ __forceinline__ void add(const Maximum& row) { best = larger(best, row.best); }
  static __device__ __forceinline__ Real<T> divisor(int) { return 1; }
  __device__ __forceinline__ P result(Real<T>) const { return best; }
};

/// The sum of a row may begin with a pixel, that of a window begins with 0, so that nothing but negative zeros have a
/// sum of one sign wherever padding is.
template <class T, int N, class P>
struct Sum {
  Real<T> sum[N];

  static __device__ __forceinline__ P padding() { return {}; }

  __device__ __forceinline__ void begin(const P& pixel) {
    if constexpr (std::is_same_v<P, uint4>) {
      unpack<T>(pixel, sum);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] = to_real(pixel.item[j]);
    }
  }

  __device__ __forceinline__ void begin(const Sum& row) {
#pragma unroll
    for (int j = 0; j < N; ++j) sum[j] = 0 + row.sum[j];
  }

  __device__ __forceinline__ void add(const P& pixel) {
    Sum more;
    more.begin(pixel);
    add(more);
  }

  __device__ __forceinline__ void add(const Sum& row) {
#pragma unroll
    for (int j = 0; j < N; ++j) sum[j] += row.sum[j];
  }

  /// What result() takes: of halves the reciprocal, as eight divisions would take longer than all sums.
  static __device__ __forceinline__ Real<T> divisor(int pixels) {
    const auto count = static_cast<Real<T>>(pixels);
    return std::is_same_v<T, __half> ? 1 / count : count;
  }

  /// The mean.
  __device__ __forceinline__ P result(Real<T> divisor) const {
    Real<T> mean[N];
#pragma unroll
    for (int j = 0; j < N; ++j) mean[j] = std::is_same_v<T, __half> ? sum[j] * divisor : sum[j] / divisor;
    if constexpr (std::is_same_v<P, uint4>) {
      return pack<T, uint4>(mean);
    } else {
      P packet;
#pragma unroll
      for (int j = 0; j < N; ++j) packet.item[j] = from_real<T>(mean[j]);
      return packet;
    }
  }
};

template <class T, int N, class P, bool kMaximum>
using Window = std::conditional_t<kMaximum, Maximum<T, N, P>, Sum<T, N, P>>;

/// How many pixels an average's window has along an axis, at least 1: those from `start` on within the image, or within
/// the padded image.
__device__ __forceinline__ int counted(bool include_pad, int start, int size, int pad_behind, int taps, int step) {
  const int outside = include_pad ? 0 : taps_before(0, start, taps, step);
  return max(taps_before(include_pad ? size + pad_behind : size, start, taps, step) - outside, 1);
}

// block (packets of an output row); grid (those, output rows, images)
template <class T, int N, bool kMaximum>
__global__ void __launch_bounds__(kThreads) pooling_kernel(PoolingParams p, const T* x, T* y) {
  using Result = Window<T, N, Packet<T, N>, kMaximum>;
  wait_for_predecessor();
  const int packets = p.c / N;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int ox = static_cast<int>(at / packets);
  if (ox >= p.out_w) return;
  const std::int64_t channel = (at - static_cast<std::int64_t>(ox) * packets) * N;
  const int x0 = ox * p.stride_w - p.pad_left;
  const int skipped_x = taps_before(0, x0, p.kernel_w, p.dilation_w);
  const int taps_x = taps_before(p.w, x0, p.kernel_w, p.dilation_w) - skipped_x;
  const int first_x = x0 + skipped_x * p.dilation_w;
  const int counted_x = counted(p.count_include_pad, x0, p.w, p.pad_right, p.kernel_w, p.dilation_w);
  for (int n = static_cast<int>(blockIdx.z); n < p.n; n += static_cast<int>(gridDim.z)) {
    for (int oy = static_cast<int>(blockIdx.y); oy < p.out_h; oy += static_cast<int>(gridDim.y)) {
      const int y0 = oy * p.stride_h - p.pad_top;
      const int skipped_y = taps_before(0, y0, p.kernel_h, p.dilation_h);
      const int taps_y = taps_before(p.h, y0, p.kernel_h, p.dilation_h) - skipped_y;
      const int first_y = y0 + skipped_y * p.dilation_h;
      Result result;
      result.begin(Result::padding());
      for (int ky = 0; ky < taps_y; ++ky) {
        const int iy = first_y + ky * p.dilation_h;
        const T* from = x + ((static_cast<std::int64_t>(n) * p.h + iy) * p.w + first_x) * p.x_pitch + channel;
        Result row;
        row.begin(Result::padding());
        for (int kx = 0; kx < taps_x; ++kx) {
          row.add(load<N>(from + static_cast<std::int64_t>(kx) * p.dilation_w * p.x_pitch));
        }
        result.add(row);
      }
      const int counted_y = counted(p.count_include_pad, y0, p.h, p.pad_bottom, p.kernel_h, p.dilation_h);
      store<N>(y + ((static_cast<std::int64_t>(n) * p.out_h + oy) * p.out_w + ox) * p.y_pitch + channel,
               result.result(Result::divisor(counted_y * counted_x)));
    }
  }
}

/// The windows of a row of outputs, and those below that have begun.
template <class Result, int kWindow, int kStride, int kColumns>
struct OpenWindows {
  static constexpr int kInColumns = (kColumns - 1) * kStride + kWindow;
  static constexpr int kOpen = (kWindow - 1) / kStride + 1;
  Result results[kOpen][kColumns];

  /// `row` is that of the first windows.
  __device__ __forceinline__ void take(int row, const uint4 (&pixels)[kInColumns]) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      Result of_row;
      of_row.begin(pixels[i * kStride]);
#pragma unroll
      for (int tap = 1; tap < kWindow; ++tap) of_row.add(pixels[i * kStride + tap]);
#pragma unroll
      for (int open = 0; open < kOpen; ++open) {
        if (row == open * kStride) results[open][i].begin(of_row);
        if (row > open * kStride) results[open][i].add(of_row);
      }
    }
  }

  __device__ __forceinline__ void go_down() {
#pragma unroll
    for (int open = 1; open < kOpen; ++open) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) results[open - 1][i] = results[open][i];
    }
  }
};

// block, grid: strips
template <int kWindow, int kStride, int kColumns, int kAhead, bool kMaximum>
__global__ void __launch_bounds__(kThreads)
    pooling_strip_kernel(PoolingParams p, ItemGrid strips, int strip_rows, const __half* x, __half* y) {
  constexpr int kN = kWide<__half>;
  constexpr int kKept = kWindow - kStride;  // rows that the windows below see as well
  using Result = Window<__half, kN, uint4, kMaximum>;
  using Windows = OpenWindows<Result, kWindow, kStride, kColumns>;
  const std::uint32_t index = blockIdx.x * kThreads + threadIdx.x;
  const Item item = decode(strips, index);
  const std::int64_t n = item.n;
  const int channel = static_cast<int>(item.vector) * kN;
  const int oy0 = static_cast<int>(item.tile_y) * strip_rows;
  const int oy_end = min(oy0 + strip_rows, p.out_h);
  const int ox0 = static_cast<int>(item.tile_x) * kColumns;
  const int y0 = oy0 * kStride - p.pad_top;
  const int x0 = ox0 * kStride - p.pad_left;
  const int y_end = min((oy_end - 1) * kStride - p.pad_top + kWindow, p.h);
  bool in_image[Windows::kInColumns];
#pragma unroll
  for (int i = 0; i < Windows::kInColumns; ++i) {
    in_image[i] = static_cast<unsigned>(x0 + i) < static_cast<unsigned>(p.w);
  }
  wait_for_predecessor();
  if (index >= strips.items) return;

  const std::int64_t x_row = static_cast<std::int64_t>(p.w) * p.x_pitch;
  const __half* const picture = x + n * p.h * x_row + static_cast<std::int64_t>(x0) * p.x_pitch + channel;
  const auto load_row = [&](int iy, uint4(&pixels)[Windows::kInColumns]) {
    const bool has_row = iy >= 0 && iy < y_end;
    const __half* const row = picture + iy * x_row;
#pragma unroll
    for (int i = 0; i < Windows::kInColumns; ++i) {
      pixels[i] = Result::padding();
      if (has_row && in_image[i]) {
        pixels[i] = *reinterpret_cast<const uint4*>(row + static_cast<std::int64_t>(i) * p.x_pitch);
      }
    }
  };

  uint4 kept[kKept > 0 ? kKept : 1][Windows::kInColumns];
#pragma unroll
  for (int r = 0; r < kKept; ++r) load_row(y0 + r, kept[r]);
  uint4 ahead[kAhead][kStride][Windows::kInColumns];
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
#pragma unroll
    for (int r = 0; r < kStride; ++r) load_row(y0 + j * kStride + kKept + r, ahead[j][r]);
  }

  int counted_x[kColumns];
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    counted_x[i] = counted(p.count_include_pad, x0 + i * kStride, p.w, p.pad_right, kWindow, 1);
  }
  int of_divisors = 0;  // rows
  float divisors[kColumns] = {};
  const std::int64_t y_row = static_cast<std::int64_t>(p.out_w) * p.y_pitch;
  __half* to = y + (n * p.out_h + oy0) * y_row + static_cast<std::int64_t>(ox0) * p.y_pitch + channel;
  Windows windows;
#pragma unroll
  for (int r = 0; r < kKept; ++r) windows.take(r, kept[r]);
  for (int first = oy0; first < oy_end; first += kAhead) {
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int oy = first + j;
      if (oy >= oy_end) return;
#pragma unroll
      for (int r = 0; r < kStride; ++r) {
        windows.take(kKept + r, ahead[j][r]);
        load_row((oy + kAhead) * kStride - p.pad_top + kKept + r, ahead[j][r]);
      }
      if constexpr (!kMaximum) {
        const int counted_y = counted(p.count_include_pad, oy * kStride - p.pad_top, p.h, p.pad_bottom, kWindow, 1);
        if (counted_y != of_divisors) {
          of_divisors = counted_y;
#pragma unroll
          for (int i = 0; i < kColumns; ++i) divisors[i] = Result::divisor(counted_y * counted_x[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        if (ox0 + i < p.out_w) {
          *reinterpret_cast<uint4*>(to + static_cast<std::int64_t>(i) * p.y_pitch) =
              windows.results[0][i].result(divisors[i]);
        }
      }
      windows.go_down();
      to += y_row;
    }
  }
}

/// Adds the sums of the groups of lanes. A lane is left with that of one of its N channels, the returned one, in
/// sum[0]. Where groups outnumber channels, several have the same.
template <int N, class R>
__device__ __forceinline__ int add_groups(R (&sum)[N]) {
  static_assert(N <= kPixels, "one channel is left");
  int channel = 0;
#pragma unroll
  for (int distance = kLanes, kept = N; distance < kWarp; distance *= 2, kept /= 2) {
    if (kept > 1) {
      const bool upper = (threadIdx.x & distance) != 0;
#pragma unroll
      for (int j = 0; j < kept / 2; ++j) {
        const R given = upper ? sum[j] : sum[j + kept / 2];
        sum[j] = (upper ? sum[j + kept / 2] : sum[j]) + __shfl_xor_sync(0xFFFFFFFFU, given, distance);
      }
      if (upper) channel += kept / 2;
    } else {
      sum[0] += __shfl_xor_sync(0xFFFFFFFFU, sum[0], distance);
    }
  }
  return channel;
}

template <class T, int N>
__global__ void __launch_bounds__(kWarp* kManyWarps)
    global_average_pool_kernel(std::int64_t warps, int warps_per_picture, int pixels, int c, const T* x, T* y) {
  // As words, for what a packet of halves would cost under a condition (see above).
  using Pixel = std::conditional_t<N == kWide<T>, uint4, Packet<T, N>>;
  using Result = Sum<T, N, Pixel>;
  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const int group = static_cast<int>(threadIdx.x % kWarp / kLanes);
  const std::int64_t n = warp / warps_per_picture;
  const int channel = (static_cast<int>(warp - n * warps_per_picture) * kLanes + lane) * N;
  const bool inside = channel < c;  // lanes past the end stay for the shuffles
  wait_for_predecessor();
  if (warp >= warps) return;
  // Lanes and loads past the end read what another one reads: a load under a condition would wait for those before it.
  const T* const picture = x + n * pixels * c + (inside ? channel : 0);
  const T* from = picture + static_cast<std::int64_t>(group) * c;
  const std::int64_t step = static_cast<std::int64_t>(kPixels) * c;
  Result result = {};
  for (int first = 0; first < pixels; first += kPixels * kDepth) {
    const int left = pixels - first - group;
    Pixel values[kDepth];
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      values[i] = *reinterpret_cast<const Pixel*>(i * kPixels < left ? from : picture);
      from += step;
    }
    __syncwarp();  // or the compiler would have loads wait for sums
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      if (i * kPixels < left) result.add(values[i]);
    }
  }
  const int own = add_groups(result.sum);
  if (inside && group < N) {
    y[n * c + channel + own] = from_real<T>(result.sum[0] / static_cast<Real<T>>(pixels));
  }
}

template <class T, int N>
cudaError_t launch_pooling(const PoolingParams& p, const void* x, void* y, const Launch& where) {
  const std::int64_t packets = static_cast<std::int64_t>(p.out_w) * (p.c / N);
  const dim3 grid(static_cast<unsigned>(ceil_div(packets, std::int64_t{kThreads})),
                  static_cast<unsigned>(std::min(p.out_h, kMaxGridYz)),
                  static_cast<unsigned>(std::min(p.n, kMaxGridYz)));
  const auto kernel = p.kind == PoolingKind::Max ? pooling_kernel<T, N, true> : pooling_kernel<T, N, false>;
  return launch(kernel, grid, dim3(kThreads), 0, where, p, static_cast<const T*>(x), static_cast<T*>(y));
}

template <int kWindow, int kStride, int kColumns, int kAhead>
cudaError_t launch_strips(const PoolingParams& p, int strip_rows, const __half* x, __half* y, const Launch& where) {
  const auto kernel = p.kind == PoolingKind::Max ? pooling_strip_kernel<kWindow, kStride, kColumns, kAhead, true>
                                                 : pooling_strip_kernel<kWindow, kStride, kColumns, kAhead, false>;
  const auto launch_chunk = [&](const ItemGrid& strips, std::int64_t first) {
    const auto blocks = static_cast<unsigned>(ceil_div(strips.items, std::int64_t{kThreads}));
    return launch(kernel, dim3(blocks), dim3(kThreads), 0, where, p, strips, strip_rows,
                  x + first * p.h * p.w * p.x_pitch, y + first * p.out_h * p.out_w * p.y_pitch);
  };
  return for_each_chunk(p.n, ceil_div(p.out_h, strip_rows), ceil_div(p.out_w, kColumns), p.c / kWide<__half>,
                        launch_chunk);
}

/// As long as leaves `threads`, of which a row of outputs of all images alone has `threads_of_row`.
int rows_of_strip(const PoolingParams& p, std::int64_t threads, std::int64_t threads_of_row) {
  const auto strips = static_cast<int>(std::clamp<std::int64_t>(threads / threads_of_row, 1, p.out_h));
  return ceil_div(p.out_h, strips);
}

template <int kWindow, int kStride>
cudaError_t choose_strips(const PoolingParams& p, const __half* x, __half* y, const Launch& where) {
  int multiprocessors = 0;
  const cudaError_t error = count_multiprocessors(multiprocessors);
  if (error != cudaSuccess) return error;
  const std::int64_t row = std::int64_t{p.n} * p.out_w * (p.c / kWide<__half>);  // outputs, of all images
  if constexpr (kStride == 1) {
    const std::int64_t threads = multiprocessors * kThreadsOfTwoColumns;
    if (row * p.out_h < threads) return launch_strips<kWindow, kStride, 1, 2>(p, 1, x, y, where);
    return launch_strips<kWindow, kStride, 2, 2>(p, rows_of_strip(p, 2 * threads, row), x, y, where);
  } else {
    // Where windows share no pixel, longer strips read no less.
    const int rows = kWindow > kStride ? rows_of_strip(p, multiprocessors * kThreadsOfOneColumn, row) : 1;
    return launch_strips<kWindow, kStride, 1, 1>(p, rows, x, y, where);
  }
}

bool has_square_windows(const PoolingParams& p, int window, int stride) {
  return p.kernel_h == window && p.kernel_w == window && p.stride_h == stride && p.stride_w == stride &&
         p.dilation_h == 1 && p.dilation_w == 1;
}

cudaError_t pooling_of_packets(const PoolingParams& p, const __half* x, __half* y, const Launch& where) {
  constexpr int kN = kWide<__half>;
  if (std::int64_t{p.out_h} * p.out_w <= kMaxItems / (p.c / kN)) {
    if (has_square_windows(p, 3, 1)) return choose_strips<3, 1>(p, x, y, where);
    if (has_square_windows(p, 3, 2)) return choose_strips<3, 2>(p, x, y, where);
    if (has_square_windows(p, 2, 2)) return choose_strips<2, 2>(p, x, y, where);
  }
  return launch_pooling<__half, kN>(p, x, y, where);
}

template <class T>
cudaError_t pooling_of(PoolingParams p, const void* x, void* y, const Launch& where) {
  if (p.x_pitch == 0) p.x_pitch = p.c;
  if (p.y_pitch == 0) p.y_pitch = p.c;
  const bool wide = p.c % kWide<T> == 0 && p.x_pitch % kWide<T> == 0 && p.y_pitch % kWide<T> == 0 && aligned_16(x, y);
  if (!wide) return launch_pooling<T, 1>(p, x, y, where);
  if constexpr (std::is_same_v<T, __half>) {
    return pooling_of_packets(p, static_cast<const __half*>(x), static_cast<__half*>(y), where);
  } else {
    return launch_pooling<T, kWide<T>>(p, x, y, where);
  }
}

template <class T, int N>
cudaError_t launch_global(const GlobalAveragePoolParams& p, const void* x, void* y, const Launch& where) {
  const int warps_per_picture = ceil_div(p.c, kLanes * N);
  const std::int64_t warps = static_cast<std::int64_t>(p.n) * warps_per_picture;
  const int warps_per_block = warps < kFewWarps ? 1 : kManyWarps;
  const std::int64_t blocks = ceil_div(warps, std::int64_t{warps_per_block});
  if (blocks > kMaxGridX) return cudaErrorInvalidValue;
  return launch(global_average_pool_kernel<T, N>, dim3(static_cast<unsigned>(blocks)),
                dim3(static_cast<unsigned>(warps_per_block * kWarp)), 0, where, warps, warps_per_picture, p.h * p.w,
                p.c, static_cast<const T*>(x), static_cast<T*>(y));
}

template <class T>
cudaError_t global_of(const GlobalAveragePoolParams& p, const void* x, void* y, const Launch& where) {
  return p.c % kWide<T> == 0 && aligned_16(x, y) ? launch_global<T, kWide<T>>(p, x, y, where)
                                                 : launch_global<T, 1>(p, x, y, where);
}

}  // namespace

cudaError_t pooling(const PoolingParams& p, const void* x, void* y, const Launch& where) {
  const bool valid = p.n >= 0 && p.h > 0 && p.w > 0 && p.c >= 0 && p.out_h >= 0 && p.out_w >= 0 && p.kernel_h > 0 &&
                     p.kernel_w > 0 && p.stride_h > 0 && p.stride_w > 0 && p.dilation_h > 0 && p.dilation_w > 0 &&
                     (p.x_pitch == 0 || p.x_pitch >= p.c) && (p.y_pitch == 0 || p.y_pitch >= p.c);
  if (!valid) return cudaErrorInvalidValue;
  if (p.n == 0 || p.c == 0 || p.out_h == 0 || p.out_w == 0) return cudaSuccess;
  switch (p.elem) {
    case Elem::F32:
      return pooling_of<float>(p, x, y, where);
    case Elem::F16:
      return pooling_of<__half>(p, x, y, where);
    case Elem::F64:
      return pooling_of<double>(p, x, y, where);
  }
  return cudaErrorInvalidValue;
}

cudaError_t global_average_pool(const GlobalAveragePoolParams& p, const void* x, void* y, const Launch& where) {
  constexpr std::int64_t kMaxPixels = 1 << 30;
  const std::int64_t pixels = static_cast<std::int64_t>(p.h) * p.w;
  if (p.n < 0 || p.h <= 0 || p.w <= 0 || p.c < 0 || pixels > kMaxPixels) return cudaErrorInvalidValue;
  if (p.n == 0 || p.c == 0) return cudaSuccess;
  switch (p.elem) {
    case Elem::F32:
      return global_of<float>(p, x, y, where);
    case Elem::F16:
      return global_of<__half>(p, x, y, where);
    case Elem::F64:
      return global_of<double>(p, x, y, where);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mobicuda::kernels
