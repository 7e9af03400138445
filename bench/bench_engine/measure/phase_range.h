#pragma once

#include <string>

#ifdef MOBICUDA_WITH_CUDA
#include <nvtx3/nvtx3.hpp>
#endif

namespace mobicuda::bench {

#ifdef MOBICUDA_WITH_CUDA

struct PhaseDomain {
  static constexpr const char* name = "bench_engine";
};

/// A named range of the host's time (NVTX) for profilers, while it lives. Never inside of what is timed.
class PhaseRange {
 public:
  explicit PhaseRange(const std::string& name) : range_(name) {}

 private:
  nvtx3::scoped_range_in<PhaseDomain> range_;
};

#else

/// A build without CUDA has no NVTX.
class PhaseRange {
 public:
  explicit PhaseRange(const std::string&) {}
};

#endif

}  // namespace mobicuda::bench
