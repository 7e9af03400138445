// y = act(a * b), b repeating along axes: gates of squeeze and excite, (N, C, 1, 1) against (N, H, W, C).
//
// Axes along which b goes on as a does are joined first, so that equal shapes are one axis and a gate is three. A
// thread keeps its packet of the innermost axis (16 bytes where extents, strides and pointers allow, else one element)
// and goes down the rows; b's place in a row is found by two multiplications. b comes from the caches.
#include "kernels/streaming/multiply.h"

#include <algorithm>

#include "kernels/common/fast_division.cuh"
#include "kernels/common/real.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kRowsPerThread = 4;
constexpr int kAxes = 4;
constexpr std::int64_t kMaxRows = 2147483647;

/// The joined axes, right-aligned: unused ones come first with extent 1.
struct Axes {
  bool fit = true;
  std::int64_t extent[kAxes] = {1, 1, 1, 1};
  std::int64_t stride[kAxes] = {0, 0, 0, 0};

  std::int64_t rows() const { return extent[0] * extent[1] * extent[2]; }
  std::int64_t columns() const { return extent[3]; }
};

Axes join(const MultiplyParams& p) {
  Axes joined;
  int at = kAxes - 1;
  bool used = false;
  for (int axis = p.axes - 1; axis >= 0; --axis) {
    if (p.extent[axis] == 1) continue;
    const bool goes_on = used && p.b_stride[axis] == joined.stride[at] * joined.extent[at];
    if (used && !goes_on) --at;
    if (at < 0) {
      joined.fit = false;
      return joined;
    }
    if (!goes_on) joined.stride[at] = p.b_stride[axis];
    joined.extent[at] *= p.extent[axis];
    used = true;
  }
  joined.fit = joined.rows() <= kMaxRows;
  return joined;
}

struct Product {
  std::int64_t columns;
  std::int64_t stride[kAxes];
  unsigned rows;
  FastDivision by_2;  ///< rows of axis 2
  FastDivision by_1;
  Activation activation;

  __device__ std::int64_t b_row(unsigned row) const {
    unsigned i1 = 0;
    unsigned i2 = 0;
    const unsigned i0 = by_1.divide(by_2.divide(row, i2), i1);
    return i0 * stride[0] + i1 * stride[1] + i2 * stride[2];
  }
};

enum class Right { Packets, Splat, Strided };  ///< how b goes along the innermost axis

template <class T, int N, Right R>
__device__ __forceinline__ Packet<T, N> load_right(const T* row, std::int64_t column, std::int64_t stride) {
  if constexpr (R == Right::Packets) {
    return load<N>(row + column);
  } else {
    Packet<T, N> values;
#pragma unroll
    for (int j = 0; j < N; ++j) values.item[j] = row[R == Right::Splat ? 0 : (column + j) * stride];
    return values;
  }
}

// block (packets of columns, rows); grid (packets of columns, rows)
template <class T, int N, Right R>
__global__ void __launch_bounds__(kThreads) multiply_kernel(Product p, const T* a, const T* b, T* y) {
  wait_for_predecessor();
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (column >= p.columns) return;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  for (; row < p.rows; row += step * kRowsPerThread) {
    Packet<T, N> left[kRowsPerThread];
    Packet<T, N> right[kRowsPerThread];
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const std::int64_t at = row + i * step;
      if (at >= p.rows) break;
      left[i] = load<N>(a + at * p.columns + column);
      right[i] = load_right<T, N, R>(b + p.b_row(static_cast<unsigned>(at)), column, p.stride[kAxes - 1]);
    }
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const std::int64_t at = row + i * step;
      if (at >= p.rows) break;
      Real<T> products[N];
#pragma unroll
      for (int j = 0; j < N; ++j) products[j] = to_real(left[i].item[j]) * to_real(right[i].item[j]);
      apply(p.activation, products);
#pragma unroll
      for (int j = 0; j < N; ++j) left[i].item[j] = from_real<T>(products[j]);
      store<N>(y + at * p.columns + column, left[i]);
    }
  }
}

template <class T, int N, Right R>
cudaError_t launch_multiply(const Product& product, const void* a, const void* b, void* y, const Launch& where) {
  const std::int64_t packets = product.columns / N;
  const int width = static_cast<int>(std::min<std::int64_t>(packets, kThreads));
  const int height = kThreads / width;
  const std::int64_t across = ceil_div(packets, std::int64_t{width});
  if (across > kMaxGridX) return cudaErrorInvalidValue;
  const std::int64_t down = ceil_div(std::int64_t{product.rows}, std::int64_t{height} * kRowsPerThread);
  const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(std::min<std::int64_t>(down, kMaxGridYz)));
  return launch(multiply_kernel<T, N, R>, grid, dim3(static_cast<unsigned>(width), static_cast<unsigned>(height)), 0,
                where, product, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y));
}

template <class T>
cudaError_t multiply_of(const Product& product, const void* a, const void* b, void* y, const Launch& where) {
  constexpr int kN = kWide<T>;
  const std::int64_t inner = product.stride[kAxes - 1];
  const bool wide = product.columns % kN == 0 && aligned_16(a, y);
  if (wide && inner == 0) return launch_multiply<T, kN, Right::Splat>(product, a, b, y, where);
  const bool right_wide =
      inner == 1 && aligned_16(b) &&
      std::all_of(product.stride, product.stride + kAxes - 1, [](std::int64_t stride) { return stride % kN == 0; });
  if (wide && right_wide) return launch_multiply<T, kN, Right::Packets>(product, a, b, y, where);
  return launch_multiply<T, 1, Right::Strided>(product, a, b, y, where);
}

}  // namespace

bool supports(const MultiplyParams& p) {
  if (p.axes < 0 || p.axes > kMostMultiplyAxes) return false;
  const auto negative = [](std::int64_t number) { return number < 0; };
  if (std::any_of(p.extent, p.extent + p.axes, negative)) return false;
  if (std::any_of(p.b_stride, p.b_stride + p.axes, negative)) return false;
  return join(p).fit;
}

cudaError_t multiply(const MultiplyParams& p, const void* a, const void* b, void* y, const Launch& where) {
  if (!supports(p)) return cudaErrorInvalidValue;
  const Axes axes = join(p);
  if (axes.rows() == 0 || axes.columns() == 0) return cudaSuccess;
  Product product{axes.columns(),
                  {},
                  static_cast<unsigned>(axes.rows()),
                  FastDivision(static_cast<std::uint32_t>(axes.extent[2])),
                  FastDivision(static_cast<std::uint32_t>(axes.extent[1])),
                  p.activation};
  std::copy(axes.stride, axes.stride + kAxes, product.stride);
  switch (p.elem) {
    case Elem::F32:
      return multiply_of<float>(product, a, b, y, where);
    case Elem::F16:
      return multiply_of<__half>(product, a, b, y, where);
    case Elem::F64:
      return multiply_of<double>(product, a, b, y, where);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mobicuda::kernels
