#pragma once

#include <cstdint>
#include <string>

namespace mobicuda::bench {

/// Numbers as text reports and pages write them.
std::string fixed(double value, int decimals);   ///< "12.346"; "inf", "nan"
std::string scientific(double value);            ///< "1.2e-05"
std::string percent(double part, double whole);  ///< "86.40 %"; "-" when whole is 0
std::string megabytes(std::int64_t bytes);       ///< "13.97 MB" (10^6 bytes)

}  // namespace mobicuda::bench
