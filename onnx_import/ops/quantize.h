// What the quantised operators read alike: scales, zero points, and integers as values of the graph.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <mobicuda/graph.h>

#include "../node_importer.h"

namespace mobicuda::onnx_import {

/// The scales at an input: floating-point numbers, finite and > 0, one or a list. Throws Error.
std::vector<float> read_quantization_scales(const NodeImporter& node, std::size_t position);

/// The zero points at an input, whose type is that of the integers: one, or as many as scales. Throws Error.
struct ZeroPoints {
  DType dtype = DType::U8;
  std::vector<std::int32_t> values;
};
/// Zeros of type `absent` where the node has no such input.
ZeroPoints read_zero_points(const NodeImporter& node, std::size_t position, std::size_t scales, DType absent);

/// The quantisation of an activation: one scale at `position`, one zero point behind it. Throws Error for scales of
/// channels.
QuantizedResult read_quantization(const NodeImporter& node, std::size_t position);

/// A constant of integers at `position` with the scales and zero points at the next two positions, as floats that know
/// their integers. `axis` is of several scales. Throws Error.
ConstantPtr dequantize_constant(NodeImporter& node, std::size_t position, std::size_t axis);

/// A constant of INT32 at `position`. Throws Error.
HostTensor read_int32(const NodeImporter& node, std::size_t position, const Constant& constant);

/// Floats that know the integers they were made of.
ConstantPtr dequantized_constant(std::shared_ptr<const QuantizedConstant> quantized);

/// Integers that a quantised operator reads, as real numbers: a Dequantize. Throws Error unless they were quantised as
/// the node says, by the scale and zero point at `position` + 1 and + 2.
ValueId dequantize_activation(NodeImporter& node, std::size_t position);

}  // namespace mobicuda::onnx_import
