#pragma once

#include <optional>
#include <string>

#ifdef MOBICUDA_WITH_CUDA
#include <nvtx3/nvtx3.hpp>
#endif

namespace mobicuda::bench {

#ifdef MOBICUDA_WITH_CUDA

struct PhaseDomain {
  static constexpr const char* name = "bench_engine";  // NOLINT(readability-identifier-naming): NVTX asks for this name
};

/// A named range of the host's time (NVTX) for profilers, while it lives; nothing unless `on`. Never inside of what is
/// timed.
class PhaseRange {
 public:
  explicit PhaseRange(const std::string& name, bool on = true) {
    if (on) range_.emplace(name);
  }

 private:
  std::optional<nvtx3::scoped_range_in<PhaseDomain>> range_;
};

#else

/// A build without CUDA has no NVTX.
class PhaseRange {
 public:
  explicit PhaseRange(const std::string&, bool = true) {}
};

#endif

}  // namespace mobicuda::bench
