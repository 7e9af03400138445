#pragma once

#include <iosfwd>

#include "report/read_report.h"
#include "report/report_changes.h"

namespace mobicuda::bench::report {

/// What changed from the first file to the second, for people.
void print_changes(std::ostream& out, const ReportFile& before, const ReportFile& after, const ReportChanges& changes);

}  // namespace mobicuda::bench::report
