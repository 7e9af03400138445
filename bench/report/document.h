#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// What a document of bench_engine --json says, as far as reports show it: docs/bench_engine.schema.json describes the
/// file.
namespace mobicuda::bench::report {

/// Above this coefficient of variation a timing is reported as unstable (trtexec warns at the same value).
inline constexpr double kUnstableVariation = 0.025;

/// From this share of a run's GPU time on, the host's time to enqueue one is warned of. Not 1: the timed loop takes
/// more of the host than the run alone. Kernels launched one by one, which the host does bound, measure 0.85 (H100).
inline constexpr double kEnqueueBound = 0.8;

/// SM clocks that move by more than this share of the highest one, while one case is timed, are warned of.
inline constexpr double kMovedClocks = 0.05;

/// Summary of a set of times, in milliseconds. Zeros when there were none.
struct Statistics {
  std::size_t count = 0;
  double mean = 0;
  double median = 0;
  double min = 0;
  double max = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
  double variation = 0;  ///< coefficient of variation

  bool unstable() const noexcept { return variation > kUnstableVariation; }
};

/// How samples spread: bins of one width from the smallest to the 99th percentile, and how many lie above.
struct Histogram {
  double low = 0;
  double bin = 0;  ///< width; 0 when all samples are equal, which makes one bin
  std::vector<std::size_t> counts;
  std::size_t above = 0;
};

/// How many times faster a case is than the reference, with a 95 % confidence interval.
struct SpeedUp {
  double ratio = 0;  ///< 0: not measured
  double low = 0;
  double high = 0;
};

/// What was sampled, over one case's samples.
struct SampledRange {
  double mean = 0;
  double min = 0;
  double max = 0;
};

/// Where the power in an energy comes from: a difference of the GPU's energy counter, or the mean of sampled powers.
enum class EnergySource : std::uint8_t { Counter, Power };

/// How busy GPU and process were while a case was timed. What is not known is nothing.
struct Utilisation {
  std::size_t samples = 0;  ///< of the GPU
  bool alternated = false;  ///< with other cases, in bursts that are shorter than what NVML averages over
  std::optional<SampledRange> gpu_percent;
  std::optional<SampledRange> memory_percent;
  std::optional<SampledRange> sm_clock_mhz;
  std::optional<SampledRange> power_w;
  std::optional<SampledRange> temperature_c;
  std::optional<std::int64_t> used_bytes;                 ///< the most, of all processes
  std::optional<std::vector<std::string>> clock_reasons;  ///< why clocks were not higher, but for an idle GPU
  std::optional<double> cpu_percent;                      ///< of one core
  std::optional<double> energy_per_picture_j;
  std::optional<EnergySource> energy_source;

  bool clocks_moved() const {
    return sm_clock_mhz && sm_clock_mhz->max - sm_clock_mhz->min > kMovedClocks * sm_clock_mhz->max;
  }
};

/// Runs in a row, of one case alone on its processor, by the host's clock.
struct Sustained {
  double seconds = 0;
  std::int64_t runs = 0;
  std::optional<Utilisation> utilisation;  ///< nothing where nothing is recorded

  double pictures_per_second(std::int64_t batch) const {
    return seconds > 0 ? static_cast<double>(runs * batch) / seconds : 0;
  }
};

/// Wall time of calls that find an idle GPU.
struct SingleCalls {
  Statistics warm;        ///< one after the other
  Statistics after_rest;  ///< each after a rest
  Statistics swept;       ///< each after other data passed through the GPU's L2 cache
};

/// The machine that numbers were measured on. Empty strings where unknown or absent.
struct Machine {
  std::string cpu;
  unsigned cpu_threads = 0;
  std::string compiler;
  std::string gpu;
  std::string compute_capability;  ///< "9.0"
  int multiprocessors = 0;
  double gpu_memory_gib = 0;
  std::string driver;
  std::string cuda_driver;
  std::string cuda_runtime;
  std::string cudnn;
};

/// The GPU's state at a moment.
struct GpuState {
  int sm_clock_mhz = 0;
  int temperature_c = 0;
  double power_w = 0;
};

/// State of the GPU around the timing of one batch.
struct GpuStates {
  std::int64_t batch = 1;
  std::optional<GpuState> before;
  std::optional<GpuState> after;
};

/// How long the parts of reading a plan file took.
struct PlanTimes {
  double read_ms = 0;
  double check_ms = 0;
  double parse_ms = 0;
};

struct Model {
  std::filesystem::path path;
  std::uintmax_t bytes = 0;
  std::size_t nodes = 0;
  std::int64_t flops = 0;  ///< per picture, a multiply-add counted as two
  double import_ms = 0;
  std::optional<PlanTimes> plan;  ///< absent for an ONNX file
};

/// Bytes that an engine and one of its sessions hold.
struct Memory {
  std::int64_t weight_bytes = 0;
  std::int64_t arena_bytes = 0;
  std::int64_t workspace_bytes = 0;
  std::int64_t io_bytes = 0;

  std::int64_t total() const noexcept { return weight_bytes + arena_bytes + workspace_bytes + io_bytes; }
};

/// How far the logits of some pictures are from a reference.
struct Comparison {
  std::int64_t pictures = 0;
  double max_abs = 0;  ///< this and the next: infinity where the file has null
  double relative_l2 = 0;
  std::int64_t top1_equal = 0;

  double top1_agreement() const noexcept {
    return pictures == 0 ? 0 : static_cast<double>(top1_equal) / static_cast<double>(pictures);
  }
};

/// How far numbers are from others that they should equal. The file has null for what is not finite.
struct Difference {
  double max_abs = 0;
  double mean_abs = 0;
  double relative_l2 = 0;
  double cosine = 1;  ///< of the angle between both
  double max_ulp = 0;
};

/// Outputs of the timed input, against those of --golden.
struct GoldenComparison {
  std::int64_t pictures = 0;
  Difference difference;
  std::int64_t top1_equal = 0;
};

/// A tensor that two implementations computed.
struct ComparedLayer {
  std::string tensor;            ///< its name in the model
  std::string layer;             ///< what finishes it
  std::string kernel;            ///< that runs that layer
  std::string reference_kernel;  ///< that finishes the tensor in the reference
  Difference difference;
  bool diverged = false;  ///< its relative L2 is not within the threshold
};

struct UncomparedLayer {
  std::string layer;
  std::string reason;
};

/// One implementation against another, layer by layer, in the order in which the first runs them.
struct LayerComparison {
  std::string reference;  ///< "cpu fp32"
  double threshold = 0;   ///< of the relative L2 of each tensor
  std::vector<ComparedLayer> layers;
  std::vector<UncomparedLayer> not_compared;

  /// Null when all tensors are within the threshold.
  const ComparedLayer* first_diverging() const;
  /// The one with the largest relative L2; null when there is none.
  const ComparedLayer* worst() const;
  std::size_t diverging() const;
};

/// A step of a compiled network.
struct Layer {
  std::string name;
  std::string kernel;
  std::string output;                 ///< per picture, "1x32x112x112"
  std::int64_t flops = 0;             ///< per picture
  std::int64_t activation_bytes = 0;  ///< read and written, per picture
  std::int64_t weight_bytes = 0;      ///< read once for a batch
  std::string reason;                 ///< why this kernel; empty where there was no choice
};

/// Layer times, in milliseconds.
struct LayerProfile {
  std::vector<double> layer_ms;  ///< as CaseResult::layers; empty: not profiled
  double whole_ms = 0;           ///< a run of the profiled kind without a clock between layers
  double boundary_ms = 0;        ///< what a reading of the clock added, and was taken off

  bool empty() const { return layer_ms.empty(); }
  double sum_ms() const { return std::accumulate(layer_ms.begin(), layer_ms.end(), 0.0); }
};

/// All activities, or all calls, of one name.
struct ActivityRow {
  std::string name;
  std::string kind;  ///< "kernel", "copy" or "memset"; "call" of CUDA functions
  std::size_t calls = 0;
  double total_ms = 0;
  double min_ms = 0;
  double max_ms = 0;

  double mean_ms() const { return calls > 0 ? total_ms / static_cast<double>(calls) : 0; }
};

/// Where the time of some traced runs went, the largest total first.
struct ActivityTables {
  int runs = 0;
  std::vector<ActivityRow> gpu;
  std::vector<ActivityRow> calls;  ///< CUDA functions, on the host
  std::uint64_t dropped = 0;       ///< records that the profiler lost
};

/// "cpu fp32", "cpu fp32, 3 threads".
std::string case_label(const std::string& implementation, const std::string& precision, std::optional<int> threads);

/// One implementation at one precision and batch.
struct CaseResult {
  std::string implementation;
  std::string precision;       ///< "fp32", "fp32_split", "tf32", "fp16", "fp64"
  std::optional<int> threads;  ///< where several are compared; 0: all cores
  std::int64_t batch = 1;

  double compile_ms = 0;
  double session_ms = 0;
  double first_run_ms = 0;
  double upload_ms = 0;  ///< of compile_ms; 0 where it is not known
  Statistics reload;     ///< --reload each: from the file to the outputs
  Memory memory;
  std::optional<std::int64_t> gpu_memory_used;  ///< what the GPU lost of its free memory

  Statistics device_statistics;        ///< input already in place
  Statistics host_statistics;          ///< from host to host
  double streamed_per_second = 0;      ///< pictures, from host to host with several sessions in flight; 0: not measured
  bool includes_transfers = false;     ///< which of the two the latency is of
  std::optional<Histogram> histogram;  ///< of the latency
  std::optional<Utilisation> utilisation;
  std::optional<double> enqueue_ms;  ///< host time to enqueue a run; GPU only
  SpeedUp speed_up;
  std::optional<Comparison> comparison;  ///< with the reference case, on the timed input
  std::optional<GoldenComparison> golden;
  std::vector<LayerComparison> layer_comparisons;

  std::vector<Layer> layers;
  LayerProfile profile;             ///< as the network runs
  LayerProfile serialized_profile;  ///< one layer after the other
  std::optional<SingleCalls> single_calls;
  std::optional<Sustained> sustained;
  std::optional<ActivityTables> activities;  ///< of the traced runs

  const Statistics& latency() const { return includes_transfers ? host_statistics : device_statistics; }
  bool enqueue_bound() const {
    return enqueue_ms && device_statistics.count > 0 && *enqueue_ms >= kEnqueueBound * device_statistics.median;
  }
  std::string label() const { return case_label(implementation, precision, threads); }
  double pictures_per_second() const {
    return latency().mean > 0 ? 1e3 * static_cast<double>(batch) / latency().mean : 0;
  }
};

/// A class that some of the pictures have.
struct ClassCount {
  std::size_t index = 0;
  std::string name;
  std::int64_t pictures = 0;
};

/// One implementation's hits among the pictures of a class.
struct ClassHits {
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;
};

/// Pictures that the reference puts into one class and an implementation into another.
struct Confusion {
  std::string reference_name;
  std::string own_name;
  std::int64_t pictures = 0;
};

/// One implementation's answers on the pictures.
struct AccuracyResult {
  std::string implementation;
  std::string precision;
  std::optional<int> threads;
  std::int64_t top1 = 0;  ///< of ImageReport::labelled
  std::int64_t top5 = 0;
  double inference_ms = 0;                        ///< wall time of all runs together
  std::optional<Comparison> with_reference;       ///< the reference implementation
  std::optional<Comparison> with_reference_file;  ///< --referenceLogits
  double inference_rate = 0;                      ///< pictures a second, pictures decoded already; 0: not measured
  double pipeline_rate = 0;                       ///< the same from files, while the next pictures are decoded
  std::string pipeline_decoder;                   ///< what decodes JPEG then; empty: not known
  std::vector<ClassHits> by_class;                ///< as ImageReport::classes, or empty
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
  std::size_t decode_threads = 0;                           ///< 0: not known
  double decode_rate = 0;                                   ///< pictures a second of decoding alone; 0: not measured
  std::vector<ClassCount> classes;                          ///< those with pictures
  std::vector<AccuracyResult> results;

  /// Label of the result that the others are compared with.
  std::string reference() const;
};

/// Everything that a run found out.
struct Report {
  Machine machine;
  Model model;
  std::vector<std::string> notes;  ///< implementations left out, and why
  std::string reference;           ///< label of the case the others are compared with
  double gpu_context_ms = 0;       ///< 0 without a GPU
  std::string gpu_not_sampled;     ///< why, where it should have been
  std::vector<CaseResult> cases;
  std::vector<GpuStates> gpu_states;
  std::optional<ImageReport> images;      ///< the last and, of an ascending list, largest of --maxImages
  std::vector<ImageReport> fewer_images;  ///< those before it
  std::vector<std::string> missed;        ///< thresholds not met
  bool interrupted = false;
  std::string error;  ///< what ended the run early
};

}  // namespace mobicuda::bench::report
