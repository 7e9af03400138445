#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_engine/model/gpu_trace.h"

namespace mobicuda::bench {

/// A layer of one run, from the start of its first kernel to the end of its last one.
struct LayerSpan {
  std::string name;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
};

/// The layers of `runs`: those of `profile`, a trace of one layer-by-layer run with an NVTX range for each layer, whose
/// kernels ran in the same order. Empty where the kernels of both are not the same.
std::vector<LayerSpan> layer_spans(const GpuTrace& profile, const GpuTrace& runs);

}  // namespace mobicuda::bench
