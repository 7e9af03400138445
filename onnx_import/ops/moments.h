#pragma once

#include "../node_importer.h"

namespace mobicuda::onnx_import {

/// Normalisations written out, as files before opset 17 have LayerNormalization: Sub(x, ReduceMean(x)), Pow 2 or the
/// product with itself, ReduceMean, Add epsilon, Sqrt, and Div or Reciprocal and Mul. Of a node that stands on that
/// way: imports it, true. Of others: false.
bool import_moment(NodeImporter& node);

/// (x - mean) / sqrt(variance + epsilon) over axes of x, as the graph has it. Throws Error for axes that it has not.
ValueId normalize(NodeImporter& node, ValueId x, const std::vector<bool>& axes, float epsilon);

}  // namespace mobicuda::onnx_import
