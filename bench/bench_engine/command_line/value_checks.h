#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace mobicuda::bench {

/// Checks of an option's value, for CLI::Option::check(). They add nothing to the type in --help. Not a number, and
/// infinity, is refused: a threshold of NaN is never missed, and a pause of NaN never ends.
CLI::Validator at_least(double minimum);
CLI::Validator between(double minimum, double maximum);
/// Digits only.
CLI::Validator whole_up_to(std::uint64_t maximum);
CLI::Validator one_of(std::vector<std::string> words);

}  // namespace mobicuda::bench
