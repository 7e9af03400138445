// Calls of a session in any order, with any sizes. The first byte chooses the engine, each two of the rest a call and
// its batch. A run that succeeds gives the answer that a session of its own gives.
#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <vector>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/error.h>

#include "fuzz/target.h"
#include "plan_file/plan_networks.h"
#include "support/random_graph.h"

namespace mobicuda::fuzz {
namespace {

using test::ByteChoices;

constexpr std::int64_t kMaxBatch = 3;

EngineOptions chosen_options(ByteChoices& choices) {
  static constexpr std::int64_t kBatches[] = {kMaxBatch, 1, 0, -1};
  static constexpr std::int64_t kLimits[] = {16 << 20, 0, 1, -1};
  static constexpr int kThreads[] = {1, 2, -1};
  EngineOptions options = small_options();
  options.max_batch = kMaxBatch;
  if (choices.one_in(2)) options.picture_input.emplace();
  if (choices.one_in(4)) options.precision = choices.one_in(2) ? Precision::Fp64 : Precision::Tf32;
  if (!choices.one_in(8)) return options;
  options.max_batch = choices.any_of(kBatches);
  options.max_memory_bytes = choices.any_of(kLimits);
  options.threads = choices.any_of(kThreads);
  options.device = static_cast<int>(choices.below(3)) - 1;
  options.require_timing_cache = choices.one_in(2);
  if (choices.one_in(2)) {
    options.plan_batches.emplace();
    for (std::uint32_t count = choices.below(4); count > 0; --count) options.plan_batches->push_back(choices.below(5));
  }
  return options;
}

class Calls {
 public:
  Calls(ByteChoices& choices, std::shared_ptr<const Engine> engine)
      : choices_(choices),
        engine_(std::move(engine)),
        session_(engine_->create_session()),
        expected_(static_cast<std::size_t>(engine_->output().shape.elements())) {
    const auto alone = engine_->create_session();
    if (engine_->input().dtype == DType::U8) {
      alone->run(pictures<std::uint8_t>(elements(engine_->input().shape, 1)), expected_);
    } else {
      alone->run(pictures<float>(elements(engine_->input().shape, 1)), expected_);
    }
  }

  void run() {
    while (!choices_.done()) {
      returns([&] { call(); });
    }
  }

 private:
  std::int64_t batch() {
    static constexpr std::int64_t kBatches[] = {1, 2, 3, 0, -1, 4, std::numeric_limits<std::int64_t>::max()};
    return choices_.any_of(kBatches);
  }
  static std::size_t elements(const Shape& shape, std::int64_t n) {
    return static_cast<std::size_t>(shape.elements() * std::clamp<std::int64_t>(n, 0, kMaxBatch + 1));
  }
  // Of n images, as far as there are so many, and now and then an element too few.
  std::size_t size(const Shape& shape, std::int64_t n) {
    const std::size_t count = elements(shape, n);
    return count - (count > 0 && choices_.one_in(8) ? 1 : 0);
  }
  // The same image again and again.
  template <class T>
  std::vector<T> pictures(std::size_t count) const {
    constexpr std::size_t kPeriod = 7;
    const auto each = static_cast<std::size_t>(engine_->input().shape.elements());
    std::vector<T> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(i % each % kPeriod);
    return values;
  }
  template <class T>
  std::vector<T> pictures_of(std::int64_t n) {
    return pictures<T>(size(engine_->input().shape, n));
  }

  template <class T>
  void run_on(std::int64_t n, std::vector<float>& output) {
    session_->run(pictures_of<T>(n), output);
    for (std::size_t i = 0; i < output.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(output[i]) != std::bit_cast<std::uint32_t>(expected_[i % expected_.size()])) {
        fail("an image's answer depends on the calls before");
      }
    }
  }

  void call() {
    const std::uint32_t which = choices_.below(18);
    const std::int64_t n = batch();
    const std::int64_t batches[] = {n, 1};
    std::vector<float> output(size(engine_->output().shape, n));
    switch (which) {
      case 0:
        return run_on<float>(n, output);
      case 1:
        return run_on<std::uint8_t>(n, output);
      case 2:
        return session_->set_input(pictures_of<float>(n));
      case 3:
        return session_->set_input(pictures_of<std::uint8_t>(n));
      case 4:
        return session_->execute(n);
      case 5:
        return session_->get_output(output);
      case 6:
        return session_->synchronize();
      case 7:
        return session_->warm_up(batches);
      case 8:
        return static_cast<void>(session_->staged_input(n));
      case 9:
        return static_cast<void>(session_->staged_pictures(n));
      case 10:
        return static_cast<void>(session_->staged_output(n));
      case 11:
        return session_->enqueue_staged(n);
      case 12:
        return session_->run_staged(n);
      case 13:
        return static_cast<void>(session_->time_executions(n, static_cast<int>(choices_.below(3)), 1));
      case 14:
        return static_cast<void>(session_->profile(n, static_cast<int>(choices_.below(3))));
      case 15:
        return execute_layers(n);
      case 16:
        return session_->execute_layer(n, choices_.below(8));
      default:
        return session_->get_layer_output(output);
    }
  }

  void execute_layers(std::int64_t n) {
    const auto layers = engine_->layers(n);
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      session_->execute_layer(n, layer);
      std::vector<float> output(static_cast<std::size_t>(n * layers[layer].output.elements()));
      returns([&] { session_->get_layer_output(output); });
    }
  }

  ByteChoices& choices_;
  std::shared_ptr<const Engine> engine_;
  std::unique_ptr<Session> session_;
  std::vector<float> expected_;
};

bool run(Bytes input) {
  ByteChoices choices(input);
  return returns([&] {
    const Graph graph = choices.one_in(2) ? test::small_network() : test::every_operation();
    const EngineOptions options = chosen_options(choices);
    const auto engine = make_cpu_backend()->compile(graph, options);
    Calls(choices, engine).run();
  });
}

}  // namespace

Target session() { return {run}; }

}  // namespace mobicuda::fuzz
