#pragma once

#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

#include "kernels/common/launch.h"

namespace mobicuda::bench {

using kernels::Elem;

inline std::string to_string(Elem elem) { return elem == Elem::F32 ? "fp32" : "fp16"; }

inline void check_cuda(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

/// The GPU's compute capability, major * 10 + minor; 0 without a GPU.
inline int compute_capability() {
  int devices = 0;
  int major = 0;
  int minor = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return major * 10 + minor;
}

}  // namespace mobicuda::bench
