#pragma once

#include <string>

#include "report/document.h"

namespace mobicuda::bench::report {

/// How right the results are, as HTML: against the reference, golden outputs and labels. Empty where nothing was
/// compared.
std::string accuracy_section(const Report& report);

}  // namespace mobicuda::bench::report
