// Calls of a session in any order, with any sizes. The first byte chooses the engine, each two of the rest a call and
// its batch. A run that succeeds gives the answer that a session of its own gives.
#include <algorithm>
#include <bit>
#include <compare>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/error.h>

#include "fuzz/target.h"
#include "plan_file/plan_networks.h"
#include "support/graphs.h"
#include "support/random_graph.h"

namespace mobicuda::fuzz {
namespace {

using test::ByteChoices;

constexpr std::int64_t kMaxBatch = 3;

// What an engine is made of, unless its options are odd.
struct Choice {
  bool small = false;
  bool pictures = false;
  Precision precision = Precision::Fp32;
  auto operator<=>(const Choice&) const = default;
};

Choice chosen(ByteChoices& choices) {
  Choice choice;
  choice.small = choices.one_in(2);
  choice.pictures = choices.one_in(2);
  if (choices.one_in(4)) choice.precision = choices.one_in(2) ? Precision::Fp64 : Precision::Tf32;
  return choice;
}

EngineOptions options_of(const Choice& choice) {
  EngineOptions options = small_options();
  options.max_batch = kMaxBatch;
  options.precision = choice.precision;
  if (choice.pictures) options.picture_input.emplace();
  return options;
}

// Odd ones, many of which are refused.
void change(EngineOptions& options, ByteChoices& choices) {
  static constexpr std::int64_t kBatches[] = {kMaxBatch, 1, 0, -1};
  static constexpr std::int64_t kLimits[] = {16 << 20, 0, 1, -1};
  static constexpr int kThreads[] = {1, 2, -1};
  options.max_batch = choices.any_of(kBatches);
  options.max_memory_bytes = choices.any_of(kLimits);
  options.threads = choices.any_of(kThreads);
  options.device = static_cast<int>(choices.below(3)) - 1;
  options.require_timing_cache = choices.one_in(2);
  if (choices.one_in(2)) {
    options.plan_batches.emplace();
    for (std::uint32_t count = choices.below(4); count > 0; --count) options.plan_batches->push_back(choices.below(5));
  }
}

// The operations of test::every_operation() on fewer pixels, which take less time.
Graph few_pixels() {
  test::TestNetwork net(Shape{1, 3, 6, 6});
  net.conv(4, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
  net.conv(4, 3, 1, {1, 1, 1, 1}, 0, Activation::of(ActivationKind::Silu));
  const ValueId shortcut = net.conv(4, 1);
  net.conv(4, 3, 1, {1, 1, 1, 1}, 2, Activation::of(ActivationKind::LeakyRelu, 0.25F));
  const ValueId sum = net.add(Add{Activation::relu()}, {shortcut, net.last()});
  net.add(GlobalAveragePool{}, {sum});
  net.conv(4, 1, 1, {}, 1, Activation::of(ActivationKind::HardSwish));
  net.add(Mul{}, {sum, net.last()});
  net.add(Pad{{1, 2, 1, 0}, 0.0F, PadMode::Reflect}, {net.last()});
  net.scale_shift(Activation::relu());
  net.add(LocalResponseNorm{3, 1e-3F, 0.5F, 2.0F}, {net.last()});
  const ValueId wide = net.add(Unary{UnaryKind::Elu, 0.5F}, {net.last()});
  net.add(Slice{1, 1, 2}, {wide});
  net.add(Concat{1}, {wide, net.last()});
  net.add(Clip{{-0.75F, 0.5F}}, {net.last()});
  Pool2d pool;
  pool.kernel = {3, 2};
  pool.strides = {2, 2};
  pool.pads = {1, 0, 1, 0};
  pool.ceil_mode = true;
  net.add(pool, {net.last()});
  pool.kind = PoolKind::Average;
  pool.count_include_pad = true;
  net.add(pool, {net.last()});
  net.add(Normalize{NormalizedOver::Groups, 2, 0.25F}, {net.last()});
  Resize resize;
  resize.extents = {2, 3};
  resize.mode = ResizeMode::Linear;
  resize.coordinates = ResizeCoordinates::AlignCorners;
  const ValueId resized = net.add(resize, {net.last()});
  net.add(Transpose{{0, 1, 3, 2}}, {resized});
  net.add(Unary{UnaryKind::Gelu}, {net.last()});
  net.add(BatchedMatMul{}, {net.last(), resized});
  net.add(Transpose{{0, 2, 3, 1}}, {net.last()});
  net.add(Reshape{Shape{1, 54}}, {net.last()});
  net.gemm(5);
  net.add(Softmax{}, {net.last()});
  return std::move(net).build();
}

std::size_t elements(const Shape& shape, std::int64_t n) {
  return static_cast<std::size_t>(shape.elements() * std::clamp<std::int64_t>(n, 0, kMaxBatch + 1));
}

// The same image again and again.
template <class T>
std::vector<T> pictures(const Engine& engine, std::size_t count) {
  constexpr std::size_t kPeriod = 7;
  const auto each = static_cast<std::size_t>(engine.input().shape.elements());
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(i % each % kPeriod);
  return values;
}

// An engine, and what it answers of the image in a session of its own.
struct Subject {
  std::shared_ptr<const Engine> engine;
  std::vector<float> expected;
};

Subject subject_of(const Choice& choice, const EngineOptions& options) {
  Subject subject;
  subject.engine = make_cpu_backend()->compile(choice.small ? test::small_network() : few_pixels(), options);
  subject.expected.resize(static_cast<std::size_t>(subject.engine->output().shape.elements()));
  const auto alone = subject.engine->create_session();
  const std::size_t count = elements(subject.engine->input().shape, 1);
  if (choice.pictures) {
    alone->run(pictures<std::uint8_t>(*subject.engine, count), subject.expected);
  } else {
    alone->run(pictures<float>(*subject.engine, count), subject.expected);
  }
  return subject;
}

// Compiling takes longer than an input's calls, so that engines without odd options stay. So do their answers of before
// all other calls: what an input's calls might leave behind in an engine fails that input or a later one.
const Subject& lasting_subject(const Choice& choice) {
  static std::map<Choice, Subject> subjects;
  const auto found = subjects.find(choice);
  if (found != subjects.end()) return found->second;
  return subjects.emplace(choice, subject_of(choice, options_of(choice))).first->second;
}

class Calls {
 public:
  Calls(ByteChoices& choices, const Subject& subject)
      : choices_(choices), engine_(*subject.engine), session_(engine_.create_session()), expected_(subject.expected) {}

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
  // Of n images, as far as there are so many, and now and then an element too few.
  std::size_t size(const Shape& shape, std::int64_t n) {
    const std::size_t count = elements(shape, n);
    return count - (count > 0 && choices_.one_in(8) ? 1 : 0);
  }
  template <class T>
  std::vector<T> pictures_of(std::int64_t n) {
    return pictures<T>(engine_, size(engine_.input().shape, n));
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
    std::vector<float> output(size(engine_.output().shape, n));
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
    const auto layers = engine_.layers(n);
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      session_->execute_layer(n, layer);
      std::vector<float> output(static_cast<std::size_t>(n * layers[layer].output.elements()));
      returns([&] { session_->get_layer_output(output); });
    }
  }

  ByteChoices& choices_;
  const Engine& engine_;
  std::unique_ptr<Session> session_;
  std::span<const float> expected_;
};

bool run(Bytes input) {
  ByteChoices choices(input);
  return returns([&] {
    const Choice choice = chosen(choices);
    if (!choices.one_in(8)) return Calls(choices, lasting_subject(choice)).run();
    EngineOptions options = options_of(choice);
    change(options, choices);
    Calls(choices, subject_of(choice, options)).run();
  });
}

}  // namespace

Target session() { return {run}; }

}  // namespace mobicuda::fuzz
