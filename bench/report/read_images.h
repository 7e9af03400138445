#pragma once

#include <optional>

#include "report/document.h"
#include "report/json_field.h"

namespace mobicuda::bench::report {

/// What a document says about pictures; nothing where it does not.
std::optional<ImageReport> read_images(const Field& f);

std::optional<Comparison> read_comparison(const Field& f);

}  // namespace mobicuda::bench::report
