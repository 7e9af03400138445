#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "bench_engine/export/report_json.h"
#include "bench_engine/model/exit_codes.h"
#include "bench_engine/trace/activity_table.h"
#include "bench_engine/trace/chrome_trace.h"
#include "bench_engine/trace/kernel_name.h"
#include "bench_engine/trace/layer_spans.h"
#include "bench_engine/trace/trace_case.h"
#include "bench_report.h"
#include "fake_session.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda;
using namespace mobicuda::bench;
using nlohmann::json;

namespace {

GpuActivity kernel(const std::string& name, std::uint64_t start, std::uint64_t end, std::uint32_t correlation) {
  return {ActivityKind::Kernel, name, start, end, 7, correlation, 0};
}

// Layers "a" of one kernel and "b" of two, launched one by one.
GpuTrace profile() {
  GpuTrace trace;
  trace.ranges = {{"a", 100, 200, 1, 0}, {"b", 200, 400, 1, 0}};
  trace.calls = {{"cudaLaunchKernel", 110, 120, 1, 1},
                 {"cudaLaunchKernel", 210, 220, 1, 2},
                 {"cudaLaunchKernel", 310, 320, 1, 3},
                 {"cudaStreamSynchronize", 450, 900, 1, 4}};
  trace.gpu = {kernel("conv", 1000, 1100, 1), kernel("gemm", 1100, 1200, 2), kernel("add", 1200, 1300, 3)};
  return trace;
}

// Two replays of the same as a CUDA graph, with a copy before; "gemm" begins before "conv" ends.
GpuTrace replays() {
  GpuTrace trace;
  for (const std::uint32_t run : {0U, 1U}) {
    const std::uint64_t at = 5000 + 1000 * run;
    trace.calls.push_back({"cudaGraphLaunch", at, at + 50, 1, 10 + run});
    trace.gpu.push_back({ActivityKind::CopyToDevice, "copy from host to device", at + 60, at + 80, 7, 10 + run, 64});
    trace.gpu.push_back(kernel("conv", at + 100, at + 200, 10 + run));
    trace.gpu.push_back(kernel("gemm", at + 190, at + 300, 10 + run));
    trace.gpu.push_back(kernel("add", at + 300, at + 350, 10 + run));
  }
  return trace;
}

}  // namespace

TEST_CASE("kernel names are shown without result, parameters and namespaces", "[trace]") {
  CHECK(demangle("_ZN1a1bIfEEvPKf") == "void a::b<float>(float const*)");
  CHECK(demangle("sm90_xmma_fprop") == "sm90_xmma_fprop");
  CHECK(short_name("void a::b<float>(float const*)") == "b<float>");
  CHECK(short_name("void m::(anonymous namespace)::conv<(m::Kind)1, m::Tile<2, 3> >(m::Params, int)") ==
        "conv<(Kind)1, Tile<2, 3> >");
  CHECK(short_name("copy(int)") == "copy");
  CHECK(short_name("sm90_xmma_fprop") == "sm90_xmma_fprop");
  CHECK(short_name("void A<int>::run<(char)2>(B)") == "A<int>::run<(char)2>");
  CHECK(short_name("") == "");
  CHECK(without_version("cudaGraphLaunch_v10000") == "cudaGraphLaunch");
  CHECK(without_version("cudaStreamQuery") == "cudaStreamQuery");
  CHECK(without_version("cuda_vector") == "cuda_vector");
}

TEST_CASE("activities are added up by name, the largest total first", "[trace]") {
  GpuTrace trace = replays();
  trace.dropped = 3;
  const ActivityTables tables = tabulate(trace, 2);
  CHECK(tables.runs == 2);
  CHECK(tables.dropped == 3);
  REQUIRE(tables.gpu.size() == 4);
  CHECK(tables.gpu[0].name == "gemm");
  CHECK(tables.gpu[0].calls == 2);
  CHECK(tables.gpu[0].total_ms == Approx(220e-6));
  CHECK(tables.gpu[1].name == "conv");
  CHECK(tables.gpu[3].kind == "copy");
  CHECK(total_ms(tables.gpu) == Approx(560e-6));
  REQUIRE(tables.calls.size() == 1);
  CHECK(tables.calls[0].name == "cudaGraphLaunch");
  CHECK(tables.calls[0].min_ms == Approx(50e-6));
}

TEST_CASE("kernels of a graph get the layers of the run layer by layer", "[trace]") {
  const std::vector<LayerSpan> spans = layer_spans(profile(), replays());
  REQUIRE(spans.size() == 4);
  CHECK(spans[0].name == "a");
  CHECK(spans[1].name == "b");
  CHECK(spans[1].start_ns == 5190);
  CHECK(spans[1].end_ns == 5350);
  CHECK(spans[2].name == "a");
  CHECK(spans[2].start_ns == 6100);
  CHECK(layer_spans(profile(), profile()).size() == 2);
}

TEST_CASE("other kernels than those of the run layer by layer get no layers", "[trace]") {
  GpuTrace other = replays();
  other.gpu.back().name = "another";
  CHECK(layer_spans(profile(), other).empty());
  other = replays();
  other.gpu.pop_back();
  CHECK(layer_spans(profile(), other).empty());
  GpuTrace without_ranges = profile();
  without_ranges.ranges.clear();
  CHECK(layer_spans(without_ranges, replays()).empty());
}

TEST_CASE("the exported trace has a row for layers, streams and host threads", "[trace]") {
  const json document = json::parse(chrome_trace({{"custom fp16, batch 1", profile(), replays()}}));
  std::map<int, std::string> rows;
  for (const json& event : document["traceEvents"]) {
    if (event["name"] == "thread_name") rows[event["tid"]] = event["args"]["name"];
    if (event["name"] == "process_name") CHECK(event["args"]["name"] == "custom fp16, batch 1");
  }
  std::map<std::string, int> slices;
  std::map<int, double> ends;
  double first = 1e9;
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++slices[rows.at(event["tid"])];
    first = std::min(first, event["ts"].get<double>());
    if (rows.at(event["tid"]).starts_with("host")) continue;
    CHECK(event["ts"].get<double>() >= ends[event["tid"]]);  // nothing overlaps in a row
    ends[event["tid"]] = event["ts"].get<double>() + event["dur"].get<double>();
  }
  CHECK(first == 0);
  CHECK(slices["layers"] + slices["layers (overlapping)"] == 6);
  CHECK(slices["layers (overlapping)"] == 2);
  CHECK(slices["stream 7"] + slices["stream 7 (overlapping)"] == 11);
  CHECK(slices["host thread 1"] == 8);
}

TEST_CASE("traced runs are in document and CSV", "[trace]") {
  Report report = report_of_two();
  report.cases[0].activities = tabulate(replays(), 2);
  report.cases[0].profile.whole_ms = 3.2;
  const json result = json::parse(json_report(Options(), report))["results"][0];
  CHECK(result["activities"]["runs"] == 2);
  CHECK(result["activities"]["gpu"][0]["name"] == "gemm");
  CHECK(result["activities"]["calls"][0]["calls"] == 2);
  CHECK(result["asRunProfile"]["sumMs"] == 4);
  CHECK(result["asRunProfile"]["ratio"] == 1.25);
  CHECK_THAT(csv_report(report), contains(",4,3.2,0.00028,5e-05,"));
}

TEST_CASE("a trace where nothing runs on a GPU is wrong usage", "[trace]") {
  Options options;
  Selection selection;
  selection.cases.emplace_back();
  CHECK(make_tracer(options, selection) == nullptr);
  options.dump_kernels = true;
  CHECK_THROWS_AS(make_tracer(options, selection), UsageError);
}

TEST_CASE("the layers of a trace are those of a run one by one", "[trace]") {
  const auto engine = fake_engine({0});
  int recorded = 0;
  // As CUPTI: ranges of layers come with what runs them one by one.
  const auto record = [&](const std::function<void()>& work) {
    const std::size_t profiles = engine->calls().profiles.size();
    work();
    GpuTrace trace;
    trace.gpu.push_back(kernel("conv", 1, 2, static_cast<std::uint32_t>(++recorded)));
    if (engine->calls().profiles.size() > profiles && engine->calls().profiles.back() == ProfileMode::Serialized) {
      trace.ranges.push_back({"a", 0, 3, 1, 0});
    }
    return trace;
  };
  int prepared = 0;
  const TracedCase traced = trace_case(record, *engine, 2, "cudnn fp16, batch 2", [&](Session&) { ++prepared; });
  CHECK(traced.label == "cudnn fp16, batch 2");
  CHECK(prepared == 1);
  CHECK(engine->calls().profiles == std::vector<ProfileMode>{ProfileMode::Serialized});
  CHECK(traced.profile.ranges.size() == 1);
  CHECK(traced.runs.gpu.at(0).correlation == 3);
}
