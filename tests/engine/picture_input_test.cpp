#include <algorithm>
#include <array>
#include <memory>

#include <mobicuda/cuda_interop.h>
#include <mobicuda/mobicuda.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "runtime/cuda_check.h"
#include "runtime/device_buffer.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/network_oracle.h"
#include "support/pictures.h"
#include "support/tolerance.h"

namespace mobicuda {
namespace {

using test::exact_picture_input;
using test::floats_of;
using test::NetworkOracle;
using test::random_pictures;
using test::TestNetwork;

constexpr std::int64_t kLongestSum = 1280;

Graph mobilenet(zoo::PaddingStyle padding = zoo::PaddingStyle::Tf, std::int64_t height = 96) {
  zoo::MobileNetV2Options options;
  options.width = 0.35;
  options.height = height;
  options.picture_width = 97;
  options.classes = 50;
  options.padding = padding;
  const std::string bytes = zoo::build_mobilenet_v2(options).SerializeAsString();
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "generated");
}

EngineOptions options_for(Precision precision, std::int64_t max_batch) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  options.picture_input = exact_picture_input();
  return options;
}

std::vector<float> run(const Engine& engine, std::span<const std::uint8_t> pictures, std::int64_t n) {
  std::vector<float> output(static_cast<std::size_t>(n * engine.output().shape.elements()));
  engine.create_session()->run(pictures, output);
  return output;
}

bool has_step(const Engine& engine, std::string_view kernel) {
  const auto layers = engine.layers();
  return std::any_of(layers.begin(), layers.end(),
                     [&](const LayerInfo& layer) { return layer.kernel.starts_with(kernel); });
}

void check_against_oracle(const Graph& graph, const EngineOptions& options, std::int64_t n, bool converted) {
  const auto pictures = random_pictures(graph, n);
  const auto engine = make_custom_backend()->compile(graph, options);
  CHECK(has_step(*engine, "layout_transform/convert_pictures") == converted);
  const NetworkOracle oracle(graph, floats_of(graph, pictures), n, kLongestSum);
  CHECK(oracle.compare(run(*engine, pictures, n), options.precision));
}

TEST_CASE("pictures: MobileNetV2 reads bytes in its first kernel", "[sanitize]") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16);
  const auto padding = GENERATE(zoo::PaddingStyle::Torch, zoo::PaddingStyle::Tf);
  const bool fused = GENERATE(true, false);
  EngineOptions options = options_for(precision, 3);
  options.guarded_arena = true;
  if (!fused) options.kernel_variants["block"] = "layers";
  check_against_oracle(mobilenet(padding), options, 2, false);
}

// Where words of 4 bytes end behind the last picture, memcheck sees what is read there.
TEST_CASE("pictures: an odd number of bytes", "[sanitize]") {
  const std::int64_t n = GENERATE(1, 2, 3);
  check_against_oracle(mobilenet(zoo::PaddingStyle::Tf, 95), options_for(Precision::Fp16, n), n, false);
}

TEST_CASE("pictures: the memory report counts the whole words that an input ends with") {
  const Graph graph = mobilenet(zoo::PaddingStyle::Tf, 95);
  const MemoryReport memory = make_custom_backend()->compile(graph, options_for(Precision::Fp16, 1))->memory();
  CHECK(graph.input_desc().shape.elements() == 27645);
  CHECK(memory.io_bytes == 27648 + 4 * graph.output_desc().shape.elements());
}

TEST_CASE("pictures: a network without such a kernel converts them first", "[sanitize]") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16);
  const auto layout = GENERATE(Layout::NCHW, Layout::NHWC);
  const int first = GENERATE(range(0, 4));
  CAPTURE(to_string(precision), to_string(layout), first);
  TestNetwork network(Shape{1, 3, 11, 9}, layout);
  if (first == 0) network.conv(12, 5, 2, {2, 2, 2, 2}, 1, Activation::relu(), "conv5x5");
  if (first == 1) network.conv(16, 1, 1, {}, 1, {}, "pointwise");
  if (first == 2) network.add(Pool2d{PoolKind::Max, {2, 2}, {2, 2}, {}, false, false}, {network.last()}, "pool");
  if (first == 3) {
    const ValueId input = network.last();
    network.conv(3, 3, 1, {1, 1, 1, 1}, 1, {}, "conv");
    network.add(Add{}, {network.last(), input}, "residual");
  }
  network.head(10);
  check_against_oracle(std::move(network).build(), options_for(precision, 2), 2, true);
}

TEST_CASE("pictures: a named first kernel that takes floats only gets floats") {
  EngineOptions options = options_for(Precision::Fp16, 2);
  options.kernel_variants = {{"stem", "layers"}, {"conv2d", "direct"}};
  check_against_oracle(mobilenet(), options, 2, true);
}

TEST_CASE("pictures: an NHWC network reads them in place") {
  TestNetwork network(Shape{1, 3, 12, 12}, Layout::NHWC);
  network.conv(8, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6(), "stem");
  network.head(10);
  check_against_oracle(std::move(network).build(), options_for(Precision::Fp32, 2), 2, false);
}

TEST_CASE("staged runs equal plain ones whatever moves the data", "[sanitize]") {
  const bool bytes = GENERATE(true, false);
  const bool captured = GENERATE(true, false);
  const auto transfer = GENERATE(HostTransfer::Auto, HostTransfer::Copy, HostTransfer::Direct);
  CAPTURE(bytes, captured, static_cast<int>(transfer));
  const Graph graph = mobilenet();
  EngineOptions options = options_for(Precision::Fp16, 3);
  if (!bytes) options.picture_input.reset();
  options.cuda_graph = captured;
  options.host_transfer = transfer;
  const auto engine = make_custom_backend()->compile(graph, options);
  const auto session = engine->create_session();
  for (const std::int64_t n : {1, 3, 2}) {
    const auto pictures = random_pictures(graph, n, static_cast<std::uint32_t>(n));
    const auto floats = floats_of(graph, pictures);
    std::vector<float> expected(static_cast<std::size_t>(n) * 50);
    if (bytes) {
      engine->create_session()->run(pictures, expected);
      std::copy(pictures.begin(), pictures.end(), session->staged_pictures(n).begin());
    } else {
      engine->create_session()->run(floats, expected);
      std::copy(floats.begin(), floats.end(), session->staged_input(n).begin());
    }
    session->run_staged(n);
    CHECK(test::compare_bits(session->staged_output(n), expected));
  }
}

TEST_CASE("several sessions in flight keep their results apart") {
  constexpr int kSessions = 3;
  constexpr std::int64_t kBatch = 4;
  const Graph graph = mobilenet();
  const auto engine = make_custom_backend()->compile(graph, options_for(Precision::Fp16, kBatch));
  std::array<std::unique_ptr<Session>, kSessions> sessions;
  for (auto& session : sessions) session = engine->create_session();
  std::array<std::vector<float>, kSessions> expected;
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < kSessions; ++i) {
      const auto pictures =
          random_pictures(graph, kBatch, static_cast<std::uint32_t>(10 * round + static_cast<int>(i)));
      expected[i] = run(*engine, pictures, kBatch);
      std::copy(pictures.begin(), pictures.end(), sessions[i]->staged_pictures(kBatch).begin());
      sessions[i]->enqueue_staged(kBatch);
    }
    for (std::size_t i = 0; i < kSessions; ++i) {
      sessions[i]->synchronize();
      CHECK(test::compare_bits(sessions[i]->staged_output(kBatch), expected[i]));
    }
  }
}

TEST_CASE("pictures: run_on_device takes device bytes, and floats are refused") {
  const Graph graph = mobilenet();
  const auto engine = make_custom_backend()->compile(graph, options_for(Precision::Fp16, 2));
  const auto pictures = random_pictures(graph, 2);
  const auto expected = run(*engine, pictures, 2);
  const auto session = engine->create_session();
  const Stream stream;
  DeviceBuffer input(static_cast<std::int64_t>(pictures.size()), "input");
  const DeviceBuffer output(static_cast<std::int64_t>(expected.size() * sizeof(float)), "output");
  input.upload(std::as_bytes(std::span(pictures)));
  auto* logits = static_cast<float*>(output.data());
  run_on_device(*session, 2, static_cast<const std::uint8_t*>(input.data()), logits, stream.get());
  std::vector<float> actual(expected.size());
  cuda_check(cudaStreamSynchronize(stream.get()), "waiting");
  cuda_check(cudaMemcpy(actual.data(), logits, actual.size() * sizeof(float), cudaMemcpyDeviceToHost), "copying");
  CHECK(test::compare_bits(actual, expected));
  CHECK_THROWS_AS(run_on_device(*session, 2, static_cast<const float*>(input.data()), logits, stream.get()), Error);
}

TEST_CASE("pictures: an engine for bytes needs less device memory for its input") {
  const Graph graph = mobilenet();
  EngineOptions options = options_for(Precision::Fp16, 8);
  const auto with_bytes = make_custom_backend()->compile(graph, options)->memory();
  options.picture_input.reset();
  const auto with_floats = make_custom_backend()->compile(graph, options)->memory();
  CHECK(with_floats.io_bytes - with_bytes.io_bytes == 8 * 3 * graph.input_desc().shape.elements());
}

}  // namespace
}  // namespace mobicuda
