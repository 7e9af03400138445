#pragma once

#include <optional>

#include "report/document.h"
#include "report/json_field.h"

namespace mobicuda::bench::report {

/// Nothing where nothing was recorded.
std::optional<Utilisation> read_utilisation(const Field& f);

/// Reads `seconds` and `runs`.
Sustained read_sustained(const Field& f, std::optional<Utilisation> utilisation);

}  // namespace mobicuda::bench::report
