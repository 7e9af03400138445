#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cuda_fp16.h>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/graph.h>

#include "passes/rewriter.h"
#include "support/tolerance.h"

namespace mobicuda::test {

/// The fp64 engine's outputs for n pictures.
inline std::vector<double> exact_outputs(const Graph& graph, std::span<const float> input, std::int64_t n) {
  EngineOptions options;
  options.precision = Precision::Fp64;
  options.max_batch = n;
  const auto engine = make_cpu_backend()->compile(graph, options);
  std::vector<float> outputs(static_cast<std::size_t>(n * engine->output().shape.elements()));
  engine->create_session()->run(input, outputs);
  return {outputs.begin(), outputs.end()};
}

/// The same graph with its constants rounded to half.
inline Graph with_half_weights(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.inputs) {
      if (id == kNoValue || !graph.value(id).constant) continue;
      HostTensor rounded = *graph.value(id).constant;
      for (float& value : rounded.data<float>()) value = __half2float(__float2half(value));
      rewriter.map(id, rewriter.builder().add_constant(graph.value(id).name, std::move(rounded)));
    }
    rewriter.copy(node);
  }
  return rewriter.finish();
}

inline double relative_l2(std::span<const double> a, std::span<const double> b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

/// What a network may lose. Networks amplify rounding, each in its own way; the oracle tells by how much: it runs
/// once with the weights rounded to half.
class NetworkOracle {
 public:
  /// `longest_sum`: products in the longest sum of any layer.
  NetworkOracle(const Graph& graph, std::span<const float> input, std::int64_t n, std::int64_t longest_sum)
      : outputs_(exact_outputs(graph, input, n)),
        half_weights_(relative_l2(exact_outputs(with_half_weights(optimize(graph)), input, n), outputs_)),
        longest_sum_(static_cast<double>(longest_sum)) {}

  const std::vector<double>& outputs() const { return outputs_; }

  double limit(Precision precision) const {
    // Weights and activations round alike, so that sqrt(2) is expected; sqrt(3) where a layer in several steps
    // rounds between them.
    constexpr double kHalfMargin = 4;
    if (precision == Precision::Fp64) return 2 * kUnitF32;  // both outputs were rounded to float
    if (precision == Precision::Fp16) return kHalfMargin * half_weights_;
    // A float sum of K products errs by about u sqrt(K / 3).
    const double summation = std::sqrt(longest_sum_ / 3);
    return kHalfMargin * summation * half_weights_ * kUnitF32 / kUnitF16;
  }

  /// Of the first pictures' outputs, as many as there are.
  Comparison compare(std::span<const float> actual, Precision precision) const {
    const std::vector<double> expected(outputs_.begin(), outputs_.begin() + static_cast<std::ptrdiff_t>(actual.size()));
    return compare_rel_l2(actual, expected, limit(precision));
  }

 private:
  std::vector<double> outputs_;
  double half_weights_;
  double longest_sum_;
};

}  // namespace mobicuda::test
