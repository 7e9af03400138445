// y is x with other extents, NHWC: nearest pixel or linear.
//
// A block goes along the channels of a pixel, and down pixels of the output, as other kernels of this folder go down
// rows. Each thread divides whole numbers of 64 bits for its row and its column once a pixel.
#include "kernels/streaming/resize.h"

#include <algorithm>

#include "kernels/common/fast_division.cuh"
#include "kernels/common/real.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kMaxPixels = 2147483647;

template <class R>
struct Tap {
  int first;
  int second;
  R weight;  ///< of the second
};

template <class R>
__device__ __forceinline__ Tap<R> tap(const ResizeLine& line, unsigned i) {
  const std::int64_t position = line.factor * i + line.offset;
  std::int64_t floor = position / line.divisor;
  std::int64_t rest = position - floor * line.divisor;
  if (rest < 0) {
    rest += line.divisor;
    --floor;
  }
  const auto inside = [&](std::int64_t pixel) {
    return static_cast<int>(pixel < 0 ? 0 : pixel >= line.in ? line.in - 1 : pixel);
  };
  return {inside(floor), inside(floor + 1), static_cast<R>(rest) / static_cast<R>(line.divisor)};
}

struct Image {
  unsigned pixels;  ///< of all outputs
  int c;
  ResizeLine rows;
  ResizeLine columns;
  FastDivision by_width;
  FastDivision by_height;
};

// block (packets of channels, pixels); grid (packets of channels, pixels)
template <class T, int N, bool kLinear>
__global__ void __launch_bounds__(kThreads) resize_kernel(Image p, const T* x, T* y) {
  using R = Real<T>;
  wait_for_predecessor();
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * N;
  if (channel >= p.c) return;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  std::int64_t at = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  for (; at < p.pixels; at += step) {
    unsigned column = 0;
    unsigned row = 0;
    const unsigned image = p.by_height.divide(p.by_width.divide(static_cast<unsigned>(at), column), row);
    const Tap<R> down = tap<R>(p.rows, row);
    const Tap<R> across = tap<R>(p.columns, column);
    const auto pixel = [&](int iy, int ix) {
      const std::int64_t line = static_cast<std::int64_t>(image) * p.rows.in + iy;
      return load<N>(x + (line * p.columns.in + ix) * p.c + channel);
    };
    Packet<T, N> result = pixel(down.first, across.first);
    if constexpr (kLinear) {
      const Packet<T, N> right = pixel(down.first, across.second);
      const Packet<T, N> below = pixel(down.second, across.first);
      const Packet<T, N> beyond = pixel(down.second, across.second);
      const auto between = [](R a, R b, R weight) { return fused_multiply_add(b, weight, a * (R{1} - weight)); };
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const R upper = between(to_real(result.item[j]), to_real(right.item[j]), across.weight);
        const R lower = between(to_real(below.item[j]), to_real(beyond.item[j]), across.weight);
        result.item[j] = from_real<T>(between(upper, lower, down.weight));
      }
    }
    store<N>(y + at * p.c + channel, result);
  }
}

template <class T, int N>
cudaError_t launch_resize(const ResizeParams& p, const void* x, void* y, const Launch& where) {
  const std::int64_t pixels = p.n * p.rows.out * p.columns.out;
  const int packets = p.c / N;
  const int width = std::min(packets, kThreads);
  const int height = kThreads / width;
  const Image image{static_cast<unsigned>(pixels),
                    p.c,
                    p.rows,
                    p.columns,
                    FastDivision(static_cast<unsigned>(p.columns.out)),
                    FastDivision(static_cast<unsigned>(p.rows.out))};
  const dim3 grid(static_cast<unsigned>(ceil_div(packets, width)),
                  static_cast<unsigned>(std::min<std::int64_t>(ceil_div(pixels, std::int64_t{height}), kMaxGridYz)));
  return launch(p.linear ? resize_kernel<T, N, true> : resize_kernel<T, N, false>, grid,
                dim3(static_cast<unsigned>(width), static_cast<unsigned>(height)), 0, where, image,
                static_cast<const T*>(x), static_cast<T*>(y));
}

template <class T>
cudaError_t resize_of(const ResizeParams& p, const void* x, void* y, const Launch& where) {
  constexpr int kN = kWide<T>;
  return p.c % kN == 0 && aligned_16(x, y) ? launch_resize<T, kN>(p, x, y, where) : launch_resize<T, 1>(p, x, y, where);
}

bool valid(const ResizeLine& line) { return line.in > 0 && line.out >= 0 && line.factor >= 0 && line.divisor > 0; }

}  // namespace

cudaError_t resize(const ResizeParams& p, const void* x, void* y, const Launch& where) {
  if (p.n < 0 || p.c < 0 || !valid(p.rows) || !valid(p.columns)) return cudaErrorInvalidValue;
  if (p.n == 0 || p.c == 0 || p.rows.out == 0 || p.columns.out == 0) return cudaSuccess;
  if (p.n > kMaxPixels / p.rows.out / p.columns.out) return cudaErrorInvalidValue;
  switch (p.elem) {
    case Elem::F32:
      return resize_of<float>(p, x, y, where);
    case Elem::F16:
      return resize_of<__half>(p, x, y, where);
    case Elem::F64:
      return resize_of<double>(p, x, y, where);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mobicuda::kernels
