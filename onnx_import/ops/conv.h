#pragma once

#include "../node_importer.h"

namespace mobicuda::onnx_import {

/// The convolution of the first input by a weight of that shape, the input at `position`: its attributes, after checks
/// of both. Throws Error.
Conv2d read_convolution(NodeImporter& node, std::size_t position, const Shape& weight);
/// Refuses a bias of another shape than (outputs).
void require_bias(const NodeImporter& node, std::size_t position, const Shape& shape, std::int64_t outputs);

}  // namespace mobicuda::onnx_import
