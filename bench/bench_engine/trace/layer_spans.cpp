#include "bench_engine/trace/layer_spans.h"

#include <algorithm>
#include <map>

namespace mobicuda::bench {
namespace {

struct LayerKernel {
  std::size_t layer;  // index of its range
  const GpuActivity* kernel;
};

// Kernels that were launched inside of a range, in the order of their launches.
std::vector<LayerKernel> kernels_by_layer(const GpuTrace& profile) {
  std::map<std::uint32_t, std::uint64_t> launched_ns;
  for (const HostSpan& call : profile.calls) launched_ns.emplace(call.correlation, call.start_ns);
  std::vector<LayerKernel> kernels;
  for (const GpuActivity& one : profile.gpu) {
    const auto launch = launched_ns.find(one.correlation);
    if (one.kind != ActivityKind::Kernel || launch == launched_ns.end()) continue;
    const auto range = std::find_if(profile.ranges.begin(), profile.ranges.end(), [&](const HostSpan& r) {
      return r.start_ns <= launch->second && launch->second <= r.end_ns;
    });
    if (range != profile.ranges.end()) {
      kernels.push_back({static_cast<std::size_t>(range - profile.ranges.begin()), &one});
    }
  }
  return kernels;
}

}  // namespace

std::vector<LayerSpan> layer_spans(const GpuTrace& profile, const GpuTrace& runs) {
  const std::vector<LayerKernel> known = kernels_by_layer(profile);
  std::vector<const GpuActivity*> kernels;
  for (const GpuActivity& one : runs.gpu) {
    if (one.kind == ActivityKind::Kernel) kernels.push_back(&one);
  }
  if (known.empty() || kernels.size() % known.size() != 0) return {};
  std::vector<LayerSpan> spans;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const std::size_t place = i % known.size();
    if (kernels[i]->name != known[place].kernel->name) return {};
    if (place == 0 || known[place].layer != known[place - 1].layer) {
      spans.push_back({profile.ranges[known[place].layer].name, kernels[i]->start_ns, kernels[i]->end_ns});
    } else {
      spans.back().end_ns = std::max(spans.back().end_ns, kernels[i]->end_ns);
    }
  }
  return spans;
}

}  // namespace mobicuda::bench
