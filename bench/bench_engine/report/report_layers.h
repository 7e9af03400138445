#pragma once

#include <string>

#include "bench_engine/results.h"

namespace mobicuda::bench {

/// Roofline, hot kernels and all layers of a profiled case, as HTML. Empty when it was not profiled.
std::string layers_section(const CaseResult& result, const Machine& machine);

}  // namespace mobicuda::bench
