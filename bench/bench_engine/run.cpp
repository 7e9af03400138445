#include "bench_engine/run.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "bench_engine/command_line/check_effects.h"
#include "bench_engine/engines/engine_source.h"
#include "bench_engine/engines/implementations.h"
#include "bench_engine/engines/reload.h"
#include "bench_engine/layers/layer_references.h"
#include "bench_engine/measure/case_timer.h"
#include "bench_engine/measure/machine.h"
#include "bench_engine/measure/statistics.h"
#include "bench_engine/model/exit_codes.h"
#include "bench_engine/model/live_case.h"
#include "bench_engine/pictures/accuracy.h"
#include "bench_engine/pictures/prepare_pictures.h"
#include "bench_engine/process/clock.h"
#include "bench_engine/process/interrupt.h"
#include "bench_engine/tensors/timed_input.h"
#include "bench_engine/terminal/run_text.h"
#include "bench_engine/trace/activity_table.h"
#include "bench_engine/trace/trace_case.h"

namespace mobicuda::bench {
namespace {

constexpr int kProfileIterations = 20;
// As the network runs, a layer's time is the difference of two that may be far larger: the more of them the better, as
// long as nobody waits for it.
constexpr int kMostProfileIterations = 100;
constexpr int kLeastProfileIterations = 7;
constexpr double kProfileMs = 1500;

// Each takes for every layer a whole run and on average half of one.
int as_run_iterations(const CaseResult& result) {
  const double one = 1.5 * static_cast<double>(result.layers.size()) * result.device_statistics.median;
  if (one <= 0) return kProfileIterations;
  return static_cast<int>(std::clamp(kProfileMs / one, 1.0 * kLeastProfileIterations, 1.0 * kMostProfileIterations));
}

// What is traced once everything is timed.
struct KeptCase {
  std::size_t index;  // in Report::cases
  const Case* what;
  std::shared_ptr<const Engine> engine;
};

class Run {
 public:
  Run(const Options& options, const std::vector<Implementation>& implementations, std::ostream& out, Progress& progress,
      Report& report)
      : options_(options), implementations_(implementations), out_(out), progress_(progress), report_(report) {}

  void execute() {
    selection_ = select_cases(options_, implementations_);
    references_ = LayerReferences(options_, implementations_, selection_.cases);
    require_effects(options_, selection_);
    require_comparison();
    tracer_ = make_tracer(options_, selection_);
    if (tracer_) progress_.without_ranges();
    if (!options_.save_engine.empty()) require_savable(selection_.cases);
    report_.notes = selection_.notes;
    report_.reference = selection_.cases[selection_.reference].label();
    report_.machine = describe_machine(options_.device);
    create_context();
    load_model();
    print_header(out_, report_);
    timer_.emplace(options_, *input_, gpu_, !tracer_);
    if (!options_.images.empty()) images_ = prepare_pictures(options_, report_.model);
    if (options_.time_images) {
      const std::int64_t most = *std::max_element(options_.batches.begin(), options_.batches.end());
      input_->take(first_pictures(images_, static_cast<std::size_t>(most), options_.decode_threads));
    }
    progress_.set_steps(count_steps());
    for (std::size_t i = 0; i < options_.batches.size() && !interrupted(); ++i) {
      run_batch(options_.batches[i], i + 1 == options_.batches.size());
    }
    if (tracer_) trace();
    progress_.clear();
    report_.interrupted = interrupted();
  }

 private:
  void require_comparison() const {
    const bool asked = options_.accuracy_threshold || options_.agreement_threshold;
    if (asked && selection_.cases.size() == 1 && options_.reference_logits.empty() && options_.golden.empty()) {
      throw UsageError(
          "--accuracyThreshold and --agreementThreshold need something to compare with: a second "
          "implementation, --golden or --referenceLogits");
    }
  }

  void create_context() {
    const bool gpu = std::any_of(selection_.cases.begin(), selection_.cases.end(),
                                 [](const Case& one) { return one.processor == Processor::Gpu; });
    if (!gpu) return;
    report_.gpu_context_ms = create_gpu_context(options_.device);
    if (options_.sample_interval_ms <= 0) return;
    gpu_ = nvml_device(options_.device);
    if (!gpu_) report_.gpu_not_sampled = "this machine has no NVML (libnvidia-ml.so.1) that knows it";
  }

  LogCallback log() const {
    if (!options_.verbose) return {};
    return [](LogLevel level, std::string_view text) {
      std::cerr << (level == LogLevel::Warning ? "warning: " : "info: ") << printable(text) << '\n';
    };
  }

  void load_model() {
    source_.emplace(options_, log());
    ModelInfo& model = report_.model;
    source_->read(model);
    require_input_name(options_, model.input_name);
    input_.emplace(options_, model);
  }

  bool profiled_as_run() const { return options_.dump_profile || !options_.export_profile.empty(); }
  bool profiled() const { return profiled_as_run() || options_.dump_serialized_profile; }

  std::size_t evaluations() const {
    if (options_.images.empty()) return 0;
    return std::max<std::size_t>(1, options_.max_images.size());
  }

  // Loading each case, timing all and perhaps profiling them, for each batch; then the pictures; or tracing each case.
  std::size_t count_steps() const {
    const std::size_t cases = selection_.cases.size();
    const std::size_t rounds = 1 + (options_.reload ? 1 : 0) + (tracer_ ? 1 : 0);
    const std::size_t profiles = profiled() && !tracer_ ? 1 : 0;
    const std::size_t of_batch = cases * rounds + 1 + profiles + (references_.empty() ? 0 : 1);
    return options_.batches.size() * of_batch + evaluations();
  }

  void run_batch(std::int64_t batch, bool last) {
    const std::string of_batch = ", batch " + std::to_string(batch);
    input_->make(batch);
    std::vector<LiveCase> live;
    for (const Case& one : selection_.cases) {
      if (interrupted()) return;
      progress_.step("loading " + one.label() + of_batch);
      live.push_back(start_case(one, batch));
    }
    progress_.step("timing" + of_batch);
    const GpuStates states = timer_->time(live, batch);
    if (report_.gpu_context_ms > 0) report_.gpu_states.push_back(states);
    summarize(live, selection_.reference, *input_, static_cast<std::size_t>(report_.model.classes()));
    if (options_.reload) time_reload(live, batch);
    if (profiled() && !tracer_) {
      progress_.step("profiling" + of_batch);
      for (LiveCase& one : live) profile(*one.session, one.what->processor, one.result);
    }
    for (const LiveCase& one : live) {
      if (tracer_) kept_.push_back({report_.cases.size(), one.what, one.engine});
      report_.cases.push_back(one.result);
    }
    if (!references_.empty()) compare_layers(live, batch);
    if (last && !options_.images.empty() && !interrupted()) classify_images(live, batch);
  }

  LiveCase start_case(const Case& one, std::int64_t batch) {
    LiveCase live;
    live.what = &one;
    CaseResult& result = live.result;
    result.implementation = one.implementation;
    result.precision = one.precision;
    result.threads = one.threads;
    result.batch = batch;
    result.max_batch = options_.max_batch;
    result.includes_transfers = options_.include_transfers;
    const bool gpu = one.processor == Processor::Gpu;
    const auto free_before = gpu ? free_gpu_memory(options_.device) : std::nullopt;
    auto start = Clock::now();
    live.engine = source_->make(*one.make(), engine_options(options_, one, batch, log()));
    result.compile_ms = since_ms(start);
    result.loading.upload_ms = live.engine->upload_ms();
    result.memory = live.engine->memory();
    const auto layers = live.engine->layers(batch);
    result.layers.assign(layers.begin(), layers.end());
    progress_.clear();
    if (!options_.save_engine.empty()) {
      save_engine(*live.engine, options_, result, selection_.cases.size() * options_.batches.size() > 1, out_);
    }
    print_memory(out_, result);
    start = Clock::now();
    live.session = live.engine->create_session();
    result.session_ms = since_ms(start);
    result.output.resize(static_cast<std::size_t>(batch * report_.model.classes()));
    start = Clock::now();
    input_->run(*live.session, result.output);
    result.first_run_ms = since_ms(start);
    const auto free_after = gpu ? free_gpu_memory(options_.device) : std::nullopt;
    if (free_before && free_after) result.gpu_memory_used = *free_before - *free_after;
    input_->stage(*live.session);
    print_load(out_, report_.model, result);
    return live;
  }

  void time_reload(std::vector<LiveCase>& live, std::int64_t batch) {
    for (LiveCase& one : live) {
      if (interrupted()) return;
      progress_.step("loading anew, " + one.what->label() + ", batch " + std::to_string(batch));
      const Samples samples =
          measure_reload(options_, log(), *one.what, engine_options(options_, *one.what, batch, log()), *input_,
                         one.result.output.size(), interrupted);
      one.result.loading.reload = summarize(samples.times_ms);
    }
  }

  void profile(Session& session, Processor processor, CaseResult& result) const {
    const auto measure = [&](ProfileMode mode, int iterations) {
      if (processor == Processor::Cpu) iterations = std::min(iterations, options_.iterations);
      LayerTimes times = session.profile(result.batch, iterations, mode);
      return LayerProfile{std::move(times.layers), times.whole, times.boundary};
    };
    if (profiled_as_run() && !interrupted()) {
      result.profile = measure(ProfileMode::AsRun, as_run_iterations(result));
    }
    if (options_.dump_serialized_profile && !interrupted()) {
      result.serialized_profile = measure(ProfileMode::Serialized, kProfileIterations);
    }
  }

  // After all timing: once the profiler is at work, launches are slower.
  void trace() {
    for (const KeptCase& kept : kept_) {
      if (interrupted()) return;
      CaseResult& result = report_.cases[kept.index];
      const std::string label = result.label() + ", batch " + std::to_string(result.batch);
      progress_.step("tracing " + label);
      input_->make(result.batch);
      const auto prepare = [&](Session& session) {
        std::vector<float> output(result.output.size());
        input_->run(session, output);
        input_->stage(session);
      };
      if (profiled()) {
        const auto session = kept.engine->create_session();
        prepare(*session);
        profile(*session, kept.what->processor, result);
      }
      if (kept.what->processor != Processor::Gpu) continue;
      TracedCase traced = trace_case(*tracer_, *kept.engine, result.batch, label, prepare);
      result.activities = tabulate(traced.runs, kTracedRuns);
      if (!options_.export_trace.empty()) report_.traces.push_back(std::move(traced));
    }
  }

  // Of the results that the report has already: a reference that cannot be compiled takes none of them away.
  void compare_layers(const std::vector<LiveCase>& live, std::int64_t batch) {
    progress_.step("comparing layers, batch " + std::to_string(batch));
    std::vector<LayerReferences::Subject> subjects;
    CaseResult* result = report_.cases.data() + (report_.cases.size() - live.size());
    for (const LiveCase& one : live) {
      subjects.push_back({one.what, one.engine.get(), one.session.get(), &(result++)->layer_comparisons});
    }
    const auto compile = [&](const Case& one) {
      return source_->make(*one.make(), engine_options(options_, one, batch, log()));
    };
    references_.compare(subjects, batch, {compile, [&](Session& session) { input_->set(session); }, interrupted});
  }

  void classify_images(const std::vector<LiveCase>& live, std::int64_t batch) {
    std::vector<Classifier> classifiers;
    for (const LiveCase& one : live) {
      classifiers.push_back(
          {one.what->implementation, one.what->precision, one.what->threads, one.session.get(), one.engine});
    }
    std::vector<std::size_t> counts = options_.max_images;
    if (counts.empty()) counts = {images_.samples.size()};
    for (const std::size_t count : counts) {
      if (interrupted()) return;
      if (report_.images) report_.fewer_images.push_back(std::move(*report_.images));
      report_.images = classify_some(classifiers, batch, std::min(count, images_.samples.size()));
    }
    if (!interrupted()) require_decoded(*report_.images);
  }

  ImageReport classify_some(const std::vector<Classifier>& classifiers, std::int64_t batch, std::size_t count) {
    progress_.step("classifying " + std::to_string(count) + " pictures");
    ImageSet some = images_;
    some.samples.resize(count);
    const auto stop = [&](std::size_t done) {
      progress_.within(done, count);
      return interrupted();
    };
    ImageRun run;
    run.batch = static_cast<std::size_t>(batch);
    run.classes = static_cast<std::size_t>(report_.model.classes());
    run.reference = selection_.reference;
    run.decode_threads = options_.decode_threads;
    run.decode = options_.decode;
    return evaluate_images(some, classifiers, run, stop);
  }

  const Options& options_;
  const std::vector<Implementation>& implementations_;
  std::ostream& out_;
  Progress& progress_;
  Report& report_;
  Selection selection_;
  std::unique_ptr<Tracer> tracer_;
  std::vector<KeptCase> kept_;
  LayerReferences references_;
  std::optional<NvmlDevice> gpu_;  // where it is to be sampled
  std::optional<EngineSource> source_;
  std::optional<TimedInput> input_;
  std::optional<CaseTimer> timer_;
  ImageSet images_;
};

}  // namespace

void run_benchmark(const Options& options, const std::vector<Implementation>& implementations, std::ostream& out,
                   Progress& progress, Report& report) {
  Run(options, implementations, out, progress, report).execute();
}

}  // namespace mobicuda::bench
