#include "bench_engine/model/cases.h"

namespace mobicuda::bench {

std::string case_label(const std::string& implementation, Precision precision, std::optional<int> threads) {
  std::string label = implementation + ' ' + std::string(to_string(precision));
  if (!threads) return label;
  if (*threads == 0) return label + ", all cores";
  return label + ", " + std::to_string(*threads) + (*threads == 1 ? " thread" : " threads");
}

std::string Case::label() const { return case_label(implementation, precision, threads); }

}  // namespace mobicuda::bench
