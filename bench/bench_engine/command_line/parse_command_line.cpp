#include "bench_engine/command_line/parse_command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>

#include "bench_engine/command_line/check_options.h"
#include "bench_engine/command_line/declare_options.h"
#include "bench_engine/command_line/help.h"
#include "bench_engine/command_line/sweep.h"
#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter = R"(
Examples:
  bench_engine --model m.onnx
  bench_engine --impl custom,cudnn --model m.onnx --batch 1,8,32 --precision fp16 --dumpProfile
  bench_engine --impl cpu --model m.onnx --batch 1:64:*2 --threads 1,3,6
  bench_engine --impl custom --model m.onnx --precision fp16 --batch 32 --saveEngine m.plan
  bench_engine --loadEngine m.plan --reload each
  bench_engine --impl cpu --model m.onnx --loadInputs in.npy --golden out.npy --meanThreshold 1e-4
  bench_engine --impl custom --model m.onnx --fp16 --compare cpu,cudnn:fp16   (layer by layer)
  bench_engine --model m.onnx --images val --labels synsets.txt --preprocess torch --json out.json
  bench_engine report out.json --html out.html                 (a page of it; report --help)
  bench_engine report before.json after.json --html diff.html  (what changed beyond noise)

Exit codes: 0 ok, 1 runtime failure, 2 wrong usage, 3 accuracy threshold missed, 4 no usable device,
130 stopped by Ctrl-C (what was measured until then is reported).)";

// "name:" in front, for trtexec's sake: networks here have one input.
std::string name_of(const std::string& text) {
  const auto colon = text.find(':');
  return colon == std::string::npos ? std::string() : text.substr(0, colon);
}

std::string without_name(const std::string& text) {
  const auto colon = text.find(':');
  return colon == std::string::npos ? text : text.substr(colon + 1);
}

// The file of "[NAME:]FILE": the whole where that exists.
fs::path file_of(const std::string& text) {
  std::error_code ignored;
  return fs::exists(text, ignored) ? text : without_name(text);
}

void apply_shapes(const std::string& text, Options& options) {
  std::vector<std::int64_t> dims;
  for (const std::string& part : split(without_name(text), 'x')) dims.push_back(parse_number(part, "--shapes", 1));
  if (dims.size() < 2) throw UsageError("--shapes: '" + text + "' has no extents after the batch");
  options.shapes_input = name_of(text);
  options.batches = {dims.front()};
  options.picture_shape.assign(dims.begin() + 1, dims.end());
}

void require_different(std::vector<std::int64_t> values, const std::string& option) {
  std::sort(values.begin(), values.end());
  const auto twice = std::adjacent_find(values.begin(), values.end());
  if (twice != values.end()) throw UsageError(option + ": names " + std::to_string(*twice) + " twice");
}

void apply(const RawOptions& raw, Options& options) {
  if (!raw.shapes.empty()) apply_shapes(raw.shapes, options);
  if (!raw.batches.empty()) {
    options.batches = parse_ranges(raw.batches, "--batch", 1);
    require_different(options.batches, "--batch");
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
  if (raw.decode == "auto") options.decode = pictures::DecodeOn::Auto;
  if (raw.decode == "gpu") options.decode = pictures::DecodeOn::Gpu;
  if (raw.decode == "gpu-units") options.decode = pictures::DecodeOn::GpuUnits;
  if (raw.decode == "gpu-sms") options.decode = pictures::DecodeOn::GpuSms;
  // The plan file says what the command line leaves open.
  if (!options.load_engine.empty() && raw.precisions.empty() && !raw.fp16) options.precisions.clear();
  if (!options.load_engine.empty() && raw.batches.empty()) options.batches.clear();
  options.pictures = raw.input == "uint8";
  if (raw.specialise == "never") options.specialise = Specialise::Never;
  if (raw.specialise == "always") options.specialise = Specialise::Always;
  if (raw.host_transfer == "copy") options.host_transfer = HostTransfer::Copy;
  if (raw.host_transfer == "direct") options.host_transfer = HostTransfer::Direct;
  options.load_inputs = file_of(raw.load_inputs);
  if (options.load_inputs != raw.load_inputs) options.loaded_input = name_of(raw.load_inputs);
  options.golden = file_of(raw.golden);
  options.cuda_graph = !raw.no_cuda_graph;
  options.programmatic_launch = !raw.no_programmatic_launch;
}

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  ParsedCommandLine result;
  Options& options = result.options;
  options.command_line.assign(argv, argv + argc);
  RawOptions raw;
  CLI::App app("Times and checks image classifiers: hand-written CUDA kernels, cuDNN and CPU side by side.",
               "bench_engine");
  app.footer(kFooter);
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", std::string("bench_engine ") + MOBICUDA_VERSION);
  declare_options(app, options, raw);
  try {
    app.parse(argc, argv);
    apply(raw, options);
    check_options(options);
  } catch (const CLI::ParseError& error) {
    result.exit_code = tell(app, error, out, err);
  } catch (const UsageError& error) {
    err << "bench_engine: " << error.what() << '\n';
    result.exit_code = kExitUsage;
  }
  return result;
}

}  // namespace mobicuda::bench
