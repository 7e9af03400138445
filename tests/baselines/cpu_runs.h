#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <mobicuda/cpu_backend.h>

#include "support/random.h"

namespace mobicuda::test {

using Floats = std::vector<float>;

inline std::shared_ptr<const Engine> compile(const Graph& graph, Precision precision, std::int64_t max_batch = 1,
                                             int threads = 1) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  options.threads = threads;
  return make_cpu_backend()->compile(graph, options);
}

/// The outputs of all pictures in `input`, from a session made for them.
inline Floats run(const Engine& engine, const Floats& input) {
  const auto pictures = static_cast<std::int64_t>(input.size()) / engine.input().shape.elements();
  Floats output(static_cast<std::size_t>(pictures * engine.output().shape.elements()),
                std::numeric_limits<float>::quiet_NaN());
  engine.create_session()->run(input, output);
  return output;
}

inline Floats input_for(const Graph& graph, std::int64_t pictures, std::uint32_t seed = 77) {
  return random_uniform(seed, static_cast<std::size_t>(pictures * graph.input_desc().shape.elements()));
}

}  // namespace mobicuda::test
