// y[i] = f(x[i]): activations that are not a clip, and gates.
//
// 16-byte packets where pointers allow, else one element at a time; a thread takes kPackets packets, a block apart, all
// loads before the first store. Functions of the library in full accuracy.
#include "kernels/streaming/unary.h"

#include "kernels/common/real.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kPackets = 2;

// More accurate than the forms of activation.cuh, which end kernels that have more to do.
__device__ __forceinline__ float logistic(float x) {
  const float e = expf(-fabsf(x));  // at most 1: neither overflow nor a difference of near numbers
  return (x < 0.0F ? e : 1.0F) / (1.0F + e);
}
__device__ __forceinline__ double logistic(double x) {
  const double e = exp(-fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

__device__ __forceinline__ float hyperbolic_tangent(float x) { return tanhf(x); }
__device__ __forceinline__ double hyperbolic_tangent(double x) { return tanh(x); }
__device__ __forceinline__ float exponential_less_1(float x) { return expm1f(x); }
__device__ __forceinline__ double exponential_less_1(double x) { return expm1(x); }

__device__ __forceinline__ float error_function(float x) { return erff(x); }
__device__ __forceinline__ double error_function(double x) { return erf(x); }
__device__ __forceinline__ float error_complement(float x) { return erfcf(x); }
__device__ __forceinline__ double error_complement(double x) { return erfc(x); }
__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }
__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }

// max(x, 0) + log(1 + exp(-|x|)): neither overflows.
__device__ __forceinline__ float soft_plus(float x) { return fmaxf(x, 0.0F) + log1pf(expf(-fabsf(x))); }
__device__ __forceinline__ double soft_plus(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }

template <UnaryFunction F, class R>
__device__ __forceinline__ R evaluate(R x, R alpha) {
  if constexpr (F == UnaryFunction::Sigmoid) {
    return logistic(x);
  } else if constexpr (F == UnaryFunction::Silu) {
    return x * logistic(x);
  } else if constexpr (F == UnaryFunction::HardSwish) {
    constexpr R kSixth = R{1} / R{6};
    constexpr R kHalf = 0.5;
    return x * apply(Clip{0.0F, 1.0F}, fused_multiply_add(x, kSixth, kHalf));
  } else if constexpr (F == UnaryFunction::Tanh) {
    return hyperbolic_tangent(x);
  } else if constexpr (F == UnaryFunction::LeakyRelu) {
    return x < R{0} ? alpha * x : x;
  } else if constexpr (F == UnaryFunction::Elu) {
    return x < R{0} ? alpha * exponential_less_1(x) : x;
  } else if constexpr (F == UnaryFunction::Erf) {
    return error_function(x);
  } else if constexpr (F == UnaryFunction::Gelu) {
    constexpr auto kRoot = static_cast<R>(0.707106781186547524);
    return R{0.5} * x * error_complement(-kRoot * x);
  } else if constexpr (F == UnaryFunction::GeluTanh) {
    constexpr auto kTwice =
        static_cast<R>(1.59576912160573071);  // 2 sqrt(2 / pi), as (1 + tanh(z)) / 2 is the sigmoid of 2 z
    constexpr auto kCubic = static_cast<R>(0.044715 * 1.59576912160573071);
    return x * logistic(x * fused_multiply_add(kCubic * x, x, kTwice));
  } else if constexpr (F == UnaryFunction::Softplus) {
    return soft_plus(x);
  } else if constexpr (F == UnaryFunction::Sqrt) {
    return square_root(x);
  } else if constexpr (F == UnaryFunction::Reciprocal) {
    return R{1} / x;
  } else {
    return exponential(x);
  }
}

template <class T, int N, UnaryFunction F>
__global__ void __launch_bounds__(kThreads) unary_kernel(std::int64_t elements, float factor, const T* x, T* y) {
  const Real<T> alpha = factor;
  wait_for_predecessor();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kPackets + threadIdx.x;
  const std::int64_t packets = elements / N;
  Packet<T, N> values[kPackets];
#pragma unroll
  for (int i = 0; i < kPackets; ++i) {
    const std::int64_t at = first + i * kThreads;
    if (at < packets) values[i] = load<N>(x + at * N);
  }
#pragma unroll
  for (int i = 0; i < kPackets; ++i) {
    const std::int64_t at = first + i * kThreads;
    if (at >= packets) break;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values[i].item[j] = from_real<T>(evaluate<F>(to_real(values[i].item[j]), alpha));
    }
    store<N>(y + at * N, values[i]);
  }
  const std::int64_t tail = packets * N + threadIdx.x;  // fewer than N elements after the last packet
  if (blockIdx.x == 0 && tail < elements) y[tail] = from_real<T>(evaluate<F>(to_real(x[tail]), alpha));
}

template <class T, int N>
auto kernel_of(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::Silu:
      return unary_kernel<T, N, UnaryFunction::Silu>;
    case UnaryFunction::HardSwish:
      return unary_kernel<T, N, UnaryFunction::HardSwish>;
    case UnaryFunction::Tanh:
      return unary_kernel<T, N, UnaryFunction::Tanh>;
    case UnaryFunction::LeakyRelu:
      return unary_kernel<T, N, UnaryFunction::LeakyRelu>;
    case UnaryFunction::Elu:
      return unary_kernel<T, N, UnaryFunction::Elu>;
    case UnaryFunction::Erf:
      return unary_kernel<T, N, UnaryFunction::Erf>;
    case UnaryFunction::Gelu:
      return unary_kernel<T, N, UnaryFunction::Gelu>;
    case UnaryFunction::GeluTanh:
      return unary_kernel<T, N, UnaryFunction::GeluTanh>;
    case UnaryFunction::Softplus:
      return unary_kernel<T, N, UnaryFunction::Softplus>;
    case UnaryFunction::Sqrt:
      return unary_kernel<T, N, UnaryFunction::Sqrt>;
    case UnaryFunction::Reciprocal:
      return unary_kernel<T, N, UnaryFunction::Reciprocal>;
    case UnaryFunction::Exp:
      return unary_kernel<T, N, UnaryFunction::Exp>;
    default:
      return unary_kernel<T, N, UnaryFunction::Sigmoid>;
  }
}

template <class T, int N>
cudaError_t launch_unary(const UnaryParams& p, const void* x, void* y, const Launch& where) {
  const std::int64_t blocks = ceil_div(ceil_div(p.elements, std::int64_t{N}), std::int64_t{kThreads * kPackets});
  if (blocks > kMaxGridX) return cudaErrorInvalidValue;
  return launch(kernel_of<T, N>(p.function), dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, where, p.elements,
                p.alpha, static_cast<const T*>(x), static_cast<T*>(y));
}

template <class T>
cudaError_t unary_of(const UnaryParams& p, const void* x, void* y, const Launch& where) {
  return aligned_16(x, y) ? launch_unary<T, kWide<T>>(p, x, y, where) : launch_unary<T, 1>(p, x, y, where);
}

}  // namespace

cudaError_t unary(const UnaryParams& p, const void* x, void* y, const Launch& where) {
  if (p.elements < 0) return cudaErrorInvalidValue;
  if (p.elements == 0) return cudaSuccess;
  switch (p.elem) {
    case Elem::F32:
      return unary_of<float>(p, x, y, where);
    case Elem::F16:
      return unary_of<__half>(p, x, y, where);
    case Elem::F64:
      return unary_of<double>(p, x, y, where);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mobicuda::kernels
