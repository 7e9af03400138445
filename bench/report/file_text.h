#pragma once

#include <iosfwd>

#include "report/read_report.h"

namespace mobicuda::bench::report {

/// Everything in a file of --json or the record of a machine, for people; `per_class`: with a table of classes.
void print_file(std::ostream& out, const ReportFile& file, bool per_class);

}  // namespace mobicuda::bench::report
