// Each CUDA call of an engine's and a session's life fails once, without a GPU: the call of ours that needed it ends in
// an Error, nothing is lost, and what follows works. cuda_faults_test.cpp does the same on a GPU.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <mobicuda/cuda_interop.h>

#include "fake_cuda.h"
#include "runtime/cuda_engine.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

using test::fake_cuda;

constexpr std::int64_t kMaxBatch = 8;
constexpr std::size_t kElements = 4;  // of an image, and of its output

CudaPlan one_step(std::int64_t batch) {
  CudaPlan plan;
  plan.batch = batch;
  plan.arena_bytes = 1024;
  plan.buffers = {{CudaBuffer::Place::Input, 0, 0}, {CudaBuffer::Place::Output, 0, 0}};
  CudaStep step;
  step.info.name = "step";
  step.enqueue = [](const CudaStepContext&) { return cudaGraphLaunch(nullptr, nullptr); };  // may fail, too
  plan.steps.push_back(std::move(step));
  return plan;
}

std::shared_ptr<const Engine> make_engine(bool cuda_graph) {
  CudaNetwork network;
  for (const std::int64_t batch : {std::int64_t{2}, kMaxBatch}) network.plans.push_back(one_step(batch));
  network.weights = upload(std::vector<std::byte>(100));
  network.keep_alive.push_back(network.weights);
  EngineOptions options;
  options.max_batch = kMaxBatch;
  options.cuda_graph = cuda_graph;
  const TensorDesc image{DType::F32, Shape{1, kElements}, Layout::NCHW};
  return std::make_shared<CudaEngine>("custom", options, image, image, std::move(network));
}

struct Caller {
  std::array<char, 1> handle{};
  alignas(16) std::array<float, kMaxBatch * kElements> x{};
  alignas(16) std::array<float, kMaxBatch * kElements> y{};

  cudaStream_t stream() { return reinterpret_cast<cudaStream_t>(handle.data()); }

  /// Everything that a session does.
  void use(Session& session) {
    session.run(std::span<const float>(x).first(kElements), std::span(y).first(kElements));
    session.run(x, y);
    session.set_input(x);
    session.execute(kMaxBatch);
    session.get_output(y);
    run_on_device(session, 2, x.data(), y.data(), stream());
    run_on_device(session, 2, x.data(), y.data(), stream());
    session.staged_input(2);
    session.run_staged(2);
    session.enqueue_staged(2);
    session.synchronize();
    session.warm_up(std::vector<std::int64_t>{1, 2, kMaxBatch});
    session.run(x, y);
    session.time_executions(2, 2);
    session.profile(2, 2);
    session.execute_layer(2, 0);
  }
};

int live() {
  int all = 0;
  for (const auto& [kind, count] : fake_cuda().live) all += count;
  return all;
}

}  // namespace

TEST_CASE("session faults: each CUDA call of an engine and its session fails once") {
  struct Failure {
    cudaError_t status;
    ErrorCode code;
  };
  const auto failure =
      GENERATE(Failure{cudaErrorMemoryAllocation, ErrorCode::out_of_memory},
               Failure{cudaErrorLaunchFailure, ErrorCode::device_lost}, Failure{cudaErrorUnknown, ErrorCode::internal});
  const bool cuda_graph = GENERATE(true, false);
  CAPTURE(failure.status, cuda_graph);
  fake_cuda() = {};
  Caller caller;
  const auto whole = [&] {
    const auto engine = make_engine(cuda_graph);
    caller.use(*engine->create_session());
  };
  whole();  // what is made once for all is there now
  const int before = live();
  int errors = 0;
  int others = 0;
  bool reached = true;
  for (int call = 0; reached; ++call) {
    fake_cuda().failure = failure.status;
    fake_cuda().calls_before_failure = call;
    try {
      whole();
    } catch (const Error& error) {
      ++errors;
      if (error.code() != failure.code) ++others;
    }
    reached = fake_cuda().failed();
    fake_cuda().calls_before_failure = -1;
    CHECK(live() == before);
    CHECK(fake_cuda().contexts.empty());
  }
  CHECK(errors > 50);
  CHECK(others == 0);
  whole();
}

TEST_CASE("session faults: a session of which a call failed goes on") {
  const bool cuda_graph = GENERATE(true, false);
  fake_cuda() = {};
  Caller caller;
  const auto engine = make_engine(cuda_graph);
  const auto session = engine->create_session();
  bool reached = true;
  for (int call = 0; reached; ++call) {
    fake_cuda().failure = cudaErrorMemoryAllocation;
    fake_cuda().calls_before_failure = call;
    try {
      caller.use(*session);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::out_of_memory);
    }
    reached = fake_cuda().failed();
    fake_cuda().calls_before_failure = -1;
    CAPTURE(call);
    caller.use(*session);
  }
}

}  // namespace mobicuda
