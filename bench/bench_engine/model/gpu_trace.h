#pragma once

#include <cstddef>
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

/// All activities, or all calls, of one name.
struct ActivityRow {
  std::string name;
  std::string kind;  ///< "kernel", "copy" or "memset"; "call" of CUDA functions
  std::size_t calls = 0;
  double total_ms = 0;
  double min_ms = 0;
  double max_ms = 0;
};

/// Where the time of some traced runs went. Rows are sorted by total, the largest first.
struct ActivityTables {
  int runs = 0;
  std::vector<ActivityRow> gpu;
  std::vector<ActivityRow> calls;  ///< CUDA functions, on the host
  std::uint64_t dropped = 0;       ///< records that the profiler lost: the numbers are too small where there are any
};

}  // namespace mobicuda::bench
