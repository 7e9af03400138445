#pragma once

#include <cstdint>
#include <string>

namespace mobicuda::bench {

inline constexpr int kCosineDecimals = 9;

/// Numbers as text reports and pages write them.
std::string fixed(double value, int decimals);   ///< "12.346"; "inf", "nan"
std::string scientific(double value);            ///< "1.2e-05"
std::string percent(double part, double whole);  ///< "86.40 %"; "-" when whole is 0
std::string megabytes(std::int64_t bytes);       ///< "13.97 MB" (10^6 bytes)
std::string milliseconds(double ms);             ///< "0.0446"
std::string microseconds(double ms);             ///< "44.62"
std::string rate(double per_second);             ///< "22760.3"; "-" when nothing was measured

}  // namespace mobicuda::bench
