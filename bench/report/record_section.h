#pragma once

#include <string>

#include "report/read_report.h"

namespace mobicuda::bench::report {

/// Parts of the page that only the record of a machine has, as HTML; each empty where there is nothing to show.
std::string record_summary(const ReportFile& file);     ///< date, requirements
std::string from_host_section(const ReportFile& file);  ///< pictures in bytes, from host to host
std::string networks_section(const ReportFile& file);   ///< other networks
std::string checks_section(const ReportFile& file);     ///< tests, sanitizer, conformance

}  // namespace mobicuda::bench::report
