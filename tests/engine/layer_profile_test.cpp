#include "runtime/launch_gate.h"

#include <mobicuda/mobicuda.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "runtime/device_buffer.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

std::shared_ptr<const Engine> compiled(std::int64_t batch) {
  zoo::MobileNetV2Options network;
  network.height = network.picture_width = 96;
  network.classes = 20;
  const std::string bytes = zoo::build_mobilenet_v2(network).SerializeAsString();
  EngineOptions options;
  options.precision = Precision::Fp16;
  options.max_batch = batch;
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
  const LayerTimes times = session->profile(3, 5);
  CHECK(times.layers.size() == engine->layers().size());
  CHECK(times.whole > 0);
  session->run(input, after);
  CHECK(before == after);
}

}  // namespace mobicuda
