#include "report/read_report.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "report/json_field.h"
#include "report/read_images.h"
#include "report/read_utilisation.h"
#include "report/record_networks.h"
#include "report/report_error.h"

namespace mobicuda::bench::report {
namespace {

Statistics statistics(const Field& f) {
  Statistics s;
  s.count = static_cast<std::size_t>(f["count"].size());
  s.mean = f["mean"].number();
  s.median = f["median"].number();
  s.p90 = f["p90"].number();
  s.p95 = f["p95"].number();
  s.p99 = f["p99"].number();
  s.min = f["min"].number();
  s.max = f["max"].number();
  s.variation = f["variation"].number();
  return s;
}

std::optional<Histogram> histogram(const Field& f) {
  if (f.absent()) return std::nullopt;
  Histogram result;
  result.low = f["lowMs"].number();
  result.bin = f["binMs"].number();
  for (const Field& count : f["counts"].elements()) result.counts.push_back(static_cast<std::size_t>(count.size()));
  result.above = static_cast<std::size_t>(f["above"].size());
  return result;
}

// What is not finite is null.
Difference difference(const Field& f) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Difference result;
  result.max_abs = f["maxAbs"].number(kInfinity);
  result.mean_abs = f["meanAbs"].number(kInfinity);
  result.relative_l2 = f["relativeL2"].number(kInfinity);
  result.cosine = f["cosine"].number(std::numeric_limits<double>::quiet_NaN());
  result.max_ulp = f["maxUlp"].number(kInfinity);
  return result;
}

LayerComparison layer_comparison(const Field& f) {
  LayerComparison result;
  result.reference = f["reference"].text();
  result.threshold = f["threshold"].number();
  for (const Field& one : f["tensors"].elements()) {
    ComparedLayer layer;
    layer.tensor = one["tensor"].text();
    layer.layer = one["layer"].text();
    layer.kernel = one["kernel"].text();
    layer.reference_kernel = one["referenceKernel"].text();
    layer.difference = difference(one);
    layer.diverged = one["diverged"].truth();
    result.layers.push_back(std::move(layer));
  }
  for (const Field& one : f["notCompared"].elements()) {
    result.not_compared.push_back({one["layer"].text(), one["reason"].text()});
  }
  return result;
}

Memory memory(const Field& f) {
  Memory result;
  result.weight_bytes = f["weights"].size();
  result.arena_bytes = f["arena"].size();
  result.workspace_bytes = f["workspace"].size();
  result.io_bytes = f["io"].size();
  return result;
}

std::optional<GoldenComparison> golden(const Field& f) {
  if (f.absent()) return std::nullopt;
  return GoldenComparison{f["pictures"].size(), difference(f), f["top1Equal"].size()};
}

void read_profile(const Field& f, const char* of_layer, const char* of_all, LayerProfile& profile) {
  const std::vector<Field> layers = f["layers"].elements();
  for (const Field& layer : layers) {
    if (!layer[of_layer].absent()) profile.layer_ms.push_back(layer[of_layer].number());
  }
  if (!profile.empty() && profile.layer_ms.size() != layers.size()) f["layers"].fail("timed all or not at all");
  profile.whole_ms = f[of_all]["wholeMs"].number();
  profile.boundary_ms = f[of_all]["boundaryMs"].number();
}

void read_layers(const Field& f, CaseResult& result) {
  for (const Field& one : f["layers"].elements()) {
    Layer layer;
    layer.name = one["name"].text();
    layer.kernel = one["kernel"].text();
    layer.output = one["output"].text();
    layer.flops = one["flops"].size();
    layer.activation_bytes = one["activationBytes"].size();
    layer.weight_bytes = one["weightBytes"].size();
    layer.reason = one["reason"].text();
    result.layers.push_back(std::move(layer));
  }
  read_profile(f, "asRunMs", "asRunProfile", result.profile);
  // Documents from before there were two kinds have this one under other names.
  const bool older = !f["profile"].absent();
  read_profile(f, older ? "ms" : "serializedMs", older ? "profile" : "serializedProfile", result.serialized_profile);
}

std::vector<ActivityRow> activity_rows(const Field& rows) {
  std::vector<ActivityRow> result;
  for (const Field& f : rows.elements()) {
    result.push_back({f["name"].text(), f["kind"].text(), static_cast<std::size_t>(f["calls"].size()),
                      f["totalMs"].number(), f["minMs"].number(), f["maxMs"].number()});
  }
  return result;
}

std::optional<ActivityTables> activities(const Field& f) {
  if (f.absent()) return std::nullopt;
  ActivityTables result;
  result.runs = static_cast<int>(f["runs"].batch());
  result.dropped = static_cast<std::uint64_t>(f["dropped"].size());
  result.gpu = activity_rows(f["gpu"]);
  result.calls = activity_rows(f["calls"]);
  return result;
}

std::optional<SingleCalls> single_calls(const Field& f) {
  if (f.absent()) return std::nullopt;
  return SingleCalls{statistics(f["warm"]), statistics(f["afterRest"]), statistics(f["l2Swept"])};
}

CaseResult case_result(const Field& f, bool includes_transfers) {
  CaseResult result;
  result.implementation = f["impl"].text();
  result.precision = f["precision"].precision();
  result.batch = f["batch"].batch();
  result.threads = f["threads"].threads();
  result.compile_ms = f["compileMs"].number();
  result.session_ms = f["sessionMs"].number();
  result.first_run_ms = f["firstRunMs"].number();
  result.upload_ms = f["uploadMs"].number();
  if (!f["reloadMs"].absent()) result.reload = statistics(f["reloadMs"]);
  result.memory = memory(f["memoryBytes"]);
  if (!f["gpuMemoryUsedBytes"].absent()) result.gpu_memory_used = f["gpuMemoryUsedBytes"].whole();
  result.includes_transfers = includes_transfers;
  result.device_statistics = statistics(f["deviceMs"]);
  result.host_statistics = statistics(f["hostMs"]);
  result.single_calls = single_calls(f["singleCallMs"]);
  result.histogram = histogram(f["latencyHistogram"]);
  result.utilisation = read_utilisation(f["utilisation"]);
  if (!f["enqueueMs"].absent()) result.enqueue_ms = f["enqueueMs"].number();
  // Some documents have one that Ctrl-C came before.
  if (const Field sustained = f["sustained"]; sustained["seconds"].number() > 0) {
    result.sustained = read_sustained(sustained, read_utilisation(sustained["utilisation"]));
  }
  result.streamed_per_second = f["streamedPicturesPerSecond"].number();
  const Field speed_up = f["speedUp"];
  if (!speed_up.absent()) {
    result.speed_up = {speed_up["ratio"].number(), speed_up["low"].number(), speed_up["high"].number()};
  }
  for (const Field& one : f["layerComparisons"].elements()) result.layer_comparisons.push_back(layer_comparison(one));
  result.comparison = read_comparison(f["comparison"]);
  result.golden = golden(f["golden"]);
  read_layers(f, result);
  result.activities = activities(f["activities"]);
  return result;
}

Machine machine(const Field& f) {
  Machine m;
  m.cpu = f["cpu"].text();
  m.cpu_threads = static_cast<unsigned>(f["cpuThreads"].size());
  m.compiler = f["compiler"].text();
  m.gpu = f["gpu"].text();
  m.compute_capability = f["computeCapability"].text();
  m.multiprocessors = static_cast<int>(f["multiprocessors"].size());
  m.gpu_memory_gib = f["gpuMemoryGiB"].number();
  m.driver = f["driver"].text();
  m.cuda_driver = f["cudaDriver"].text();
  m.cuda_runtime = f["cudaRuntime"].text();
  m.cudnn = f["cudnn"].text();
  return m;
}

Model model(const Field& f) {
  Model m;
  m.path = f["file"].text();
  m.bytes = static_cast<std::uintmax_t>(f["bytes"].size());
  m.nodes = static_cast<std::size_t>(f["nodes"].size());
  m.flops = f["flopsPerPicture"].size();
  m.import_ms = f["importMs"].number();
  if (const Field plan = f["plan"]; !plan.absent()) {
    m.plan = PlanTimes{plan["readMs"].number(), plan["checkMs"].number(), plan["parseMs"].number()};
  }
  return m;
}

std::optional<GpuState> gpu_state_of(const Field& f) {
  if (f.absent()) return std::nullopt;
  return GpuState{static_cast<int>(f["smClockMhz"].whole()), static_cast<int>(f["temperatureC"].whole()),
                  f["powerW"].number()};
}

std::vector<std::pair<std::string, std::string>> option_values(const Field& options) {
  std::vector<std::pair<std::string, std::string>> values;
  if (options.absent()) return values;
  for (const auto& [name, value] : options.json().items()) {
    if (name != "commandLine") values.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return values;
}

// The record does not say of what they are; scripts/gpu_check traces this case.
void add_activities(const Field& f, Report& report) {
  for (CaseResult& result : report.cases) {
    if (result.label() == "custom fp16" && result.batch == 1 && !result.activities) result.activities = activities(f);
  }
}

// A record has these beside its cases: they ran in processes of their own.
CaseResult* case_of(const Field& f, Report& report) {
  const auto found = std::find_if(report.cases.begin(), report.cases.end(), [&](const CaseResult& result) {
    return result.implementation == f["impl"].text() && result.precision == f["precision"].precision() &&
           result.batch == f["batch"].batch();
  });
  return found == report.cases.end() ? nullptr : &*found;
}

void add_what_ran_apart(const Field& record, Report& report) {
  for (const Field& f : record["sustained"]["cases"].elements()) {
    if (CaseResult* result = case_of(f, report)) result->sustained = read_sustained(f, read_utilisation(f));
  }
  for (const Field& f : record["singleCalls"].elements()) {
    if (CaseResult* result = case_of(f, report)) result->single_calls = single_calls(f["singleCallMs"]);
  }
}

ReportFile report_file(const Field& f, const std::filesystem::path& path) {
  ReportFile file;
  file.path = path;
  file.version = f["version"].text();
  file.command_line = f["options"]["commandLine"].texts();
  file.options = option_values(f["options"]);
  file.pictures = f["options"]["input"].text() == "uint8";
  file.streams = static_cast<int>(f["options"]["infStreams"].size());
  Report& report = file.report;
  const bool record = f["program"].absent();
  if (!record && f["program"].text() != "bench_engine") f["program"].fail("\"bench_engine\"");
  const Field results = record ? f["latency"] : f["results"];
  if (results.absent()) results.fail("there: this is no document of bench_engine --json");
  report.machine = machine(f["machine"]);
  report.model = model(f["model"]);
  report.notes = f["notRun"].texts();
  report.reference = f["reference"].text();
  report.gpu_context_ms = f["gpuContextMs"].number();
  report.gpu_not_sampled = f["gpuNotSampled"].text();
  const bool includes_transfers = f["options"]["includeDataTransfers"].truth();
  for (const Field& result : results.elements()) report.cases.push_back(case_result(result, includes_transfers));
  for (const Field& state : f["gpuStates"].elements()) {
    report.gpu_states.push_back({state["batch"].batch(), gpu_state_of(state["before"]), gpu_state_of(state["after"])});
  }
  report.images = read_images(record ? f["accuracy"] : f["images"]);
  for (const Field& images : f["fewerImages"].elements()) {
    if (auto fewer = read_images(images)) report.fewer_images.push_back(std::move(*fewer));
  }
  report.missed = f["thresholdsMissed"].texts();
  report.interrupted = f["interrupted"].truth();
  report.error = f["error"].text();
  if (record) {
    if (!report.cases.empty() && report.reference.empty()) report.reference = report.cases.front().label();
    file.record = read_record(f);
    for (const Field& result : f["pictures"].elements()) file.from_host.push_back(case_result(result, false));
  }
  add_peers(f["peers"], file.peers);
  if (record) {
    keep_mobilenet_v2(file.peers);  // the others stand in the table of networks
    if (!file.peers.results.empty()) file.network = network_title(file.peers.results.front().network);
    add_activities(f["activities"], report);
    add_what_ran_apart(f, report);
  }
  return file;
}

Field::Json parse_json(const std::string& text, const std::filesystem::path& name) {
  try {
    return Field::Json::parse(text);
  } catch (const Field::Json::exception& error) {
    throw ReportError(ReportError::Kind::Invalid, name.string(), "is no JSON: " + std::string(error.what()));
  }
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw ReportError(ReportError::Kind::Io, path.string(), "cannot be read");
  return text.str();
}

}  // namespace

Field::Json read_json(const std::filesystem::path& path) { return parse_json(read_text(path), path); }

ReportFile read_document(const Field::Json& json, const std::filesystem::path& name) {
  try {
    const Field root(json, "document");
    if (!json.is_object()) root.fail("an object");
    return report_file(root, name);
  } catch (const ReportError& error) {
    throw error.inside(name.string());
  }
}

ReportFile parse_report(const std::string& text, const std::filesystem::path& name) {
  return read_document(parse_json(text, name), name);
}

ReportFile read_report(const std::filesystem::path& path) { return parse_report(read_text(path), path); }

}  // namespace mobicuda::bench::report
