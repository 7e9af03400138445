#pragma once

#include <optional>
#include <string>

#include <mobicuda/engine.h>
#include <mobicuda/saved_engine.h>

#include "plan/choose_variant.h"
#include "runtime/cuda_engine.h"

namespace mobicuda {

/// Why the custom kernels cannot run a node of an optimised graph; nothing when they can.
std::optional<std::string> why_not_lowered(const Graph& graph, const Node& node, const EngineOptions& options);

/// Turns an optimised graph (activations NHWC) into kernel launches over a planned arena, with packed
/// weights on the current device: packed from the graph's constants, or, as the choices of kernels, those of `saved`
/// where it is not null. Precondition: why_not_lowered() is empty for every node.
CudaPlan lower(const Graph& graph, const EngineOptions& options, GpuTraits gpu, const SavedEngine* saved = nullptr);

}  // namespace mobicuda
