#pragma once

#include <string>
#include <string_view>

#include <cuda_runtime_api.h>

#include <mobicuda/error.h>
#include <mobicuda/export.h>

namespace mobicuda {

/// Throws the Error that a CUDA status stands for (out_of_memory, device_lost, device_unavailable or
/// internal); `doing` says what was attempted, e.g. "copying the input to the device".
MOBICUDA_API void cuda_check(cudaError_t status, std::string_view doing);

/// Compute capability of a device as major * 10 + minor, e.g. 90.
MOBICUDA_API int compute_capability(int device);

/// "NVIDIA H100 80GB HBM3, compute capability 9.0, 132 multiprocessors".
MOBICUDA_API std::string device_description(int device);

/// Number of streaming multiprocessors of a device.
MOBICUDA_API int multiprocessors(int device);

}  // namespace mobicuda
