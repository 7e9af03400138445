#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench_engine/model/options.h"
#include "bench_engine/model/results.h"

namespace mobicuda::bench {

/// The document of --json. Numbers that are not finite are so in it, and become null as text.
nlohmann::ordered_json report_document(const Options& options, const Report& report);

/// The documents below are described field by field in docs/bench_engine.md. Numbers that are not finite
/// become null.
std::string json_report(const Options& options, const Report& report);
std::string json_times(const Report& report);
std::string json_profile(const Report& report);
std::string json_layer_info(const Report& report);
std::string json_output(const Report& report);
std::string csv_report(const Report& report);

/// Writes every file that the options name. Throws mobicuda::Error(io) naming the file.
void export_files(const Options& options, const Report& report);

}  // namespace mobicuda::bench
