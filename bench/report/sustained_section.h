#pragma once

#include <iosfwd>
#include <string>

#include "report/document.h"

namespace mobicuda::bench::report {

/// --singleCalls: a table beside the medians of the latency table, for people. Nothing where none was measured.
void print_single_calls(std::ostream& out, const Report& report);
/// --sustained, likewise.
void print_sustained(std::ostream& out, const Report& report);

/// The same as HTML; empty where none was measured.
std::string single_calls_section(const Report& report);
std::string sustained_section(const Report& report);

}  // namespace mobicuda::bench::report
