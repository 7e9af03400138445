#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/common/packet.cuh"
#include "kernels/common/std.h"

namespace mobicuda::kernels {

/// What kernels compute in for elements of T.
template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
__device__ __forceinline__ Real<T> to_real(T x) {
  if constexpr (std::is_same_v<T, __half>) {
    return to_float(x);
  } else {
    return x;
  }
}

/// Rounds where T has fewer bits.
template <class T, class R>
__device__ __forceinline__ T from_real(R x) {
  if constexpr (std::is_same_v<T, __half>) {
    static_assert(std::is_same_v<R, float>, "from double there would be two roundings");
    return from_float<__half>(x);
  } else {
    return static_cast<T>(x);
  }
}

__device__ __forceinline__ float fused_multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fused_multiply_add(double a, double b, double c) { return fma(a, b, c); }

/// As apply() of float.
__device__ __forceinline__ double apply(Clip clip, double x) {
  const double raised = x < clip.lo ? static_cast<double>(clip.lo) : x;
  return raised > clip.hi ? static_cast<double>(clip.hi) : raised;
}

__device__ __forceinline__ double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

__device__ __forceinline__ double evaluate(const Activation& activation, double x) {
  const double alpha = activation.alpha;
  switch (activation.kind) {
    case ActivationKind::Sigmoid:
      return sigmoid(x);
    case ActivationKind::Silu:
      return x * sigmoid(x);
    case ActivationKind::HardSwish:
      return x * apply(Clip{0.0F, 1.0F}, x / 6.0 + 0.5);
    case ActivationKind::Tanh:
      return tanh(x);
    case ActivationKind::LeakyRelu:
      return x < 0.0 ? alpha * x : x;
    case ActivationKind::Elu:
      return x < 0.0 ? alpha * expm1(x) : x;
    case ActivationKind::Clip:
      break;
  }
  return x;
}

__device__ __forceinline__ float evaluate(const Activation& activation, float x) { return apply(activation, x); }

/// An activation other than Clip, as a call: kernels with many outputs a thread would be several times as large.
template <class R>
__device__ __noinline__ R apply_by_call(Activation activation, R x) {
  return evaluate(activation, x);
}

/// As apply(), Clip in place and the others by a call.
template <class R>
__device__ __forceinline__ R apply_compactly(const Activation& activation, R x) {
  if (activation.kind == ActivationKind::Clip) return apply(Clip{activation.lo, activation.hi}, x);
  return apply_by_call(activation, x);
}

/// As apply() of float.
__device__ __forceinline__ double apply(const Activation& activation, double x) {
  return apply_compactly(activation, x);
}

template <int kCount>
__device__ __forceinline__ void apply(const Activation& activation, double (&values)[kCount]) {
#pragma unroll
  for (double& value : values) value = apply(activation, value);
}

}  // namespace mobicuda::kernels
