#pragma once

#include <mobicuda/engine.h>
#include <mobicuda/graph.h>
#include <mobicuda/saved_engine.h>

#include "baselines/cpu/cpu_plan.h"
#include "baselines/cpu/fusion.h"
#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {

/// How fp32 is computed: engines take the defaults, tests compare others with them.
struct Fp32Choices {
  const Fp32Kernels* kernels = &fp32_kernels();
  FusionLimits fusion;
};

/// An optimised graph's plan: a buffer for each activation in memory, a step for each node or several, one static
/// memory plan. Packs the graph's weights, or takes those of `saved`.
Plan make_plan(const Graph& graph, const EngineOptions& options, const SavedEngine* saved,
               const Fp32Choices& choices = {});

}  // namespace mobicuda::cpu
