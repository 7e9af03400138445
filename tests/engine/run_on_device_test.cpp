// run_on_device(): between which buffers, in which order, and as a part of the caller's own graph.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include <mobicuda/cuda_interop.h>
#include <mobicuda/mobicuda.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "runtime/cuda_check.h"
#include "runtime/device_buffer.h"
#include "runtime/launch_gate.h"
#include "support/catch.h"
#include "support/random.h"
#include "support/tolerance.h"

namespace mobicuda {
namespace {

using test::compare_bits;
using Floats = std::vector<float>;

constexpr std::int64_t kClasses = 52;  // so that the outputs of every picture start at a multiple of 16 bytes
constexpr std::int64_t kMaxBatch = 20;
constexpr int kNan = 0xFF;

EngineOptions default_options() {
  EngineOptions options;
  options.precision = Precision::Fp16;
  options.max_batch = kMaxBatch;
  return options;
}

std::shared_ptr<const Engine> compiled(const EngineOptions& options = default_options()) {
  zoo::MobileNetV2Options network;
  network.width = 0.35;
  network.height = network.picture_width = 96;
  network.classes = kClasses;
  const std::string bytes = zoo::build_mobilenet_v2(network).SerializeAsString();
  return make_custom_backend()->compile(onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "generated"),
                                        options);
}

void check(cudaError_t status) { cuda_check(status, "testing"); }

// Pictures on the host and on the device, room for their outputs there, and what the outputs are to be.
class Pictures {
 public:
  Pictures(const Engine& engine, std::int64_t count, std::uint32_t seed = 5)
      : picture_(engine.input().shape.elements()),
        input_(test::random_uniform(seed, static_cast<std::size_t>(count * picture_))),
        on_device_(count * picture_ * 4, "inputs"),
        outputs_(count * kClasses * 4, "outputs") {
    on_device_.upload(std::as_bytes(std::span(input_)));
    poison();
  }

  std::span<const float> input(std::int64_t n, std::int64_t first = 0) const {
    return std::span(input_).subspan(static_cast<std::size_t>(first * picture_),
                                     static_cast<std::size_t>(n * picture_));
  }
  float* on_device(std::int64_t first = 0) const { return static_cast<float*>(on_device_.data()) + first * picture_; }
  float* output(std::int64_t first = 0) const { return static_cast<float*>(outputs_.data()) + first * kClasses; }

  void poison() const {
    check(cudaMemset(outputs_.data(), kNan, static_cast<std::size_t>(outputs_.bytes())));
    check(cudaDeviceSynchronize());
  }

  void run(Session& session, std::int64_t n, cudaStream_t stream, std::int64_t first = 0) const {
    run_on_device(session, n, on_device(first), output(first), stream);
  }

  // Of pictures whose runs have ended.
  Floats outputs(std::int64_t n, std::int64_t first = 0) const {
    Floats values(static_cast<std::size_t>(n * kClasses));
    check(cudaMemcpy(values.data(), output(first), values.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return values;
  }

  // What a session of its own makes of them.
  Floats expected(const Engine& engine, std::int64_t n, std::int64_t first = 0) const {
    Floats values(static_cast<std::size_t>(n * kClasses));
    engine.create_session()->run(input(n, first), values);
    return values;
  }

 private:
  std::int64_t picture_;
  Floats input_;
  DeviceBuffer on_device_;
  DeviceBuffer outputs_;
};

TEST_CASE("run_on_device: a call on another stream waits for the one before") {
  EngineOptions options = default_options();
  options.cuda_graph = GENERATE(true, false);
  const auto engine = compiled(options);
  const auto session = engine->create_session();
  const Pictures a(*engine, 3, 1);
  const Pictures b(*engine, 2, 2);
  const Stream first;
  const Stream second;
  // Captured now, so that below nothing but launches is between the gate and the question.
  a.run(*session, 3, first.get());
  b.run(*session, 2, second.get());
  session->synchronize();
  a.poison();
  b.poison();
  {
    LaunchGate gate(first.get());
    const Event behind;
    a.run(*session, 3, first.get());
    b.run(*session, 2, second.get());
    check(cudaEventRecord(behind.get(), second.get()));
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20));  // many times what the run takes, less than the gate holds
    CHECK(cudaEventQuery(behind.get()) == cudaErrorNotReady);
    gate.open();
  }
  check(cudaStreamSynchronize(second.get()));
  CHECK(compare_bits(a.outputs(3), a.expected(*engine, 3)));
  CHECK(compare_bits(b.outputs(2), b.expected(*engine, 2)));
}

TEST_CASE("run_on_device: run() and synchronize() wait for a call on a caller's stream") {
  const auto engine = compiled();
  const auto session = engine->create_session();
  const Pictures a(*engine, 2, 1);
  const Pictures b(*engine, 2, 2);
  const Stream stream;
  a.run(*session, 2, stream.get());
  Floats output(2 * kClasses);
  session->run(b.input(2), output);
  a.poison();
  {
    LaunchGate gate(stream.get());  // opens by itself
    a.run(*session, 2, stream.get());
    std::fill(output.begin(), output.end(), 0.0F);
    session->run(b.input(2), output);
  }
  CHECK(compare_bits(output, b.expected(*engine, 2)));
  CHECK(compare_bits(a.outputs(2), a.expected(*engine, 2)));
  a.poison();
  {
    LaunchGate gate(stream.get());
    a.run(*session, 2, stream.get());
    session->synchronize();
    CHECK(compare_bits(a.outputs(2), a.expected(*engine, 2)));
  }
}

TEST_CASE("run_on_device: all ways of running take turns on one session") {
  EngineOptions options = default_options();
  options.cuda_graph = GENERATE(true, false);
  const auto engine = compiled(options);
  const auto session = engine->create_session();
  const Pictures a(*engine, 4, 1);
  const Pictures b(*engine, 3, 2);
  const Pictures c(*engine, 2, 3);
  const Floats of_a = a.expected(*engine, 4);
  const Floats of_b = b.expected(*engine, 3);
  const Floats of_c = c.expected(*engine, 2);
  const Stream first;
  const Stream second;
  Floats output(of_c.size());
  for (int round = 0; round < 20; ++round) {
    a.poison();
    b.poison();
    a.run(*session, 4, first.get());
    b.run(*session, 3, second.get());
    session->run(c.input(2), output);
    CHECK(compare_bits(output, of_c));
    CHECK(compare_bits(a.outputs(4), of_a));
    CHECK(compare_bits(b.outputs(3), of_b));
    std::copy_n(c.input(2).begin(), c.input(2).size(), session->staged_input(2).begin());
    a.poison();
    b.poison();
    b.run(*session, 3, nullptr);
    session->enqueue_staged(2);
    a.run(*session, 4, cudaStreamPerThread);
    session->synchronize();
    CHECK(compare_bits(session->staged_output(2), of_c));
    CHECK(compare_bits(a.outputs(4), of_a));
    CHECK(compare_bits(b.outputs(3), of_b));
  }
}

TEST_CASE("run_on_device: streams may end right after a call") {
  const auto engine = compiled();
  const Pictures a(*engine, kMaxBatch, 1);
  const Pictures b(*engine, 1, 2);
  const auto session = engine->create_session();
  const Floats of_a = a.expected(*engine, kMaxBatch);
  const Floats of_b = b.expected(*engine, 1);
  for (int round = 0; round < 50; ++round) {
    a.poison();
    b.poison();
    a.run(*session, kMaxBatch, Stream().get());
    b.run(*session, 1, Stream().get());
    session->synchronize();
    CHECK(compare_bits(a.outputs(kMaxBatch), of_a));
    CHECK(compare_bits(b.outputs(1), of_b));
  }
  a.run(*session, kMaxBatch, Stream().get());  // the session ends with a run on its way
}

TEST_CASE("run_on_device: more batch sizes and buffers than are kept captured give the same bits") {
  constexpr std::int64_t kCount = 120;
  const auto engine = compiled();
  const auto session = engine->create_session();
  const Pictures pictures(*engine, kCount);
  const Stream stream;
  Floats each;  // of the pictures by themselves
  for (std::int64_t i = 0; i < kCount; ++i) {
    const Floats one = pictures.expected(*engine, 1, i);
    each.insert(each.end(), one.begin(), one.end());
  }
  for (int round = 0; round < 3; ++round) {
    pictures.poison();
    for (std::int64_t i = 0; i < kCount; ++i) pictures.run(*session, 1, stream.get(), i);
    session->synchronize();
    CHECK(compare_bits(pictures.outputs(kCount), each));
  }
  for (std::int64_t n = 2; n <= kMaxBatch; ++n) {
    CAPTURE(n);
    pictures.poison();
    const std::int64_t first = n;
    const std::int64_t second = 3 * n;
    pictures.run(*session, n, stream.get(), first);
    pictures.run(*session, n, stream.get(), second);
    session->synchronize();
    CHECK(compare_bits(pictures.outputs(n, first), pictures.expected(*engine, n, first)));
    CHECK(compare_bits(pictures.outputs(n, second), pictures.expected(*engine, n, second)));
  }
}

TEST_CASE("run(): more batch sizes than are kept captured give the same bits") {
  EngineOptions options = default_options();
  options.max_batch = 140;
  const auto engine = compiled(options);
  const auto session = engine->create_session();
  const Pictures pictures(*engine, options.max_batch);
  for (const std::int64_t step : {1, 7}) {
    for (std::int64_t n = 1; n <= options.max_batch; n += step) {
      CAPTURE(n);
      Floats output(static_cast<std::size_t>(n * kClasses));
      session->run(pictures.input(n), output);
      CHECK(compare_bits(output, pictures.expected(*engine, n)));
    }
  }
}

TEST_CASE("run_on_device: what the session's own buffers held is gone, and the session says so") {
  const auto engine = compiled();
  const auto session = engine->create_session();
  const Pictures a(*engine, 1, 1);
  const Pictures b(*engine, 1, 2);
  const Stream stream;
  Floats output(kClasses);
  session->set_input(b.input(1));
  session->execute(1);
  a.run(*session, 1, stream.get());
  CHECK_THROWS_AS(session->get_output(output), Error);
  CHECK_THROWS_AS(session->execute(1), Error);
  CHECK_THROWS_AS(session->execute_layer(1, 0), Error);
  CHECK(session->time_executions(1, 3).size() == 3);
  session->set_input(b.input(1));
  CHECK_THROWS_AS(session->get_output(output), Error);
  session->execute(1);
  session->get_output(output);
  CHECK(compare_bits(output, b.expected(*engine, 1)));
  CHECK(compare_bits(a.outputs(1), a.expected(*engine, 1)));
}

// The message of the Error(invalid_argument) that the call throws.
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  FAIL("no error");
  return {};
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("run_on_device: buffers that the GPU cannot use are refused, and the next call works") {
  const auto engine = compiled();
  const auto session = engine->create_session();
  const Pictures pictures(*engine, 2);
  const Stream stream;
  float* const x = pictures.on_device();
  float* const y = pictures.output();
  const auto refused = [&](std::int64_t n, const float* input, float* output) {
    return refusal([&] { run_on_device(*session, n, input, output, stream.get()); });
  };
  CHECK(has(refused(1, nullptr, y), "input: must not be null"));
  CHECK(has(refused(1, x, nullptr), "output: must not be null"));
  CHECK(has(refused(1, x + 1, y), "input: must be aligned to 16 bytes, got an address 4 bytes past that"));
  CHECK(has(refused(1, x, y + 2), "output: must be aligned to 16 bytes, got an address 8 bytes past that"));
  CHECK(has(refused(0, x, y), "batch"));
  CHECK(has(refused(kMaxBatch + 1, x, y), "batch"));
  std::vector<float> host(1U << 20U);
  auto* const aligned = reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(host.data()) + 15) / 16 * 16);
  CHECK(has(refused(1, aligned, y), "input: must be memory of CUDA device 0, got pageable host memory"));
  CHECK(has(refused(1, x, aligned), "output: must be memory of CUDA device 0, got pageable host memory"));
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(x);
  CHECK(has(refusal([&] { run_on_device(*session, 1, bytes, y, stream.get()); }), "the engine takes"));
  const auto cpu = make_cpu_backend()->compile(
      [] {
        zoo::MobileNetV2Options network;
        network.width = 0.35;
        network.height = network.picture_width = 32;
        const std::string model = zoo::build_mobilenet_v2(network).SerializeAsString();
        return onnx_import::load_from_memory(std::as_bytes(std::span(model)), "generated");
      }(),
      EngineOptions{});
  const auto on_cpu = cpu->create_session();
  CHECK(has(refusal([&] { run_on_device(*on_cpu, 1, x, y, stream.get()); }), "does not belong to a GPU engine"));
  pictures.run(*session, 2, stream.get());
  check(cudaStreamSynchronize(stream.get()));
  CHECK(compare_bits(pictures.outputs(2), pictures.expected(*engine, 2)));
}

TEST_CASE("run_on_device: another device's memory is refused") {
  int devices = 0;
  check(cudaGetDeviceCount(&devices));
  if (devices < 2) MOBICUDA_SKIP("one CUDA device");
  const auto engine = compiled();
  const auto session = engine->create_session();
  const Pictures pictures(*engine, 1);
  check(cudaSetDevice(1));
  {
    const DeviceBuffer other(engine->input().shape.elements() * 4, "another device's");
    auto* const there = static_cast<float*>(other.data());
    for (const bool input : {true, false}) {
      const std::string text = refusal([&] {
        run_on_device(*session, 1, input ? there : pictures.on_device(), input ? pictures.output() : there, nullptr);
      });
      CHECK(has(text, input ? "input: " : "output: "));
      CHECK(has(text, "must be memory of CUDA device 0, got memory of CUDA device 1"));
    }
    // The default stream is the one of the engine's device, whichever is current.
    pictures.run(*session, 1, nullptr);
    session->synchronize();
  }
  check(cudaSetDevice(0));
  CHECK(compare_bits(pictures.outputs(1), pictures.expected(*engine, 1)));
}

TEST_CASE("run_on_device: page-locked and managed memory are used as they are") {
  const auto engine = compiled();
  const auto session = engine->create_session();
  const Pictures pictures(*engine, 2);
  const Floats expected = pictures.expected(*engine, 2);
  const std::span<const float> input = pictures.input(2);
  const Stream stream;
  const auto check_between = [&](float* x, float* y) {
    std::copy(input.begin(), input.end(), x);
    std::fill_n(y, expected.size(), -1.0F);
    run_on_device(*session, 2, x, y, stream.get());
    check(cudaStreamSynchronize(stream.get()));
    CHECK(compare_bits(std::span<const float>(y, expected.size()), expected));
  };
  const PinnedBuffer pinned_x(static_cast<std::int64_t>(input.size_bytes()), "inputs");
  const PinnedBuffer pinned_y(static_cast<std::int64_t>(expected.size() * sizeof(float)), "outputs");
  check_between(reinterpret_cast<float*>(pinned_x.data()), reinterpret_cast<float*>(pinned_y.data()));
  int managed = 0;
  check(cudaDeviceGetAttribute(&managed, cudaDevAttrManagedMemory, 0));
  if (managed == 0) return;
  void* x = nullptr;
  void* y = nullptr;
  check(cudaMallocManaged(&x, input.size_bytes()));
  check(cudaMallocManaged(&y, expected.size() * sizeof(float)));
  check_between(static_cast<float*>(x), static_cast<float*>(y));
  check(cudaFree(x));
  check(cudaFree(y));
}

// Captures what `enqueue` puts on a stream, as a caller would.
template <class Enqueue>
cudaGraphExec_t capture(cudaStream_t stream, cudaStreamCaptureMode mode, const Enqueue& enqueue) {
  check(cudaStreamBeginCapture(stream, mode));
  enqueue();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph, 0));
  check(cudaGraphDestroy(graph));
  return exec;
}

TEST_CASE("run_on_device: becomes part of a graph that the caller captures") {
  EngineOptions options = default_options();
  options.programmatic_launch = GENERATE(true, false);
  options.cuda_graph = GENERATE(true, false);
  const bool warm = GENERATE(true, false);
  CAPTURE(options.programmatic_launch, options.cuda_graph, warm);
  const auto engine = compiled(options);
  const auto session = engine->create_session();
  const Pictures first(*engine, 3, 1);
  const Pictures second(*engine, 2, 2);
  const Stream stream;
  if (warm) {  // on the stream to be captured, so that its last work is the session's last
    first.run(*session, 3, stream.get());
    check(cudaStreamSynchronize(stream.get()));
  }
  // Two runs, and the caller's own work before, between and after: what a replay reads and leaves is on the host.
  const std::size_t input_bytes = first.input(3).size_bytes();
  const std::size_t output_bytes = 3 * kClasses * sizeof(float);
  const PinnedBuffer x(static_cast<std::int64_t>(input_bytes), "inputs");
  const PinnedBuffer y(static_cast<std::int64_t>(output_bytes), "outputs");
  const cudaGraphExec_t exec = capture(stream.get(), cudaStreamCaptureModeGlobal, [&] {
    check(cudaMemcpyAsync(first.on_device(), x.data(), input_bytes, cudaMemcpyHostToDevice, stream.get()));
    first.run(*session, 3, stream.get());
    check(cudaMemcpyAsync(y.data(), first.output(), output_bytes, cudaMemcpyDeviceToHost, stream.get()));
    second.run(*session, 2, stream.get());
  });
  for (std::uint32_t seed = 11; seed <= 13; ++seed) {
    CAPTURE(seed);
    const Pictures changed(*engine, 3, seed);
    std::copy_n(changed.input(3).begin(), changed.input(3).size(), reinterpret_cast<float*>(x.data()));
    second.poison();
    check(cudaGraphLaunch(exec, stream.get()));
    check(cudaStreamSynchronize(stream.get()));
    const std::span<const float> replayed(reinterpret_cast<const float*>(y.data()), 3 * kClasses);
    CHECK(compare_bits(replayed, changed.expected(*engine, 3)));
    CHECK(compare_bits(second.outputs(2), second.expected(*engine, 2)));
    // The session runs as before in between.
    Floats output(2 * kClasses);
    session->run(changed.input(2), output);
    CHECK(compare_bits(output, changed.expected(*engine, 2)));
    changed.run(*session, 3, stream.get());
    check(cudaStreamSynchronize(stream.get()));
    CHECK(compare_bits(changed.outputs(3), changed.expected(*engine, 3)));
  }
  check(cudaGraphExecDestroy(exec));
}

TEST_CASE("run_on_device: another stream can be used while the caller captures one") {
  const auto engine = compiled();
  const auto session = engine->create_session();
  const Pictures pictures(*engine, 2);
  const Stream captured;
  const Stream other;
  const cudaGraphExec_t exec = capture(captured.get(), cudaStreamCaptureModeGlobal, [&] {
    check(cudaMemsetAsync(pictures.output(), kNan, 16, captured.get()));
    pictures.run(*session, 2, captured.get());
    pictures.run(*session, 1, other.get());
  });
  check(cudaStreamSynchronize(other.get()));
  CHECK(compare_bits(pictures.outputs(1), pictures.expected(*engine, 1)));
  pictures.poison();
  check(cudaGraphLaunch(exec, captured.get()));
  check(cudaStreamSynchronize(captured.get()));
  CHECK(compare_bits(pictures.outputs(2), pictures.expected(*engine, 2)));
  check(cudaGraphExecDestroy(exec));
}

TEST_CASE("run_on_device: a wrong buffer during a capture is refused and leaves the capture as it was") {
  const auto engine = compiled();
  const auto session = engine->create_session();
  const Pictures pictures(*engine, 1);
  const Stream stream;
  const auto mode =
      GENERATE(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed);
  CAPTURE(static_cast<int>(mode));
  std::vector<float> host(static_cast<std::size_t>(engine->input().shape.elements()) + 4);
  auto* const aligned = reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(host.data()) + 15) / 16 * 16);
  const cudaGraphExec_t exec = capture(stream.get(), mode, [&] {
    CHECK(has(refusal([&] { run_on_device(*session, 1, aligned, pictures.output(), stream.get()); }), "pageable"));
    pictures.run(*session, 1, stream.get());
  });
  check(cudaGraphLaunch(exec, stream.get()));
  check(cudaStreamSynchronize(stream.get()));
  CHECK(compare_bits(pictures.outputs(1), pictures.expected(*engine, 1)));
  check(cudaGraphExecDestroy(exec));
}

TEST_CASE("run_on_device: the default stream beside a capture that it would break names the remedy") {
  const auto engine = compiled();
  const auto session = engine->create_session();
  const Pictures pictures(*engine, 1);
  pictures.run(*session, 1, nullptr);
  check(cudaDeviceSynchronize());
  cudaStream_t blocking = nullptr;
  check(cudaStreamCreate(&blocking));
  check(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal));
  const std::string text = refusal([&] { pictures.run(*session, 1, nullptr); });
  CHECK(has(text, "cudaStreamNonBlocking"));
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(blocking, &graph));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(blocking));
  pictures.run(*session, 1, nullptr);
  session->synchronize();
  CHECK(compare_bits(pictures.outputs(1), pictures.expected(*engine, 1)));
}

}  // namespace
}  // namespace mobicuda
