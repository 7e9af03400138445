#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

namespace mobicuda::kernels {

/// A function of the driver (CUDA 12.0 and later) by its name, without linking the driver; null where there is none.
template <class Function>
Function find_driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  constexpr unsigned kSince = 12000;
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &function, kSince, cudaEnableDefault, &result);
#else
  const cudaError_t status = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &result);
#endif
  if (status != cudaSuccess || result != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<Function>(function);
}

}  // namespace mobicuda::kernels
