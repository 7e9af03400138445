#pragma once

#include "../node_importer.h"

namespace mobicuda::onnx_import {

/// factor * matrix, transposed to (O, I) when it is (I, O). The file's own tensor when nothing changes. The integers
/// that it was made of come along, unless there is a factor.
Constant gemm_weight(NodeImporter& node, const ConstantPtr& matrix, bool transpose, float factor);

}  // namespace mobicuda::onnx_import
