#include "text/numbers.h"

#include <array>
#include <cstdio>

namespace mobicuda::bench {
namespace {

std::string formatted(const char* format, int decimals, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, decimals, value);
  return text.data();
}

}  // namespace

std::string fixed(double value, int decimals) { return formatted("%.*f", decimals, value); }

std::string scientific(double value) { return formatted("%.*e", 1, value); }

std::string percent(double part, double whole) {
  return whole > 0 ? fixed(100 * part / whole, 2) + " %" : std::string("-");
}

std::string megabytes(std::int64_t bytes) { return fixed(static_cast<double>(bytes) / 1e6, 2) + " MB"; }

std::string milliseconds(double ms) { return fixed(ms, 4); }

std::string microseconds(double ms) { return fixed(1e3 * ms, 2); }

std::string rate(double per_second) { return per_second > 0 ? fixed(per_second, 1) : "-"; }

}  // namespace mobicuda::bench
