#pragma once

#include <span>

#include <mobicuda/graph.h>

namespace mobicuda {

/// Checks the elements of a quantised convolution's or Gemm's constants: scales, zero points, multipliers, and that no
/// sum leaves int32. Constants without elements, of a saved engine, and other operations pass. Throws
/// Error(invalid_model), or Error(unsupported) for a sum that is too large.
void check_quantized_constants(const Node& node, std::span<const Value> values);

}  // namespace mobicuda
