#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench_engine/model/comparison.h"

namespace mobicuda::bench {

nlohmann::ordered_json layer_comparisons_json(const std::vector<LayerComparison>& comparisons);

/// Columns of the CSV report, over all references of a case; empty where nothing was compared.
inline constexpr const char* kLayerComparisonColumns =
    "compared_tensors,diverging_tensors,compared_max_abs,compared_relative_l2,compared_cosine,compared_max_ulp";
std::string layer_comparisons_csv(const std::vector<LayerComparison>& comparisons);

}  // namespace mobicuda::bench
