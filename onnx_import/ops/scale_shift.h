#pragma once

#include <span>

#include "../node_importer.h"

namespace mobicuda::onnx_import {

/// y = scale[c] * x + shift[c], one element for each channel, axis 1. Engines see channels of vectors and images only:
/// a value of 3 or more than 4 axes is an image of one row around the operation.
ValueId add_scale_shift(NodeImporter& node, ValueId x, std::span<const float> scale, std::span<const float> shift);

}  // namespace mobicuda::onnx_import
