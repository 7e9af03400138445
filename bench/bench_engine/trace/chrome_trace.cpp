#include "bench_engine/trace/chrome_trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "bench_engine/trace/kernel_name.h"
#include "bench_engine/trace/layer_spans.h"

namespace mobicuda::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kUsPerNs = 1e-3;

struct Slice {
  std::string name;
  const char* category;
  std::uint64_t start_ns;
  std::uint64_t end_ns;
  Json details = nullptr;
};

// Rows of one case. What overlaps without being nested, as kernels do with programmatic launch, needs rows of its own:
// viewers draw a row as a stack.
class CaseEvents {
 public:
  CaseEvents(Json& events, std::size_t process, const TracedCase& one)
      : events_(events), process_(process), start_ns_(first_start(one)) {
    name("process_name", 0, one.label);
  }

  void add_nested(const std::string& row, const std::vector<Slice>& slices) {
    const std::size_t thread = new_row(row);
    for (const Slice& slice : slices) add(thread, slice);
  }

  // `slices` by start.
  void add_lanes(const std::string& row, const std::vector<Slice>& slices) {
    std::vector<std::pair<std::size_t, std::uint64_t>> lanes;  // row and end
    for (const Slice& slice : slices) {
      auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const auto& l) { return l.second <= slice.start_ns; });
      if (lane == lanes.end()) lane = lanes.insert(lane, {new_row(lanes.empty() ? row : row + " (overlapping)"), 0});
      lane->second = slice.end_ns;
      add(lane->first, slice);
    }
  }

 private:
  static std::uint64_t first_start(const TracedCase& one) {
    std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
    for (const GpuTrace* trace : {&one.profile, &one.runs}) {
      if (!trace->calls.empty()) first = std::min(first, trace->calls.front().start_ns);
      if (!trace->ranges.empty()) first = std::min(first, trace->ranges.front().start_ns);
      if (!trace->gpu.empty()) first = std::min(first, trace->gpu.front().start_ns);
    }
    return first;
  }

  std::size_t new_row(const std::string& title) {
    ++rows_;
    name("thread_name", rows_, title);
    events_.push_back({{"ph", "M"},
                       {"name", "thread_sort_index"},
                       {"pid", process_},
                       {"tid", rows_},
                       {"args", {{"sort_index", rows_}}}});
    return rows_;
  }

  void name(const char* what, std::size_t thread, const std::string& text) {
    events_.push_back({{"ph", "M"}, {"name", what}, {"pid", process_}, {"tid", thread}, {"args", {{"name", text}}}});
  }

  void add(std::size_t thread, const Slice& slice) {
    Json event = {{"ph", "X"},
                  {"name", slice.name},
                  {"cat", slice.category},
                  {"pid", process_},
                  {"tid", thread},
                  {"ts", kUsPerNs * static_cast<double>(slice.start_ns - start_ns_)},
                  {"dur", kUsPerNs * static_cast<double>(slice.end_ns - slice.start_ns)}};
    if (!slice.details.is_null()) event["args"] = slice.details;
    events_.push_back(std::move(event));
  }

  Json& events_;
  std::size_t process_;
  std::uint64_t start_ns_;
  std::size_t rows_ = 0;
};

Slice slice_of(const GpuActivity& one) {
  if (one.kind == ActivityKind::Kernel) {
    return {short_name(one.name),
            "kernel",
            one.start_ns,
            one.end_ns,
            {{"kernel", one.name}, {"correlation", one.correlation}}};
  }
  return {one.name,
          to_string(one.kind),
          one.start_ns,
          one.end_ns,
          {{"bytes", one.bytes}, {"correlation", one.correlation}}};
}

void add_case(Json& events, std::size_t process, const TracedCase& one) {
  CaseEvents rows(events, process, one);
  std::vector<Slice> layers;
  for (const GpuTrace* trace : {&one.profile, &one.runs}) {
    for (const LayerSpan& span : layer_spans(one.profile, *trace)) {
      layers.push_back({span.name, "layer", span.start_ns, span.end_ns});
    }
  }
  if (!layers.empty()) rows.add_lanes("layers", layers);
  std::map<std::uint32_t, std::vector<Slice>> streams;
  std::map<std::uint32_t, std::vector<Slice>> threads;
  for (const GpuTrace* trace : {&one.profile, &one.runs}) {
    for (const GpuActivity& activity : trace->gpu) streams[activity.stream].push_back(slice_of(activity));
    for (const HostSpan& range : trace->ranges) {
      threads[range.thread].push_back({range.name, "range", range.start_ns, range.end_ns});
    }
    for (const HostSpan& call : trace->calls) {
      threads[call.thread].push_back(
          {call.name, "call", call.start_ns, call.end_ns, {{"correlation", call.correlation}}});
    }
  }
  for (const auto& [stream, slices] : streams) rows.add_lanes("stream " + std::to_string(stream), slices);
  for (const auto& [thread, slices] : threads) rows.add_nested("host thread " + std::to_string(thread), slices);
}

}  // namespace

std::string chrome_trace(const std::vector<TracedCase>& cases) {
  Json events = Json::array();
  for (std::size_t i = 0; i < cases.size(); ++i) add_case(events, i + 1, cases[i]);
  const Json json = {{"displayTimeUnit", "ns"},
                     {"otherData", {{"program", "bench_engine"}, {"version", MOBICUDA_VERSION}}},
                     {"traceEvents", std::move(events)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace mobicuda::bench
