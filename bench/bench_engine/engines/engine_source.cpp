#include "bench_engine/engines/engine_source.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include <mobicuda/onnx_import.h>
#include <mobicuda/picture_preparation.h>
#include <mobicuda/plan_file.h>

#include "bench_engine/model/exit_codes.h"
#include "bench_engine/model/result_file.h"
#include "bench_engine/process/clock.h"
#include "text/numbers.h"

namespace mobicuda::bench {
namespace {

[[noreturn]] void refuse(const Options& options, const std::string& what, const std::string& has) {
  throw UsageError("--loadEngine " + options.load_engine.string() + ": its " + what + " is " + has +
                   ", the command line asks for another");
}

}  // namespace

void take_from_plan(Options& options) {
  if (options.load_engine.empty()) return;
  const SavedEngine saved = plan_file::read(options.load_engine);
  const EngineOptions& made = saved.options;
  const std::string precision(to_string(made.precision));
  if (options.implementations == std::vector<std::string>{"all"}) options.implementations = {saved.backend};
  if (options.precisions.empty()) options.precisions = {made.precision};
  if (options.batches.empty()) options.batches = {made.max_batch};
  if (!options.max_batch) options.max_batch = made.max_batch;
  options.pictures = options.pictures || made.picture_input.has_value();
  if (options.implementations.size() != 1 || (options.implementations.front() != saved.backend &&
                                              options.implementations.front() != saved.backend + ':' + precision)) {
    refuse(options, "implementation", saved.backend + ' ' + precision);
  }
  if (options.precisions != std::vector{made.precision}) refuse(options, "precision", precision);
  const std::int64_t largest = *std::max_element(options.batches.begin(), options.batches.end());
  if (*options.max_batch != made.max_batch || largest > made.max_batch) {
    refuse(options, "largest batch", std::to_string(made.max_batch));
  }
  if (options.pictures && !made.picture_input) refuse(options, "input", "fp32");
}

void require_savable(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    if (one.implementation != "cudnn") continue;
    throw UsageError(
        "--saveEngine: engines of cudnn cannot be saved, its algorithms are searched in each process; leave it out "
        "with --impl custom or --impl cpu");
  }
}

void save_engine(const Engine& engine, const Options& options, const CaseResult& result, bool several,
                 std::ostream& out) {
  const std::filesystem::path path = several ? result_file(options.save_engine, result) : options.save_engine;
  plan_file::save(engine, path);
  out << result.label() << ", batch " << result.batch << ": saved as " << path.string() << ", "
      << megabytes(static_cast<std::int64_t>(std::filesystem::file_size(path))) << '\n';
}

EngineOptions engine_options(const Options& options, const Case& one, std::int64_t batch, LogCallback log) {
  EngineOptions engine;
  engine.precision = one.precision;
  engine.max_batch = options.max_batch.value_or(batch);
  // An engine for one batch size needs no plans for others.
  if (!options.max_batch) engine.plan_batches.emplace();
  engine.threads = one.threads.value_or(options.threads.front());
  engine.device = options.device;
  engine.cuda_graph = options.cuda_graph;
  engine.programmatic_launch = options.programmatic_launch;
  engine.host_transfer = options.host_transfer;
  if (options.pictures)
    engine.picture_input = pictures::picture_input(options.normalization.value_or(Normalization::Tf));
  if (one.implementation == "custom") {
    engine.kernel_variants = options.kernel_variants;
    engine.timing_cache = options.timing_cache;
    engine.require_timing_cache = options.require_timing_cache;
    engine.specialise = options.specialise;
    engine.code_cache = options.code_cache;
    engine.nvrtc_library = options.nvrtc_library;
  }
  engine.log = std::move(log);
  return engine;
}

EngineSource::EngineSource(const Options& options, LogCallback log) : options_(options), log_(std::move(log)) {}

void EngineSource::read(ModelInfo& model) {
  const bool plan = !options_.load_engine.empty();
  const auto start = Clock::now();
  if (plan) {
    saved_.emplace(plan_file::read(options_.load_engine, &model.plan.emplace()));
  } else {
    onnx_import::ImportOptions import;
    import.picture_shape = options_.picture_shape;
    if (options_.generated_elements) import.limits.generated_elements = *options_.generated_elements;
    import.log = log_;
    imported_.emplace(onnx_import::load(options_.model, import));
  }
  model.import_ms = since_ms(start);
  model.path = plan ? options_.load_engine : options_.model;
  model.bytes = std::filesystem::file_size(model.path);
  model.graph = graph().name();
  model.nodes = graph().nodes().size();
  model.flops = 0;
  for (const Node& node : graph().nodes()) model.flops += flops_per_picture(graph(), node);
  model.input_name = graph().value(graph().input()).name;
  model.output_name = graph().value(graph().output()).name;
  model.input = graph().input_desc();
  model.output = graph().output_desc();
}

std::shared_ptr<const Engine> EngineSource::make(const Backend& backend, EngineOptions options) const {
  if (!saved_) return backend.compile(*imported_, options);
  if (!options_.normalization) options.picture_input = saved_->options.picture_input;
  try {
    return backend.restore(*saved_, options);
  } catch (const Error& error) {
    throw error.inside(options_.load_engine.string());
  }
}

}  // namespace mobicuda::bench
