#include "bench_engine/command_line/declare_options.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>

#include <mobicuda/onnx_import.h>

#include "bench_engine/command_line/engine_options.h"
#include "bench_engine/command_line/value_checks.h"

namespace mobicuda::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kMaxSampleIntervalMs = 60000;

// A list option: "a,b" or given several times, never swallowing what follows.
template <class T>
CLI::Option* add_list(CLI::App& app, const std::string& names, std::vector<T>& values, const std::string& help) {
  return app.add_option(names, values, help)->delimiter(',')->allow_extra_args(false)->take_all();
}

void add_model_options(CLI::App& app, Options& options, RawOptions& raw) {
  const auto* group = "Model";
  app.add_option("-m,--model,--onnx", options.model, "ONNX file")->type_name("FILE")->group(group);
  add_engine_options(app, options);
  app.add_option("--shapes", raw.shapes,
                 "Batch, unless --batch says it, and extents of an input that the file leaves open")
      ->type_name("[NAME:]NxCxHxW")
      ->group(group);
  app.add_option("--generatedElements", options.generated_elements,
                 "Most elements of constants that the model's nodes make, such as weights of a ConstantOfShape")
      ->check(at_least(1))
      ->type_name("N")
      ->default_str(std::to_string(onnx_import::ImportLimits{}.generated_elements))
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
  add_list(app, "--precision", raw.precisions, "fp32 (exact), fp32_split, tf32, fp16, fp64")
      ->type_name("NAME[,..]")
      ->default_str("fp32")
      ->group(group);
  app.add_flag("--fp16", raw.fp16, "Same as --precision fp16")->group(group);
  add_list(app, "-b,--batch", raw.batches,
           "Batch sizes, or ranges start:end:step and start:end:*factor (1:256:*2 doubles)")
      ->type_name("N[,..]")
      ->default_str("1")
      ->group(group);
  app.add_option("--maxBatch", options.max_batch,
                 "Run every batch on engines for so many pictures, which have kernels chosen for smaller batches too "
                 "(default: an engine for each batch, for that size only)")
      ->check(at_least(1))
      ->type_name("N")
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
      ->check(at_least(0))
      ->type_name("N")
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
  app.add_option("--specialise", raw.specialise,
                 "Compile custom's kernels for the model's own shapes: never, auto (where NVRTC is found), always")
      ->check(one_of({"never", "auto", "always"}))
      ->type_name("never|auto|always")
      ->capture_default_str()
      ->group(group);
  app.add_option("--codeCache", options.code_cache,
                 "Folder that keeps compiled kernels, '' for none (default: mobicuda/code in the user's cache folder)")
      ->type_name("FOLDER")
      ->group(group);
  app.add_option("--nvrtc", options.nvrtc_library, "File of NVRTC (default: found by the dynamic linker)")
      ->type_name("FILE")
      ->group(group);
}

void add_timing_options(CLI::App& app, Options& options, RawOptions& raw) {
  const auto* group = "Timing";
  app.add_option("--warmUp", options.warm_up_ms, "Warm-up before measuring, milliseconds")
      ->check(at_least(0))
      ->type_name("MS")
      ->capture_default_str()
      ->group(group);
  app.add_option("--duration", options.duration_s, "Measure each implementation at least so many seconds")
      ->check(at_least(0))
      ->type_name("S")
      ->capture_default_str()
      ->group(group);
  app.add_option("--iterations", options.iterations, "... and at least so many iterations")
      ->check(at_least(1))
      ->check(whole_up_to(std::numeric_limits<int>::max()))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  constexpr double kMostIdle = 60000;  // Ctrl-C waits for its end, and 1e308 is no duration that a clock knows
  app.add_option("--idleTime", options.idle_ms, "Pause before each iteration, milliseconds")
      ->check(between(0, kMostIdle))
      ->type_name("MS")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--singleCalls", options.single_calls,
               "Also time calls that find an idle GPU, by the host's clock: warm, after 2 ms of rest, with L2 swept")
      ->group(group);
  app.add_option(
         "--sustained", options.sustained_s,
         "Then run each case alone for so many seconds: pictures by wall time, clocks, power and energy; 0 = not")
      ->check(at_least(0))
      ->type_name("S")
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--sampleInterval", options.sample_interval_ms,
         "Between samples of GPU utilisation, clocks, power and temperature while timing, milliseconds; 0 = none, "
         "nor CPU use")
      ->type_name("MS")
      ->check(between(0.0, kMaxSampleIntervalMs))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--includeDataTransfers", options.include_transfers,
               "Latency is the wall time from host to host, transfers included")
      ->group(group);
  app.add_option("--input", raw.input,
                 "What networks are fed: fp32, or uint8 pictures (HWC) that the device normalises as --preprocess says "
                 "(default tf)")
      ->check(one_of({"fp32", "uint8"}))
      ->type_name("fp32|uint8")
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--hostTransfer", raw.host_transfer,
         "Between host and GPU: copy, direct (kernels use the host's memory), auto (copies in, small outputs direct)")
      ->check(one_of({"auto", "copy", "direct"}))
      ->type_name("auto|copy|direct")
      ->capture_default_str()
      ->group(group);
  app.add_option("--infStreams", options.streams, "Sessions in flight where throughput from host to host is measured")
      ->check(between(1, 16))
      ->type_name("N")
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
  app.add_option("--seed", options.seed, "Of the random input")
      ->check(at_least(0))
      ->check(whole_up_to(std::numeric_limits<std::uint64_t>::max()))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
}

void add_accuracy_options(CLI::App& app, Options& options, RawOptions& raw) {
  const auto* group = "Pictures and accuracy";
  app.add_option("--images", options.images, "Folder of pictures, one sub-folder for each synset")
      ->type_name("DIR")
      ->group(group);
  app.add_flag("--timeImages", options.time_images, "Time on the first of these pictures instead of random numbers")
      ->group(group);
  app.add_option("--labels", options.labels, "Synset file: line i (from 0) names class i")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--preprocess", raw.normalization, "torch ((p/255 - mean) / std) or tf (p/127.5 - 1)")
      ->check(one_of({"torch", "tf"}))
      ->type_name("torch|tf")
      ->group(group);
  add_list(app, "--maxImages,--imagesCount", raw.max_images,
           "Only the first N pictures in path order; a list or range (100:10000:*10) is one evaluation each")
      ->type_name("N[,..]")
      ->group(group);
  app.add_option("--decodeThreads", options.decode_threads,
                 "Threads that decode pictures while the implementations run, 0 = one for each core")
      ->check(between(0, kMaxThreads))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--decode", raw.decode,
                 "Where JPEG is decoded while rates from files to logits are measured: on the CPU, on the GPU of an "
                 "implementation that runs there (by its JPEG units, its multiprocessors, or what it has), or auto: "
                 "there where it has nvJPEG")
      ->check(one_of({"auto", "gpu", "gpu-units", "gpu-sms", "cpu"}))
      ->type_name("auto|gpu|gpu-units|gpu-sms|cpu")
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
      ->check(between(0.0, 100.0))
      ->type_name("PERCENT")
      ->group(group);
  app.add_option("--agreementThreshold", options.agreement_threshold,
                 "Exit 3 when top-1 agreement with the reference is below (percent)")
      ->check(between(0.0, 100.0))
      ->type_name("PERCENT")
      ->group(group);
  app.add_option("--accuracyThreshold", options.accuracy_threshold,
                 "Exit 3 when a logit differs from the reference by more")
      ->check(at_least(0))
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
  limit("--meanThreshold", options.mean_threshold, at_least(0), "Exit 3 when the mean difference is larger");
  limit("--relativeL2Threshold", options.relative_l2_threshold, at_least(0),
        "Exit 3 when ||output - golden|| / ||golden|| is larger");
  limit("--cosineThreshold", options.cosine_threshold, between(-1.0, 1.0), "Exit 3 when the cosine of both is smaller");
  limit("--ulpThreshold", options.ulp_threshold, at_least(0),
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
      ->check(at_least(0))
      ->type_name("X")
      ->group(group);
}

void add_report_options(CLI::App& app, Options& options) {
  const auto* group = "Reports";
  app.add_flag("--dumpProfile", options.dump_profile,
               "Time of each layer as the network runs: what its first layers take with it and without it")
      ->group(group);
  app.add_flag("--dumpSerializedProfile", options.dump_serialized_profile,
               "Time of each layer by itself, without CUDA graph and programmatic launch (named ranges for nsys)")
      ->group(group);
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
  file("--exportProfile", options.export_profile, "Layer times as of --dumpProfile, JSON as of trtexec");
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

}  // namespace

void declare_options(CLI::App& app, Options& options, RawOptions& raw) {
  add_model_options(app, options, raw);
  add_run_options(app, options, raw);
  add_timing_options(app, options, raw);
  add_accuracy_options(app, options, raw);
  add_golden_options(app, options, raw);
  add_layer_options(app, options);
  add_report_options(app, options);
}

}  // namespace mobicuda::bench
