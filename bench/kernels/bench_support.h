#pragma once

#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

#include "kernels/common/device_traits.h"
#include "kernels/common/launch.h"

namespace mobicuda::bench {

using kernels::Elem;

inline std::string to_string(Elem elem) { return elem == Elem::F32 ? "fp32" : "fp16"; }

inline void check_cuda(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

inline bool has_gpu() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

/// Of GPU 0, with the code that is loaded there.
inline kernels::DeviceTraits gpu_traits() {
  kernels::DeviceTraits traits;
  check_cuda(kernels::device_traits(0, traits));
  return traits;
}

}  // namespace mobicuda::bench
