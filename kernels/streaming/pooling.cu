// pooling:              one output packet of channels for each thread, any window, NHWC. Threads run along channels
//                       first, then along a row, so that a warp reads whole cache lines.
// global_average_pool:  y[n, c] = mean over pixels. A warp sums kLanes packets of channels (64 bytes of each
//                       pixel): kPixels groups of lanes take every kPixels-th pixel, kDepth loads in flight each,
//                       and three shuffles add the groups: no shared memory, no barrier. Batch 1 is the hard case:
//                       7x7x1280 is only 125 KB in half, and one dependent step costs more than its transfer. It
//                       is 40 (half) or 80 (float) independent blocks of one warp, whose 7 loads are issued
//                       together; large batches take kManyWarps warps a block, so that the number of blocks does
//                       not hold them up. The order of the sum depends on h * w only: an image's result does not
//                       depend on its batch.
#include "kernels/streaming/pooling.h"

#include <algorithm>

#include "kernels/common/real.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
constexpr int kLanes = 4;
constexpr int kPixels = kWarp / kLanes;
constexpr int kDepth = 8;
constexpr int kManyWarps = 4;
constexpr std::int64_t kFewWarps = 528;  // below this, one warp a block spreads over more multiprocessors

/// How many of a window's taps lie before `end`: they start at `start`, `step` apart.
__device__ __forceinline__ int taps_before(int end, int start, int taps, int step) {
  if (end <= start) return 0;
  const int count = step == 1 ? end - start : (end - start + step - 1) / step;
  return min(count, taps);
}

/// A value joins a running maximum; NaN stays.
template <class R>
__device__ __forceinline__ R larger(R best, R x) {
  return x > best || x != x ? x : best;
}

// block (packets of an output row); grid (those, output rows, images)
template <class T, int N, bool kMaximum>
__global__ void __launch_bounds__(kThreads) pooling_kernel(PoolingParams p, const T* x, T* y) {
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
  for (int n = static_cast<int>(blockIdx.z); n < p.n; n += static_cast<int>(gridDim.z)) {
    for (int oy = static_cast<int>(blockIdx.y); oy < p.out_h; oy += static_cast<int>(gridDim.y)) {
      const int y0 = oy * p.stride_h - p.pad_top;
      const int skipped_y = taps_before(0, y0, p.kernel_h, p.dilation_h);
      const int taps_y = taps_before(p.h, y0, p.kernel_h, p.dilation_h) - skipped_y;
      const int first_y = y0 + skipped_y * p.dilation_h;
      Real<T> result[N];
#pragma unroll
      for (int j = 0; j < N; ++j) result[j] = kMaximum ? -INFINITY : 0.0F;
      for (int ky = 0; ky < taps_y; ++ky) {
        const int iy = first_y + ky * p.dilation_h;
        const T* row = x + ((static_cast<std::int64_t>(n) * p.h + iy) * p.w + first_x) * p.x_pitch + channel;
        for (int kx = 0; kx < taps_x; ++kx) {
          const Packet<T, N> values = load<N>(row + static_cast<std::int64_t>(kx) * p.dilation_w * p.x_pitch);
#pragma unroll
          for (int j = 0; j < N; ++j) {
            const Real<T> value = to_real(values.item[j]);
            result[j] = kMaximum ? larger(result[j], value) : result[j] + value;
          }
        }
      }
      Real<T> divisor = 1;
      if constexpr (!kMaximum) {
        int window_h = taps_y;
        int window_w = taps_x;
        if (p.count_include_pad) {
          window_h = taps_before(p.h + p.pad_bottom, y0, p.kernel_h, p.dilation_h);
          window_w = taps_before(p.w + p.pad_right, x0, p.kernel_w, p.dilation_w);
        }
        divisor = static_cast<Real<T>>(max(window_h, 1)) * static_cast<Real<T>>(max(window_w, 1));
      }
      Packet<T, N> packet;
#pragma unroll
      for (int j = 0; j < N; ++j) packet.item[j] = from_real<T>(result[j] / divisor);
      store<N>(y + ((static_cast<std::int64_t>(n) * p.out_h + oy) * p.out_w + ox) * p.y_pitch + channel, packet);
    }
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kWarp* kManyWarps)
    global_average_pool_kernel(std::int64_t warps, int warps_per_picture, int pixels, int c, const T* x, T* y) {
  wait_for_predecessor();
  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  if (warp >= warps) return;
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const int group = static_cast<int>(threadIdx.x % kWarp / kLanes);
  const std::int64_t n = warp / warps_per_picture;
  const int channel = (static_cast<int>(warp - n * warps_per_picture) * kLanes + lane) * N;
  const bool inside = channel < c;  // lanes past the end stay for the shuffles
  const T* picture = x + n * pixels * c + channel;
  Real<T> sum[N] = {};
  for (int first = group; first < pixels; first += kPixels * kDepth) {
    Packet<T, N> values[kDepth];  // (kDepth pixels, N channels)
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const int pixel = first + i * kPixels;
      if (inside && pixel < pixels) {
        values[i] = load<N>(picture + static_cast<std::int64_t>(pixel) * c);
      } else {
        values[i] = {};
      }
    }
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += to_real(values[i].item[j]);
    }
  }
  Packet<T, N> packet;
#pragma unroll
  for (int j = 0; j < N; ++j) {
#pragma unroll
    for (int distance = kLanes; distance < kWarp; distance *= 2) {
      sum[j] += __shfl_xor_sync(0xFFFFFFFFU, sum[j], distance);
    }
    packet.item[j] = from_real<T>(sum[j] / static_cast<Real<T>>(pixels));
  }
  if (inside && group == 0) store<N>(y + n * c + channel, packet);
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

template <class T>
cudaError_t pooling_of(PoolingParams p, const void* x, void* y, const Launch& where) {
  if (p.x_pitch == 0) p.x_pitch = p.c;
  if (p.y_pitch == 0) p.y_pitch = p.c;
  const bool wide = p.c % kWide<T> == 0 && p.x_pitch % kWide<T> == 0 && p.y_pitch % kWide<T> == 0 && aligned_16(x, y);
  return wide ? launch_pooling<T, kWide<T>>(p, x, y, where) : launch_pooling<T, 1>(p, x, y, where);
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
