#include "report/reference.h"

#include <algorithm>

namespace mobicuda::bench::report {

std::string reference_of(const Report& report, const CaseResult& result) {
  std::string first;
  std::string nearest;
  bool several = false;
  bool before = true;
  for (const CaseResult& one : report.cases) {
    if (one.comparison) {
      before = before && &one != &result;
      continue;
    }
    if (first.empty()) first = one.label();
    several = several || one.label() != first;
    if (before && one.batch == result.batch) nearest = one.label();
    before = before && &one != &result;
  }
  return several && !nearest.empty() ? nearest : report.reference;
}

std::string references_text(const Report& report) {
  std::string others;
  for (const CaseResult& result : report.cases) {
    const std::string reference = reference_of(report, result);
    if (!result.comparison || reference == report.reference) continue;
    const std::string text = ", of " + result.label() + " against " + reference;
    if (others.find(text) == std::string::npos) others += text;
  }
  return report.reference + others;
}

}  // namespace mobicuda::bench::report
