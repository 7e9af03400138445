#include <mobicuda/engine.h>

#include <utility>

namespace mobicuda {

// One call at a time: a second thread gets an Error instead of corrupted activations.
Session::ExclusiveUse::ExclusiveUse(Session& session) : session_(session) {
  if (session_.in_use_.exchange(true)) {
    throw Error(ErrorCode::invalid_argument, "session", "is in use by another thread",
                "create one session for each thread; they share the engine's weights");
  }
}

Session::Session(std::shared_ptr<const Engine> engine) : engine_(std::move(engine)) {}
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

void Session::check_batch(std::int64_t n) const {
  if (n < 1 || n > engine_->options().max_batch) {
    throw Error(ErrorCode::invalid_argument, "batch",
                "must be 1 to " + std::to_string(engine_->options().max_batch) + ", got " + std::to_string(n),
                "compile the engine with a larger EngineOptions::max_batch");
  }
}

void Session::run(std::span<const float> input, std::span<float> output) {
  const ExclusiveUse guard(*this);
  const std::int64_t n = batch_of(input.size(), engine_->input().shape, "input");
  if (batch_of(output.size(), engine_->output().shape, "output") != n) {
    throw Error(ErrorCode::invalid_argument, "output",
                "must hold " + std::to_string(n * engine_->output().shape.elements()) + " values for " +
                    std::to_string(n) + " pictures, got " + std::to_string(output.size()));
  }
  do_set_input(input, n);
  do_execute(n);
  do_get_output(output, n);
}

void Session::set_input(std::span<const float> input) {
  const ExclusiveUse guard(*this);
  do_set_input(input, batch_of(input.size(), engine_->input().shape, "input"));
}

void Session::execute(std::int64_t n) {
  const ExclusiveUse guard(*this);
  check_batch(n);
  do_execute(n);
}

void Session::get_output(std::span<float> output) {
  const ExclusiveUse guard(*this);
  do_get_output(output, batch_of(output.size(), engine_->output().shape, "output"));
}

void Session::synchronize() {
  const ExclusiveUse guard(*this);
  do_synchronize();
}

std::vector<double> Session::time_executions(std::int64_t n, int iterations) {
  const ExclusiveUse guard(*this);
  check_batch(n);
  if (iterations < 1) {
    throw Error(ErrorCode::invalid_argument, "iterations", "must be >= 1, got " + std::to_string(iterations));
  }
  return do_time_executions(n, iterations);
}

std::vector<double> Session::profile(std::int64_t n, int iterations) {
  const ExclusiveUse guard(*this);
  check_batch(n);
  if (iterations < 1) {
    throw Error(ErrorCode::invalid_argument, "iterations", "must be >= 1, got " + std::to_string(iterations));
  }
  return do_profile(n, iterations);
}

Engine::Engine(EngineOptions options, TensorDesc input, TensorDesc output)
    : options_(std::move(options)), input_(input), output_(output) {}
Engine::~Engine() = default;

Backend::~Backend() = default;

void require_supported(const Backend& backend, const Graph& graph, const EngineOptions& options) {
  std::string reasons;
  for (const Node& node : graph.nodes()) {
    if (const auto why = backend.why_unsupported(graph, node, options)) {
      reasons += (reasons.empty() ? "" : "; ") + node.origin.describe() + ": " + *why;
    }
  }
  if (reasons.empty()) return;
  throw Error(ErrorCode::unsupported, "graph '" + graph.name() + "'",
              "the " + std::string(backend.name()) + " engine at " + std::string(to_string(options.precision)) +
                  " cannot run " + reasons,
              "choose another implementation or precision");
}

void check_options(const EngineOptions& options) {
  constexpr std::int64_t kMaxBatch = 65536;
  if (options.max_batch < 1 || options.max_batch > kMaxBatch) {
    throw Error(ErrorCode::invalid_argument, "max_batch",
                "must be 1 to " + std::to_string(kMaxBatch) + ", got " + std::to_string(options.max_batch));
  }
  if (options.threads < 0) {
    throw Error(ErrorCode::invalid_argument, "threads", "must be >= 0, got " + std::to_string(options.threads));
  }
  if (options.device < 0) {
    throw Error(ErrorCode::invalid_argument, "device", "must be >= 0, got " + std::to_string(options.device));
  }
  if (options.require_timing_cache && options.timing_cache.empty()) {
    throw Error(ErrorCode::invalid_argument, "require_timing_cache", "needs a timing_cache", "name its file");
  }
}

}  // namespace mobicuda
