#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/engine.h>

#include "bench_engine/model/cases.h"
#include "bench_engine/model/comparison.h"
#include "bench_engine/model/gpu_trace.h"
#include "bench_engine/model/machine.h"
#include "bench_engine/model/pictures.h"
#include "bench_engine/model/times.h"
#include "bench_engine/model/utilisation.h"

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

/// One implementation at one precision and batch.
struct CaseResult {
  std::string implementation;
  Precision precision = Precision::Fp32;
  std::optional<int> threads;  ///< where several are compared
  std::int64_t batch = 1;
  std::optional<std::int64_t> max_batch;  ///< of the engine; absent: batch

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
