#pragma once

#include <stdexcept>

#include "kernels/common/device_traits.h"
#include "support/catch.h"

namespace mobicuda::test {

/// Of the current device, with the code that is loaded there.
inline kernels::DeviceTraits gpu_traits() {
  kernels::DeviceTraits traits;
  if (kernels::current_device_traits(traits) != cudaSuccess)
    throw std::runtime_error("asking for the GPU's traits failed");
  return traits;
}

/// Ends a test case as skipped where the GPU, or the code that is loaded there, is older: it counts variants, or names
/// one, that such code has not.
#define MOBICUDA_SKIP_BELOW(architecture) \
  if (::mobicuda::test::gpu_traits().code < (architecture)) MOBICUDA_SKIP("code older than sm_" #architecture)

}  // namespace mobicuda::test
