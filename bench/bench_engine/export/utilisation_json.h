#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bench_engine/model/results.h"

namespace mobicuda::bench {

/// What is a case's own: without power and energy where cases took turns. Null where nothing was recorded.
nlohmann::ordered_json utilisation_json(const std::optional<Utilisation>& utilisation);

/// `batch`: pictures of a run.
nlohmann::ordered_json sustained_json(const Sustained& sustained, std::int64_t batch);

/// The columns' names and a row's cells for CSV, each with a comma in front.
std::string utilisation_csv_header();
std::string utilisation_csv(const CaseResult& result);

}  // namespace mobicuda::bench
