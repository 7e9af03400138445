#pragma once

#include <cstdint>
#include <limits>

#include <mobicuda/engine.h>
#include <mobicuda/graph.h>
#include <mobicuda/saved_engine.h>

#include "baselines/cpu/cpu_plan.h"
#include "baselines/cpu/fp32_layers.h"
#include "baselines/cpu/fusion.h"
#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {

/// How many images steps take together. Chosen by measurement: docs/cpu_engine.md.
struct StretchLimits {
  /// Weights up to half of an L2 cache of 512 KiB are there again for the next image. Steps that have more take as many
  /// images as fill a block of rows, for which weights are read once.
  std::int64_t light_weights = std::int64_t{256} << 10;
  std::int64_t block_rows = kMostBlockRows;

  /// All images at once.
  static constexpr StretchLimits never() noexcept { return {-1, std::numeric_limits<std::int64_t>::max()}; }
};

/// How fp32 is computed: engines take the defaults, tests compare others with them.
struct Fp32Choices {
  const Fp32Kernels* kernels = &fp32_kernels();
  FusionLimits fusion;
  StretchLimits stretches;
  WinogradUse winograd = WinogradUse::WhereFaster;
  ZeroProducts zeros = ZeroProducts::LeftOutWhereLikely;
};

/// An optimised graph's plan: a buffer for each activation in memory, a step for each node or several, one static
/// memory plan. Packs the graph's weights, or takes those of `saved`.
Plan make_plan(const Graph& graph, const EngineOptions& options, const SavedEngine* saved,
               const Fp32Choices& choices = {});

}  // namespace mobicuda::cpu
