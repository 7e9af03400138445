#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/saved_engine.h>

#include "kernels/common/device_traits.h"
#include "runtime/cuda_engine.h"
#include "timing/confirm_choices.h"

namespace mobicuda {

/// Why the custom kernels cannot run a node of an optimised graph; nothing when they can.
std::optional<std::string> why_not_lowered(const Graph& graph, const Node& node, const EngineOptions& options);

/// Turns an optimised graph (activations NHWC) into kernel launches over a planned arena, with packed
/// weights on the current device. Precondition: why_not_lowered() is empty for every node.
CudaPlan lower(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu);

/// The same with choices made before: choose_layers()'s, of which variants may have been exchanged for others of their
/// kernel that run the shape. `weights`, where it is not null, is taken for the packed weights: those of a plan of the
/// same graph whose choices differ in no kernel that packs by variant (packs_by_variant()).
CudaPlan lower(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
               const std::vector<SavedChoice>& choices, std::shared_ptr<const DeviceBuffer> weights = nullptr);

/// The same with the choices and the packed weights of `saved`, which is where `graph` is from. Throws
/// Error(invalid_model) where it contradicts itself.
CudaPlan lower(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
               const SavedEngine& saved);

/// The choices of lower() alone, which with EngineOptions::timing_cache takes measurements.
ChosenLayers choose_layers(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu);

/// Whether variants of the kernel of a choice want their weights packed differently.
bool packs_by_variant(const SavedChoice& choice);

}  // namespace mobicuda
