// What sessions of GPU engines ask of CUDA, without a GPU: order of streams, captures, devices and refusals. That this
// has the wanted effect is what run_on_device_test.cpp and device_guard_test.cpp show on one.
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/cuda_interop.h>

#include "fake_cuda.h"
#include "runtime/cuda_engine.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

using test::fake_cuda;
using Calls = std::vector<std::string>;

constexpr std::int64_t kMaxBatch = 200;
constexpr std::size_t kElements = 4;  // of a picture, and of its output

enum class Replay : std::uint8_t { Yes, No };

// Two steps that write down where they are enqueued.
CudaPlan two_steps(std::int64_t batch) {
  CudaPlan plan;
  plan.batch = batch;
  plan.arena_bytes = 1024;
  plan.buffers = {{CudaBuffer::Place::Input, 0, 0}, {CudaBuffer::Place::Output, 0, 0}};
  for (const std::string part : {"first", "second"}) {
    const std::string name = batch == kMaxBatch ? part : part + " of " + std::to_string(batch);
    CudaStep step;
    step.info.name = name;
    step.enqueue = [name](const CudaStepContext& context) {
      const auto stream = fake_cuda().streams.find(context.stream);
      fake_cuda().calls.push_back(name + (context.programmatic ? " programmatic " : " ") +
                                  (stream == fake_cuda().streams.end() ? "own" : stream->second));
      return cudaSuccess;
    };
    plan.steps.push_back(std::move(step));
  }
  return plan;
}

CudaNetwork network_of(const std::vector<std::int64_t>& batches, std::int64_t min_batch) {
  CudaNetwork network;
  for (const std::int64_t batch : batches) network.plans.push_back(two_steps(batch));
  network.min_batch = min_batch;
  network.weights = upload(std::vector<std::byte>(100));
  network.keep_alive.push_back(network.weights);
  return network;
}

// A session, and a caller with two streams and two buffers that are large enough for any run.
class SessionCalls {
 protected:
  explicit SessionCalls(Replay replay = Replay::Yes, std::int64_t min_batch = 1,
                        const std::vector<std::int64_t>& plans = {kMaxBatch}) {
    fake_cuda() = {};
    fake_cuda().streams = {{a_, "A"}, {b_, "B"}};
    EngineOptions options;
    options.max_batch = kMaxBatch;
    options.cuda_graph = replay == Replay::Yes;
    const TensorDesc picture{DType::F32, Shape{1, kElements}, Layout::NCHW};
    engine_ = std::make_shared<CudaEngine>("custom", options, picture, picture, network_of(plans, min_batch));
    fake_cuda().freed_elsewhere = 0;  // the upload's stream: here no backend has made the device current
    session_ = engine_->create_session();
    fake_cuda().take();
  }
  ~SessionCalls() { CHECK(fake_cuda().contexts.empty()); }

  Calls run(std::int64_t n, cudaStream_t stream) { return run(n, x_.data(), y_.data(), stream); }
  Calls run(std::int64_t n, const float* x, float* y, cudaStream_t stream) {
    run_on_device(*session_, n, x, y, stream);
    return fake_cuda().take();
  }
  Calls run_host(std::size_t n) {
    std::vector<float> output(n * kElements);
    session_->run(std::span<const float>(x_).first(n * kElements), output);
    return fake_cuda().take();
  }
  std::string refusal(std::int64_t n, const float* x, float* y) {
    try {
      run_on_device(*session_, n, x, y, a_);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      for (const std::string& call : fake_cuda().take()) CHECK(call == "attributes");
      return error.what();
    }
    FAIL("no error");
    return {};
  }

  // No real ones: handles that CUDA would have given to a caller.
  std::array<char, 2> handles_{};
  cudaStream_t a_ = reinterpret_cast<cudaStream_t>(handles_.data());
  cudaStream_t b_ = reinterpret_cast<cudaStream_t>(handles_.data() + 1);
  alignas(16) std::array<float, 2 * kMaxBatch * kElements> x_{};
  alignas(16) std::array<float, 2 * kMaxBatch * kElements> y_{};
  std::shared_ptr<const Engine> engine_;
  std::unique_ptr<Session> session_;
};

class EagerCalls : public SessionCalls {
 protected:
  EagerCalls() : SessionCalls(Replay::No) {}
};

class WholeBatchCalls : public SessionCalls {
 protected:
  WholeBatchCalls() : SessionCalls(Replay::Yes, kMaxBatch) {}
};

class SeveralPlanCalls : public SessionCalls {
 protected:
  SeveralPlanCalls() : SessionCalls(Replay::Yes, 1, {2, 8, kMaxBatch}) {}
};

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::ptrdiff_t captures(const Calls& calls) { return std::count(calls.begin(), calls.end(), "capture own"); }

TEST_CASE_METHOD(SessionCalls, "session calls: streams wait for each other where they change") {
  run(2, a_);
  CHECK(run(2, a_) == Calls{"launch A", "record A"});
  CHECK(run(2, b_) == Calls{"wait B", "launch B", "record B"});
  CHECK(run(2, b_) == Calls{"launch B", "record B"});
  CHECK(run(2, a_) == Calls{"wait A", "launch A", "record A"});
  run_host(2);
  CHECK(run(2, a_) == Calls{"record own", "wait A", "launch A", "record A"});
  CHECK(run_host(2) == Calls{"wait own", "copy own", "synchronize own", "launch own", "copy own", "synchronize own"});
  CHECK(run_host(2) == Calls{"copy own", "synchronize own", "launch own", "copy own", "synchronize own"});
  run(2, a_);
  session_->synchronize();
  CHECK(fake_cuda().take() == Calls{"wait own", "synchronize own"});
  run(2, a_);
  session_->staged_input(2);
  session_->enqueue_staged(2);
  CHECK(fake_cuda().take().front() == "wait own");
}

TEST_CASE_METHOD(EagerCalls, "session calls: streams wait for each other without a CUDA graph too") {
  run(2, a_);
  CHECK(run(2, b_) == Calls{"wait B", "first B", "second programmatic B", "record B"});
  CHECK(run(2, b_) == Calls{"first B", "second programmatic B", "record B"});
}

TEST_CASE_METHOD(SessionCalls, "session calls: a new stream with the handle of an old one is another stream") {
  run(2, a_);
  fake_cuda().stream_ids[a_] = 12345;
  CHECK(run(2, a_) == Calls{"wait A", "launch A", "record A"});
  CHECK(run(2, a_) == Calls{"launch A", "record A"});
}

TEST_CASE_METHOD(SessionCalls, "session calls: 32 batch sizes are captured once each") {
  std::ptrdiff_t captured = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t n = 1; n <= 32; ++n) {
      captured += captures(run(n, a_)) + captures(run_host(static_cast<std::size_t>(n)));
    }
    CHECK(captured == 64);
  }
}

TEST_CASE_METHOD(SessionCalls, "session calls: fresh buffers at each call are not captured for ever") {
  auto fresh = [&, i = std::size_t{0}](std::int64_t n) mutable {
    i = i == kMaxBatch ? 0 : i + 1;
    return run(n, x_.data() + kElements * i, y_.data() + kElements * (i * 7 % kMaxBatch), a_);
  };
  for (int i = 0; i < 1000; ++i) fresh(1 + i % 32);
  std::ptrdiff_t captured = 0;
  for (int i = 0; i < 1000; ++i) captured += captures(fresh(1 + i % 32));
  CHECK(captured == 0);
  CHECK(run(3, x_.data() + kElements * 250, y_.data(), a_) ==
        Calls{"attributes", "attributes", "copy A", "launch A", "copy A", "record A"});
}

TEST_CASE_METHOD(SessionCalls, "session calls: more batch sizes than graphs are kept run step by step") {
  for (std::size_t n = 1; n <= kMaxBatch; ++n) run_host(n);
  CHECK(run_host(5) == Calls{"copy own", "synchronize own", "launch own", "copy own", "synchronize own"});
  CHECK(run_host(kMaxBatch) ==
        Calls{"copy own", "synchronize own", "first own", "second programmatic own", "copy own", "synchronize own"});
}

TEST_CASE_METHOD(WholeBatchCalls, "session calls: a plan of one batch size runs smaller ones between its own buffers") {
  run(2, a_);
  CHECK(run(2, a_) == Calls{"copy A", "launch A", "copy A", "record A"});
  fake_cuda().captured = a_;
  CHECK(run(2, a_) == Calls{"copy A", "first A", "second programmatic A", "copy A"});
}

TEST_CASE_METHOD(SessionCalls, "session calls: a captured stream gets the steps and no events") {
  run(2, a_);
  fake_cuda().captured = a_;
  CHECK(run(2, a_) == Calls{"first A", "second programmatic A"});
  CHECK(run(3, a_) == Calls{"first A", "second programmatic A"});
  CHECK(captures(run(2, b_)) == 0);
  fake_cuda().captured = nullptr;
  CHECK(run(2, a_) == Calls{"wait A", "launch A", "record A"});
}

TEST_CASE_METHOD(SessionCalls, "session calls: buffers are looked at once, and refused before anything is enqueued") {
  std::array<cudaPointerAttributes, 3> kinds{};
  kinds[0].type = cudaMemoryTypeUnregistered;
  kinds[1].type = cudaMemoryTypeDevice;
  kinds[1].device = 1;
  kinds[2].type = cudaMemoryTypeHost;
  float* const x = x_.data();
  float* const y = y_.data();
  fake_cuda().memory = {{x + 4, kinds[0]}, {x + 8, kinds[1]}, {x + 12, kinds[2]}};
  CHECK(has(refusal(1, nullptr, y), "input: must not be null"));
  CHECK(has(refusal(1, x, nullptr), "output: must not be null"));
  CHECK(has(refusal(1, x + 1, y), "input: must be aligned to 16 bytes, got an address 4 bytes past that"));
  CHECK(has(refusal(kMaxBatch + 1, x, y), "batch"));
  CHECK(has(refusal(1, x + 4, y), "input: must be memory of CUDA device 0, got pageable host memory"));
  CHECK(has(refusal(1, x, x + 4), "output: must be memory of CUDA device 0, got pageable host memory"));
  CHECK(has(refusal(1, x + 8, y), "got memory of CUDA device 1; copy it there"));
  CHECK(has(refusal(1, x + 12, y), "cudaHostGetDevicePointer()"));
  run_host(1);
  fake_cuda().take();
  session_->execute(1);  // what was refused has overwritten nothing
  CHECK(fake_cuda().take() == Calls{"launch own"});
  kinds[2].devicePointer = x + 12;
  fake_cuda().memory = {{x + 12, kinds[2]}};
  const Calls first = run(1, x + 12, y, a_);
  CHECK(std::count(first.begin(), first.end(), "attributes") == 2);
  CHECK(run(1, x + 12, y, a_) == Calls{"launch A", "record A"});
}

TEST_CASE_METHOD(SeveralPlanCalls,
                 "session calls: a run takes the plan of the smallest batch that is not below its own") {
  const auto name_of = [&](std::int64_t n) { return engine_->layers(n).front().name; };
  for (const std::int64_t n : {1, 2}) CHECK(name_of(n) == "first of 2");
  for (const std::int64_t n : {3, 7, 8}) CHECK(name_of(n) == "first of 8");
  for (const std::int64_t n : {std::int64_t{9}, kMaxBatch}) CHECK(name_of(n) == "first");
  CHECK(engine_->layers().front().name == "first");
  for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{0}, kMaxBatch + 1}) {
    CHECK_THROWS_AS(engine_->layers(n), Error);
  }
  for (const std::int64_t n : {1, 2, 3, 8, 9}) {
    const Calls calls = run_host(static_cast<std::size_t>(n));
    CHECK(std::count(calls.begin(), calls.end(), name_of(n) + " own") == 1);
    session_->execute_layer(n, 0);
    CHECK(fake_cuda().take().front() == name_of(n) + " own");
  }
}

TEST_CASE_METHOD(SeveralPlanCalls,
                 "session calls: plans share an arena as large as the largest, guarded ones have their own") {
  constexpr std::int64_t kArena = 1024;
  CHECK(engine_->memory().arena_bytes == kArena);
  EngineOptions options = engine_->options();
  options.guarded_arena = true;
  CudaNetwork network = network_of({2, kMaxBatch}, 1);
  network.plans[0].buffers.push_back({CudaBuffer::Place::Arena, 0, 100});
  network.plans[1].buffers.push_back({CudaBuffer::Place::Arena, 0, kArena});
  const auto guarded = std::make_shared<CudaEngine>("custom", options, engine_->input(), engine_->output(), network);
  CHECK(guarded->memory().arena_bytes == 100 + kArena);
}

TEST_CASE_METHOD(SeveralPlanCalls, "session calls: warmed up, runs capture nothing") {
  const std::vector<std::int64_t> batches{3, 1, 3, kMaxBatch};
  session_->warm_up(batches);
  CHECK(captures(fake_cuda().take()) == 3);
  for (const std::int64_t n : batches) CHECK(captures(run_host(static_cast<std::size_t>(n))) == 0);
  session_->time_executions(3, 2);
  CHECK(captures(fake_cuda().take()) == 0);
  CHECK(captures(run_host(4)) == 1);
  session_->warm_up(batches);
  CHECK(fake_cuda().take() == Calls{"synchronize own"});
  // Staged runs once there is memory for them.
  session_->staged_input(1);
  session_->warm_up(batches);
  CHECK(captures(fake_cuda().take()) == 3);
  for (const std::int64_t n : batches) {
    session_->run_staged(n);
    CHECK(captures(fake_cuda().take()) == 0);
  }
}

TEST_CASE_METHOD(SeveralPlanCalls, "session calls: what warm_up() asks for takes the place of other runs") {
  for (std::size_t n = 1; n <= kMaxBatch; ++n) run_host(n);
  const std::vector<std::int64_t> batches{kMaxBatch, 1, kMaxBatch - 1};
  session_->warm_up(batches);
  CHECK(captures(fake_cuda().take()) == 2);
  for (const std::int64_t n : batches) {
    const Calls calls = run_host(static_cast<std::size_t>(n));
    CHECK(std::count(calls.begin(), calls.end(), "launch own") == 1);
  }
}

TEST_CASE_METHOD(SeveralPlanCalls, "session calls: warm_up() refuses sizes that do not run, and more than are kept") {
  const auto says = [&](const std::vector<std::int64_t>& batches) -> std::string {
    try {
      session_->warm_up(batches);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      CHECK(fake_cuda().take().empty());
      return error.what();
    }
    return "";
  };
  CHECK(has(says({1, 0}), "must be 1 to 200, got 0"));
  CHECK(has(says({1, kMaxBatch + 1}), "must be 1 to 200, got 201"));
  std::vector<std::int64_t> many(129);
  std::iota(many.begin(), many.end(), 1);
  CHECK(has(says(many), "needs 129 captured runs, a session keeps 128; name fewer sizes"));
  many.pop_back();
  CHECK(says(many).empty());
  session_->staged_output(1);
  fake_cuda().take();
  CHECK(has(says(many), "needs 256 captured runs, a session keeps 128; name fewer sizes: each needs two"));
}

TEST_CASE_METHOD(EagerCalls, "session calls: without a CUDA graph there is nothing to warm up") {
  session_->warm_up(std::vector<std::int64_t>{1, 2});
  CHECK(fake_cuda().take().empty());
  CHECK_THROWS_AS(session_->warm_up(std::vector<std::int64_t>{0}), Error);
}

TEST_CASE_METHOD(SessionCalls, "session calls: what the own buffers held is gone after run_on_device") {
  std::array<float, kElements> output{};
  session_->set_input(std::span<const float>(x_).first(kElements));
  session_->execute(1);
  run(1, a_);
  CHECK_THROWS_AS(session_->get_output(output), Error);
  CHECK_THROWS_AS(session_->execute(1), Error);
  CHECK_THROWS_AS(session_->execute_layer(1, 0), Error);
  session_->set_input(std::span<const float>(x_).first(kElements));
  CHECK_THROWS_AS(session_->get_output(output), Error);
  session_->execute(1);
  session_->get_output(output);
  const auto computes = GENERATE(0, 1, 2);  // all that gives outputs, besides execute()
  run(1, a_);
  session_->time_executions(1, 1);  // of whatever is in the input
  CHECK_THROWS_AS(session_->get_output(output), Error);
  session_->set_input(std::span<const float>(x_).first(kElements));
  CHECK_THROWS_AS(session_->get_output(output), Error);
  if (computes == 0) session_->time_executions(1, 1);
  if (computes == 1) session_->profile(1, 1);
  for (std::size_t layer = 0; computes == 2 && layer < 2; ++layer) session_->execute_layer(1, layer);
  session_->get_output(output);
}

TEST_CASE_METHOD(SessionCalls, "session calls: sessions and engines are freed on their device, when runs have ended") {
  run_host(2);
  session_->staged_input(2);
  run(2, a_);
  session_.reset();
  CHECK(fake_cuda().take() == Calls{"synchronize event", "synchronize own"});
  engine_.reset();
  CHECK(fake_cuda().freed_elsewhere == 0);
}

TEST_CASE_METHOD(SessionCalls, "session calls: what ends after the driver does not call it") {
  fake_cuda().unloading = true;
  session_.reset();
  engine_.reset();
  CHECK_FALSE(fake_cuda().called_unloaded);
}

}  // namespace
}  // namespace mobicuda
