#pragma once

#include <string>

#include "report/read_report.h"
#include "report/report_changes.h"

namespace mobicuda::bench::report {

/// One HTML file of everything in the report, with charts in SVG: no script, nothing from the network.
std::string html_report(const ReportFile& file);

/// The same of `after`, which begins with what changed since `before`.
std::string html_comparison(const ReportFile& before, const ReportFile& after, const ReportChanges& changes);

}  // namespace mobicuda::bench::report
