#include <mobicuda/engine.h>

#include <cmath>
#include <set>
#include <utility>

#include <mobicuda/saved_engine.h>
#include <mobicuda/tensor.h>

#include "graph/memory_errors.h"

namespace mobicuda {

// One call at a time: a second thread gets an Error instead of corrupted activations.
Session::ExclusiveUse::ExclusiveUse(Session& session, Use use) : session_(session) {
  if (session_.in_use_.exchange(true)) {
    throw Error(ErrorCode::invalid_argument, "session", "is in use by another thread",
                "create one session for each thread; they share the engine's weights");
  }
  if (use == Use::Whole) session_.next_layer_ = 0;
}

Session::Session(std::shared_ptr<const Engine> engine)
    : engine_(std::move(engine)), input_pictures_(engine_->options().max_batch) {}
Session::~Session() = default;

std::int64_t Session::batch_of(std::size_t elements, const Shape& picture, std::string_view what) const {
  const auto count = static_cast<std::int64_t>(elements);
  const std::int64_t one = picture.elements();
  if (count == 0 || count % one != 0) {
    throw Error(ErrorCode::invalid_argument, std::string(what),
                "must hold whole pictures of " + std::to_string(one) + " values (" + to_string(picture) + "), got " +
                    std::to_string(count) + " values");
  }
  check_batch(count / one);
  return count / one;
}

void Session::check_batch(std::int64_t n) const { engine_->check_batch(n); }

void Session::check_inputs(std::int64_t n) const {
  check_batch(n);
  if (n <= input_pictures_) return;
  throw Error(ErrorCode::invalid_argument, "batch",
              "is " + std::to_string(n) + ", the input holds " + std::to_string(input_pictures_) +
                  (input_pictures_ == 1 ? " picture" : " pictures"),
              "call set_input() with " + std::to_string(n) + " pictures");
}

void Session::check_outputs(std::int64_t n) const {
  constexpr const char* kWhere = "get_output";
  constexpr const char* kRemedy = "call execute() or run() first";
  switch (last_run_) {
    case LastRun::None:
      throw Error(ErrorCode::invalid_argument, kWhere, "nothing was executed", kRemedy);
    case LastRun::Failed:
      throw Error(ErrorCode::invalid_argument, kWhere, "the last execution failed", kRemedy);
    case LastRun::Layers:
      throw Error(ErrorCode::invalid_argument, kWhere, "of a run layer by layer, the last layer was not executed",
                  "call execute_layer() for all layers, or get_layer_output()");
    case LastRun::Staged:
      throw Error(ErrorCode::invalid_argument, kWhere, "a staged run was last",
                  "its outputs are in staged_output(); for others, " + std::string(kRemedy));
    case LastRun::Whole:
      break;
  }
  if (n <= output_pictures_) return;
  throw Error(
      ErrorCode::invalid_argument, kWhere,
      "asks for " + std::to_string(n) + " pictures, the last execution was of " + std::to_string(output_pictures_),
      "call execute(" + std::to_string(n) + ") first");
}

void Session::begin_execution(std::int64_t n) {
  check_inputs(n);
  last_run_ = LastRun::Failed;  // until it ends
}

void Session::end_execution(std::int64_t n) {
  last_run_ = LastRun::Whole;
  output_pictures_ = n;
}

template <class T>
void Session::require_input() const {
  const DType taken = engine_->input().dtype;
  if (taken == dtype_of<T>()) return;
  throw Error(ErrorCode::invalid_argument, "input",
              "the engine takes " + std::string(to_string(taken)) + ", got " + std::string(to_string(dtype_of<T>())),
              taken == DType::U8 ? "pass bytes, or compile without EngineOptions::picture_input"
                                 : "compile with EngineOptions::picture_input to pass bytes");
}

template <class T>
void Session::run_on(std::span<const T> input, std::span<float> output) {
  with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    require_input<T>();
    const std::int64_t n = batch_of(input.size(), engine_->input().shape, "input");
    if (batch_of(output.size(), engine_->output().shape, "output") != n) {
      throw Error(ErrorCode::invalid_argument, "output",
                  "must hold " + std::to_string(n * engine_->output().shape.elements()) + " values for " +
                      std::to_string(n) + " pictures, got " + std::to_string(output.size()));
    }
    fill_input(std::as_bytes(input), n);
    begin_execution(n);
    do_execute(n);
    end_execution(n);
    do_get_output(output, n);
  });
}

void Session::fill_input(std::span<const std::byte> input, std::int64_t n) {
  input_pictures_ = 0;  // unless the copy succeeds
  do_set_input(input, n);
  input_pictures_ = n;
}

void Session::run(std::span<const float> input, std::span<float> output) { run_on(input, output); }

void Session::run(std::span<const std::uint8_t> pictures, std::span<float> output) { run_on(pictures, output); }

void Session::set_input(std::span<const float> input) {
  with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    require_input<float>();
    fill_input(std::as_bytes(input), batch_of(input.size(), engine_->input().shape, "input"));
  });
}

void Session::set_input(std::span<const std::uint8_t> pictures) {
  with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    require_input<std::uint8_t>();
    fill_input(std::as_bytes(pictures), batch_of(pictures.size(), engine_->input().shape, "input"));
  });
}

template <class T>
std::span<T> Session::staged(std::int64_t n) {
  return with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    require_input<T>();
    check_batch(n);
    return std::span<T>{reinterpret_cast<T*>(do_staged_input()),
                        static_cast<std::size_t>(n * engine_->input().shape.elements())};
  });
}

std::span<float> Session::staged_input(std::int64_t n) { return staged<float>(n); }

std::span<std::uint8_t> Session::staged_pictures(std::int64_t n) { return staged<std::uint8_t>(n); }

std::span<const float> Session::staged_output(std::int64_t n) {
  return with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    check_batch(n);
    return std::span<const float>{do_staged_output(), static_cast<std::size_t>(n * engine_->output().shape.elements())};
  });
}

void Session::enqueue_staged(std::int64_t n) {
  with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    check_batch(n);
    last_run_ = LastRun::Staged;
    do_enqueue_staged(n);
  });
}

void Session::run_staged(std::int64_t n) {
  with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    check_batch(n);
    last_run_ = LastRun::Staged;
    do_enqueue_staged(n);
    do_synchronize();
  });
}

void Session::execute(std::int64_t n) {
  with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    begin_execution(n);
    do_execute(n);
    end_execution(n);
  });
}

void Session::get_output(std::span<float> output) {
  with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    const std::int64_t n = batch_of(output.size(), engine_->output().shape, "output");
    check_outputs(n);
    do_get_output(output, n);
  });
}

void Session::do_warm_up(std::span<const std::int64_t> /*batches*/) {}

void Session::warm_up(std::span<const std::int64_t> batches) {
  with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    for (const std::int64_t n : batches) check_batch(n);
    const std::set<std::int64_t> different(batches.begin(), batches.end());
    do_warm_up(std::vector<std::int64_t>(different.begin(), different.end()));
  });
}

void Session::synchronize() {
  with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    do_synchronize();
  });
}

namespace {

void require_positive(const char* what, int count) {
  if (count >= 1) return;
  throw Error(ErrorCode::invalid_argument, what, "must be >= 1, got " + std::to_string(count));
}

}  // namespace

std::vector<double> Session::time_executions(std::int64_t n, int iterations, int runs) {
  return with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    require_positive("iterations", iterations);
    require_positive("runs", runs);
    begin_execution(n);
    std::vector<double> times = do_time_executions(n, iterations, runs);
    end_execution(n);
    return times;
  });
}

LayerTimes Session::profile(std::int64_t n, int iterations, ProfileMode mode) {
  return with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this);
    require_positive("iterations", iterations);
    begin_execution(n);
    LayerTimes times = do_profile(n, iterations, mode);
    end_execution(n);
    return times;
  });
}

void Session::execute_layer(std::int64_t n, std::size_t layer) {
  with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this, Use::LayerByLayer);
    check_inputs(n);
    const std::size_t layers = engine_->layers(n).size();
    const bool follows = layer == 0 || (layer == next_layer_ && n == layers_batch_);
    if (!follows || layer >= layers) {
      throw Error(
          ErrorCode::invalid_argument, "layer",
          "must be 0" +
              (next_layer_ > 0 && next_layer_ < layers
                   ? " or, with a batch of " + std::to_string(layers_batch_) + ", " + std::to_string(next_layer_)
                   : std::string()) +
              ", got " + std::to_string(layer) + " with a batch of " + std::to_string(n),
          "layers run one after the other, and another call in between starts over");
    }
    next_layer_ = 0;  // unless the layer runs
    last_run_ = LastRun::Layers;
    do_execute_layer(n, layer);
    next_layer_ = layer + 1;
    layers_batch_ = n;
    if (next_layer_ == layers) end_execution(n);
  });
}

void Session::get_layer_output(std::span<float> output) {
  with_memory_errors("session", [&] {
    const ExclusiveUse guard(*this, Use::LayerByLayer);
    if (next_layer_ == 0) {
      throw Error(ErrorCode::invalid_argument, "get_layer_output", "no layer was executed last",
                  "call execute_layer()");
    }
    const LayerInfo& info = engine_->layers(layers_batch_)[next_layer_ - 1];
    if (info.value.empty()) {
      throw Error(ErrorCode::invalid_argument, "layer '" + info.name + "'", "finishes no tensor of the model",
                  "see LayerInfo::value");
    }
    const std::int64_t wanted = layers_batch_ * info.output.elements();
    if (static_cast<std::int64_t>(output.size()) != wanted) {
      throw Error(ErrorCode::invalid_argument, "output",
                  "must hold " + std::to_string(wanted) + " values for " + std::to_string(layers_batch_) +
                      " pictures of " + to_string(info.output) + ", got " + std::to_string(output.size()));
    }
    do_get_layer_output(layers_batch_, next_layer_ - 1, output);
  });
}

Engine::Engine(EngineOptions options, TensorDesc input, TensorDesc output)
    : options_(std::move(options)), input_(input), output_(output) {}
Engine::~Engine() = default;

void Engine::check_batch(std::int64_t n) const {
  if (n >= 1 && n <= options_.max_batch) return;
  throw Error(ErrorCode::invalid_argument, "batch",
              "must be 1 to " + std::to_string(options_.max_batch) + ", got " + std::to_string(n),
              "compile the engine with a larger EngineOptions::max_batch");
}

std::unique_ptr<Session> Engine::create_session() const {
  const MemoryReport needed = memory();
  if (options_.max_memory_bytes > 0 && needed.total() > options_.max_memory_bytes) {
    throw Error(ErrorCode::out_of_memory, "max_memory_bytes",
                "a session of the " + std::string(backend()) + " engine takes " + std::to_string(needed.total()) +
                    " bytes, the limit is " + std::to_string(options_.max_memory_bytes) + ": weights " +
                    std::to_string(needed.weight_bytes) + ", activations " + std::to_string(needed.arena_bytes) +
                    ", workspace " + std::to_string(needed.workspace_bytes) + ", input and output " +
                    std::to_string(needed.io_bytes),
                "raise EngineOptions::max_memory_bytes, or lower max_batch");
  }
  return with_memory_errors("session", [&] { return do_create_session(); });
}

std::span<const LayerInfo> Engine::layers(std::int64_t n) const {
  check_batch(n);
  return do_layers(n);
}

SavedEngine Engine::saved() const {
  throw Error(ErrorCode::unsupported, "the " + std::string(backend()) + " engine", "cannot be saved",
              "compile the model each time; engines of custom and cpu can be saved");
}

Backend::~Backend() = default;

std::shared_ptr<const Engine> Backend::restore(const SavedEngine&, const EngineOptions&) const {
  throw Error(ErrorCode::unsupported, "the " + std::string(name()) + " engine", "cannot be loaded from a saved one",
              "compile the model each time; engines of custom and cpu can be saved");
}

void require_supported(const Backend& backend, const Graph& graph, const EngineOptions& options) {
  constexpr std::size_t kMostNamed = 5;  // of a network that is quantised throughout
  std::string reasons;
  std::size_t refused = 0;
  for (const Node& node : graph.nodes()) {
    const auto why = backend.why_unsupported(graph, node, options);
    if (why && ++refused <= kMostNamed) {
      reasons += (reasons.empty() ? "" : "; ") + node.origin.describe() + ": " + *why;
    }
  }
  if (refused == 0) return;
  if (refused > kMostNamed) reasons += "; and " + std::to_string(refused - kMostNamed) + " nodes more";
  throw Error(ErrorCode::unsupported, "graph '" + graph.name() + "'",
              "the " + std::string(backend.name()) + " engine at " + std::string(to_string(options.precision)) +
                  " cannot run " + reasons,
              "choose another implementation or precision");
}

namespace {

void check_plan_batches(const std::vector<std::int64_t>& batches, std::int64_t max_batch) {
  std::int64_t before = 0;
  for (const std::int64_t batch : batches) {
    if (batch < 1 || batch > max_batch) {
      throw Error(ErrorCode::invalid_argument, "plan_batches",
                  "must be 1 to max_batch, " + std::to_string(max_batch) + ", got " + std::to_string(batch));
    }
    if (batch <= before) {
      throw Error(ErrorCode::invalid_argument, "plan_batches",
                  "must rise, got " + std::to_string(batch) + " after " + std::to_string(before));
    }
    before = batch;
  }
}

}  // namespace

void check_options(const EngineOptions& options) {
  constexpr std::int64_t kMaxBatch = 65536;
  if (options.max_batch < 1 || options.max_batch > kMaxBatch) {
    throw Error(ErrorCode::invalid_argument, "max_batch",
                "must be 1 to " + std::to_string(kMaxBatch) + ", got " + std::to_string(options.max_batch));
  }
  if (options.threads < 0) {
    throw Error(ErrorCode::invalid_argument, "threads", "must be >= 0, got " + std::to_string(options.threads));
  }
  if (options.max_memory_bytes < 0) {
    throw Error(ErrorCode::invalid_argument, "max_memory_bytes",
                "must be >= 0, got " + std::to_string(options.max_memory_bytes));
  }
  if (options.device < 0) {
    throw Error(ErrorCode::invalid_argument, "device", "must be >= 0, got " + std::to_string(options.device));
  }
  if (options.plan_batches) check_plan_batches(*options.plan_batches, options.max_batch);
  if (options.require_timing_cache && options.timing_cache.empty()) {
    throw Error(ErrorCode::invalid_argument, "require_timing_cache", "needs a timing_cache", "name its file");
  }
  if (options.picture_input) {
    for (std::size_t c = 0; c < options.picture_input->scale.size(); ++c) {
      if (std::isfinite(options.picture_input->scale[c]) && std::isfinite(options.picture_input->shift[c])) continue;
      throw Error(ErrorCode::invalid_argument, "picture_input",
                  "scale and shift must be finite, those of channel " + std::to_string(c) + " are " +
                      std::to_string(options.picture_input->scale[c]) + " and " +
                      std::to_string(options.picture_input->shift[c]));
    }
  }
}

TensorDesc input_desc(const Graph& graph, const EngineOptions& options) {
  const TensorDesc& input = graph.input_desc();
  if (!options.picture_input) return input;
  const auto channels = static_cast<std::int64_t>(options.picture_input->scale.size());
  if (input.shape.rank() != 4 || input.shape[1] != channels) {
    throw Error(
        ErrorCode::unsupported, "input '" + graph.value(graph.input()).name + "'",
        "picture_input needs a network that reads pictures of 3 channels, this one reads " + to_string(input.shape),
        "leave EngineOptions::picture_input empty and pass floats");
  }
  return {DType::U8, input.shape, Layout::NHWC};
}

}  // namespace mobicuda
