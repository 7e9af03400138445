#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/graph.h>

#include "support/random.h"

namespace mobicuda::test {

using Floats = std::vector<float>;

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
