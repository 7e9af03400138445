#include "bench_engine/export/report_json.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "bench_engine/export/compare_json.h"
#include "bench_engine/export/images_json.h"
#include "bench_engine/export/utilisation_json.h"
#include "bench_engine/export/write_file.h"
#include "bench_engine/trace/activity_table.h"
#include "bench_engine/trace/chrome_trace.h"

namespace mobicuda::bench {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Statistics& s) {
  return {{"count", s.count}, {"mean", s.mean}, {"median", s.median}, {"p90", s.p90},       {"p95", s.p95},
          {"p99", s.p99},     {"min", s.min},   {"max", s.max},       {"stddev", s.stddev}, {"variation", s.variation}};
}

// Calls that Ctrl-C came before are not measured.
Json unless_none(const Statistics& s) { return s.count > 0 ? to_json(s) : Json(nullptr); }

Json to_json(const SingleCalls& calls) {
  return {{"warm", unless_none(calls.warm)},
          {"afterRest", unless_none(calls.after_rest)},
          {"l2Swept", unless_none(calls.swept)}};
}

Json to_json(const Histogram& h) {
  return {{"lowMs", h.low}, {"binMs", h.bin}, {"counts", h.counts}, {"above", h.above}};
}

Json to_json(const MemoryReport& m) {
  return {{"weights", m.weight_bytes},
          {"arena", m.arena_bytes},
          {"workspace", m.workspace_bytes},
          {"io", m.io_bytes},
          {"total", m.total()}};
}

Json to_json(const GoldenComparison& g) {
  return {{"elements", g.elements},      {"pictures", g.pictures}, {"maxAbs", g.max_abs}, {"meanAbs", g.mean_abs},
          {"relativeL2", g.relative_l2}, {"cosine", g.cosine},     {"maxUlp", g.max_ulp}, {"top1Equal", g.top1_equal}};
}

Json to_json(const GpuState& s) {
  return {{"smClockMhz", s.sm_clock_mhz},
          {"memoryClockMhz", s.memory_clock_mhz},
          {"temperatureC", s.temperature_c},
          {"powerW", s.power_w}};
}

Json rows_json(const std::vector<ActivityRow>& rows) {
  Json json = Json::array();
  for (const ActivityRow& row : rows) {
    json.push_back({{"name", row.name},
                    {"kind", row.kind},
                    {"calls", row.calls},
                    {"totalMs", row.total_ms},
                    {"minMs", row.min_ms},
                    {"maxMs", row.max_ms}});
  }
  return json;
}

Json to_json(const ActivityTables& tables) {
  return {{"runs", tables.runs},
          {"dropped", tables.dropped},
          {"gpu", rows_json(tables.gpu)},
          {"calls", rows_json(tables.calls)}};
}

template <class T>
Json optional_json(const std::optional<T>& value) {
  return value ? to_json(*value) : Json(nullptr);
}

Json to_json(const Machine& m) {
  return {{"cpu", m.cpu},
          {"cpuThreads", m.cpu_threads},
          {"compiler", m.compiler},
          {"gpu", m.gpu},
          {"computeCapability", m.compute_capability},
          {"multiprocessors", m.multiprocessors},
          {"gpuMemoryGiB", m.gpu_memory_gib},
          {"driver", m.driver},
          {"cudaDriver", m.cuda_driver},
          {"cudaRuntime", m.cuda_runtime},
          {"cudnn", m.cudnn}};
}

Json to_json(const ModelInfo& m) {
  Json json = {
      {"file", m.path.string()},
      {"bytes", m.bytes},
      {"graph", m.graph},
      {"nodes", m.nodes},
      {"flopsPerPicture", m.flops},
      {"input", {{"name", m.input_name}, {"shape", m.input.shape.dims()}, {"layout", to_string(m.input.layout)}}},
      {"output", {{"name", m.output_name}, {"shape", m.output.shape.dims()}}},
      {"importMs", m.import_ms}};
  if (m.plan) {
    json["plan"] = {{"readMs", m.plan->read_ms}, {"checkMs", m.plan->check_ms}, {"parseMs", m.plan->parse_ms}};
  }
  return json;
}

Json options_json(const Options& o) {
  return {{"commandLine", o.command_line},
          {"warmUpMs", o.warm_up_ms},
          {"durationS", o.duration_s},
          {"iterations", o.iterations},
          {"idleMs", o.idle_ms},
          {"singleCalls", o.single_calls},
          {"sustainedS", o.sustained_s},
          {"sampleIntervalMs", o.sample_interval_ms},
          {"includeDataTransfers", o.include_transfers},
          {"input", o.pictures ? "uint8" : "fp32"},
          {"timeImages", o.time_images},
          {"hostTransfer", o.host_transfer == HostTransfer::Auto     ? "auto"
                           : o.host_transfer == HostTransfer::Direct ? "direct"
                                                                     : "copy"},
          {"infStreams", o.streams},
          {"threads", o.threads.size() == 1 ? Json(o.threads.front()) : Json(o.threads)},
          {"device", o.device},
          {"cudaGraph", o.cuda_graph},
          {"programmaticLaunch", o.programmatic_launch},
          {"kernelVariants", o.kernel_variants},
          {"timingCacheFile", o.timing_cache.string()},
          {"specialise", o.specialise == Specialise::Auto    ? "auto"
                         : o.specialise == Specialise::Never ? "never"
                                                             : "always"},
          {"reload", o.reload ? "each" : "never"},
          {"seed", o.seed}};
}

Json layer_json(const LayerInfo& layer) {
  return {{"name", layer.name},
          {"kernel", layer.kernel},
          {"output", to_string(layer.output)},
          {"flops", layer.flops},
          {"activationBytes", layer.activation_bytes},
          {"weightBytes", layer.weight_bytes},
          {"reason", layer.reason}};
}

Json layers_json(const CaseResult& result) {
  Json layers = Json::array();
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    Json layer = layer_json(result.layers[i]);
    if (!result.profile.empty()) layer["asRunMs"] = result.profile.layer_ms[i];
    if (!result.serialized_profile.empty()) layer["serializedMs"] = result.serialized_profile.layer_ms[i];
    layers.push_back(std::move(layer));
  }
  return layers;
}

Json to_json(const LayerProfile& profile) {
  return {{"sumMs", profile.sum_ms()},
          {"wholeMs", profile.whole_ms},
          {"boundaryMs", profile.boundary_ms},
          {"ratio", profile.whole_ms > 0 ? Json(profile.sum_ms() / profile.whole_ms) : Json(nullptr)}};
}

Json case_head(const CaseResult& result) {
  Json head = {{"impl", result.implementation}, {"precision", to_string(result.precision)}, {"batch", result.batch}};
  if (result.threads) head["threads"] = *result.threads;
  return head;
}

Json to_json(const CaseResult& result) {
  Json json = case_head(result);
  if (result.max_batch) json["maxBatch"] = *result.max_batch;
  json["compileMs"] = result.compile_ms;
  json["sessionMs"] = result.session_ms;
  json["firstRunMs"] = result.first_run_ms;
  if (result.loading.upload_ms > 0) json["uploadMs"] = result.loading.upload_ms;
  if (result.loading.reload.count > 0) json["reloadMs"] = to_json(result.loading.reload);
  json["memoryBytes"] = to_json(result.memory);
  json["gpuMemoryUsedBytes"] = result.gpu_memory_used ? Json(*result.gpu_memory_used) : Json(nullptr);
  json["latencyMs"] = to_json(result.latency());
  json["deviceMs"] = to_json(result.device_statistics);
  json["hostMs"] = to_json(result.host_statistics);
  if (result.single_calls) json["singleCallMs"] = to_json(*result.single_calls);
  json["latencyHistogram"] = optional_json(result.latency_histogram);
  json["streamedPicturesPerSecond"] = nullptr;
  if (result.streams_statistics.count > 0) json["streamedPicturesPerSecond"] = result.streamed_pictures_per_second();
  json["utilisation"] = utilisation_json(result.utilisation);
  if (result.sustained && result.sustained->seconds > 0) {
    json["sustained"] = sustained_json(*result.sustained, result.batch);
  }
  json["enqueueMs"] = result.enqueue_ms ? Json(*result.enqueue_ms) : Json(nullptr);
  json["unstable"] = result.latency().unstable();
  json["picturesPerSecond"] = result.pictures_per_second();
  json["speedUp"] = nullptr;
  if (result.speed_up.ratio > 0) {
    json["speedUp"] = {{"ratio", result.speed_up.ratio}, {"low", result.speed_up.low}, {"high", result.speed_up.high}};
  }
  json["comparison"] = comparison_json(result.comparison);
  if (result.golden) json["golden"] = to_json(*result.golden);
  if (!result.layer_comparisons.empty()) json["layerComparisons"] = layer_comparisons_json(result.layer_comparisons);
  json["layers"] = layers_json(result);
  if (!result.profile.empty()) json["asRunProfile"] = to_json(result.profile);
  if (!result.serialized_profile.empty()) json["serializedProfile"] = to_json(result.serialized_profile);
  if (result.activities) json["activities"] = to_json(*result.activities);
  return json;
}

std::string text(const Json& json) {
  constexpr int kIndent = 1;
  // Names out of a file may be no UTF-8.
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + '\n';
}

// Of a run: the sum of all layers, the whole, GPU activities and CUDA calls.
void add_profile_columns(std::ostream& csv, const CaseResult& result) {
  csv << ',';
  if (!result.profile.empty()) csv << result.profile.sum_ms() << ',' << result.profile.whole_ms << ',';
  if (result.profile.empty()) csv << ',' << ',';
  if (result.activities) {
    csv << total_ms(result.activities->gpu) / result.activities->runs << ','
        << total_ms(result.activities->calls) / result.activities->runs;
  } else {
    csv << ',';
  }
}

}  // namespace

Json report_document(const Options& options, const Report& report) {
  Json json;
  json["program"] = "bench_engine";
  json["version"] = MOBICUDA_VERSION;
  json["machine"] = to_json(report.machine);
  json["options"] = options_json(options);
  json["model"] = to_json(report.model);
  json["notRun"] = report.notes;
  json["reference"] = report.reference;
  json["gpuContextMs"] = report.gpu_context_ms;
  json["gpuNotSampled"] = report.gpu_not_sampled.empty() ? Json(nullptr) : Json(report.gpu_not_sampled);
  json["results"] = Json::array();
  for (const CaseResult& result : report.cases) json["results"].push_back(to_json(result));
  json["gpuStates"] = Json::array();
  for (const GpuStates& states : report.gpu_states) {
    json["gpuStates"].push_back(
        {{"batch", states.batch}, {"before", optional_json(states.before)}, {"after", optional_json(states.after)}});
  }
  json["images"] = report.images ? images_json(*report.images) : Json(nullptr);
  for (const ImageReport& images : report.fewer_images) json["fewerImages"].push_back(images_json(images));
  json["thresholdsMissed"] = report.missed;
  json["interrupted"] = report.interrupted;
  json["error"] = report.error.empty() ? Json(nullptr) : Json(report.error);
  return json;
}

std::string json_report(const Options& options, const Report& report) { return text(report_document(options, report)); }

std::string json_times(const Report& report) {
  Json times = Json::array();
  for (const CaseResult& result : report.cases) {
    for (const double ms : result.samples().times_ms) {
      Json entry = case_head(result);
      entry["latencyMs"] = ms;
      if (!result.includes_transfers) entry["computeMs"] = ms;
      times.push_back(std::move(entry));
    }
  }
  return text(times);
}

std::string json_profile(const Report& report) {
  Json profile = Json::array();
  for (const CaseResult& result : report.cases) {
    if (result.profile.empty()) continue;
    Json head = case_head(result);
    head["count"] = result.profile.layer_ms.size();
    profile.push_back(std::move(head));
    const double total = result.profile.sum_ms();
    for (std::size_t i = 0; i < result.profile.layer_ms.size(); ++i) {
      const double ms = result.profile.layer_ms[i];
      profile.push_back({{"name", result.layers[i].name},
                         {"kernel", result.layers[i].kernel},
                         {"medianMs", ms},
                         {"percentage", total > 0 ? 100 * ms / total : 0.0}});
    }
  }
  return text(profile);
}

std::string json_layer_info(const Report& report) {
  Json info = Json::array();
  for (const CaseResult& result : report.cases) {
    Json entry = case_head(result);
    entry["layers"] = Json::array();
    for (const LayerInfo& layer : result.layers) entry["layers"].push_back(layer_json(layer));
    info.push_back(std::move(entry));
  }
  return text(info);
}

std::string json_output(const Report& report) {
  Json outputs = Json::array();
  for (const CaseResult& result : report.cases) {
    Json entry = case_head(result);
    entry["name"] = report.model.output_name;
    std::string dimensions = std::to_string(result.batch);
    for (const std::int64_t extent : report.model.output.shape.dims().subspan(1)) {
      dimensions += 'x' + std::to_string(extent);
    }
    entry["dimensions"] = dimensions;
    entry["values"] = result.output;
    outputs.push_back(std::move(entry));
  }
  return text(outputs);
}

std::string csv_report(const Report& report) {
  std::ostringstream csv;
  csv << "impl,precision,batch,compile_ms,session_ms,first_run_ms,mean_ms,median_ms,p90_ms,p95_ms,p99_ms,min_ms,max_ms,"
         "variation,runs,pictures_per_second,host_median_ms,weight_bytes,arena_bytes,workspace_bytes,io_bytes,speed_up,"
         "max_abs,relative_l2,top1_agreement,threads,golden_max_abs,golden_mean_abs,golden_relative_l2,golden_cosine,"
         "golden_max_ulp,reload_median_ms,"
      << kLayerComparisonColumns << ",layers_sum_ms,layers_whole_ms,gpu_activity_ms,cuda_calls_ms"
      << utilisation_csv_header() << '\n';
  for (const CaseResult& r : report.cases) {
    const Statistics& s = r.latency();
    csv << r.implementation << ',' << to_string(r.precision) << ',' << r.batch << ',' << r.compile_ms << ','
        << r.session_ms << ',' << r.first_run_ms << ',' << s.mean << ',' << s.median << ',' << s.p90 << ',' << s.p95
        << ',' << s.p99 << ',' << s.min << ',' << s.max << ',' << s.variation << ',' << s.count << ','
        << r.pictures_per_second() << ',' << r.host_statistics.median << ',' << r.memory.weight_bytes << ','
        << r.memory.arena_bytes << ',' << r.memory.workspace_bytes << ',' << r.memory.io_bytes << ',';
    if (r.comparison) {
      csv << r.speed_up.ratio << ',' << r.comparison->max_abs << ',' << r.comparison->relative_l2 << ','
          << r.comparison->top1_agreement();
    } else {
      csv << ",,,";
    }
    csv << ',';
    if (r.threads) csv << *r.threads;
    if (r.golden) {
      csv << ',' << r.golden->max_abs << ',' << r.golden->mean_abs << ',' << r.golden->relative_l2 << ','
          << r.golden->cosine << ',' << r.golden->max_ulp;
    } else {
      csv << ",,,,,";
    }
    csv << ',';
    if (r.loading.reload.count > 0) csv << r.loading.reload.median;
    csv << ',' << layer_comparisons_csv(r.layer_comparisons);
    add_profile_columns(csv, r);
    csv << utilisation_csv(r) << '\n';
  }
  return csv.str();
}

void export_files(const Options& options, const Report& report) {
  if (!options.json.empty()) write_file(options.json, json_report(options, report));
  if (!options.csv.empty()) write_file(options.csv, csv_report(report));
  if (!options.export_times.empty()) write_file(options.export_times, json_times(report));
  if (!options.export_profile.empty()) write_file(options.export_profile, json_profile(report));
  if (!options.export_layer_info.empty()) write_file(options.export_layer_info, json_layer_info(report));
  if (!options.export_trace.empty()) write_file(options.export_trace, chrome_trace(report.traces));
  if (!options.export_output.empty()) write_file(options.export_output, json_output(report));
}

}  // namespace mobicuda::bench
