// What parameters and arguments of all kernels are made of. For host and device.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels {

/// Storage type of activations and packed weights. Arithmetic accumulates in double for F64, else in float.
enum class Elem : std::uint8_t { F32, F16, F64 };

inline constexpr std::size_t kElemCount = 3;

constexpr std::size_t size_of(Elem elem) {
  constexpr std::size_t kBytes[kElemCount] = {4, 2, 8};
  return kBytes[static_cast<std::size_t>(elem)];
}

/// min(max(x, lo), hi), applied last; NaN propagates.
struct Clip {
  float lo;
  float hi;
};

enum class ActivationKind : std::uint8_t { Clip, Sigmoid, Silu, HardSwish, Tanh, LeakyRelu, Elu };

/// Applied last; NaN propagates. Clip; Sigmoid: s(x) = 1 / (1 + exp(-x)); Silu: x * s(x); HardSwish:
/// x * min(max(x / 6 + 1/2, 0), 1); Tanh; where x < 0, LeakyRelu: alpha * x, and Elu: alpha * (exp(x) - 1), elsewhere
/// x.
struct Activation {
  ActivationKind kind = ActivationKind::Clip;
  float lo = -std::numeric_limits<float>::infinity();  ///< of Clip
  float hi = std::numeric_limits<float>::infinity();
  float alpha = 0.0F;  ///< of LeakyRelu and Elu, finite

  constexpr Activation() = default;
  constexpr Activation(Clip clip) : lo(clip.lo), hi(clip.hi) {}
  constexpr explicit Activation(ActivationKind which, float factor = 0.0F) : kind(which), alpha(factor) {}
};

constexpr bool is_clip(const Activation& activation) { return activation.kind == ActivationKind::Clip; }
/// HardSwish or Silu: what kernels for networks with gates are compiled for, apart from clips (activate()).
constexpr bool is_swish(const Activation& activation) {
  return activation.kind == ActivationKind::HardSwish || activation.kind == ActivationKind::Silu;
}

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }

}  // namespace mobicuda::kernels
