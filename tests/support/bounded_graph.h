#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/graph.h>

#include "support/tolerance.h"

namespace mobicuda::test {

/// How an engine computes, as far as it matters for what it may lose: docs/numerics.md, "Random graphs".
struct Arithmetic {
  Store store;                ///< of values between nodes, of the input and of weights
  double unit = kUnitF32;     ///< of sums and of what functions of one number round
  bool tensor_cores = false;  ///< sums truncate
  bool winograd = false;      ///< convolutions may be F(2x2, 3x3) where that is defined
};
/// `backend` is an engine's name: the CPU's fp32 has Winograd's filtering.
Arithmetic arithmetic_of(Precision precision, std::string_view backend);

/// What a graph computes of one image, and how far each element may be from it.
struct BoundedOutput {
  std::vector<double> value;
  std::vector<double> allowed;
  double largest = 0;  ///< the largest magnitude of all values inside
};

/// Runs the graph node by node in fp64, as it is written, without passes, and carries bounds along: what each operation
/// makes of its inputs' errors, and what it rounds itself. A correct engine cannot exceed them, however it fuses.
BoundedOutput run_bounded(const Graph& graph, std::span<const float> image, const Arithmetic& arithmetic);

}  // namespace mobicuda::test
