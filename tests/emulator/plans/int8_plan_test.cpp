// Plans of the custom engine for quantised networks, whose steps run on the emulator: the CPU engine's bits, without a
// GPU.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "baselines/engine_runs.h"
#include "emulator/plans/run_plan.h"
#include "lower/lower.h"
#include "support/catch.h"
#include "support/int8_network.h"
#include "support/tolerance.h"

namespace mobicuda {
namespace {

using Names = std::map<std::string, std::string>;

constexpr std::int64_t kImages = 3;
constexpr DType kTypes[] = {DType::I8, DType::U8};

/// Returns the kernels of its steps.
std::vector<std::string> check(const Graph& graph, Precision precision, const Names& variants = {}) {
  EngineOptions options;
  options.max_batch = kImages;
  const auto image = static_cast<std::size_t>(graph.input_desc().shape.elements());
  const std::vector<float> input = test::random_uniform(9, kImages * image);
  const std::vector<float> expected = test::run(*make_cpu_backend()->compile(graph, options), input);
  options.precision = precision;
  options.kernel_variants = variants;
  const plans::Run run = plans::run_plan(optimize(graph), options, input);
  CHECK(test::compare_bits(run.output, expected));
  return run.kernels;
}

TEST_CASE("plans: a quantised MobileNetV2, its blocks in one launch, has the CPU engine's bits") {
  for (const DType dtype : kTypes) {
    for (const Precision precision : {Precision::Fp32, Precision::Fp16}) {
      CAPTURE(static_cast<int>(dtype), to_string(precision));
      const auto kernels = check(test::int8_mobilenet(dtype), precision, {{"int8_block", "fused"}});
      CHECK(std::ranges::count(kernels, "int8_inverted_residual") == 4);  // all that expand
      CHECK(kernels.front() == "int8_stem_block");                        // from the network's floats
      CHECK(std::ranges::count(kernels, "quantize") == 0);
    }
  }
}

TEST_CASE("plans: a quantised MobileNetV2, layer by layer, has the CPU engine's bits") {
  for (const DType dtype : kTypes) {
    CAPTURE(static_cast<int>(dtype));
    const auto kernels = check(test::int8_mobilenet(dtype), Precision::Fp32, {{"int8_block", "layers"}});
    CHECK(std::ranges::count(kernels, "int8_inverted_residual") == 0);
    CHECK(std::ranges::count(kernels, "int8_stem_block") == 0);
    CHECK(std::ranges::count(kernels, "int8_depthwise_conv") == 5);
    CHECK(std::ranges::count(kernels, "int8_add") == 0);  // sums are the convolutions'
  }
}

TEST_CASE("plans: a first block of whose quantised image others read too has the CPU engine's bits") {
  for (const DType dtype : kTypes) {
    CAPTURE(static_cast<int>(dtype));
    test::Int8Network network(Shape{1, 3, 30, 26}, dtype);
    const ValueId image = network.last();
    network.conv(24, 3, 2);
    network.block(24, 16, 1);
    const ValueId first = network.last();
    network.continue_from(image);
    network.conv(16, 3, 2, 1, false);
    network.sum(first);
    network.dequantize();
    const auto kernels = check(std::move(network).build(), Precision::Fp32);
    CHECK(std::ranges::count(kernels, "quantize") == 2);  // and dequantize
    CHECK(std::ranges::count(kernels, "int8_stem_block") == 1);
  }
}

TEST_CASE("plans: other quantised operations have the CPU engine's bits") {
  for (const DType dtype : kTypes) {
    for (const Precision precision : {Precision::Fp32, Precision::Fp16, Precision::Fp64}) {
      CAPTURE(static_cast<int>(dtype), to_string(precision));
      check(test::int8_mixture(dtype), precision);
    }
  }
}

TEST_CASE(
    "plans: a quantised product whose bytes become real numbers at once is one kernel with the CPU engine's bits") {
  for (const DType dtype : kTypes) {
    CAPTURE(static_cast<int>(dtype));
    test::Int8Network network(Shape{1, 3, 9, 8}, dtype);
    network.conv(24, 3, 2);
    network.flatten_mean();
    network.gemm(10, false);
    network.dequantize();
    const auto kernels = check(std::move(network).build(), Precision::Fp32);
    CHECK(std::ranges::count(kernels, "quantize") == 1);  // of the image
    CHECK(kernels.back() == "int8_conv2d");
  }
}

std::string refusal(const Graph& original) {
  EngineOptions options;
  const Graph graph = optimize(original);
  for (const Node& node : graph.nodes()) {
    if (const auto why = why_not_lowered(graph, node, options)) return *why;
  }
  return "";
}

TEST_CASE("plans: operations on integers without a kernel are refused by name") {
  {
    test::Int8Network network(Shape{1, 8, 6, 6}, DType::I8);
    network.add(Slice{1, 0, 4}, {network.last()});
    network.dequantize();
    const std::string why = refusal(std::move(network).build());
    CHECK(why.find("int8 has no kernel") != std::string::npos);
  }
  {
    test::Int8Network network(Shape{1, 8, 6, 6}, DType::I8);
    network.add(Reshape{Shape{1, 288}}, {network.last()});
    network.gemm(4, true);
    const std::string why = refusal(std::move(network).build());
    CHECK(why.find("Reshape of int8 maps") != std::string::npos);
  }
  {
    test::Int8Network network(Shape{1, 8, 6, 6}, DType::I8);
    Pool2d window;
    window.kernel = window.dilations = {2, 2};
    network.add(window, {network.last()});
    network.dequantize();
    const std::string why = refusal(std::move(network).build());
    CHECK(why.find("dilations") != std::string::npos);
  }
  {
    test::Int8Network network(Shape{1, 8, 6, 6}, DType::I8);
    network.conv(8, 1, 1, 1, false, DType::U8, 3);  // 255 - 3 is no int8
    network.dequantize();
    const std::string why = refusal(std::move(network).build());
    CHECK(why.find("beyond int8") != std::string::npos);
  }
}

}  // namespace
}  // namespace mobicuda
