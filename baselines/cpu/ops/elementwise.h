#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <vector>

#include <mobicuda/graph.h>

#include "baselines/cpu/ops/strides.h"

namespace mobicuda::cpu {

// Element by element, in double (the definitions) or float.

/// min(max(x, lo), hi); NaN stays NaN, and lo > hi gives hi.
template <class T>
T clip_to(T x, T lo, T hi) {
  const T raised = x < lo ? lo : x;
  return raised > hi ? hi : raised;
}

/// Activation's definition.
template <class T>
T activate(T x, const Activation& activation) {
  const T alpha = static_cast<T>(activation.alpha);
  switch (activation.kind) {
    case ActivationKind::Clip:
      return clip_to(x, static_cast<T>(activation.lo), static_cast<T>(activation.hi));
    case ActivationKind::Sigmoid:
      return T{1} / (T{1} + std::exp(-x));
    case ActivationKind::Silu:
      return x * (T{1} / (T{1} + std::exp(-x)));
    case ActivationKind::HardSwish:
      return x * clip_to(x / T{6} + T{0.5}, T{0}, T{1});
    case ActivationKind::Tanh:
      return std::tanh(x);
    case ActivationKind::LeakyRelu:
      return x < T{0} ? alpha * x : x;
    case ActivationKind::Elu:
      return x < T{0} ? alpha * std::expm1(x) : x;
  }
  return x;
}

// Of float, the functions below take the inner loops of fp32_kernels.h.

/// y = act(y) for n floats, where the activation is none that clips.
void activate_floats(const Activation& activation, float* y, std::int64_t n);

/// y[i] = act(a[i] + b[i]) for the elements in `range`.
template <class T>
void add(const Add& op, const T* a, const T* b, T* y, Range range) {
  for (std::int64_t i = range.first; i < range.last; ++i) y[i] = activate(a[i] + b[i], op.activation);
}

/// The axes of y = f(a, b) but the batch, outermost in the memory of a and y first; b has stride 0 where it repeats.
struct BroadcastPlan {
  struct Axis {
    std::int64_t extent = 1;
    std::int64_t b_stride = 0;
  };
  std::vector<Axis> outer;
  Axis last;
  std::int64_t b_picture = 0;  ///< distance of b's images

  std::int64_t rows() const;                      ///< of the last axis, in one image
  std::int64_t b_offset(std::int64_t row) const;  ///< where b has that row, counted through all images
};

BroadcastPlan plan_broadcast(const TensorDesc& a_desc, const TensorDesc& b_desc);

/// y = act(a * b) for the rows of the last axis in `rows`, counted through all images.
template <class T>
void mul(const Mul& op, const BroadcastPlan& plan, const T* a, const T* b, T* y, Range rows) {
  const auto [columns, stride] = plan.last;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const T* const right = b + plan.b_offset(row);
    const std::int64_t start = row * columns;
    for (std::int64_t i = 0; i < columns; ++i) {
      y[start + i] = activate(a[start + i] * right[i * stride], op.activation);
    }
  }
}

/// The larger, or the smaller number. Comparisons with NaN are false: b's NaN is taken by itself, a's is asked for.
template <class T>
T extremum_of(ExtremumKind kind, T a, T b) {
  return (kind == ExtremumKind::Max ? a > b : a < b) || std::isnan(a) ? a : b;
}

/// y = act(max(a, b)) or act(min(a, b)) for the rows of the last axis in `rows`, counted through all images.
template <class T>
void extremum(const Extremum& op, const BroadcastPlan& plan, const T* a, const T* b, T* y, Range rows) {
  const auto [columns, stride] = plan.last;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const T* const right = b + plan.b_offset(row);
    const std::int64_t start = row * columns;
    for (std::int64_t i = 0; i < columns; ++i) {
      y[start + i] = activate(extremum_of(op.kind, a[start + i], right[i * stride]), op.activation);
    }
  }
}

/// The definition of a kind that is no Activation.
template <class T>
T evaluate(UnaryKind kind, T x) {
  constexpr T kHalf{0.5};
  if (kind == UnaryKind::Sqrt) return std::sqrt(x);
  if (kind == UnaryKind::Reciprocal) return T{1} / x;
  if (kind == UnaryKind::Exp) return std::exp(x);
  // Far from zero erfc and the exponential keep what a difference of near numbers would lose.
  if (kind == UnaryKind::Gelu) return kHalf * x * std::erfc(x * (-kHalf * std::numbers::sqrt2_v<T>));
  if (kind == UnaryKind::GeluTanh) {
    constexpr T kTwice = T{2} * std::numbers::sqrt2_v<T> * std::numbers::inv_sqrtpi_v<T>;
    constexpr auto kCubic = static_cast<T>(0.044715);
    return x * (T{1} / (T{1} + std::exp(-kTwice * x * (T{1} + kCubic * x * x))));
  }
  if (kind == UnaryKind::Softplus) return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
  return std::erf(x);
}

/// y[i] = f(x[i]) for the elements in `range`.
template <class T>
void unary(const Unary& op, const T* x, T* y, Range range) {
  const std::optional<Activation> activation = activation_of(op);
  for (std::int64_t i = range.first; i < range.last; ++i) {
    y[i] = activation ? activate(x[i], *activation) : evaluate(op.kind, x[i]);
  }
}

/// y[i] = act(x[i]) for the elements in `range`.
template <class T>
void clip(const Clip& op, const T* x, T* y, Range range) {
  for (std::int64_t i = range.first; i < range.last; ++i) y[i] = activate(x[i], op.activation);
}

/// y = act(scale[c] * x + shift[c]) on a tensor seen as (rows, channels, inner), for the rows in `rows`.
/// NHWC has inner = 1, NCHW has inner = H * W.
template <class T>
void scale_shift(const ScaleShift& op, std::int64_t channels, std::int64_t inner, const T* x, const float* scale,
                 const float* shift, T* y, Range rows) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t start = (row * channels + c) * inner;
      for (std::int64_t i = start; i < start + inner; ++i) {
        y[i] = activate(static_cast<T>(scale[c]) * x[i] + static_cast<T>(shift[c]), op.activation);
      }
    }
  }
}

template <>
void add(const Add& op, const float* a, const float* b, float* y, Range range);
template <>
void mul(const Mul& op, const BroadcastPlan& plan, const float* a, const float* b, float* y, Range rows);
template <>
void unary(const Unary& op, const float* x, float* y, Range range);
template <>
void clip(const Clip& op, const float* x, float* y, Range range);
template <>
void scale_shift(const ScaleShift& op, std::int64_t channels, std::int64_t inner, const float* x, const float* scale,
                 const float* shift, float* y, Range rows);

}  // namespace mobicuda::cpu
