// y = (x - mean) / sqrt(variance + epsilon) of rows; a row is one group of an image's channels, in all pixels, NHWC.
//
// The threads of a row walk through it together, each with packets of 16 bytes where the channels of a group fill them.
// Two reductions, by shuffles, and in a block through a word of shared memory for each warp. Rows are read three times:
// to keep them would take registers for the longest.
#include "kernels/streaming/normalize.h"

#include <algorithm>

#include "kernels/common/real.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 256;      // of a block of short rows, a warp each
constexpr int kLongThreads = 512;  // of a block with one row
constexpr std::int64_t kShortRow = 1024;
constexpr std::int64_t kMostElements = 2147483647;

template <class R>
struct Rows {
  unsigned rows;
  unsigned groups;
  unsigned packets;    ///< of a group's channels in one pixel
  unsigned total;      ///< packets of a row
  std::int64_t pitch;  ///< elements from pixel to pixel
  std::int64_t image;  ///< elements of an image
  R count;
  R epsilon;
};

__device__ __forceinline__ float reciprocal_root(float x) { return 1.0F / sqrtf(x); }
__device__ __forceinline__ double reciprocal_root(double x) { return 1.0 / sqrt(x); }

/// The same sum in every thread of the row.
template <bool kOneWarp, class R>
__device__ R row_sum(R value, R* scratch) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, distance);
  }
  if constexpr (!kOneWarp) {
    constexpr int kWarps = kLongThreads / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if (lane == 0) scratch[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = lane < kWarps ? scratch[lane] : R{0};
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      value += __shfl_xor_sync(0xFFFFFFFFU, value, distance);
    }
  }
  return value;
}

// Short rows: block (lanes, rows), grid (rows). Long ones: block (threads), grid (rows).
template <class T, int N, bool kOneWarp>
__global__ void __launch_bounds__(kOneWarp ? kThreads : kLongThreads)
    normalize_kernel(Rows<Real<T>> p, const T* x, T* y) {
  using R = Real<T>;
  __shared__ R sums[kLongThreads / kWarp];
  __shared__ R squares[kLongThreads / kWarp];
  wait_for_predecessor();
  const unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= p.rows) return;  // a whole warp
  const std::int64_t first =
      static_cast<std::int64_t>(row / p.groups) * p.image + static_cast<std::int64_t>(row % p.groups * p.packets) * N;
  const auto place = [&](unsigned i) {
    return first + static_cast<std::int64_t>(i / p.packets) * p.pitch + static_cast<std::int64_t>(i % p.packets) * N;
  };
  R sum = 0;
  for (unsigned i = threadIdx.x; i < p.total; i += blockDim.x) {
    const Packet<T, N> values = load<N>(x + place(i));
#pragma unroll
    for (int j = 0; j < N; ++j) sum += to_real(values.item[j]);
  }
  const R mean = row_sum<kOneWarp>(sum, sums) / p.count;
  R square = 0;
  for (unsigned i = threadIdx.x; i < p.total; i += blockDim.x) {
    const Packet<T, N> values = load<N>(x + place(i));
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const R difference = to_real(values.item[j]) - mean;
      square = fused_multiply_add(difference, difference, square);
    }
  }
  const R factor = reciprocal_root(row_sum<kOneWarp>(square, squares) / p.count + p.epsilon);
  for (unsigned i = threadIdx.x; i < p.total; i += blockDim.x) {
    Packet<T, N> values = load<N>(x + place(i));
#pragma unroll
    for (int j = 0; j < N; ++j) values.item[j] = from_real<T>((to_real(values.item[j]) - mean) * factor);
    store<N>(y + place(i), values);
  }
}

template <class T, int N>
cudaError_t launch_normalize(const NormalizeParams& p, const void* x, void* y, const Launch& where) {
  const int channels = p.c / p.groups;
  const std::int64_t elements = p.pixels * channels;
  const std::int64_t rows = p.images * p.groups;
  if (elements > kMostElements || rows > kMostElements) return cudaErrorInvalidValue;
  const Rows<Real<T>> parameters{static_cast<unsigned>(rows),
                                 static_cast<unsigned>(p.groups),
                                 static_cast<unsigned>(channels / N),
                                 static_cast<unsigned>(elements / N),
                                 p.c,
                                 p.pixels * p.c,
                                 static_cast<Real<T>>(elements),
                                 p.epsilon};
  if (elements > kShortRow) {
    return launch(normalize_kernel<T, N, false>, dim3(parameters.rows), dim3(kLongThreads), 0, where, parameters,
                  static_cast<const T*>(x), static_cast<T*>(y));
  }
  const auto height = static_cast<unsigned>(std::min<std::int64_t>(rows, kThreads / kWarp));
  return launch(normalize_kernel<T, N, true>, dim3((parameters.rows + height - 1) / height), dim3(kWarp, height), 0,
                where, parameters, static_cast<const T*>(x), static_cast<T*>(y));
}

template <class T>
cudaError_t normalize_of(const NormalizeParams& p, const void* x, void* y, const Launch& where) {
  constexpr int kN = kWide<T>;
  const bool wide = p.c / p.groups % kN == 0 && aligned_16(x, y);
  return wide ? launch_normalize<T, kN>(p, x, y, where) : launch_normalize<T, 1>(p, x, y, where);
}

}  // namespace

cudaError_t normalize(const NormalizeParams& p, const void* x, void* y, const Launch& where) {
  if (p.images < 0 || p.pixels < 0 || p.c < 0 || p.groups <= 0 || p.c % p.groups != 0) return cudaErrorInvalidValue;
  if (p.images == 0 || p.pixels == 0 || p.c == 0) return cudaSuccess;
  switch (p.elem) {
    case Elem::F32:
      return normalize_of<float>(p, x, y, where);
    case Elem::F16:
      return normalize_of<__half>(p, x, y, where);
    case Elem::F64:
      return normalize_of<double>(p, x, y, where);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mobicuda::kernels
