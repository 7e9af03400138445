#pragma once

#include <string>

#include "report/document.h"

namespace mobicuda::bench::report {

/// The label of what `result`, one of the report's cases, was compared with. A run has one reference; a record that
/// several runs were written into has one for each, ahead of what was compared with it.
std::string reference_of(const Report& report, const CaseResult& result);

/// "custom fp16", "custom fp16, of cudnn fp64 against custom fp64".
std::string references_text(const Report& report);

}  // namespace mobicuda::bench::report
