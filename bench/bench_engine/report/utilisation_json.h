#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bench_engine/report/json_field.h"
#include "bench_engine/results.h"

namespace mobicuda::bench {

/// What is a case's own: without power and energy where cases took turns, as these are means over longer than a turn.
Utilisation own_part(Utilisation utilisation);

/// own_part(); null where nothing was recorded.
nlohmann::ordered_json utilisation_json(const std::optional<Utilisation>& utilisation);

/// `batch`: pictures of a run.
nlohmann::ordered_json sustained_json(const Sustained& sustained, std::int64_t batch);

/// Reads what utilisation_json() writes.
std::optional<Utilisation> read_utilisation(const Field& f);

/// Reads `seconds` and `runs`.
Sustained read_sustained(const Field& f, std::optional<Utilisation> utilisation);

/// The columns' names and a row's cells for CSV, each with a comma in front.
std::string utilisation_csv_header();
std::string utilisation_csv(const CaseResult& result);

}  // namespace mobicuda::bench
