#pragma once

#include <string>

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

}  // namespace mobicuda::bench
