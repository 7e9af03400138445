// Activations and other functions of a number, element by element. Fewer than 2^38 elements.
//
// NaN stays. Sigmoid is exp(-|x|) / (1 + exp(-|x|)) for negative x and 1 / (1 + exp(-|x|)) else, so that nothing
// overflows and small results keep their accuracy. Silu is x times it. HardSwish and Silu of -infinity are NaN, as
// 0 * -infinity is, and so are Gelu and GeluTanh; Gelu is x / 2 * erfc(-x / sqrt 2), GeluTanh x times a sigmoid, so
// that small results keep their accuracy.
//
// Error: expf, tanhf, expm1f, erff, erfcf and log1pf in full accuracy; the bounds are derived in docs/numerics.md.
// Tests run every number of half, and floats from the smallest to the largest.
#pragma once

#include <cstdint>

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

enum class UnaryFunction : std::uint8_t {
  Sigmoid,    ///< 1 / (1 + exp(-x))
  Silu,       ///< x / (1 + exp(-x))
  HardSwish,  ///< x * clip(x / 6 + 1/2, 0, 1)
  Tanh,
  LeakyRelu,  ///< x < 0 ? alpha * x : x
  Elu,        ///< x < 0 ? alpha * (exp(x) - 1) : x
  Erf,
  Gelu,      ///< x / 2 * (1 + erf(x / sqrt 2))
  GeluTanh,  ///< x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
  Softplus,  ///< log(1 + exp(x))
  Sqrt,      ///< of negative numbers NaN
  Reciprocal,
  Exp,
};

/// y[i] = f(x[i]).
struct UnaryParams {
  Elem elem = Elem::F32;
  UnaryFunction function = UnaryFunction::Sigmoid;
  float alpha = 0.0F;
  std::int64_t elements = 0;
};

cudaError_t unary(const UnaryParams& params, const void* x, void* y, const Launch& where);

}  // namespace mobicuda::kernels
