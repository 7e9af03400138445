#pragma once

// What the tests of single operations share; the importer's part is onnx_import/import_support.h.

#include <cstdint>
#include <string>
#include <vector>

#include <mobicuda/graph.h>

namespace mobicuda::test {

/// Runs a network around an operation on the engines of this program and compares them with the fp64 oracle: op_tests
/// has the CPU's, which go through a plan file as well, op_gpu_tests the custom one and cuDNN. `products` are those of
/// all sums that an output goes back to. Weights belong in the network: what the GPU may lose is measured by rounding
/// them.
void check_engines(const Graph& graph, std::int64_t products);

/// The oracle's output for one input of the operation, which is all that the network has.
std::vector<float> run_alone(const Op& op, const TensorDesc& input, const std::vector<float>& x);

/// What the Error(invalid_model) says with which the graph refuses the operation for such an input.
std::string refusal(const Op& op, const Shape& input);

/// The line of print() for the operation.
std::string printed(const Op& op, const Shape& input);

}  // namespace mobicuda::test
