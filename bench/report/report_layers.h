#pragma once

#include <string>

#include "report/document.h"

namespace mobicuda::bench::report {

/// Roofline, hot kernels and all layers of a case by one of its profiles, as HTML. Empty when that was not taken.
std::string layers_section(const CaseResult& result, const LayerProfile& profile, const Machine& machine);

}  // namespace mobicuda::bench::report
