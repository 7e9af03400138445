#pragma once

// Other forms of a test model, for those that are no network of one input as they are.

#include <optional>

#include "onnx_case.h"

namespace mobicuda::conformance {

/// The activations of one batch that the model is fed, side by side in one input, and the model behind slices of it.
/// Nothing where there is one only.
std::optional<OnnxCase> with_joined_activations(const OnnxCase& original);

/// The first input becomes an initializer too, and the output is added to a new input of zeros, so that the importer
/// must compute the operator from constants. Nothing when the output is no tensor of numbers.
std::optional<OnnxCase> with_constant_input(const OnnxCase& original);

}  // namespace mobicuda::conformance
