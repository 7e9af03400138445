#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench_engine/measure/nvml.h"
#include "bench_engine/model/machine.h"

namespace mobicuda::bench {

/// Why CUDA device `device` cannot be used; empty when it can.
std::string why_no_gpu(int device);

/// What is known without creating a CUDA context. `device` is ignored when it cannot be used.
Machine describe_machine(int device);

/// Creates the CUDA context, so that no measurement pays for it. Milliseconds it took. Throws
/// Error(device_unavailable).
double create_gpu_context(int device);

/// Bytes that the device has left; nothing without a GPU.
std::optional<std::int64_t> free_gpu_memory(int device);

/// Nothing when there is no GPU or no NVML.
std::optional<NvmlDevice> nvml_device(int device);

/// Nothing when there is no GPU or no NVML.
std::optional<GpuState> gpu_state(int device);

}  // namespace mobicuda::bench
