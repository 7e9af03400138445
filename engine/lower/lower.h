#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/saved_engine.h>

#include "kernels/common/device_traits.h"
#include "lower/weight_pieces.h"
#include "runtime/cuda_engine.h"
#include "timing/confirm_choices.h"

namespace mobicuda {

/// Why the custom kernels cannot run a node of an optimised graph; nothing when they can.
std::optional<std::string> why_not_lowered(const Graph& graph, const Node& node, const EngineOptions& options);

/// The choices for max_batch images alone, which with EngineOptions::timing_cache takes measurements. Packs nothing,
/// and without a timing cache needs no device.
ChosenLayers choose_layers(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu);

/// Turns an optimised graph (activations NHWC) into kernel launches over a planned arena for up to `plan.batch`
/// images. Packed weights are added to `weights`; when the steps run, these lie at `*base`. The choices are those of
/// choose_layers() for that batch, of which variants may have been exchanged for others of their kernel that run the
/// shape. Needs no device. Precondition: why_not_lowered() is empty for every node.
CudaPlan lower(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
               const SavedPlan& plan, WeightPieces& weights, std::shared_ptr<const std::byte* const> base);

/// The same of all plans of an engine, with the weights on the current device. Throws Error(invalid_model) where plans
/// or weights are a saved engine's and contradict themselves or the graph.
CudaNetwork lower(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
                  const std::vector<SavedPlan>& plans, WeightPieces& weights);

}  // namespace mobicuda
