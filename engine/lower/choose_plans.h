#pragma once

#include <cstdint>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/graph.h>
#include <mobicuda/saved_engine.h>

#include "kernels/common/device_traits.h"

namespace mobicuda {

/// The batch sizes for which plans are considered: EngineOptions::plan_batches, or what it says of its absence. They
/// rise, and the last one is max_batch.
std::vector<std::int64_t> considered_batches(const EngineOptions& options);

/// How an engine's layers run, SavedEngine::plans: a size whose kernels are those of the next larger plan has none of
/// its own, as steps run fewer images too. With EngineOptions::timing_cache takes measurements on the current device;
/// else it needs none. `input` is Engine::input().
std::vector<SavedPlan> choose_plans(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
                                    const TensorDesc& input);

}  // namespace mobicuda
