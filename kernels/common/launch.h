// How the host enqueues a kernel.
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

#include "kernels/common/device_traits.h"
#include "kernels/common/next_weights.h"
#include "kernels/common/types.h"

namespace mobicuda::kernels {

/// Where and how a kernel is enqueued.
struct Launch {
  cudaStream_t stream = nullptr;
  /// Programmatic dependent launch (sm_90+): the kernel may start before its predecessor in the stream
  /// has ended, and waits for it in wait_for_predecessor(). Every kernel of this layer is written for it.
  bool programmatic = false;
  /// Where weights are in L2 no longer when their turn comes, a kernel may bring those of the next one there while it
  /// runs (bring_next_weights()); it computes the same.
  NextWeights next{};
};

/// Enqueues `kernel` with `arguments` (converted to the kernel's parameter types).
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, const Launch& where,
                   Arguments&&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = where.stream;
  config.attrs = &attribute;
  config.numAttrs = where.programmatic ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

/// Lets a kernel use more than 48 KB of dynamic shared memory. Call before launch(); cheap when repeated.
template <class Kernel>
cudaError_t allow_shared_memory(Kernel* kernel, std::size_t bytes) {
  if (bytes <= kSharedBytesWithoutAsking) return cudaSuccess;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

}  // namespace mobicuda::kernels
