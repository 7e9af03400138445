#pragma once

#include <string>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "runtime/cuda_check.h"

namespace mobicuda {

/// A function of the driver (CUDA 12.0 and later) by its name, without linking the driver, which a machine without a
/// GPU lacks. Throws Error(device_unavailable) where there is none.
template <class Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  constexpr unsigned kSince = 12000;
  cuda_check(cudaGetDriverEntryPointByVersion(name, &function, kSince, cudaEnableDefault, &result),
             "looking for the driver's functions");
#else
  cuda_check(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &result),
             "looking for the driver's functions");
#endif
  if (result != cudaDriverEntryPointSuccess || function == nullptr) {
    throw Error(ErrorCode::device_unavailable, "the NVIDIA driver", "has no " + std::string(name),
                "install a newer one, or use the cpu engine");
  }
  return reinterpret_cast<Function>(function);
}

/// The same for errors: driver and runtime number them alike.
inline void driver_check(CUresult status, std::string_view doing) {
  cuda_check(static_cast<cudaError_t>(status), doing);
}

}  // namespace mobicuda
