// Compiled with the kernels of sm_90a, for sm_90a alone, where CMakeLists.txt defines MOBICUDA_HAS_SM90A.

#include "kernels/common/sm90a_code.h"

#include <cuda_runtime_api.h>

namespace mobicuda::kernels {

#ifdef MOBICUDA_HAS_SM90A

namespace {
__global__ void probe_kernel() {}
}  // namespace

bool has_sm90a_code() {
  cudaFuncAttributes code{};
  const bool loaded = cudaFuncGetAttributes(&code, probe_kernel) == cudaSuccess;
  if (!loaded) cudaGetLastError();
  return loaded;
}

#else

bool has_sm90a_code() { return false; }

#endif

}  // namespace mobicuda::kernels
