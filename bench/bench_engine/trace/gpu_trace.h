#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mobicuda::bench {

enum class ActivityKind : std::uint8_t { Kernel, CopyToDevice, CopyToHost, CopyOnDevice, Memset };

/// "kernel", "copy" or "memset".
const char* to_string(ActivityKind kind);

/// Something that happened on a host thread. Nanoseconds of one clock, that of GpuActivity.
struct HostSpan {
  std::string name;  ///< of a CUDA function, or of an NVTX range
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t thread = 0;
  std::uint32_t correlation = 0;  ///< CUDA functions: the GpuActivity of the same number is their doing
};

/// Something that happened on the GPU.
struct GpuActivity {
  ActivityKind kind = ActivityKind::Kernel;
  std::string name;  ///< of kernels, demangled; of the others, what is copied where
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint64_t bytes = 0;  ///< of copies and memsets
};

/// What the profiler recorded, each list by start.
struct GpuTrace {
  std::vector<GpuActivity> gpu;
  std::vector<HostSpan> calls;
  std::vector<HostSpan> ranges;  ///< NVTX
  std::uint64_t dropped = 0;     ///< records for which there was no room
};

/// What was recorded of one case.
struct TracedCase {
  std::string label;  ///< "custom fp16, batch 8"
  GpuTrace profile;   ///< one layer-by-layer run
  GpuTrace runs;      ///< staged runs
};

}  // namespace mobicuda::bench
