// Which device and context a thread has after calls into the library, and that what it uploads is there when it says
// so.
#include "runtime/device_guard.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <mobicuda/cuda_interop.h>
#include <mobicuda/mobicuda.h>

#include "runtime/cuda_check.h"
#include "runtime/device_buffer.h"
#include "runtime/driver_function.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/tolerance.h"

namespace mobicuda {
namespace {

CUcontext current_context() {
  CUcontext context = nullptr;
  driver_check(driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent")(&context), "asking for the context");
  return context;
}

// While it lives, the thread has no context, as threads do that have not used CUDA.
class WithoutContext {
 public:
  WithoutContext() { set_(nullptr); }
  ~WithoutContext() { set_(before_); }
  WithoutContext(const WithoutContext&) = delete;
  WithoutContext& operator=(const WithoutContext&) = delete;

 private:
  CUcontext before_ = current_context();
  decltype(&cuCtxSetCurrent) set_ = driver_function<decltype(&cuCtxSetCurrent)>("cuCtxSetCurrent");
};

int current_device() {
  int device = -1;
  cuda_check(cudaGetDevice(&device), "asking for the device");
  return device;
}

int devices() {
  int count = 0;
  cuda_check(cudaGetDeviceCount(&count), "counting devices");
  return count;
}

Graph small_network() {
  test::TestNetwork network(Shape{1, 3, 16, 16});
  network.conv(16, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
  network.head(10);
  return std::move(network).build();
}

EngineOptions on_device(int device) {
  EngineOptions options;
  options.max_batch = 2;
  options.device = device;
  return options;
}

// Everything that a program does with an engine, with errors at each stage.
void use_engine(int device) {
  const Graph graph = small_network();
  CHECK_THROWS_AS(make_custom_backend()->compile(graph, on_device(devices())), Error);
  EngineOptions wrong = on_device(device);
  wrong.kernel_variants = {{"gemm", "fastest"}};
  CHECK_THROWS_AS(make_custom_backend()->compile(graph, wrong), Error);
  auto engine = make_custom_backend()->compile(graph, on_device(device));
  const SavedEngine saved = engine->saved();
  CHECK(make_custom_backend()->restore(saved, on_device(device)) != nullptr);
  auto session = engine->create_session();
  const auto input = test::random_uniform(1, static_cast<std::size_t>(2 * engine->input().shape.elements()));
  std::vector<float> output(20);
  session->run(input, output);
  CHECK_THROWS_AS(run_on_device(*session, 2, input.data(), output.data(), nullptr), Error);
  std::copy(input.begin(), input.end(), session->staged_input(2).begin());
  session->run_staged(2);
  CHECK(test::compare_bits(session->staged_output(2), output));
  session->set_input(input);
  for (std::size_t layer = 0; layer < engine->layers().size(); ++layer) session->execute_layer(2, layer);
  CHECK(session->time_executions(2, 3).size() == 3);
  CHECK(session->profile(2, 2).layers.size() == engine->layers().size());
  session.reset();
  engine.reset();
}

TEST_CASE("custom: a thread without a context has none after using an engine") {
  REQUIRE(devices() > 0);  // also starts the driver, without which there is no asking for a context
  const WithoutContext none;
  REQUIRE(current_context() == nullptr);
  use_engine(0);
  CHECK(current_context() == nullptr);
}

TEST_CASE("custom: a thread keeps its device, and an engine frees its memory on its own") {
  if (devices() < 2) MOBICUDA_SKIP("one CUDA device");
  for (const int engines : {0, 1}) {
    cuda_check(cudaSetDevice(1 - engines), "selecting a device");
    use_engine(engines);
    CHECK(current_device() == 1 - engines);
  }
  cuda_check(cudaSetDevice(0), "selecting a device");
}

TEST_CASE("custom: engines of two devices side by side in one thread give the same bits") {
  if (devices() < 2) MOBICUDA_SKIP("one CUDA device");
  if (device_description(0) != device_description(1)) MOBICUDA_SKIP("two kinds of CUDA devices");
  const Graph graph = small_network();
  const auto first = make_custom_backend()->compile(graph, on_device(0));
  const auto second = make_custom_backend()->compile(graph, on_device(1));
  const auto of_first = first->create_session();
  const auto of_second = second->create_session();
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    const auto input = test::random_uniform(seed, static_cast<std::size_t>(2 * first->input().shape.elements()));
    std::vector<float> expected(20);
    std::vector<float> actual(20);
    of_first->run(input, expected);
    of_second->run(input, actual);
    CHECK(test::compare_bits(actual, expected));
  }
}

TEST_CASE("a device guard restores what was current, also when an exception passes") {
  const Device device = open_device(0);
  const WithoutContext none;
  try {
    const DeviceGuard outer(device);
    CHECK(current_context() == device.context);
    {
      const DeviceGuard inner(device, std::nothrow);
      CHECK(current_context() == device.context);
    }
    CHECK(current_context() == device.context);
    throw Error(ErrorCode::internal, "test", "on purpose");
  } catch (const Error&) {
    CHECK(current_context() == nullptr);
  }
}

TEST_CASE("an upload from pageable memory is there for streams that wait for no other") {
  constexpr std::size_t kBytes = std::size_t{48} << 20U;
  const Stream reader;
  DeviceBuffer target(kBytes, "an upload");
  PinnedBuffer copy(kBytes, "what a stream sees");
  std::vector<std::byte> source(kBytes);
  for (int round = 0; round < 10; ++round) {
    std::memset(source.data(), round + 1, source.size());
    target.upload(source);
    // No kernel and no capture in between that would give the upload time.
    cuda_check(cudaMemcpyAsync(copy.data(), target.data(), kBytes, cudaMemcpyDeviceToHost, reader.get()), "copying");
    cuda_check(cudaStreamSynchronize(reader.get()), "copying");
    CHECK(std::memcmp(copy.data(), source.data(), kBytes) == 0);
  }
}

}  // namespace
}  // namespace mobicuda
