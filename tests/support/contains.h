#pragma once

#include <string>

#include "support/catch.h"

/// Matches strings that contain `part`, with either Catch2.
inline auto contains(const std::string& part) {
#ifdef MOBICUDA_CATCH2_V2
  return Catch::Matchers::Contains(part);
#else
  return Catch::Matchers::ContainsSubstring(part);
#endif
}
