#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "bench_engine/model/pictures.h"

namespace mobicuda::bench {

/// What the document of --json says about pictures.
nlohmann::ordered_json images_json(const ImageReport& images);

nlohmann::ordered_json comparison_json(const std::optional<Comparison>& comparison);

}  // namespace mobicuda::bench
