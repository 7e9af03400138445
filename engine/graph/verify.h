#pragma once

#include <span>
#include <string>

#include <mobicuda/graph.h>

namespace mobicuda {

/// Checks a node against the values it reads (ids, arity, required inputs, constants where weights are
/// meant) and infers its output. Throws Error(invalid_model).
TensorDesc infer_node_output(const Node& node, std::span<const Value> values);

/// Throws Error(invalid_model) unless the integers fit the constant that was made of them, and their scales and zero
/// points fit them.
void require_quantized(const QuantizedConstant& quantized, const HostTensor& tensor);

/// Throws Error(invalid_model) about `what` when it has more than kMaxElements.
void require_elements(const Shape& shape, const std::string& what);

}  // namespace mobicuda
