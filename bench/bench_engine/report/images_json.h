#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "bench_engine/report/json_field.h"
#include "bench_engine/results.h"

namespace mobicuda::bench {

/// What the document of --json says about pictures, and reading it back.
nlohmann::ordered_json images_json(const ImageReport& images);
std::optional<ImageReport> read_images(const Field& f);

nlohmann::ordered_json comparison_json(const std::optional<Comparison>& comparison);
std::optional<Comparison> read_comparison(const Field& f);

}  // namespace mobicuda::bench
