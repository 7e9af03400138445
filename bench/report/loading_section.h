#pragma once

#include <iosfwd>
#include <string>

#include "report/document.h"

namespace mobicuda::bench::report {

/// The parts of loading, where there are any, and --reload, as text and as HTML.
void print_loading(std::ostream& out, const Report& report);
std::string loading_details(const Report& report);

}  // namespace mobicuda::bench::report
