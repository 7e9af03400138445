#include "bench_engine/export/compare_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace mobicuda::bench {

using Json = nlohmann::ordered_json;

Json layer_comparisons_json(const std::vector<LayerComparison>& comparisons) {
  Json list = Json::array();
  for (const LayerComparison& comparison : comparisons) {
    Json tensors = Json::array();
    for (const ComparedLayer& one : comparison.layers) {
      const GoldenComparison& d = one.difference;
      tensors.push_back({{"tensor", one.tensor},
                         {"layer", one.layer},
                         {"kernel", one.kernel},
                         {"referenceKernel", one.reference_kernel},
                         {"shape", one.shape},
                         {"maxAbs", d.max_abs},
                         {"meanAbs", d.mean_abs},
                         {"relativeL2", d.relative_l2},
                         {"cosine", d.cosine},
                         {"maxUlp", d.max_ulp},
                         {"diverged", one.diverged}});
    }
    Json not_compared = Json::array();
    for (const UncomparedLayer& one : comparison.not_compared) {
      not_compared.push_back({{"layer", one.layer}, {"reason", one.reason}});
    }
    const ComparedLayer* first = comparison.first_diverging();
    list.push_back({{"reference", comparison.reference},
                    {"threshold", comparison.threshold},
                    {"firstDiverging", first == nullptr ? Json(nullptr) : Json(first->tensor)},
                    {"tensors", std::move(tensors)},
                    {"notCompared", std::move(not_compared)}});
  }
  return list;
}

std::string layer_comparisons_csv(const std::vector<LayerComparison>& comparisons) {
  if (comparisons.empty()) return ",,,,,";
  std::size_t tensors = 0;
  std::size_t diverging = 0;
  GoldenComparison worst;
  for (const LayerComparison& comparison : comparisons) {
    tensors += comparison.layers.size();
    diverging += comparison.diverging();
    for (const ComparedLayer& one : comparison.layers) {
      const GoldenComparison& d = one.difference;
      worst.max_abs = std::max(worst.max_abs, d.max_abs);
      worst.relative_l2 = std::max(worst.relative_l2, d.relative_l2);
      worst.max_ulp = std::max(worst.max_ulp, d.max_ulp);
      if (!(d.cosine >= worst.cosine)) worst.cosine = d.cosine;  // a NaN stays
    }
  }
  std::ostringstream csv;
  csv << tensors << ',' << diverging << ',' << worst.max_abs << ',' << worst.relative_l2 << ',' << worst.cosine << ','
      << worst.max_ulp;
  return csv.str();
}

}  // namespace mobicuda::bench
