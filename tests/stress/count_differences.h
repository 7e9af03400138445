#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace mobicuda::stress {

/// Adds to `count`, on the device, how many of `words` 16-bit words differ. Does not wait.
cudaError_t count_differences(const void* a, const void* b, std::size_t words, unsigned* count, cudaStream_t stream);

}  // namespace mobicuda::stress
