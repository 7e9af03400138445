#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench_engine/trace/gpu_trace.h"

namespace mobicuda::bench {

/// All activities, or all calls, of one name.
struct ActivityRow {
  std::string name;
  std::string kind;  ///< "kernel", "copy" or "memset"; "call" of CUDA functions
  std::size_t calls = 0;
  double total_ms = 0;
  double min_ms = 0;
  double max_ms = 0;

  double mean_ms() const { return calls > 0 ? total_ms / static_cast<double>(calls) : 0; }
};

/// Where the time of some traced runs went. Rows are sorted by total, the largest first.
struct ActivityTables {
  int runs = 0;
  std::vector<ActivityRow> gpu;
  std::vector<ActivityRow> calls;  ///< CUDA functions, on the host
  std::uint64_t dropped = 0;       ///< records that the profiler lost: the numbers are too small where there are any
};

ActivityTables tabulate(const GpuTrace& trace, int runs);

double total_ms(const std::vector<ActivityRow>& rows);

/// How many of the first rows it takes for 90 % of the total.
std::size_t count_hot(const std::vector<ActivityRow>& rows);

}  // namespace mobicuda::bench
