#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <vector>

#include "kernels/common/launch.h"
#include "support/oracle.h"
#include "support/tolerance.h"

namespace mobicuda::test {

/// Activations that are not a clip, for tests that loop over all.
inline const std::vector<kernels::Activation>& curved_activations() {
  using enum kernels::ActivationKind;
  using kernels::Activation;
  static const std::vector<Activation> all{Activation(Sigmoid),           Activation(Silu),
                                           Activation(HardSwish),         Activation(Tanh),
                                           Activation(LeakyRelu, 0.125F), Activation(LeakyRelu, -0.5F),
                                           Activation(Elu, 1.0F),         Activation(Elu, 2.5F)};
  return all;
}

/// What a kernel must compute, in fp64.
inline double activate(const kernels::Activation& activation, double x) {
  const double alpha = static_cast<double>(activation.alpha);
  switch (activation.kind) {
    case kernels::ActivationKind::Clip:
      return OracleClip{static_cast<double>(activation.lo), static_cast<double>(activation.hi)}(x);
    case kernels::ActivationKind::Sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case kernels::ActivationKind::Silu:
      return x * (1.0 / (1.0 + std::exp(-x)));
    case kernels::ActivationKind::HardSwish:
      return x * OracleClip{0.0, 1.0}(x / 6.0 + 0.5);
    case kernels::ActivationKind::Tanh:
      return std::tanh(x);
    case kernels::ActivationKind::LeakyRelu:
      return x < 0.0 ? alpha * x : x;
    case kernels::ActivationKind::Elu:
      return x < 0.0 ? alpha * std::expm1(x) : x;
  }
  return x;
}

/// By how much an error in x grows at most: the largest slope.
inline double largest_slope(const kernels::Activation& activation) {
  switch (activation.kind) {
    case kernels::ActivationKind::Sigmoid:
      return 0.25;
    case kernels::ActivationKind::Silu:
      return 1.1;
    case kernels::ActivationKind::HardSwish:
      return 1.5;
    case kernels::ActivationKind::LeakyRelu:
    case kernels::ActivationKind::Elu:
      return std::max(1.0, std::abs(static_cast<double>(activation.alpha)));
    default:
      return 1.0;
  }
}

/// What evaluating it in float may add where |x| is at most `x`. Derived in docs/numerics.md.
inline double evaluation_error(const kernels::Activation& activation, double x) {
  switch (activation.kind) {
    case kernels::ActivationKind::Clip:
      return 0.0;
    case kernels::ActivationKind::Sigmoid:
      return 6.0 * kUnitF32;
    case kernels::ActivationKind::Silu:
      return (2.0 + 5.0 * x) * kUnitF32;
    case kernels::ActivationKind::HardSwish:
      return 3.0 * x * kUnitF32;
    case kernels::ActivationKind::Tanh:
      return 4.0 * std::min(1.0, x) * kUnitF32;
    case kernels::ActivationKind::LeakyRelu:
    case kernels::ActivationKind::Elu:
      return 4.0 * largest_slope(activation) * x * kUnitF32;
  }
  return 0.0;
}

/// How far the stored result may lie from activate(sum) where the sum that is computed lies up to `error` from `sum`.
inline double activated_bound(const kernels::Activation& activation, double sum, double error, Store store) {
  const double all = largest_slope(activation) * error + evaluation_error(activation, std::abs(sum) + error);
  return hard_bound(1.0, all, activate(activation, sum), store);
}

/// The oracle of a sum, and the bounds of its float result, each with the activation behind it.
struct ActivatedOracle {
  std::vector<double> value;
  std::vector<double> allowed;

  ActivatedOracle(const kernels::Activation& activation, const Oracle& sum, double gamma, Store store) {
    for (std::size_t i = 0; i < sum.value.size(); ++i) {
      value.push_back(activate(activation, sum.value[i]));
      allowed.push_back(activated_bound(activation, sum.value[i], gamma * sum.magnitude[i], store));
    }
  }
};

}  // namespace mobicuda::test

namespace mobicuda::kernels {

inline std::ostream& operator<<(std::ostream& out, const Activation& activation) {
  return out << "activation " << static_cast<int>(activation.kind) << " (" << activation.lo << ' ' << activation.hi
             << ' ' << activation.alpha << ')';
}

}  // namespace mobicuda::kernels
