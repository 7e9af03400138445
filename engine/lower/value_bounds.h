// How large the values of a network can become, whatever its input.
#pragma once

#include <vector>

#include <mobicuda/graph.h>

namespace mobicuda {

/// For each value of the graph the largest magnitude that it can have where the network's input has no NaN or infinity;
/// infinity where nothing is known, as of the input. Of a constant, its elements'; of an activation it follows from
/// clips, sigmoids and the weights' magnitudes, in real numbers: a computed value may be larger by its rounding errors.
/// Constants must have their elements. Not of quantised values.
std::vector<double> value_bounds(const Graph& graph);

}  // namespace mobicuda
