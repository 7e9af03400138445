// On a GPU: each CUDA call fails once; running allocates nothing; engines and sessions that come and go leave nothing.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include <mobicuda/cuda_interop.h>
#include <mobicuda/mobicuda.h>

#include "cuda_calls.h"
#include "runtime/cuda_check.h"
#include "runtime/device_buffer.h"
#include "support/catch.h"
#include "support/graphs.h"

namespace mobicuda {
namespace {

using test::cuda_calls;
using Floats = std::vector<float>;

constexpr std::int64_t kMaxBatch = 4;

/// Blocks that are fused, a gate, a concatenation and a classifier: most of what a network launches.
Graph network() {
  test::TestNetwork net(Shape{1, 3, 32, 32});
  net.conv(16, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6(), "stem");
  const ValueId x = net.last();
  net.conv(96, 1, 1, {}, 1, Activation::relu6(), "expand");
  net.conv(96, 3, 1, {1, 1, 1, 1}, 0, Activation::relu6(), "depthwise");
  const ValueId y = net.conv(16, 1, 1, {}, 1, {}, "project");
  net.add(Add{}, {y, x}, "sum");
  const ValueId sum = net.last();
  net.add(GlobalAveragePool{}, {sum}, "mean");
  net.conv(16, 1, 1, {}, 1, Activation::of(ActivationKind::Sigmoid), "gate");
  net.add(Mul{}, {sum, net.last()}, "scaled");
  net.add(Concat{1}, {net.last(), sum}, "joined");
  net.head(10);
  return std::move(net).build();
}

EngineOptions options_for(Precision precision) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = kMaxBatch;
  options.code_cache = "";
  return options;
}

/// An engine's whole life; the output of its runs.
Floats whole(const Graph& graph, const Floats& images, Precision precision) {
  const auto engine = make_custom_backend()->compile(graph, options_for(precision));
  const auto session = engine->create_session();
  Floats output(kMaxBatch * static_cast<std::size_t>(engine->output().shape.elements()));
  session->run(images, output);
  session->warm_up(std::vector<std::int64_t>{1, kMaxBatch});
  const auto staged = session->staged_input(1);
  std::copy_n(images.begin(), staged.size(), staged.begin());
  session->run_staged(1);
  session->profile(1, 1);
  const DeviceBuffer x(static_cast<std::int64_t>(images.size() * sizeof(float)), "images");
  const DeviceBuffer y(static_cast<std::int64_t>(output.size() * sizeof(float)), "outputs");
  const Stream stream;
  run_on_device(*session, 2, static_cast<const float*>(x.data()), static_cast<float*>(y.data()), stream.get());
  cuda_check(cudaStreamSynchronize(stream.get()), "waiting");
  session->run(images, output);
  return output;
}

Floats images_for(const Graph& graph) {
  return test::random_uniform(3, static_cast<std::size_t>(kMaxBatch * graph.input_desc().shape.elements()));
}

std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "asking for free memory");
  return free;
}

/// Runs `action` until no call of those that are to fail is left; which calls failed.
std::map<std::string, int> fail_each(cudaError_t failure, ErrorCode code, const std::string& only,
                                     const std::function<void()>& action) {
  std::map<std::string, int> failed;
  const int alive = cuda_calls().all_alive();
  int silent = 0;
  for (int call = 0;; ++call) {
    cuda_calls().failure = failure;
    cuda_calls().only = only;
    cuda_calls().failed.clear();
    cuda_calls().before_failure = call;
    std::string told;
    ErrorCode told_code = code;
    try {
      action();
    } catch (const Error& error) {
      told = error.what();
      told_code = error.code();
    }
    cuda_calls().before_failure = -1;
    const std::string name = cuda_calls().failed;
    if (name.empty()) {
      CHECK(told.empty());
      CHECK(silent <= 1);
      return failed;
    }
    ++failed[name];
    CAPTURE(name, call, told);
    // A session that ends waits for its stream, and has nobody to tell.
    const bool at_the_end = told.empty() && name == "cudaStreamSynchronize";
    silent += at_the_end ? 1 : 0;
    CHECK((at_the_end || !told.empty()));
    CHECK(told_code == code);
    CHECK(cuda_calls().all_alive() == alive);
  }
}

}  // namespace

TEST_CASE("cuda faults: each allocation of device and page-locked memory fails once") {
  const Graph graph = network();
  const Floats images = images_for(graph);
  const Floats expected = whole(graph, images, Precision::Fp16);
  for (const char* name : {"cudaMalloc", "cudaHostAlloc"}) {
    const auto failed = fail_each(cudaErrorMemoryAllocation, ErrorCode::out_of_memory, name,
                                  [&] { whole(graph, images, Precision::Fp16); });
    CHECK(failed.at(name) >= 1);
    CHECK(whole(graph, images, Precision::Fp16) == expected);
  }
}

TEST_CASE("cuda faults: each CUDA call fails once, with any error") {
  const Graph graph = network();
  const Floats images = images_for(graph);
  const Precision precision = GENERATE(Precision::Fp16, Precision::Fp32);
  const Floats expected = whole(graph, images, precision);
  const auto all = fail_each(cudaErrorUnknown, ErrorCode::internal, "", [&] { whole(graph, images, precision); });
  for (const char* name : {"cudaMalloc", "cudaMemcpyAsync", "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags",
                           "cudaGraphInstantiate", "cudaGraphLaunch", "cudaStreamBeginCapture"}) {
    CAPTURE(name);
    CHECK(all.count(name) == 1);
  }
  CHECK(whole(graph, images, precision) == expected);
}

TEST_CASE("cuda faults: runs allocate nothing after the first of each size") {
  const Graph graph = network();
  const Floats images = images_for(graph);
  const auto engine = make_custom_backend()->compile(graph, options_for(Precision::Fp16));
  const auto session = engine->create_session();
  Floats output(kMaxBatch * static_cast<std::size_t>(engine->output().shape.elements()));
  const auto run_all = [&] {
    session->run(images, output);
    session->set_input(images);
    session->execute(kMaxBatch);
    session->get_output(output);
    session->staged_input(2);
    session->run_staged(2);
  };
  session->warm_up(std::vector<std::int64_t>{2, kMaxBatch});
  run_all();
  run_all();
  cuda_calls().made.clear();
  const std::size_t free = free_memory();
  for (int i = 0; i < 100; ++i) run_all();
  for (const char* name : {"cudaMalloc", "cudaHostAlloc", "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags",
                           "cudaGraphInstantiate"}) {
    CAPTURE(name);
    CHECK(cuda_calls().made[name] == 0);
  }
  CHECK(free_memory() == free);
}

// Minutes: asked for by its tag.
TEST_CASE("cuda faults: 10,000 engines and sessions return all device memory", "[.churn]") {
  test::TestNetwork net(Shape{1, 3, 16, 16});
  net.conv(8, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
  net.head(5);
  const Graph graph = std::move(net).build();
  const Floats images = images_for(graph);
  Floats output(kMaxBatch * static_cast<std::size_t>(graph.output_desc().shape.elements()));
  const auto backend = make_custom_backend();
  const auto churn = [&] {
    const auto engine = backend->compile(graph, options_for(Precision::Fp16));
    const auto first = engine->create_session();
    const auto second = engine->create_session();
    first->run(images, output);
    const Floats expected = output;
    second->run(images, output);
    if (output != expected) FAIL("two sessions answer otherwise");
  };
  for (int i = 0; i < 10; ++i) churn();  // loads the kernels
  const std::size_t free = free_memory();
  const int alive = cuda_calls().all_alive();
  for (int i = 0; i < 10000; ++i) churn();
  CHECK(free_memory() == free);
  CHECK(cuda_calls().all_alive() == alive);
}

}  // namespace mobicuda
