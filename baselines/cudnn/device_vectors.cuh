#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <mobicuda/types.h>

// What the baseline's own kernels share: 16-byte vectors, conversion, activations, grid sizes.

namespace mobicuda::cudnn {

inline constexpr unsigned kThreads = 256;
inline constexpr std::int64_t kVectorBytes = 16;

template <class T>
struct alignas(kVectorBytes) Vector16 {
  using Value = T;
  static constexpr int kSize = static_cast<int>(kVectorBytes / sizeof(T));
  T lane[kSize];
};

template <class T>
struct alignas(sizeof(T)) Vector1 {
  using Value = T;
  static constexpr int kSize = 1;
  T lane[kSize];
};

/// What is computed in for elements of T.
template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ inline float to_real(float value) { return value; }
__device__ inline float to_real(__half value) { return __half2float(value); }
__device__ inline double to_real(double value) { return value; }
__device__ inline void store(float value, float& target) { target = value; }
__device__ inline void store(float value, __half& target) { target = __float2half_rn(value); }
__device__ inline void store(float value, double& target) { target = value; }
__device__ inline void store(double value, double& target) { target = value; }
__device__ inline void store(double value, float& target) { target = static_cast<float>(value); }

template <class R>
__device__ inline R clip(R v, float lo, float hi) {
  v = v < lo ? static_cast<R>(lo) : v;
  return v > hi ? static_cast<R>(hi) : v;
}

/// By the hardware's power of 2 and reciprocal: errs by 6 u at most, docs/numerics.md.
__device__ inline float sigmoid(float v) { return __fdividef(1.0F, 1.0F + __expf(-v)); }

/// Every kind; the same branch for a whole grid.
__device__ inline float activate(const Activation& act, float v) {
  switch (act.kind) {
    case ActivationKind::Clip:
      return clip(v, act.lo, act.hi);
    case ActivationKind::Sigmoid:
      return sigmoid(v);
    case ActivationKind::Silu:
      return v * sigmoid(v);
    case ActivationKind::HardSwish:
      return v * clip(fmaf(v, 1.0F / 6.0F, 0.5F), 0.0F, 1.0F);
    case ActivationKind::Tanh:
      return tanhf(v);
    case ActivationKind::LeakyRelu:
      return v < 0.0F ? act.alpha * v : v;
    case ActivationKind::Elu:
      return v < 0.0F ? act.alpha * expm1f(v) : v;
  }
  return v;
}

__device__ inline double sigmoid(double v) { return 1.0 / (1.0 + exp(-v)); }

__device__ inline double activate(const Activation& act, double v) {
  const double alpha = act.alpha;
  switch (act.kind) {
    case ActivationKind::Clip:
      return clip(v, act.lo, act.hi);
    case ActivationKind::Sigmoid:
      return sigmoid(v);
    case ActivationKind::Silu:
      return v * sigmoid(v);
    case ActivationKind::HardSwish:
      return v * clip(v / 6.0 + 0.5, 0.0F, 1.0F);
    case ActivationKind::Tanh:
      return tanh(v);
    case ActivationKind::LeakyRelu:
      return v < 0.0 ? alpha * v : v;
    case ActivationKind::Elu:
      return v < 0.0 ? alpha * expm1(v) : v;
  }
  return v;
}

inline unsigned blocks_for(std::int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

inline bool fits_index(std::int64_t count) { return count <= std::numeric_limits<std::int32_t>::max(); }

}  // namespace mobicuda::cudnn
