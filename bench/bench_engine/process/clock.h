#pragma once

#include <chrono>

namespace mobicuda::bench {

/// The host's time.
using Clock = std::chrono::steady_clock;

inline double since_ms(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace mobicuda::bench
