#pragma once

#include <string>

#include "bench_engine/results.h"

namespace mobicuda::bench {

/// Roofline, hot kernels and all layers of a case by one of its profiles, as HTML. Empty when that was not taken.
std::string layers_section(const CaseResult& result, const LayerProfile& profile, const Machine& machine);

}  // namespace mobicuda::bench
