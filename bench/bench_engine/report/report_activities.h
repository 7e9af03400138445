#pragma once

#include <iosfwd>
#include <string>

#include "bench_engine/results.h"

namespace mobicuda::bench {

/// "1.2345 ms in sum, 1.2222 ms as a whole: 101.0 %", of a profiled case.
std::string layers_sum(const LayerProfile& profile);

/// --dumpKernels: GPU activities and CUDA calls of a traced case; nothing of any other.
void print_activities(std::ostream& out, const CaseResult& result);

/// The same of all traced cases, as HTML. Empty without one.
std::string activities_section(const Report& report);

}  // namespace mobicuda::bench
