#include "bench_engine/report/read_report.h"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include <mobicuda/error.h>

#include "bench_engine/exit_codes.h"
#include "bench_engine/options.h"

namespace mobicuda::bench {
namespace {

// Not ordered_json: it copies as it grows, which takes as much stack as a hostile file is deep.
using Json = nlohmann::json;

constexpr auto kReplace = Json::error_handler_t::replace;

// A place in the document that knows its name, for errors.
class Field {
 public:
  Field(const Json& json, std::string name) : json_(&json), name_(std::move(name)) {}

  bool absent() const { return json_->is_null(); }
  // An absent field is null, as what was not measured is.
  Field operator[](const char* key) const {
    static const Json kNull;
    if (!absent() && !json_->is_object()) fail("an object");
    const auto found = json_->find(key);
    return {found == json_->end() ? kNull : *found, name_ + '.' + key};
  }
  std::vector<Field> elements() const {
    std::vector<Field> result;
    if (absent()) return result;
    if (!json_->is_array()) fail("an array");
    for (std::size_t i = 0; i < json_->size(); ++i) {
      result.emplace_back((*json_)[i], name_ + '[' + std::to_string(i) + ']');
    }
    return result;
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> result;
    for (const Field& element : elements()) result.push_back(element.text());
    return result;
  }
  std::string text() const {
    if (absent()) return {};
    if (!json_->is_string()) fail("a string");
    return json_->get<std::string>();
  }
  double number(double otherwise = 0) const {
    if (absent()) return otherwise;
    if (!json_->is_number()) fail("a number");
    return json_->get<double>();
  }
  std::int64_t whole() const {
    if (absent()) return 0;
    const bool fits = json_->is_number_integer() &&
                      (!json_->is_number_unsigned() ||
                       json_->get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()});
    if (!fits) fail("a whole number");
    return json_->get<std::int64_t>();
  }
  // A count or a size.
  std::int64_t size() const {
    const std::int64_t value = whole();
    if (value < 0) fail("at least 0");
    return value;
  }
  std::int64_t batch() const {
    const std::int64_t value = whole();
    if (value < 1) fail("a batch, at least 1");
    return value;
  }
  // Of the CPU, where several numbers of them were compared.
  std::optional<int> threads() const {
    if (absent()) return std::nullopt;
    const std::int64_t value = whole();
    if (value < 1 || value > std::numeric_limits<int>::max()) fail("a number of threads, at least 1");
    return static_cast<int>(value);
  }
  bool truth() const {
    if (absent()) return false;
    if (!json_->is_boolean()) fail("true or false");
    return json_->get<bool>();
  }
  Precision precision() const {
    try {
      return parse_precision(text());
    } catch (const UsageError&) {
      fail("fp32, tf32, fp16 or fp64");
    }
  }
  const Json& json() const { return *json_; }

  [[noreturn]] void fail(const std::string& expected) const {
    // A container may be as large as the file.
    const std::string got =
        json_->is_structured() ? "an " + std::string(json_->type_name()) : json_->dump(-1, ' ', false, kReplace);
    throw Error(ErrorCode::invalid_argument, name_, "must be " + expected + ", got " + got,
                "docs/bench_engine.schema.json describes the file");
  }

 private:
  const Json* json_;
  std::string name_;
};

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
  s.stddev = f["stddev"].number();
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

std::optional<Comparison> comparison(const Field& f) {
  if (f.absent()) return std::nullopt;
  Comparison result;
  result.pictures = f["pictures"].size();
  // Numbers that are not finite are written as null.
  result.max_abs = f["maxAbs"].number(std::numeric_limits<double>::infinity());
  result.relative_l2 = f["relativeL2"].number(std::numeric_limits<double>::infinity());
  result.top1_equal = f["top1Equal"].size();
  return result;
}

// As comparison(): what is not finite is null.
GoldenComparison difference(const Field& f) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  GoldenComparison result;
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
    layer.shape = one["shape"].text();
    layer.difference = difference(one);
    layer.diverged = one["diverged"].truth();
    result.layers.push_back(std::move(layer));
  }
  for (const Field& one : f["notCompared"].elements()) {
    result.not_compared.push_back({one["layer"].text(), one["reason"].text()});
  }
  return result;
}

MemoryReport memory(const Field& f) {
  MemoryReport result;
  result.weight_bytes = f["weights"].size();
  result.arena_bytes = f["arena"].size();
  result.workspace_bytes = f["workspace"].size();
  result.io_bytes = f["io"].size();
  return result;
}

std::optional<SampledRange> sampled_range(const Field& f) {
  if (f.absent()) return std::nullopt;
  return SampledRange{f["mean"].number(), f["min"].number(), f["max"].number()};
}

std::optional<double> optional_number(const Field& f) {
  if (f.absent()) return std::nullopt;
  return f.number();
}

std::optional<EnergySource> energy_source(const Field& f) {
  if (f.absent()) return std::nullopt;
  if (f.text() != "counter" && f.text() != "power") f.fail("\"counter\" or \"power\"");
  return f.text() == "counter" ? EnergySource::Counter : EnergySource::Power;
}

std::optional<Utilisation> utilisation(const Field& f) {
  if (f.absent()) return std::nullopt;
  Utilisation result;
  result.samples = static_cast<std::size_t>(f["samples"].size());
  result.alternated = f["alternated"].truth();
  result.gpu_percent = sampled_range(f["gpuPercent"]);
  result.memory_percent = sampled_range(f["memoryPercent"]);
  result.sm_clock_mhz = sampled_range(f["smClockMhz"]);
  result.power_w = sampled_range(f["powerW"]);
  result.temperature_c = sampled_range(f["temperatureC"]);
  if (!f["usedBytes"].absent()) result.used_bytes = f["usedBytes"].size();
  if (!f["clockReasons"].absent()) result.clock_reasons = f["clockReasons"].texts();
  result.cpu_percent = optional_number(f["cpuPercent"]);
  result.energy_per_picture_j = optional_number(f["energyPerPictureJ"]);
  result.energy_source = energy_source(f["energySource"]);
  return result;
}

void read_layers(const Field& layers, CaseResult& result) {
  for (const Field& f : layers.elements()) {
    LayerInfo layer;
    layer.name = f["name"].text();
    layer.kernel = f["kernel"].text();
    layer.flops = f["flops"].size();
    layer.activation_bytes = f["activationBytes"].size();
    layer.weight_bytes = f["weightBytes"].size();
    layer.reason = f["reason"].text();
    result.layers.push_back(std::move(layer));
    if (!f["ms"].absent()) result.layer_ms.push_back(f["ms"].number());
  }
  if (!result.layer_ms.empty() && result.layer_ms.size() != result.layers.size())
    layers.fail("timed all or not at all");
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
  result.memory = memory(f["memoryBytes"]);
  if (!f["gpuMemoryUsedBytes"].absent()) result.gpu_memory_used = f["gpuMemoryUsedBytes"].whole();
  result.includes_transfers = includes_transfers;
  result.device_statistics = statistics(f["deviceMs"]);
  result.host_statistics = statistics(f["hostMs"]);
  result.latency_histogram = histogram(f["latencyHistogram"]);
  result.utilisation = utilisation(f["utilisation"]);
  result.enqueue_ms = optional_number(f["enqueueMs"]);
  const double streamed = f["streamedPicturesPerSecond"].number();
  if (streamed > 0) {
    result.streams_statistics.count = 1;
    result.streams_statistics.mean = 1e3 * static_cast<double>(result.batch) / streamed;
  }
  const Field speed_up = f["speedUp"];
  if (!speed_up.absent()) {
    result.speed_up = {speed_up["ratio"].number(), speed_up["low"].number(), speed_up["high"].number()};
  }
  result.comparison = comparison(f["comparison"]);
  for (const Field& one : f["layerComparisons"].elements()) result.layer_comparisons.push_back(layer_comparison(one));
  read_layers(f["layers"], result);
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

ModelInfo model(const Field& f) {
  ModelInfo m;
  m.path = f["file"].text();
  m.bytes = static_cast<std::uintmax_t>(f["bytes"].size());
  m.graph = f["graph"].text();
  m.nodes = static_cast<std::size_t>(f["nodes"].size());
  m.flops = f["flopsPerPicture"].size();
  m.input_name = f["input"]["name"].text();
  m.output_name = f["output"]["name"].text();
  m.import_ms = f["importMs"].number();
  return m;
}

std::optional<GpuState> gpu_state_of(const Field& f) {
  if (f.absent()) return std::nullopt;
  return GpuState{static_cast<int>(f["smClockMhz"].whole()), static_cast<int>(f["memoryClockMhz"].whole()),
                  static_cast<int>(f["temperatureC"].whole()), f["powerW"].number()};
}

std::optional<ImageReport> image_report(const Field& f) {
  if (f.absent()) return std::nullopt;
  ImageReport images;
  images.folder = f["folder"].text();
  images.preprocessing = f["preprocessing"].text();
  images.batch = f["batch"].batch();
  images.found = static_cast<std::size_t>(f["found"].size());
  images.evaluated = static_cast<std::size_t>(f["evaluated"].size());
  images.labelled = static_cast<std::size_t>(f["labelled"].size());
  for (const Field& one : f["broken"].elements()) images.broken.emplace_back(one["path"].text(), one["reason"].text());
  images.unlabelled = f["unlabelled"].texts();
  images.decode_ms = f["decodeMs"].number();
  for (const Field& one : f["results"].elements()) {
    AccuracyResult result;
    result.implementation = one["impl"].text();
    result.precision = one["precision"].precision();
    result.threads = one["threads"].threads();
    result.top1 = one["top1Pictures"].size();
    result.top5 = one["top5Pictures"].size();
    result.inference_ms = one["inferenceMs"].number();
    result.with_reference = comparison(one["withReference"]);
    result.with_reference_file = comparison(one["withReferenceLogits"]);
    images.results.push_back(std::move(result));
  }
  return images;
}

std::vector<std::pair<std::string, std::string>> option_values(const Field& options) {
  std::vector<std::pair<std::string, std::string>> values;
  if (options.absent()) return values;
  for (const auto& [name, value] : options.json().items()) {
    if (name != "commandLine") values.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return values;
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
  report.images = image_report(record ? f["accuracy"] : f["images"]);
  report.missed = f["thresholdsMissed"].texts();
  report.interrupted = f["interrupted"].truth();
  report.error = f["error"].text();
  return file;
}

}  // namespace

ReportFile parse_report(const std::string& text, const std::filesystem::path& name) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::invalid_argument, name.string(), "is no JSON: " + std::string(error.what()));
  }
  try {
    const Field root(json, "document");
    if (!json.is_object()) root.fail("an object");
    return report_file(root, name);
  } catch (const Error& error) {
    throw error.inside(name.string());
  }
}

ReportFile read_report(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw Error(ErrorCode::io, path.string(), "cannot be read");
  return parse_report(text.str(), path);
}

}  // namespace mobicuda::bench
