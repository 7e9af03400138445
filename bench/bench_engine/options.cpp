#include "bench_engine/options.h"

#include <CLI/CLI.hpp>
#include <ostream>

#include "bench_engine/engines/engine_options.h"
#include "bench_engine/exit_codes.h"
#include "bench_engine/sweep.h"
#include "bench_engine/trace/tracer.h"

namespace mobicuda::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxThreads = 4096;
constexpr double kMinSampleIntervalMs = 1;
constexpr double kMaxSampleIntervalMs = 60000;

constexpr const char* kFooter = R"(
Examples:
  bench_engine --model m.onnx
  bench_engine --impl custom,cudnn --model m.onnx --batch 1,8,32 --precision fp16 --dumpProfile
  bench_engine --impl cpu --model m.onnx --batch 1:64:*2 --threads 1,3,6
  bench_engine --impl custom --model m.onnx --precision fp16 --batch 32 --saveEngine m.plan
  bench_engine --loadEngine m.plan --reload each
  bench_engine --impl cpu --model m.onnx --loadInputs in.npy --golden out.npy --accuracyThreshold 1e-4
  bench_engine --impl custom --model m.onnx --fp16 --compare cpu,cudnn:fp16   (layer by layer)
  bench_engine --impl all --model m.onnx --images val --labels synsets.txt --preprocess torch --json out.json
  bench_engine report out.json --html out.html                 (a page of such a file; report --help)
  bench_engine report before.json after.json --html diff.html  (what changed beyond noise)

Exit codes: 0 ok, 1 runtime failure, 2 wrong usage, 3 accuracy threshold missed, 4 no usable device,
130 stopped by Ctrl-C (what was measured until then is reported).)";

// What CLI11 fills in and Options does not hold in that form.
struct RawOptions {
  std::vector<std::string> batches;
  std::vector<std::string> threads;
  std::vector<std::string> max_images;
  std::vector<std::string> precisions;
  std::vector<std::string> variants;
  std::string shapes;
  std::string load_inputs;
  std::string golden;
  std::string normalization;
  std::string input = "fp32";
  std::string host_transfer = "auto";
  bool fp16 = false;
  bool no_cuda_graph = false;
  bool use_cuda_graph = false;
  bool no_programmatic_launch = false;
};

// A list option: "a,b" or given several times, never swallowing what follows.
template <class T>
CLI::Option* add_list(CLI::App& app, const std::string& names, std::vector<T>& values, const std::string& help) {
  return app.add_option(names, values, help)->delimiter(',')->allow_extra_args(false)->take_all();
}

void add_model_options(CLI::App& app, Options& options, RawOptions& raw) {
  const auto* group = "Model";
  app.add_option("-m,--model,--onnx", options.model, "ONNX file")->type_name("FILE")->group(group);
  add_engine_options(app, options);
  app.add_option("--shapes", raw.shapes, "Batch and extents of an input that the file leaves open")
      ->type_name("[NAME:]NxCxHxW")
      ->group(group);
}

void add_run_options(CLI::App& app, Options& options, RawOptions& raw) {
  const auto* group = "What to run";
  add_list(app, "--impl", options.implementations,
           "Implementations: custom, cudnn, cpu, each with :precision where it differs from --precision; "
           "all (or auto) = every one that this machine can run")
      ->type_name("NAME[,..]")
      ->default_str("all")
      ->group(group);
  add_list(app, "--precision", raw.precisions, "fp32 (exact), tf32, fp16, fp64")
      ->type_name("NAME[,..]")
      ->default_str("fp32")
      ->group(group);
  app.add_flag("--fp16", raw.fp16, "Same as --precision fp16")->group(group);
  add_list(app, "-b,--batch", raw.batches,
           "Batch sizes, or ranges start:end:step and start:end:*factor (1:256:*2 doubles)")
      ->type_name("N[,..]")
      ->default_str("1")
      ->group(group);
  app.add_option("--reference", options.reference, "Implementation the others are compared with (default: the first)")
      ->type_name("NAME[:PRECISION]")
      ->group(group);
  add_list(app, "--threads", raw.threads,
           "Threads of the cpu implementation, 0 = one for each core; a list or range is one result each")
      ->type_name("N[,..]")
      ->default_str("0")
      ->group(group);
  app.add_option("-d,--device", options.device, "CUDA device")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  app.add_flag("--noCudaGraph", raw.no_cuda_graph, "Launch kernel by kernel instead of one CUDA graph")->group(group);
  app.add_flag("--useCudaGraph", raw.use_cuda_graph, "Accepted for trtexec's sake: it is the default")->group(group);
  app.add_flag("--noProgrammaticLaunch", raw.no_programmatic_launch, "No programmatic dependent launch")->group(group);
  add_list(app, "--kernelVariant", raw.variants, "Force a kernel variant of custom, e.g. gemm=mma_64x64x64")
      ->type_name("KERNEL=NAME[,..]")
      ->group(group);
  app.add_option("--timingCacheFile", options.timing_cache,
                 "Choose custom's kernels by measured times; those the file lacks are measured and added")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--errorOnTimingCacheMiss", options.require_timing_cache,
               "Fail where the timing cache lacks a time instead of measuring it")
      ->group(group);
}

void add_timing_options(CLI::App& app, Options& options, RawOptions& raw) {
  const auto* group = "Timing";
  app.add_option("--warmUp", options.warm_up_ms, "Warm-up before measuring, milliseconds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  app.add_option("--duration", options.duration_s, "Measure each implementation at least so many seconds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  app.add_option("--iterations", options.iterations, "... and at least so many iterations")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  app.add_option("--idleTime", options.idle_ms, "Pause before each iteration, milliseconds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--sampleInterval", options.sample_interval_ms,
         "Between samples of GPU utilisation, clocks, power and temperature while timing, milliseconds; 0 = none, "
         "nor CPU use")
      ->type_name("MS")
      ->check(CLI::Range(0.0, kMaxSampleIntervalMs))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--includeDataTransfers", options.include_transfers,
               "Latency is the wall time from host to host, transfers included")
      ->group(group);
  app.add_option("--input", raw.input,
                 "What networks are fed: fp32, or uint8 pictures (HWC) that the device normalises as --preprocess says "
                 "(default tf)")
      ->check(CLI::IsMember({"fp32", "uint8"}))
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--hostTransfer", raw.host_transfer,
         "Between host and GPU: copy, direct (kernels use the host's memory), auto (copies in, small outputs direct)")
      ->check(CLI::IsMember({"auto", "copy", "direct"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--infStreams", options.streams, "Sessions in flight where throughput from host to host is measured")
      ->check(CLI::Range(1, 16))
      ->capture_default_str()
      ->group(group);
  app.add_option("--loadInputs", raw.load_inputs,
                 "Input instead of random numbers, with --input uint8 0 to 255: .npy, .pb (ONNX TensorProto), .txt "
                 "(numbers), else raw float32")
      ->type_name("[NAME:]FILE")
      ->group(group);
  app.add_option("--saveOutputs", options.save_outputs,
                 "Write the timed input's outputs, in the formats of --loadInputs; with several results each has its "
                 "implementation, precision and batch in the file's name")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--seed", options.seed, "Of the random input")->capture_default_str()->group(group);
}

void add_accuracy_options(CLI::App& app, Options& options, RawOptions& raw) {
  const auto* group = "Pictures and accuracy";
  app.add_option("--images", options.images, "Folder of pictures, one sub-folder for each synset")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--labels", options.labels, "Synset file: line i (from 0) names class i")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--preprocess", raw.normalization, "torch ((p/255 - mean) / std) or tf (p/127.5 - 1)")
      ->check(CLI::IsMember({"torch", "tf"}))
      ->type_name("NAME")
      ->group(group);
  add_list(app, "--maxImages,--imagesCount", raw.max_images,
           "Only the first N pictures in path order; a list or range (100:10000:*10) is one evaluation each")
      ->type_name("N[,..]")
      ->group(group);
  app.add_option("--decodeThreads", options.decode_threads,
                 "Threads that decode pictures while the implementations run, 0 = one for each core")
      ->check(CLI::Range(std::int64_t{0}, kMaxThreads))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--perClass", options.per_class, "Table of classes: pictures, top-1 and top-5 (the JSON has it always)")
      ->group(group);
  app.add_option("--referenceLogits", options.reference_logits,
                 "Raw float32 rows to compare with, one for each file below --images in path order")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--referenceList", options.reference_list, "The rows' order: lines that begin with a path")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--top1Threshold", options.top1_threshold, "Exit 3 when top-1 accuracy is below (percent)")
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("PERCENT")
      ->group(group);
  app.add_option("--agreementThreshold", options.agreement_threshold,
                 "Exit 3 when top-1 agreement with the reference is below (percent)")
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("PERCENT")
      ->group(group);
  app.add_option("--accuracyThreshold", options.accuracy_threshold,
                 "Exit 3 when a logit differs from the reference by more")
      ->check(CLI::NonNegativeNumber)
      ->type_name("X")
      ->group(group);
}

void add_golden_options(CLI::App& app, Options& options, RawOptions& raw) {
  const auto* group = "Golden outputs";
  app.add_option("--golden,--loadRefOutputs", raw.golden,
                 "Compare the timed input's outputs with these, in the formats of --loadInputs; --accuracyThreshold "
                 "and --agreementThreshold judge them too")
      ->type_name("[NAME:]FILE")
      ->group(group);
  const auto limit = [&](const char* name, std::optional<double>& value, const CLI::Validator& range,
                         const char* help) {
    app.add_option(name, value, help)->check(range)->type_name("X")->group(group);
  };
  limit("--meanThreshold", options.mean_threshold, CLI::NonNegativeNumber, "Exit 3 when the mean difference is larger");
  limit("--relativeL2Threshold", options.relative_l2_threshold, CLI::NonNegativeNumber,
        "Exit 3 when ||output - golden|| / ||golden|| is larger");
  limit("--cosineThreshold", options.cosine_threshold, CLI::Range(-1.0, 1.0),
        "Exit 3 when the cosine of both is smaller");
  limit("--ulpThreshold", options.ulp_threshold, CLI::NonNegativeNumber,
        "Exit 3 when a number is more float32 steps away from the golden one");
}

void add_layer_options(CLI::App& app, Options& options) {
  const auto* group = "Layer by layer";
  add_list(app, "--compare", options.compare,
           "Compare each tensor that a layer computes with that of these implementations, on the timed input; without "
           ":precision at fp32, or fp64 where the one compared is")
      ->type_name("NAME[:PRECISION][,..]")
      ->group(group);
  app.add_option("--compareThreshold", options.compare_threshold,
                 "Exit 3 when ||tensor - reference|| / ||reference|| is larger (default by precision: fp32 6.1e-5, "
                 "fp16 and tf32 0.0625, fp64 1.2e-7)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("X")
      ->group(group);
}

void add_report_options(CLI::App& app, Options& options) {
  const auto* group = "Reports";
  app.add_flag("--dumpProfile", options.dump_profile, "Time of each layer")->group(group);
  app.add_flag("--dumpLayerInfo", options.dump_layer_info, "Layers, the kernels that run them, and why these")
      ->group(group);
  app.add_flag("--dumpKernels", options.dump_kernels,
               "GPU activities and CUDA calls of some traced runs after the timing: where the time goes (CUPTI)")
      ->group(group);
  app.add_flag("--dumpOutput", options.dump_output, "The first picture's output")->group(group);
  const auto file = [&](const char* name, fs::path& value, const char* help) {
    app.add_option(name, value, help)->type_name("FILE")->group(group);
  };
  file("--json", options.json, "Everything as one JSON document");
  file("--csv", options.csv, "One row for each implementation, precision and batch");
  file("--exportTimes", options.export_times, "Every iteration's time, JSON as of trtexec");
  file("--exportProfile", options.export_profile, "Layer times, JSON as of trtexec");
  file("--exportLayerInfo", options.export_layer_info, "Layers, JSON");
  file("--exportTrace", options.export_trace,
       "Those runs as a timeline of layers, streams and host threads, for ui.perfetto.dev and chrome://tracing");
  file("--exportOutput", options.export_output, "Outputs of the timed input, JSON as of trtexec");
  app.add_flag("--listImpls", options.list_implementations, "Implementations of this build and whether they can run")
      ->group(group);
  app.add_flag("--listOps", options.list_operators, "ONNX operators that the importer knows")->group(group);
  app.add_flag("-q,--quiet", options.quiet, "No progress on stderr")->group(group);
  app.add_flag("--verbose", options.verbose, "What the library has to say, on stderr")->group(group);
}

// Takes "name:" off the front; the name is for trtexec's sake, networks here have one input.
std::string without_name(const std::string& text) {
  const auto colon = text.find(':');
  return colon == std::string::npos ? text : text.substr(colon + 1);
}

void apply_shapes(const std::string& text, Options& options) {
  std::vector<std::int64_t> dims;
  for (const std::string& part : split(without_name(text), 'x')) dims.push_back(parse_number(part, "--shapes", 1));
  if (dims.size() < 2) throw UsageError("--shapes: '" + text + "' has no extents after the batch");
  options.batches = {dims.front()};
  options.picture_shape.assign(dims.begin() + 1, dims.end());
}

void apply(const RawOptions& raw, Options& options) {
  if (!raw.shapes.empty()) apply_shapes(raw.shapes, options);
  if (!raw.batches.empty()) {
    options.batches = parse_ranges(raw.batches, "--batch", 1);
  }
  if (!raw.threads.empty()) {
    options.threads.clear();
    for (const std::int64_t threads : parse_ranges(raw.threads, "--threads", 0)) {
      if (threads > kMaxThreads) throw UsageError("--threads: at most " + std::to_string(kMaxThreads));
      options.threads.push_back(static_cast<int>(threads));
    }
  }
  for (const std::int64_t count : parse_ranges(raw.max_images, "--maxImages", 1)) {
    options.max_images.push_back(static_cast<std::size_t>(count));
  }
  if (!raw.precisions.empty() || raw.fp16) options.precisions.clear();
  for (const std::string& text : raw.precisions) options.precisions.push_back(parse_precision(text));
  if (raw.fp16) options.precisions.push_back(Precision::Fp16);
  for (const std::string& text : raw.variants) {
    const auto equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
      throw UsageError("--kernelVariant: '" + text + "' is not KERNEL=NAME");
    }
    options.kernel_variants[text.substr(0, equals)] = text.substr(equals + 1);
  }
  if (!raw.normalization.empty()) {
    options.normalization = raw.normalization == "torch" ? Normalization::Torch : Normalization::Tf;
  }
  // The plan file says what the command line leaves open.
  if (!options.load_engine.empty() && raw.precisions.empty() && !raw.fp16) options.precisions.clear();
  if (!options.load_engine.empty() && raw.batches.empty()) options.batches.clear();
  options.pictures = raw.input == "uint8";
  if (raw.host_transfer == "copy") options.host_transfer = HostTransfer::Copy;
  if (raw.host_transfer == "direct") options.host_transfer = HostTransfer::Direct;
  options.load_inputs = fs::exists(raw.load_inputs) ? raw.load_inputs : without_name(raw.load_inputs);
  options.golden = fs::exists(raw.golden) ? raw.golden : without_name(raw.golden);
  options.cuda_graph = !raw.no_cuda_graph;
  options.programmatic_launch = !raw.no_programmatic_launch;
}

void require_file(const fs::path& path, const char* option) {
  if (!path.empty() && !fs::is_regular_file(path)) {
    throw UsageError(std::string(option) + ": no such file: " + path.string());
  }
}

void check(const Options& options) {
  if (options.list_implementations || options.list_operators) return;
  check_engine_options(options);
  require_file(options.model, "--model");
  require_file(options.load_inputs, "--loadInputs");
  require_file(options.golden, "--golden");
  if (options.golden.empty() &&
      (options.mean_threshold || options.relative_l2_threshold || options.cosine_threshold || options.ulp_threshold)) {
    throw UsageError("--meanThreshold, --relativeL2Threshold, --cosineThreshold and --ulpThreshold need --golden");
  }
  if (options.compare_threshold && options.compare.empty()) throw UsageError("--compareThreshold needs --compare");
  if (options.sample_interval_ms > 0 && options.sample_interval_ms < kMinSampleIntervalMs) {
    throw UsageError("--sampleInterval: must be 0 or at least 1 ms");
  }
  require_file(options.labels, "--labels");
  require_file(options.reference_logits, "--referenceLogits");
  require_file(options.reference_list, "--referenceList");
  if (options.images.empty()) {
    if (!options.labels.empty() || !options.reference_logits.empty() || options.top1_threshold ||
        !options.max_images.empty() || options.per_class) {
      throw UsageError("--labels, --referenceLogits, --maxImages, --perClass and --top1Threshold need --images");
    }
  } else {
    if (!fs::is_directory(options.images)) throw UsageError("--images: no such folder: " + options.images.string());
    if (!options.normalization) throw UsageError("--images needs --preprocess torch or tf: models differ in it");
    if (options.top1_threshold && options.labels.empty()) throw UsageError("--top1Threshold needs --labels");
    if (options.per_class && options.labels.empty()) throw UsageError("--perClass needs --labels");
  }
  if (options.require_timing_cache && options.timing_cache.empty()) {
    throw UsageError("--errorOnTimingCacheMiss needs --timingCacheFile");
  }
  if (options.traced() && !why_no_tracer().empty()) throw UsageError(why_no_tracer());
  if (!options.reference_list.empty() && options.reference_logits.empty()) {
    throw UsageError("--referenceList needs --referenceLogits");
  }
}

}  // namespace

Precision parse_precision(const std::string& text) {
  for (const Precision precision : {Precision::Fp32, Precision::Tf32, Precision::Fp16, Precision::Fp64}) {
    if (text == mobicuda::to_string(precision)) return precision;
  }
  throw UsageError("unknown precision '" + text + "': fp32, tf32, fp16 or fp64");
}

ParsedCommandLine parse_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  ParsedCommandLine result;
  Options& options = result.options;
  options.command_line.assign(argv, argv + argc);
  RawOptions raw;
  CLI::App app("Times and checks image classifiers: hand-written CUDA kernels, cuDNN and CPU side by side.",
               "bench_engine");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("bench_engine ") + MOBICUDA_VERSION);
  add_model_options(app, options, raw);
  add_run_options(app, options, raw);
  add_timing_options(app, options, raw);
  add_accuracy_options(app, options, raw);
  add_golden_options(app, options, raw);
  add_layer_options(app, options);
  add_report_options(app, options);
  try {
    app.parse(argc, argv);
    apply(raw, options);
    check(options);
  } catch (const CLI::ParseError& error) {
    const bool mistake = error.get_exit_code() != 0;
    app.exit(error, out, err);
    result.exit_code = mistake ? kExitUsage : kExitOk;
  } catch (const UsageError& error) {
    err << "bench_engine: " << error.what() << '\n';
    result.exit_code = kExitUsage;
  }
  return result;
}

}  // namespace mobicuda::bench
