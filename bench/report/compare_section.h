#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "report/document.h"

namespace mobicuda::bench::report {

/// A table for each comparison of --compare: all tensors in the order in which they are computed.
void print_layer_comparisons(std::ostream& out, const std::vector<CaseResult>& cases);

/// The same as a section of the page; empty where nothing was compared.
std::string layer_comparisons_section(const Report& report);

}  // namespace mobicuda::bench::report
