#include "bench_report.h"

#include <limits>

#include "bench_engine/measure/statistics.h"

using namespace mobicuda;
using namespace mobicuda::bench;

CaseResult case_of(const std::string& implementation, double ms) {
  CaseResult result;
  result.implementation = implementation;
  result.batch = 2;
  result.device.times_ms = {ms, ms};
  result.device_statistics = summarize(result.device.times_ms);
  result.layers = {{"features.0+features.1", "conv2d/direct", Shape{1, 8, 4, 4}, 100, 10, 20, "measured 2.10 us"},
                   {"classifier", "gemm/simt", Shape{1, 2}, 50, 5, 6}};
  result.profile.layer_ms = {3, 1};
  result.output = {1, 2, 3, 4};
  return result;
}

Report report_of_two() {
  Report report;
  report.model.output_name = "logits";
  report.model.output.shape = Shape{1, 2};
  report.model.input.shape = Shape{1, 3, 4, 4};
  report.reference = "custom fp32";
  report.cases = {case_of("custom", 0.5), case_of("cpu", 4)};
  Comparison comparison;
  comparison.pictures = 2;
  comparison.max_abs = 0.25;
  comparison.top1_equal = 1;
  report.cases[1].comparison = comparison;
  report.cases[1].speed_up = {0.125, 0.125, 0.125};
  return report;
}

LayerComparison layers_that_diverge() {
  LayerComparison comparison;
  comparison.reference = "cpu fp32";
  comparison.threshold = 0.125;
  ComparedLayer layer{"t0", "features.0", "conv2d/direct", "conv2d/fp32", "1x8x4x4", {}, false};
  layer.difference.max_abs = 0.5;
  layer.difference.mean_abs = 0.25;
  layer.difference.relative_l2 = 0.0625;
  layer.difference.cosine = 0.75;
  layer.difference.max_ulp = 7;
  comparison.layers.push_back(layer);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  layer.tensor = "t1<";
  layer.layer = "features.1";
  layer.difference = {0, 0, kInfinity, kInfinity, kInfinity, std::numeric_limits<double>::quiet_NaN(), kInfinity, 0};
  layer.diverged = true;
  comparison.layers.push_back(layer);
  comparison.not_compared = {{"to_fp32(t1)", "finishes no tensor of the model"}};
  return comparison;
}

Report profiled_report() {
  Report report = report_of_two();
  for (const CaseResult& one : {report.cases[0], report.cases[1]}) {
    report.cases.push_back(one);
    report.cases.back().batch = 8;
  }
  for (CaseResult& one : report.cases) {
    one.latency_histogram = histogram(one.device.times_ms);
    one.profile.whole_ms = 3.5;
    one.profile.boundary_ms = 0.00125;
    one.serialized_profile = {{4, 2}, 5.5, 0.0015};
    one.sustained = Sustained{60.5, 1000, Utilisation()};
    one.sustained->utilisation->energy_per_picture_j = 0.0025;
  }
  const Statistics call = summarize(std::vector<double>{0.6, 0.7, 0.8});
  report.cases[0].single_calls = SingleCalls{call, call, call};
  report.model.plan = {3, 0.5, 0.25};
  report.cases[0].loading = {0.75, summarize(std::vector<double>{8, 10, 9})};
  report.cases[0].activities =
      ActivityTables{2, {{"gemm", "kernel", 4, 0.5, 0.1, 0.2}}, {{"cudaGraphLaunch", "call", 2, 0.25, 0.1, 0.15}}, 1};
  return report;
}

ImageReport classified_pictures() {
  ImageReport images;
  images.folder = "val";
  images.batch = 2;
  images.found = images.evaluated = images.labelled = 4;
  images.decode_threads = 3;
  images.decode_ms = 5;
  images.wall_ms = 7;
  images.decode_rate = 800.5;
  images.classes = {{3, "tench", 3}, {9, "great white shark", 1}};
  AccuracyResult cpu;
  cpu.implementation = "cpu";
  cpu.inference_ms = 10;
  cpu.inference_rate = 401.5;
  cpu.pipeline_rate = 300.25;
  cpu.top1 = cpu.top5 = 4;
  cpu.by_class = {{3, 3}, {1, 1}};
  AccuracyResult custom = cpu;
  custom.implementation = "custom";
  custom.top1 = 2;
  custom.by_class = {{2, 3}, {0, 1}};
  custom.with_reference.emplace();
  custom.with_reference->pictures = 4;
  custom.confusion = {{3, "tench", 7, "goldfish", 1}, {9, "great white shark", 8, "hammerhead", 1}};
  custom.confusion_file = {{3, "tench", 5, "eel", 2}};
  images.results = {cpu, custom};
  return images;
}

Report report_of_everything() {
  Report report = profiled_report();
  report.machine.gpu = "a GPU";
  report.cases[0].threads = 2;
  report.cases[0].gpu_memory_used = -5;
  report.cases[0].layer_comparisons = {layers_that_diverge()};
  report.images = classified_pictures();
  report.fewer_images = {classified_pictures()};
  return report;
}
