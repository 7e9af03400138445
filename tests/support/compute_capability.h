#pragma once

#include <stdexcept>

#include <cuda_runtime_api.h>

#include "support/catch.h"

namespace mobicuda::test {

/// The GPU's compute capability, major * 10 + minor.
inline int compute_capability() {
  int major = 0;
  int minor = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) != cudaSuccess) {
    throw std::runtime_error("asking for the compute capability failed");
  }
  return major * 10 + minor;
}

/// Ends a test case as skipped where the GPU is older: it counts variants, or names one, that such a GPU has not.
#define MOBICUDA_SKIP_BELOW(capability) \
  if (::mobicuda::test::compute_capability() < (capability)) MOBICUDA_SKIP("a GPU older than sm_" #capability)

}  // namespace mobicuda::test
