#pragma once

#include <vector>

#include <mobicuda/graph.h>

namespace mobicuda::cpu {

/// For each value whether a good part of its elements are zero, as far as the operations before it tell: what an
/// activation clips at zero, and what passes that on.
std::vector<bool> values_with_zeros(const Graph& graph);

}  // namespace mobicuda::cpu
