#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "report/document.h"

namespace mobicuda::bench::report {

/// Of the time, what few kernels, activities or layers make: they are marked.
inline constexpr double kHotShare = 0.9;

double total_ms(const std::vector<ActivityRow>& rows);

/// How many of the first rows it takes for 90 % of the total.
std::size_t count_hot(const std::vector<ActivityRow>& rows);

/// "1.2345 ms in sum, 1.2222 ms as a whole: 101.0 %", of a profiled case.
std::string layers_sum(const LayerProfile& profile);

/// --dumpKernels: GPU activities and CUDA calls of a traced case; nothing of any other.
void print_activities(std::ostream& out, const CaseResult& result);

/// The same of all traced cases, as HTML. Empty without one.
std::string activities_section(const Report& report);

}  // namespace mobicuda::bench::report
