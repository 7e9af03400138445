#include "bench_engine/command_line/value_checks.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <system_error>

namespace mobicuda::bench {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

}  // namespace

CLI::Validator between(double minimum, double maximum) {
  std::ostringstream wanted;
  wanted << "must be a number ";
  if (maximum == kUnbounded) {
    wanted << "of at least " << minimum;
  } else {
    wanted << "from " << minimum << " to " << maximum;
  }
  const auto check = [=, wanted = wanted.str()](const std::string& text) {
    double value = 0;
    const bool number = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
    return number && value >= minimum && value <= maximum ? std::string() : wanted + ", got '" + text + "'";
  };
  return {check, ""};
}

CLI::Validator at_least(double minimum) { return between(minimum, kUnbounded); }

CLI::Validator whole_up_to(std::uint64_t maximum) {
  const auto check = [maximum](const std::string& text) {
    std::uint64_t value = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error == std::errc() && end == last && value <= maximum) return std::string();
    return "must be a whole number, at most " + std::to_string(maximum) + ", got '" + text + "'";
  };
  return {check, ""};
}

CLI::Validator one_of(std::vector<std::string> words) { return CLI::IsMember(std::move(words)).description(""); }

}  // namespace mobicuda::bench
