#pragma once

#include <string>

#include "bench_engine/results.h"

namespace mobicuda::bench {

/// How right the results are, as HTML: against the reference, golden outputs and labels. Empty where nothing was
/// compared.
std::string accuracy_section(const Report& report);

}  // namespace mobicuda::bench
