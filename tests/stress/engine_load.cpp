#include "stress/engine_load.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/custom_backend.h>
#include <mobicuda/error.h>
#include <mobicuda/onnx_import.h>
#include <mobicuda/plan_file.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/networks.h"
#include "models/zoo/onnx_writer.h"
#include "stress/device_calls.h"
#ifdef MOBICUDA_WITH_CUDNN
#include <mobicuda/cudnn_backend.h>
#endif

namespace mobicuda::stress {
namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937;

// More pictures than the largest call takes, so that it begins at several.
constexpr std::int64_t kSpare = 3;

std::int64_t below(Random& random, std::int64_t end) {
  return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random);
}

#ifdef MOBICUDA_WITH_CUDNN
constexpr bool kHasCudnn = true;
#else
constexpr bool kHasCudnn = false;
#endif

std::unique_ptr<Backend> make_backend(const std::string& implementation) {
  if (implementation == "custom") return make_custom_backend();
  if (implementation == "cpu") return make_cpu_backend();
#ifdef MOBICUDA_WITH_CUDNN
  if (implementation == "cudnn") return make_cudnn_backend();
#endif
  throw UsageError("impl: must be one of custom, cpu" + std::string(kHasCudnn ? ", cudnn" : "") +
                   " in this build, got '" + implementation + "'");
}

onnx_schema::ModelProto build_network(const EngineSpec& spec) {
  if (spec.network == "mobilenet_v2") {
    zoo::MobileNetV2Options options;
    if (spec.resolution != 0) options.height = options.picture_width = spec.resolution;
    return zoo::build_mobilenet_v2(options);
  }
  zoo::NetworkOptions options;
  options.height = options.picture_width = spec.resolution;
  return zoo::build_network(spec.network, options);
}

Graph load_graph(const EngineSpec& spec) {
  if (!spec.model.empty()) return onnx_import::load(spec.model);
  const std::string bytes = build_network(spec).SerializeAsString();
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), spec.network);
}

EngineOptions options_of(const EngineSpec& spec) {
  EngineOptions options;
  options.precision = spec.precision;
  options.max_batch = spec.max_batch;
  options.threads = 1;  // of cpu: the sessions are the load
  options.cuda_graph = spec.cuda_graph;
  options.programmatic_launch = spec.programmatic_launch;
  options.kernel_variants = spec.kernel_variants;
  if (spec.bytes) options.picture_input = PictureInput{{1 / 127.5F, 1 / 127.5F, 1 / 127.5F}, {-1, -1, -1}};
  return options;
}

std::vector<std::int64_t> batches_of(const EngineSpec& spec) {
  std::vector<std::int64_t> found;
  for (std::int64_t n = 1; n <= spec.max_batch; ++n) {
    const bool is_eighth = 8 * n % spec.max_batch == 0;
    if (spec.batches == Batches::Random || n == spec.max_batch || (spec.batches == Batches::Eighths && is_eighth)) {
      found.push_back(n);
    }
  }
  return found;
}

/// Whole runs from host to host.
void run_host(Session& session, const Expected& expected, bool bytes, std::int64_t n, std::int64_t first,
              std::vector<float>& outputs) {
  const std::size_t count = static_cast<std::size_t>(n) * expected.input_elements();
  outputs.assign(static_cast<std::size_t>(n) * expected.output_elements(), std::numeric_limits<float>::quiet_NaN());
  if (bytes) {
    session.run(std::span(expected.bytes(first), count), outputs);
  } else {
    session.run(std::span(expected.floats(first), count), outputs);
  }
}

class Pauses {
 public:
  Pauses(Random& random, int longest_us) : random_(random), longest_us_(longest_us) {}

  /// Between two calls, one time in four.
  void next() {
    if (longest_us_ == 0 || below(random_, 4) != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(below(random_, longest_us_ + 1)));
  }

 private:
  Random& random_;
  int longest_us_;
};

/// One thread's session and the ways to call it.
class Caller {
 public:
  Caller(const Engine& engine, const Expected& expected, const EngineSpec& spec, Pauses& pauses)
      : expected_(expected), bytes_(spec.bytes), pauses_(pauses), session_(engine.create_session()) {
    if (spec.calls == Calls::Device || (spec.calls == Calls::Any && spec.implementation != "cpu")) {
      device_ = std::make_unique<DeviceCalls>(expected, bytes_, spec.max_batch);
    }
  }

  const float* run(Calls calls, std::int64_t n, std::int64_t first) {
    if (calls == Calls::Staged) return run_staged(n, first);
    if (calls == Calls::Device) return device_->run(*session_, n, first);
    run_host(*session_, expected_, bytes_, n, first, outputs_);
    return outputs_.data();
  }

  /// A way that this engine has.
  Calls any(Random& random) const {
    constexpr Calls kAll[] = {Calls::Staged, Calls::Host, Calls::Device};
    return kAll[below(random, device_ == nullptr ? 2 : 3)];
  }

 private:
  const float* run_staged(std::int64_t n, std::int64_t first) {
    const std::size_t count = static_cast<std::size_t>(n) * expected_.input_elements();
    if (bytes_) {
      std::copy_n(expected_.bytes(first), count, session_->staged_pictures(n).begin());
    } else {
      std::copy_n(expected_.floats(first), count, session_->staged_input(n).begin());
    }
    pauses_.next();
    session_->enqueue_staged(n);
    pauses_.next();
    session_->synchronize();
    return session_->staged_output(n).data();
  }

  const Expected& expected_;
  bool bytes_;
  Pauses& pauses_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<DeviceCalls> device_;
  std::vector<float> outputs_;
};

}  // namespace

void Alarm::raise(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  if (raised_.load()) return;
  what_ = what;
  raised_.store(true);
}

std::string Alarm::what() const {
  const std::scoped_lock lock(mutex_);
  return what_;
}

Expected::Expected(const Engine& engine, const EngineSpec& spec, std::uint32_t seed)
    : pictures_(spec.max_batch + kSpare),
      batches_(batches_of(spec)),
      input_elements_(static_cast<std::size_t>(engine.input().shape.elements())),
      output_elements_(static_cast<std::size_t>(engine.output().shape.elements())) {
  Random random(seed);
  const std::size_t count = at(pictures_) * input_elements_;
  if (spec.bytes) {
    bytes_.resize(count);
    std::generate(bytes_.begin(), bytes_.end(), [&] { return static_cast<std::uint8_t>(random()); });
  } else {
    floats_.resize(count);
    std::generate(floats_.begin(), floats_.end(), [&] { return static_cast<float>(random() % 256) / 127.5F - 1; });
  }
  const std::unique_ptr<Session> session = engine.create_session();
  std::vector<float> some;
  outputs_.resize(at(spec.max_batch) + 1);
  for (const std::int64_t n : batches_) {
    std::vector<float>& all = outputs_[at(n)];
    all.resize(at(pictures_) * output_elements_);
    for (std::int64_t done = 0; done < pictures_; done += n) {
      const std::int64_t first = std::min(done, pictures_ - n);
      run_host(*session, *this, spec.bytes, n, first, some);
      std::copy(some.begin(), some.end(), all.begin() + static_cast<std::ptrdiff_t>(at(first) * output_elements_));
    }
  }
}

const float* Expected::outputs(std::int64_t n, std::int64_t picture) const {
  return outputs_[at(n)].data() + at(picture) * output_elements_;
}

std::string Expected::compare(std::int64_t n, std::int64_t first, const float* outputs) const {
  const float* const right = this->outputs(n, first);
  const std::size_t count = at(n) * output_elements_;
  if (std::memcmp(outputs, right, count * sizeof(float)) == 0) return {};
  std::size_t differ = 0;
  float largest = 0;  // NaN where an output is
  std::size_t where = count;
  for (std::size_t i = 0; i < count; ++i) {
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): a NaN is equal to itself, and -0 is not 0
    if (std::memcmp(outputs + i, right + i, sizeof(float)) == 0) continue;
    ++differ;
    where = std::min(where, i);
    const float difference = std::abs(outputs[i] - right[i]);
    if (!(difference <= largest)) largest = difference;
  }
  std::ostringstream text;
  text << differ << " of " << count << " outputs of a call of " << n << " pictures from picture " << first
       << " on differ, the first is output " << where % output_elements_ << " of its picture "
       << where / output_elements_ << ": " << outputs[where] << " instead of " << right[where]
       << ", the largest difference " << largest;
  return text.str();
}

EngineLoad::EngineLoad(const EngineSpec& spec, const Conditions& conditions)
    : spec_(spec),
      conditions_(conditions),
      backend_(make_backend(spec.implementation)),
      options_(options_of(spec)),
      engine_(backend_->compile(load_graph(spec), options_)),
      expected_(std::make_unique<Expected>(*engine_, spec, conditions.seed)) {
  if (spec.reload != 0) plan_ = plan_file::save_to_memory(engine_->saved());
}

std::shared_ptr<const Engine> EngineLoad::engine() const {
  const std::scoped_lock lock(mutex_);
  return engine_;
}

void EngineLoad::reload() {
  std::shared_ptr<const Engine> engine = backend_->restore(plan_file::read_from_memory(plan_, "plan"), options_);
  ++tally_.reloads;
  const std::scoped_lock lock(mutex_);
  engine_.swap(engine);
}

void EngineLoad::run(int thread, Clock::time_point end, Alarm& alarm) {
  std::int64_t n = 0;
  RunTimes times;
  try {
    const auto window = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(conditions_.window));
    const auto end_of_first = Clock::now() + window;
    Random random(conditions_.seed * 1000 + static_cast<std::uint32_t>(thread));
    Pauses pauses(random, conditions_.max_pause_us);
    std::optional<Caller> caller;
    while (!alarm.raised() && Clock::now() < end) {
      if (!caller || (spec_.renew != 0 && below(random, spec_.renew) == 0)) {
        caller.reset();
        if (spec_.reload != 0 && below(random, spec_.reload) == 0) reload();
        caller.emplace(*engine(), *expected_, spec_, pauses);
        ++tally_.sessions;
      }
      const auto& batches = expected_->batches();
      n = batches[static_cast<std::size_t>(below(random, std::ssize(batches)))];
      const std::int64_t first = below(random, expected_->pictures() - n + 1);
      const Calls calls = spec_.calls == Calls::Any ? caller->any(random) : spec_.calls;
      pauses.next();
      const auto begun = Clock::now();
      const float* const outputs = caller->run(calls, n, first);
      const auto ended = Clock::now();
      const float microseconds = std::chrono::duration<float, std::micro>(ended - begun).count();
      if (ended < end_of_first) times.first.push_back(microseconds);
      if (begun >= end - window) times.last.push_back(microseconds);
      const std::string wrong = expected_->compare(n, first, outputs);
      ++tally_.runs;
      tally_.pictures += n;
      if (!wrong.empty()) {
        ++tally_.wrong;
        alarm.raise("wrong output: " + spec_.text + ": " + wrong);
      }
    }
  } catch (const std::exception& error) {
    const std::string when = n == 0 ? "before its first call" : "in a call of " + std::to_string(n) + " pictures";
    alarm.raise(std::string(error.what()) + " (" + spec_.text + ", " + when + ")");
  }
  const std::scoped_lock lock(mutex_);
  times_.first.insert(times_.first.end(), times.first.begin(), times.first.end());
  times_.last.insert(times_.last.end(), times.last.begin(), times.last.end());
}

}  // namespace mobicuda::stress
