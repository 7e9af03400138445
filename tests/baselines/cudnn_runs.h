#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/cudnn_backend.h>

#include "baselines/engine_runs.h"
#include "baselines/test_graphs.h"
#include "support/catch.h"
#include "support/tolerance.h"

// Runs of the cuDNN engine and of the oracle on the same graph, and bounds for single layers.

namespace mobicuda::test {

inline EngineOptions options_for(Precision precision, std::int64_t max_batch) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  return options;
}

inline Floats run_oracle(const Graph& graph, const Floats& input) {
  const auto pictures = static_cast<std::int64_t>(input.size()) / graph.input_desc().shape.elements();
  return run(*make_cpu_backend()->compile(graph, options_for(Precision::Fp64, pictures)), input);
}

inline Floats run_cudnn(const Graph& graph, Precision precision, const Floats& input) {
  const auto pictures = static_cast<std::int64_t>(input.size()) / graph.input_desc().shape.elements();
  return run(*make_cudnn_backend()->compile(graph, options_for(precision, pictures)), input);
}

inline std::vector<double> as_doubles(const Floats& values) { return {values.begin(), values.end()}; }

// How far one layer of `products` products may be from the oracle, which computes with unrounded inputs.
// Weights and inputs stay below kLargest in magnitude.
inline double layer_bound(Precision precision, std::int64_t products, double magnitude, double expected) {
  constexpr double kLargest = 2.0;
  constexpr double kUnitTf32 = 0x1p-10;                 // the hardware may truncate to 10 bits
  const double oracle = kUnitF32 * std::abs(expected);  // its result passed through a float on its way out
  if (precision == Precision::Fp32) return hard_bound(gamma(products), magnitude, expected, kStoreF32) + oracle;
  if (precision == Precision::Fp64) {
    return hard_bound(gamma(products, kUnitF64), magnitude, expected, kStoreF32) + oracle;
  }
  if (precision == Precision::Tf32) {
    const double rounding = (1.0 + kUnitTf32) * (1.0 + kUnitTf32) - 1.0 + gamma_tensor_core(products);
    return hard_bound(rounding, magnitude, expected, kStoreF32) + oracle;
  }
  // Inputs and constants are rounded to half; so is the sum before bias, residual and clip, where these are
  // a step of their own; and the result.
  const double inputs = (1.0 + kUnitF16) * (1.0 + kUnitF16) - 1.0;
  const double between = kUnitF16;
  const double rounding = (1.0 + inputs) * (1.0 + gamma_tensor_core(products)) * (1.0 + between) - 1.0;
  const double underflow = (2.0 * static_cast<double>(products) * kLargest + 3.0) * kStoreF16.underflow;
  return hard_bound(rounding, magnitude, expected, kStoreF16) + underflow + oracle;
}

// Makes the same graph with weights of the asked kind.
using GraphMaker = std::function<Graph(WeightKind)>;

inline void check_layer(const GraphMaker& make, Precision precision, std::int64_t products, std::int64_t pictures) {
  const Graph graph = make(WeightKind::Signed);
  const Floats input = input_for(graph, pictures);
  Floats absolute = input;
  for (float& value : absolute) value = std::abs(value);
  const std::vector<double> expected = as_doubles(run_oracle(graph, input));
  const Floats magnitude = run_oracle(make(WeightKind::Absolute), absolute);
  std::vector<double> allowed;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    allowed.push_back(layer_bound(precision, products, static_cast<double>(magnitude[i]), expected[i]));
  }
  CHECK(compare_elements(run_cudnn(graph, precision, input), expected, allowed));
}

inline void check_conv(const ConvCase& test, Precision precision, std::int64_t pictures) {
  CAPTURE(print(build(test)), to_string(precision), pictures);
  check_layer([&](WeightKind kind) { return build(test, kind); }, precision, test.products(), pictures);
}

inline Conv2d conv_op(std::int64_t stride, Padding pads, std::int64_t groups, Activation activation) {
  Conv2d op;
  op.strides = {stride, stride};
  op.pads = pads;
  op.groups = groups;
  op.activation = activation;
  return op;
}

}  // namespace mobicuda::test
