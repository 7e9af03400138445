#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mobicuda::bench {

/// "8", "start:end", "start:end:step" or "start:end:*factor", both ends included where they are hit. Throws
/// UsageError naming `option` unless every number is >= minimum and there are at most 1000.
std::vector<std::int64_t> parse_range(const std::string& text, const std::string& option, std::int64_t minimum);

/// The ranges of a list one after the other, together at most 1000 numbers.
std::vector<std::int64_t> parse_ranges(const std::vector<std::string>& texts, const std::string& option,
                                       std::int64_t minimum);

/// A whole number >= minimum. Throws UsageError naming `option`.
std::int64_t parse_number(const std::string& text, const std::string& option, std::int64_t minimum);

std::vector<std::string> split(const std::string& text, char separator);

}  // namespace mobicuda::bench
