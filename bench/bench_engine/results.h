#pragma once

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/engine.h>

#include "bench_engine/engines/loading.h"
#include "bench_engine/layers/layer_comparison.h"
#include "bench_engine/measure/machine.h"
#include "bench_engine/measure/single_calls.h"
#include "bench_engine/measure/statistics.h"
#include "bench_engine/measure/sustained.h"
#include "bench_engine/measure/timing.h"
#include "bench_engine/measure/utilisation.h"
#include "bench_engine/pictures/per_class.h"
#include "bench_engine/tensors/compare.h"
#include "bench_engine/trace/activity_table.h"
#include "bench_engine/trace/gpu_trace.h"

namespace mobicuda::bench {

struct ModelInfo {
  std::filesystem::path path;
  std::uintmax_t bytes = 0;
  std::string graph;
  std::size_t nodes = 0;
  std::int64_t flops = 0;  ///< per picture, a multiply-add counted as two
  std::string input_name;
  std::string output_name;
  TensorDesc input;
  TensorDesc output;
  double import_ms = 0;
  PlanTimes plan;  ///< absent for an ONNX file

  std::int64_t classes() const { return output.shape.elements(); }
};

/// From this share of a run's GPU time on, the host's time to enqueue one is warned of. Not 1: the timed loop takes
/// more of the host than the run alone. Kernels launched one by one, which the host does bound, measure 0.85 (H100).
inline constexpr double kEnqueueBound = 0.8;

/// "cpu fp32", "cpu fp32, 3 threads".
std::string case_label(const std::string& implementation, Precision precision, std::optional<int> threads);

/// Layer times of one ProfileMode, in milliseconds.
struct LayerProfile {
  std::vector<double> layer_ms;  ///< as CaseResult::layers; empty: not profiled
  double whole_ms = 0;           ///< a run of the profiled kind without a clock between layers
  double boundary_ms = 0;        ///< what a reading of the clock added, and was taken off

  bool empty() const { return layer_ms.empty(); }
  double sum_ms() const { return std::accumulate(layer_ms.begin(), layer_ms.end(), 0.0); }
};

/// One implementation at one precision and batch.
struct CaseResult {
  std::string implementation;
  Precision precision = Precision::Fp32;
  std::optional<int> threads;  ///< where several are compared
  std::int64_t batch = 1;

  double compile_ms = 0;  ///< Backend::compile: passes, planning, packing, upload
  double session_ms = 0;  ///< Engine::create_session
  double first_run_ms = 0;
  LoadDetails loading;
  MemoryReport memory;
  /// What the GPU lost of its free memory from compiling to after the first run: `memory` and the code of kernels.
  std::optional<std::int64_t> gpu_memory_used;

  Samples device;                   ///< input already in place: CUDA-event time on a GPU, wall time on the CPU
  Samples host;                     ///< wall time of Session::run_staged, transfers included
  Samples streams;                  ///< from one result to the next with Options::streams sessions in flight; GPU only
  bool includes_transfers = false;  ///< which of the two the latency below is of
  Statistics device_statistics;
  Statistics host_statistics;
  Statistics streams_statistics;
  std::optional<Utilisation> utilisation;      ///< during samples(), where it was recorded
  std::optional<double> enqueue_ms;            ///< host time of one Session::execute; GPU only
  std::optional<Histogram> latency_histogram;  ///< of samples(), once summarized
  SpeedUp speed_up;                            ///< against the reference case; ratio 0 when not measured
  std::optional<Comparison> comparison;        ///< with the reference case, on the timed input
  std::optional<GoldenComparison> golden;
  std::vector<LayerComparison> layer_comparisons;  ///< one for each implementation of --compare

  std::vector<LayerInfo> layers;
  LayerProfile profile;             ///< as the network runs
  LayerProfile serialized_profile;  ///< one layer after the other
  std::optional<SingleCalls> single_calls;
  std::optional<Sustained> sustained;
  std::vector<float> output;                 ///< of the timed input
  std::optional<ActivityTables> activities;  ///< of the traced runs

  const Statistics& latency() const { return includes_transfers ? host_statistics : device_statistics; }
  bool enqueue_bound() const {
    return enqueue_ms && device_statistics.count > 0 && *enqueue_ms >= kEnqueueBound * device_statistics.median;
  }
  const Samples& samples() const { return includes_transfers ? host : device; }
  std::string label() const { return case_label(implementation, precision, threads); }
  /// From host to host, with several sessions in flight.
  double streamed_pictures_per_second() const {
    return streams_statistics.mean > 0 ? 1e3 * static_cast<double>(batch) / streams_statistics.mean : 0;
  }
  double pictures_per_second() const {
    return latency().mean > 0 ? 1e3 * static_cast<double>(batch) / latency().mean : 0;
  }
};

/// One implementation's answers on the pictures.
struct AccuracyResult {
  std::string implementation;
  Precision precision = Precision::Fp32;
  std::optional<int> threads;  ///< where several are compared
  std::int64_t top1 = 0;       ///< of ImageReport::labelled
  std::int64_t top5 = 0;
  double inference_ms = 0;                        ///< wall time of all Session::run together
  std::optional<Comparison> with_reference;       ///< the reference implementation
  std::optional<Comparison> with_reference_file;  ///< --referenceLogits
  double inference_rate = 0;                      ///< pictures a second, pictures decoded already; 0: not measured
  double pipeline_rate = 0;                       ///< the same from files, while the next pictures are decoded
  std::vector<ClassHits> by_class;                ///< as ImageReport::classes
  std::vector<Confusion> confusion;               ///< with the reference implementation
  std::vector<Confusion> confusion_file;          ///< with --referenceLogits

  std::string label() const { return case_label(implementation, precision, threads); }
};

struct ImageReport {
  std::string folder;
  std::string preprocessing;
  std::int64_t batch = 1;
  std::size_t found = 0;
  std::size_t evaluated = 0;
  std::size_t labelled = 0;                                 ///< evaluated, and with a class
  std::vector<std::pair<std::string, std::string>> broken;  ///< path and reason
  std::vector<std::string> unlabelled;                      ///< paths without a class, where --labels is given
  double decode_ms = 0;                                     ///< of all decoding threads together, while inference runs
  double wall_ms = 0;                                       ///< decoding and all implementations
  std::size_t decode_threads = 0;                           ///< 0: not known
  double decode_rate = 0;                                   ///< pictures a second of decoding alone; 0: not measured
  std::vector<ClassCount> classes;                          ///< those with pictures, by index
  std::vector<AccuracyResult> results;

  /// Label of the result that the others are compared with.
  std::string reference() const {
    for (const AccuracyResult& result : results) {
      if (!result.with_reference) return result.label();
    }
    return {};
  }
};

/// State of the GPU around the timing of one batch.
struct GpuStates {
  std::int64_t batch = 1;
  std::optional<GpuState> before;
  std::optional<GpuState> after;
};

/// Everything that a run found out.
struct Report {
  Machine machine;
  ModelInfo model;
  std::vector<std::string> notes;  ///< implementations left out, and why
  std::string reference;           ///< label of the case the others are compared with
  double gpu_context_ms = 0;       ///< 0 without a GPU
  std::string gpu_not_sampled;     ///< why, where it should have been
  std::vector<CaseResult> cases;
  std::vector<GpuStates> gpu_states;
  std::vector<TracedCase> traces;
  std::optional<ImageReport> images;      ///< the last and, of an ascending list, largest of --maxImages
  std::vector<ImageReport> fewer_images;  ///< those before it
  std::vector<std::string> missed;        ///< thresholds not met
  bool interrupted = false;
  std::string error;  ///< what ended the run early
};

}  // namespace mobicuda::bench
