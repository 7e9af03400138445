#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/html.h"
#include "report/read_report.h"

namespace mobicuda::bench::report {

/// Charts of throughput and median latency by batch, own cases and peers', for each precision where there are many.
/// Empty without a second batch.
std::string batch_charts(const ReportFile& file);

/// The charts of each precision as picture files: the end of the name, e.g. "throughput_fp16.svg", and the content.
std::vector<std::pair<std::string, std::string>> batch_pictures(const ReportFile& file);

/// Rows of the table of latency for peers, and what has to be said about them.
void add_peer_rows(const ReportFile& file, HtmlTable& table);
std::string peers_note(const ReportFile& file);

}  // namespace mobicuda::bench::report
