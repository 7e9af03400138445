#pragma once

#include <string>

#include "bench_engine/options.h"
#include "bench_engine/results.h"

namespace mobicuda::bench {

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
