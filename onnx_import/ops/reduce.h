#pragma once

#include <vector>

#include "../node_importer.h"

namespace mobicuda::onnx_import {

/// Which axes of a first input of that shape the reduction takes: Shape::kMaxRank of them.
std::vector<bool> reduced_axes(const NodeImporter& node, const Shape& shape);

}  // namespace mobicuda::onnx_import
