#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "../node_importer.h"

namespace mobicuda::onnx_import {

// What several operators are made of.

ValueId add_clip(NodeImporter& node, ValueId x, float lo, float hi);
ValueId unary_of(NodeImporter& node, ValueId x, UnaryKind kind, float alpha = 0.0F);
/// scale * x + shift with an element for each channel, axis 1.
ValueId scale_and_shift(NodeImporter& node, ValueId x, std::vector<float> scale, std::vector<float> shift);
/// clip(alpha * x + beta, 0, 1); x has channels on axis 1.
ValueId add_hard_sigmoid(NodeImporter& node, ValueId x, float alpha, float beta);
/// factor * x; x has channels on axis 1.
ValueId multiply_by(NodeImporter& node, ValueId x, float factor);
/// The activation that ONNX Runtime's optimiser put into the node: the attribute `activation` has its ONNX name,
/// `parameters` come from the attribute `where`. None at all, or an empty one: ONNX's default.
ValueId add_fused_activation(NodeImporter& node, ValueId x, std::span<const std::optional<float>> parameters,
                             std::string_view where);

}  // namespace mobicuda::onnx_import
