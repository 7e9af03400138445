#pragma once

#include <nlohmann/json.hpp>

#include "report/read_report.h"

/// run.json: a document with everything that one may have. custom and cpu at batches 2 and 8, cpu compared with custom;
/// the first case, layer by layer, also with "cpu fp32". tests/bench holds it against what bench_engine writes.
nlohmann::json run_document();

/// That document, read.
mobicuda::bench::report::ReportFile run();

/// The same without pictures, comparisons layer by layer and a number of threads.
mobicuda::bench::report::ReportFile timed_run();
