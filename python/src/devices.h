#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mobicuda::python {

struct CudaDevice {
  std::string name;
  int major = 0;  ///< compute capability
  int minor = 0;
  std::int64_t memory_bytes = 0;
};

struct CudaDevices {
  std::vector<CudaDevice> devices;  ///< in the driver's order, which CUDA_VISIBLE_DEVICES sets
  std::string why_none;             ///< where there are none
};

/// Asks the driver, which is loaded for it: the module itself needs no CUDA.
CudaDevices cuda_devices();

}  // namespace mobicuda::python
