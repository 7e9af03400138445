// y[c] = x[c] / (bias + alpha / size * sum of x[k]^2)^beta, k around c within a pixel's channels, NHWC.
//
// Windows that reach at most kReach channels to either side: a thread takes a packet of 16 bytes and its neighbours on
// both sides, which other threads of the block have brought to the L1 cache. Wider windows, channels that do not fill
// packets or unaligned pointers: an element a thread. The power of beta = 3/4, which networks have, is square roots.
// Each sum is taken from its first channel to its last: it depends on nothing else.
#include "kernels/streaming/local_response_norm.h"

#include <algorithm>

#include "kernels/common/real.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kReach = 2;
constexpr float kThreeQuarters = 0.75F;

template <class R>
struct Norm {
  std::int64_t pixels;
  int c;
  int before;  ///< channels of a window in front of its own
  int after;
  R factor;
  R beta;
  R bias;
};

__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }
__device__ __forceinline__ float power(float x, float exponent) { return powf(x, exponent); }
__device__ __forceinline__ double power(double x, double exponent) { return pow(x, exponent); }

template <bool kRoots, class R>
__device__ __forceinline__ R normalised(const Norm<R>& p, R x, R squares) {
  const R base = fused_multiply_add(p.factor, squares, p.bias);
  if constexpr (kRoots) {
    const R root = square_root(base);
    return x / (root * square_root(root));
  } else {
    return x / power(base, p.beta);
  }
}

// grid (packets)
template <class T, int N, bool kRoots>
__global__ void __launch_bounds__(kThreads) near_kernel(Norm<Real<T>> p, const T* x, T* y) {
  wait_for_predecessor();
  const int packets = p.c / N;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= p.pixels * packets) return;
  const int packet = static_cast<int>(at % packets);
  const Packet<T, N> own = load<N>(x + at * N);
  Packet<T, N> left{};
  Packet<T, N> right{};
  if (packet > 0) left = load<N>(x + (at - 1) * N);
  if (packet + 1 < packets) right = load<N>(x + (at + 1) * N);
  Real<T> values[N + 2 * kReach];  // zeros outside of the channels add nothing
#pragma unroll
  for (int j = 0; j < kReach; ++j) {
    values[j] = to_real(left.item[N - kReach + j]);
    values[kReach + N + j] = to_real(right.item[j]);
  }
#pragma unroll
  for (int j = 0; j < N; ++j) values[kReach + j] = to_real(own.item[j]);
  Packet<T, N> result;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    Real<T> squares = 0;
#pragma unroll
    for (int d = -kReach; d <= kReach; ++d) {
      const Real<T> value = values[kReach + j + d];
      if (d >= -p.before && d <= p.after) squares = fused_multiply_add(value, value, squares);
    }
    result.item[j] = from_real<T>(normalised<kRoots>(p, values[kReach + j], squares));
  }
  store<N>(y + at * N, result);
}

// grid (elements)
template <class T, bool kRoots>
__global__ void __launch_bounds__(kThreads) any_kernel(Norm<Real<T>> p, const T* x, T* y) {
  wait_for_predecessor();
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= p.pixels * p.c) return;
  const int channel = static_cast<int>(at % p.c);
  const int first = max(channel - p.before, 0);
  const int last = min(channel + p.after, p.c - 1);
  const T* pixel = x + at - channel;
  Real<T> squares = 0;
  for (int k = first; k <= last; ++k) {
    const Real<T> value = to_real(pixel[k]);
    squares = fused_multiply_add(value, value, squares);
  }
  y[at] = from_real<T>(normalised<kRoots>(p, to_real(pixel[channel]), squares));
}

template <class T, bool kRoots>
cudaError_t launch_norm(const Norm<Real<T>>& norm, const void* x, void* y, const Launch& where) {
  constexpr int kN = kWide<T>;
  const bool near = norm.c % kN == 0 && norm.before <= kReach && norm.after <= kReach && aligned_16(x, y);
  const std::int64_t threads = norm.pixels * (near ? norm.c / kN : norm.c);
  const std::int64_t blocks = ceil_div(threads, std::int64_t{kThreads});
  if (blocks > kMaxGridX) return cudaErrorInvalidValue;
  return launch(near ? near_kernel<T, kN, kRoots> : any_kernel<T, kRoots>, dim3(static_cast<unsigned>(blocks)),
                dim3(kThreads), 0, where, norm, static_cast<const T*>(x), static_cast<T*>(y));
}

template <class T>
cudaError_t norm_of(const LocalResponseNormParams& p, const void* x, void* y, const Launch& where) {
  using R = Real<T>;
  const std::int64_t most = p.c;
  const Norm<R> norm{p.pixels,
                     p.c,
                     static_cast<int>(std::min((p.size - 1) / 2, most)),
                     static_cast<int>(std::min(p.size / 2, most)),
                     static_cast<R>(p.alpha) / static_cast<R>(p.size),
                     p.beta,
                     p.bias};
  return p.beta == kThreeQuarters ? launch_norm<T, true>(norm, x, y, where) : launch_norm<T, false>(norm, x, y, where);
}

}  // namespace

cudaError_t local_response_norm(const LocalResponseNormParams& p, const void* x, void* y, const Launch& where) {
  if (p.pixels < 0 || p.c < 0 || p.size <= 0) return cudaErrorInvalidValue;
  if (p.pixels == 0 || p.c == 0) return cudaSuccess;
  switch (p.elem) {
    case Elem::F32:
      return norm_of<float>(p, x, y, where);
    case Elem::F16:
      return norm_of<__half>(p, x, y, where);
    case Elem::F64:
      return norm_of<double>(p, x, y, where);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mobicuda::kernels
