#pragma once

#include <cuda_runtime_api.h>

namespace mobicuda::test {

/// Makes a kernel trap, after which the device is of no use to this process. Returns what CUDA says of it.
cudaError_t lose_device();

}  // namespace mobicuda::test
