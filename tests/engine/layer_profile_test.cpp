#include "runtime/launch_gate.h"

#include <algorithm>
#include <numeric>

#include <mobicuda/mobicuda.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "runtime/device_buffer.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

std::shared_ptr<const Engine> compiled(std::int64_t batch, bool cuda_graph = true) {
  zoo::MobileNetV2Options network;
  network.height = network.picture_width = 96;
  network.classes = 20;
  const std::string bytes = zoo::build_mobilenet_v2(network).SerializeAsString();
  EngineOptions options;
  options.precision = Precision::Fp16;
  options.max_batch = batch;
  options.cuda_graph = cuda_graph;
  return make_custom_backend()->compile(onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "generated"),
                                        options);
}

}  // namespace

TEST_CASE("a launch gate holds a stream until it opens") {
  const Stream stream;
  const Event behind;
  LaunchGate gate(stream.get());
  REQUIRE(cudaEventRecord(behind.get(), stream.get()) == cudaSuccess);
  CHECK(cudaEventQuery(behind.get()) == cudaErrorNotReady);
  gate.open();
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(cudaEventQuery(behind.get()) == cudaSuccess);
}

TEST_CASE("a launch gate that nobody opens gives way") {
  const Stream stream;
  const LaunchGate gate(stream.get());
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
}

TEST_CASE("custom: profiling leaves what a session computes as it was") {
  const auto engine = compiled(3);
  const auto session = engine->create_session();
  const std::vector<float> input(static_cast<std::size_t>(3 * engine->input().shape.elements()), 0.25F);
  std::vector<float> before(static_cast<std::size_t>(3 * engine->output().shape.elements()));
  std::vector<float> after(before.size());
  session->run(input, before);
  for (const ProfileMode mode : {ProfileMode::AsRun, ProfileMode::Serialized}) {
    const LayerTimes times = session->profile(3, 5, mode);
    CHECK(times.layers.size() == engine->layers().size());
    CHECK(times.whole > 0);
    session->run(input, after);
    CHECK(before == after);
  }
}

TEST_CASE("custom: layers as they run add up to the network, each once") {
  constexpr double kNoise = 0.25;  // the GPU may have other work
  for (const bool cuda_graph : {true, false}) {
    CAPTURE(cuda_graph);
    const auto engine = compiled(3, cuda_graph);
    const auto session = engine->create_session();
    const std::vector<float> input(static_cast<std::size_t>(3 * engine->input().shape.elements()), 0.25F);
    session->set_input(input);
    const LayerTimes times = session->profile(3, 31);
    REQUIRE(times.layers.size() == engine->layers().size());
    CHECK(times.boundary >= 0);
    CHECK(times.boundary < 0.5 * times.whole);
    const double sum = std::accumulate(times.layers.begin(), times.layers.end(), 0.0);
    CHECK(sum > (1 - kNoise) * times.whole);
    CHECK(sum < (1 + kNoise) * times.whole);
    // A part with one layer too many or too few would leave the whole to one of them.
    CHECK(*std::max_element(times.layers.begin(), times.layers.end()) < 0.5 * times.whole);
  }
}

}  // namespace mobicuda
