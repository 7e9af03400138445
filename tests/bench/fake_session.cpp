#include "fake_session.h"

#include <chrono>
#include <thread>
#include <utility>

using namespace mobicuda;

namespace {

constexpr std::int64_t kMostPictures = 64;

EngineOptions engine_options() {
  EngineOptions result;
  result.max_batch = kMostPictures;
  return result;
}

TensorDesc input_of(Shape picture, bool bytes) {
  TensorDesc input;
  input.shape = picture;
  input.dtype = bytes ? DType::U8 : DType::F32;
  return input;
}

TensorDesc output_of_one() {
  TensorDesc output;
  output.shape = Shape{1, 1};
  return output;
}

class FakeSession final : public Session {
 public:
  explicit FakeSession(const std::shared_ptr<const FakeEngine>& engine)
      : Session(engine),
        engine_(*engine),
        calls_(engine->calls()),
        staged_(static_cast<std::size_t>(kMostPictures * engine->input().shape.elements())) {}

 private:
  void do_set_input(std::span<const std::byte> input, std::int64_t) override {
    if (engine_.input().dtype == DType::U8) {
      calls_.input.clear();
      for (const std::byte value : input) calls_.input.push_back(std::to_integer<std::uint8_t>(value));
    } else {
      const auto* values = reinterpret_cast<const float*>(input.data());
      const std::size_t count = input.size() / sizeof(float);
      calls_.input.assign(values, values + count);
    }
  }
  void do_execute(std::int64_t) override {
    ++calls_.executed;
    ++enqueued_;
  }
  void do_get_output(std::span<float>, std::int64_t) override {}
  void do_synchronize() override {
    ++calls_.waits;
    const double ms = engine_.run_ms(0) * std::exchange(enqueued_, 0);
    if (ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
  }
  std::byte* do_staged_input() override { return reinterpret_cast<std::byte*>(staged_.data()); }
  float* do_staged_output() override { return staged_.data(); }
  void do_enqueue_staged(std::int64_t) override { ++enqueued_; }
  std::vector<double> do_time_executions(std::int64_t, int iterations, int runs) override {
    const double ms = engine_.run_ms(calls_.timed.size());
    calls_.timed.push_back({iterations, runs});
    return std::vector<double>(static_cast<std::size_t>(iterations), ms);
  }
  LayerTimes do_profile(std::int64_t, int, ProfileMode mode) override {
    calls_.profiles.push_back(mode);
    return {};
  }
  void do_execute_layer(std::int64_t, std::size_t) override {}
  void do_get_layer_output(std::int64_t, std::size_t, std::span<float>) override {}

  const FakeEngine& engine_;
  FakeCalls& calls_;
  std::vector<float> staged_;
  int enqueued_ = 0;
};

}  // namespace

FakeEngine::FakeEngine(Shape picture, bool bytes, std::vector<double> run_ms)
    : Engine(engine_options(), input_of(picture, bytes), output_of_one()), run_ms_(std::move(run_ms)) {}

std::unique_ptr<Session> FakeEngine::do_create_session() const {
  return std::make_unique<FakeSession>(std::static_pointer_cast<const FakeEngine>(shared_from_this()));
}

std::shared_ptr<FakeEngine> fake_engine(std::vector<double> run_ms, Shape picture, bool bytes) {
  return std::make_shared<FakeEngine>(picture, bytes, std::move(run_ms));
}
