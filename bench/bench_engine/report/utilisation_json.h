#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench_engine/report/json_field.h"
#include "bench_engine/results.h"

namespace mobicuda::bench {

/// Of results[]: null where nothing was recorded.
nlohmann::ordered_json utilisation_json(const CaseResult& result);

/// Reads `utilisation` and `enqueueMs` of an element of results[].
void read_utilisation(const Field& f, CaseResult& result);

/// The columns' names and a row's cells for CSV, each with a comma in front.
std::string utilisation_csv_header();
std::string utilisation_csv(const CaseResult& result);

}  // namespace mobicuda::bench
