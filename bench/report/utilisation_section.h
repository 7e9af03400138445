#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "report/document.h"

namespace mobicuda::bench::report {

/// What may have bent a case's times: unsteady ones, clocks that moved or were held back, a host that enqueues slowly.
std::vector<std::string> timing_warnings(const CaseResult& result);

/// Of a table: SM clock, power, temperature, energy of a picture, and what held clocks back.
std::vector<std::string> clock_cells(const Utilisation& utilisation);

/// The table of utilisation, energy and enqueue times, and why the GPU was not sampled. Nothing where nothing of it is
/// known.
void print_utilisation(std::ostream& out, const Report& report);

/// The same as HTML.
std::string utilisation_section(const Report& report);

}  // namespace mobicuda::bench::report
