#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include <cuda_runtime_api.h>

#include <mobicuda/cuda_interop.h>
#include <mobicuda/mobicuda.h>

#include "kernels/conv2d/conv2d.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/stem_block/stem_block.h"
#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "runtime/cuda_check.h"
#include "runtime/device_buffer.h"
#include "support/catch.h"
#include "support/gpu_traits.h"
#include "support/graphs.h"
#include "support/network_oracle.h"
#include "support/tolerance.h"

namespace mobicuda {
namespace {

using test::NetworkOracle;
using test::TestNetwork;

EngineOptions gpu_options(Precision precision, std::int64_t max_batch) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  return options;
}

std::vector<float> run(const Engine& engine, std::span<const float> input, std::int64_t n) {
  std::vector<float> output(static_cast<std::size_t>(n * engine.output().shape.elements()));
  engine.create_session()->run(input, output);
  return output;
}

std::vector<float> pictures(const Graph& graph, std::int64_t n, std::uint32_t seed = 5) {
  return test::random_uniform(seed, static_cast<std::size_t>(n * graph.input_desc().shape.elements()));
}

Graph mobilenet(zoo::MobileNetV2Options options) {
  const std::string bytes = zoo::build_mobilenet_v2(options).SerializeAsString();
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "generated");
}

zoo::MobileNetV2Options small_options() {
  zoo::MobileNetV2Options options;
  options.width = 0.35;
  options.height = options.picture_width = 96;
  options.classes = 50;
  return options;
}

constexpr std::int64_t kLongestSum = 1280;  // the classifier's

void check_against_oracle(const Graph& graph, const EngineOptions& options, std::int64_t n) {
  const auto input = pictures(graph, n);
  const auto engine = make_custom_backend()->compile(graph, options);
  CHECK(NetworkOracle(graph, input, n, kLongestSum).compare(run(*engine, input, n), options.precision));
}

TEST_CASE("custom: MobileNetV2 of many widths, sizes and padding styles equals the oracle") {
  struct Case {
    double width;
    std::int64_t height, picture_width, classes;
    zoo::PaddingStyle padding;
  };
  const auto c =
      GENERATE(Case{0.35, 96, 96, 10, zoo::PaddingStyle::Torch}, Case{0.35, 96, 96, 10, zoo::PaddingStyle::Tf},
               Case{0.5, 128, 160, 7, zoo::PaddingStyle::Tf}, Case{0.75, 97, 131, 1000, zoo::PaddingStyle::Torch},
               Case{1.0, 224, 224, 1000, zoo::PaddingStyle::Tf}, Case{1.4, 224, 192, 1001, zoo::PaddingStyle::Torch},
               Case{1.0, 320, 320, 3, zoo::PaddingStyle::Torch});
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp32Split, Precision::Fp16, Precision::Fp64);
  CAPTURE(c.width, c.height, c.picture_width, c.classes, static_cast<int>(c.padding), to_string(precision));
  zoo::MobileNetV2Options options;
  options.width = c.width;
  options.height = c.height;
  options.picture_width = c.picture_width;
  options.classes = c.classes;
  options.padding = c.padding;
  check_against_oracle(mobilenet(options), gpu_options(precision, 3), 2);
}

TEST_CASE("custom: every op in every place equals the oracle", "[sanitize]") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp32Split, Precision::Fp16, Precision::Fp64);
  CAPTURE(to_string(precision));
  TestNetwork network(Shape{1, 3, 20, 17});
  network.scale_shift({}, "input_norm");
  network.conv(16, 3, 2, {1, 0, 2, 1}, 1, Activation::relu6(), "stem");
  network.add(Pool2d{PoolKind::Max, {3, 3}, {2, 2}, {1, 1, 1, 1}, true, false}, {network.last()}, "max_pool");
  const ValueId branch = network.last();
  network.conv(16, 3, 1, {1, 1, 1, 1}, 0, Activation::relu(), "depthwise");
  network.conv(16, 1, 1, {}, 1, {}, "pointwise");
  network.add(Add{Activation::relu()}, {network.last(), branch}, "residual");
  const ValueId left = network.last();
  network.conv(16, 3, 1, {1, 1, 1, 1}, 0, {}, "depthwise_residual");
  network.add(Add{Activation::relu6()}, {network.last(), left}, "add_depthwise");
  network.conv(24, 3, 1, {1, 1, 1, 1}, 4, Activation::relu(), "grouped");
  network.add(Pool2d{PoolKind::Average, {2, 2}, {1, 1}, {1, 0, 0, 1}, false, true}, {network.last()}, "avg_pool");
  network.add(Pad{{1, 2, 0, 1}, 0.5F}, {network.last()}, "pad");
  network.add(Transpose{{0, 2, 3, 1}}, {network.last()}, "to_nhwc");
  const ValueId transposed = network.last();
  const Shape& shape = network.builder().value(transposed).desc.shape;
  network.add(Reshape{Shape{1, shape[1] * shape[2] * shape[3]}}, {transposed}, "flatten");
  network.gemm(30, "hidden");
  network.add(Clip{{-1.0F, 2.0F}}, {network.last()}, "clip");
  network.gemm(10, "classifier");
  network.add(Softmax{}, {network.last()}, "softmax");
  EngineOptions options = gpu_options(precision, 4);
  options.guarded_arena = true;
  check_against_oracle(std::move(network).build(), options, 3);
}

TEST_CASE("custom: a whole network with every tensor in an allocation of its own", "[sanitize]") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp32Split, Precision::Fp16, Precision::Fp64);
  const bool captured = GENERATE(true, false);
  EngineOptions options = gpu_options(precision, 2);
  options.guarded_arena = true;
  options.cuda_graph = captured;
  zoo::MobileNetV2Options network = small_options();
  network.padding = captured ? zoo::PaddingStyle::Tf : zoo::PaddingStyle::Torch;
  check_against_oracle(mobilenet(network), options, 2);
}

TEST_CASE("custom: a network may end in any op") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp32Split, Precision::Fp16, Precision::Fp64);
  const int end = GENERATE(range(0, 6));
  CAPTURE(to_string(precision), end);
  TestNetwork network(Shape{1, 8, 6, 6});
  network.conv(16, 3, 1, {1, 1, 1, 1}, 1, {}, "conv");
  if (end == 1) network.add(GlobalAveragePool{}, {network.last()});
  if (end == 2) network.conv(16, 3, 1, {1, 1, 1, 1}, 0, Activation::relu());
  if (end == 3) network.add(Reshape{Shape{1, 16 * 36}}, {network.last()});
  if (end == 4) network.conv(24, 1);
  if (end == 5) network.add(Pool2d{PoolKind::Max, {2, 2}, {2, 2}, {}, false, false}, {network.last()});
  check_against_oracle(std::move(network).build(), gpu_options(precision, 2), 2);
}

TEST_CASE("custom: an NHWC input is read as it is") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp32Split, Precision::Fp16);
  const bool stem = GENERATE(true, false);
  TestNetwork network(Shape{1, 9, 11, 8});
  network.add(Transpose{{0, 3, 1, 2}}, {network.last()}, "to_nchw");
  if (stem) {
    network.conv(16, 3, 2, {0, 0, 1, 1}, 1, Activation::relu6());
  } else {
    network.conv(16, 1);
  }
  network.head(10);
  check_against_oracle(std::move(network).build(), gpu_options(precision, 2), 2);
}

TEST_CASE("custom: any batch up to max_batch, and a picture's logits do not depend on its place") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp32Split, Precision::Fp16);
  const Graph graph = mobilenet(small_options());
  const auto engine = make_custom_backend()->compile(graph, gpu_options(precision, 9));
  const auto input = pictures(graph, 9);
  const NetworkOracle expected(graph, input, 9, kLongestSum);
  const auto session = engine->create_session();
  const std::size_t picture = input.size() / 9;
  for (std::size_t n = 1; n <= 9; ++n) {
    CAPTURE(n);
    std::vector<float> logits(n * 50);
    session->run(std::span(input).first(n * picture), logits);
    CHECK(expected.compare(logits, precision));
  }
}

TEST_CASE("custom: eager, captured, without programmatic launch and with guarded tensors give the same bits") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp32Split, Precision::Fp16);
  const Graph graph = mobilenet(small_options());
  const auto input = pictures(graph, 2);
  const auto expected = run(*make_custom_backend()->compile(graph, gpu_options(precision, 2)), input, 2);
  for (int variant = 0; variant < 3; ++variant) {
    CAPTURE(variant);
    EngineOptions options = gpu_options(precision, 2);
    if (variant == 0) options.cuda_graph = false;
    if (variant == 1) options.programmatic_launch = false;
    if (variant == 2) options.guarded_arena = true;
    CHECK(test::compare_bits(run(*make_custom_backend()->compile(graph, options), input, 2), expected));
  }
}

TEST_CASE("custom: 1,000 runs and four sessions in parallel give the same bits") {
  const Graph graph = mobilenet(small_options());
  const auto engine = make_custom_backend()->compile(graph, gpu_options(Precision::Fp16, 1));
  const auto input = pictures(graph, 1);
  const auto expected = run(*engine, input, 1);
  int wrong[4] = {0, 0, 0, 0};
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&engine, &input, &expected, &count] {
      const auto session = engine->create_session();
      std::vector<float> logits(expected.size());
      for (int i = 0; i < 250; ++i) {
        session->run(input, logits);
        if (!test::compare_bits(logits, expected)) ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(std::accumulate(std::begin(wrong), std::end(wrong), 0) == 0);
}

TEST_CASE("custom: two pictures through one session give two results") {
  const Graph graph = mobilenet(small_options());
  const auto engine = make_custom_backend()->compile(graph, gpu_options(Precision::Fp16, 1));
  const auto session = engine->create_session();
  for (const std::uint32_t seed : {1U, 2U, 1U}) {
    const auto input = pictures(graph, 1, seed);
    std::vector<float> logits(50);
    session->run(input, logits);
    CHECK(test::compare_bits(logits, run(*engine, input, 1)));
  }
}

TEST_CASE("custom: run_on_device works on the caller's buffers and stream") {
  const Graph graph = mobilenet(small_options());
  const auto engine = make_custom_backend()->compile(graph, gpu_options(Precision::Fp16, 2));
  const auto input = pictures(graph, 2);
  const auto expected = run(*engine, input, 2);
  const auto session = engine->create_session();
  const Stream stream;
  DeviceBuffer device_input(static_cast<std::int64_t>(input.size() * sizeof(float)), "input");
  DeviceBuffer device_output(static_cast<std::int64_t>(expected.size() * sizeof(float)), "output");
  device_input.upload(std::as_bytes(std::span(input)));
  for (int i = 0; i < 3; ++i) {
    run_on_device(*session, 2, static_cast<const float*>(device_input.data()),
                  static_cast<float*>(device_output.data()), stream.get());
  }
  std::vector<float> logits(expected.size());
  cuda_check(cudaMemcpyAsync(logits.data(), device_output.data(), logits.size() * sizeof(float), cudaMemcpyDeviceToHost,
                             stream.get()),
             "copying");
  cuda_check(cudaStreamSynchronize(stream.get()), "waiting");
  CHECK(test::compare_bits(logits, expected));
}

template <class Variant>
void check_variants(const char* kernel, std::span<const Variant> variants) {
  const Graph graph = mobilenet(small_options());
  const auto input = pictures(graph, 2);
  const NetworkOracle expected(graph, input, 2, kLongestSum);
  for (const Precision precision : {Precision::Fp32, Precision::Fp16, Precision::Fp64}) {
    int usable = 0;
    for (const Variant variant : variants) {
      CAPTURE(kernel, kernels::name(variant), to_string(precision));
      EngineOptions options = gpu_options(precision, 2);
      options.kernel_variants[kernel] = std::string(kernels::name(variant));
      std::shared_ptr<const Engine> engine;
      try {
        engine = make_custom_backend()->compile(graph, options);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::unsupported);  // some layer has a shape that this variant does not run
        continue;
      }
      ++usable;
      CHECK(expected.compare(run(*engine, input, 2), precision));
    }
    CHECK(usable >= 1);
  }
}

TEST_CASE("custom: the network runs with every kernel variant by name") {
  check_variants("gemm", kernels::gemm_variants());
  check_variants("depthwise_conv", kernels::depthwise_conv_variants());
  check_variants("conv2d", kernels::conv2d_variants());
  check_variants("inverted_residual", kernels::inverted_residual_variants());
  check_variants("expand_depthwise", kernels::expand_depthwise_variants());
  check_variants("stem_block", kernels::stem_block_variants());
}

TEST_CASE("custom: blocks give the oracle's logits in every form, and the form asked for is the one that runs") {
  MOBICUDA_SKIP_BELOW(80);
  const Graph graph = mobilenet(small_options());
  const auto input = pictures(graph, 2);
  const NetworkOracle expected(graph, input, 2, kLongestSum);
  for (const std::string form : {"layers", "expand_depthwise", "fused"}) {
    CAPTURE(form);
    EngineOptions options = gpu_options(Precision::Fp16, 2);
    options.kernel_variants["block"] = form;
    const auto engine = make_custom_backend()->compile(graph, options);
    CHECK(expected.compare(run(*engine, input, 2), Precision::Fp16));
    const auto count = [&](std::string_view kernel) {
      return std::count_if(engine->layers().begin(), engine->layers().end(),
                           [&](const LayerInfo& layer) { return layer.kernel.starts_with(kernel); });
    };
    CHECK((count("inverted_residual/") > 0) == (form == "fused"));
    CHECK((count("expand_depthwise/") > 0) == (form == "expand_depthwise"));
    CHECK((count("depthwise_conv/") == 17) == (form == "layers"));
  }
}

TEST_CASE("custom: names that do not exist are refused with the choices") {
  const Graph graph = mobilenet(small_options());
  EngineOptions options = gpu_options(Precision::Fp16, 1);
  options.kernel_variants = {{"gemm", "fastest"}};
  CHECK_THROWS_AS(make_custom_backend()->compile(graph, options), Error);
  options.kernel_variants = {{"winograd", "any"}};
  CHECK_THROWS_AS(make_custom_backend()->compile(graph, options), Error);
  options.kernel_variants = {};
  options.precision = Precision::Tf32;
  CHECK_THROWS_AS(make_custom_backend()->compile(graph, options), Error);
}

TEST_CASE("custom: layers keep the file's node names, and the memory report is exact") {
  const Graph graph = mobilenet(small_options());
  const auto engine = make_custom_backend()->compile(graph, gpu_options(Precision::Fp16, 4));
  for (const LayerInfo& layer : engine->layers()) CHECK(!layer.name.empty());
  const MemoryReport memory = engine->memory();
  CHECK(memory.io_bytes == 4 * 4 * (3 * 96 * 96 + 50));
  const auto session = engine->create_session();
  const auto times = session->profile(4, 3, ProfileMode::Serialized);
  REQUIRE(times.layers.size() == engine->layers().size());
  for (const double time : times.layers) CHECK(time > 0.0);
  CHECK(times.whole > 0.0);
  CHECK(session->time_executions(4, 70).size() == 70);
  CHECK(session->time_executions(4, 70, 3).size() == 70);
}

TEST_CASE("custom: creating and destroying 50 engines returns all device memory") {
  const Graph graph = mobilenet(small_options());
  const auto churn = [&] {
    const auto engine = make_custom_backend()->compile(graph, gpu_options(Precision::Fp16, 2));
    run(*engine, pictures(graph, 2), 2);
  };
  const auto free_memory = [] {
    std::size_t free = 0;
    std::size_t total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return free;
  };
  churn();  // loads the kernels
  const std::size_t before = free_memory();
  for (int i = 0; i < 50; ++i) churn();
  CHECK(free_memory() >= before);
}

TEST_CASE("custom: too large a batch is out_of_memory, and the next engine works") {
  const Graph graph = mobilenet({});
  CHECK_THROWS_AS(
      [&] {
        const auto engine = make_custom_backend()->compile(graph, gpu_options(Precision::Fp32, 65536));
        engine->create_session();
      }(),
      Error);
  check_against_oracle(mobilenet(small_options()), gpu_options(Precision::Fp16, 1), 1);
}

}  // namespace
}  // namespace mobicuda
