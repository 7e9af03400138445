#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench_engine/measure/nvml.h"

namespace mobicuda::bench {

/// The GPU's state at a moment, as NVML tells it.
struct GpuState {
  int sm_clock_mhz = 0;
  int memory_clock_mhz = 0;
  int temperature_c = 0;
  double power_w = 0;
};

/// The machine that numbers were measured on. Empty strings where unknown or absent.
struct Machine {
  std::string cpu;
  unsigned cpu_threads = 0;
  std::string compiler;
  std::string gpu;
  std::string compute_capability;  ///< "9.0"
  int multiprocessors = 0;
  double gpu_memory_gib = 0;
  std::string driver;        ///< e.g. "580.159"
  std::string cuda_driver;   ///< newest CUDA the driver runs, e.g. "13.0"
  std::string cuda_runtime;  ///< CUDA runtime of this build
  std::string cudnn;         ///< version of the library in use
};

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
