#pragma once

#include <string>

#include <mobicuda/types.h>

#include "bench_engine/model/comparison.h"

namespace mobicuda::bench {

/// What --compare allows without --compareThreshold: docs/numerics.md derives it.
double default_layer_threshold(Precision precision, Precision reference);

/// What a comparison misses, as a sentence that `who` begins; empty when it misses nothing.
std::string missed_layers(const LayerComparison& comparison, const std::string& who);

}  // namespace mobicuda::bench
