#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <mobicuda/engine.h>

#include "bench_engine/layers/layer_comparison.h"

namespace mobicuda::bench {

/// An engine with its input in place.
struct LayerSource {
  std::string label;
  const Engine* engine = nullptr;
  Session* session = nullptr;
};

/// Runs n pictures through both, one layer at a time, and compares each tensor that both have, known by its name. One
/// tensor of each is in host memory at a time, and those of the reference that come before their turn. Nothing once
/// `stop` says so.
std::optional<LayerComparison> compare_layers(const LayerSource& source, const LayerSource& reference, std::int64_t n,
                                              double threshold, const std::function<bool()>& stop);

}  // namespace mobicuda::bench
