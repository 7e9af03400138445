#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench_engine/results.h"

namespace mobicuda::bench {

/// Of results[]: null where nothing was recorded.
nlohmann::ordered_json utilisation_json(const CaseResult& result);

/// The columns' names and a row's cells for CSV, each with a comma in front.
std::string utilisation_csv_header();
std::string utilisation_csv(const CaseResult& result);

}  // namespace mobicuda::bench
