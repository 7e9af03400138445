#pragma once

#include <vector>

#include "bench_engine/model/gpu_trace.h"

namespace mobicuda::bench {

ActivityTables tabulate(const GpuTrace& trace, int runs);

double total_ms(const std::vector<ActivityRow>& rows);

}  // namespace mobicuda::bench
