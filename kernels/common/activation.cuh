#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/ptx/float.cuh"

namespace mobicuda::kernels {

// The activations in float, for the end of a kernel. All threads take the same branch of the switch. What the forms
// here may err by is derived in docs/numerics.md.

/// 1 / (1 + exp(-x)); +0 from x = -88.8 down.
__device__ __forceinline__ float sigmoid(float x) {
  constexpr float kLog2E = 1.44269504F;
  return ptx::reciprocal_approximately(1.0F + ptx::exp2_approximately(x * -kLog2E));
}

__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }

/// x * min(max(x / 6 + 1/2, 0), 1). The saturation turns NaN into 0, the product brings it back.
__device__ __forceinline__ float hard_swish(float x) { return x * __saturatef(fmaf(x, 1.0F / 6.0F, 0.5F)); }

/// A call: the code is long, and a kernel would have it once for each value of a thread. (A template, so that files
/// that do not use it have none.)
template <class R>
__device__ __noinline__ R tanh_or_elu(ActivationKind kind, R alpha, R x) {
  if (kind == ActivationKind::Tanh) return tanhf(x);
  return x < R{0} ? alpha * expm1f(x) : x;
}

template <int kCount>
__device__ __forceinline__ void apply(const Activation& activation, float (&values)[kCount]) {
  const auto each = [&](auto function) {
#pragma unroll
    for (float& value : values) value = function(value);
  };
  const float alpha = activation.alpha;
  switch (activation.kind) {
    case ActivationKind::Clip:
      return each([clip = Clip{activation.lo, activation.hi}](float x) { return apply(clip, x); });
    case ActivationKind::Sigmoid:
      return each([](float x) { return sigmoid(x); });
    case ActivationKind::Silu:
      return each([](float x) { return silu(x); });
    case ActivationKind::HardSwish:
      return each([](float x) { return hard_swish(x); });
    case ActivationKind::LeakyRelu:
      return each([alpha](float x) { return x < 0.0F ? alpha * x : x; });
    case ActivationKind::Tanh:
    case ActivationKind::Elu:
      return each([&](float x) { return tanh_or_elu<float>(activation.kind, alpha, x); });
  }
}

/// The same in kernels that are compiled for clips, and again for is_swish(): less code, and for clips no branch.
template <bool kSwish, int kCount>
__device__ __forceinline__ void activate(const Activation& activation, float (&values)[kCount]) {
  const auto each = [&](auto function) {
#pragma unroll
    for (float& value : values) value = function(value);
  };
  if constexpr (!kSwish) {
    each([clip = Clip{activation.lo, activation.hi}](float x) { return apply(clip, x); });
  } else if (activation.kind == ActivationKind::Silu) {
    each([](float x) { return silu(x); });
  } else {
    each([](float x) { return hard_swish(x); });
  }
}

__device__ __forceinline__ float apply(const Activation& activation, float x) {
  float values[1] = {x};
  apply(activation, values);
  return values[0];
}

}  // namespace mobicuda::kernels
