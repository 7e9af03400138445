#pragma once

#include <nvtx3/nvtx3.hpp>

namespace mobicuda {

struct NvtxDomain {
  static constexpr const char* name = "mobicuda";  // NOLINT(readability-identifier-naming): NVTX asks for this name
};

/// A named range of the host's time for profilers, while it lives. Next to nothing where none listens.
using NvtxRange = nvtx3::scoped_range_in<NvtxDomain>;

}  // namespace mobicuda
