// Products that leave out what they multiply by zeros: which layers do, and whole layers and networks with them. The
// loops are fp32_kernels_test.cpp's.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "baselines/cpu/cpu_engine.h"
#include "baselines/cpu/plan_maker.h"
#include "baselines/cpu/zeros.h"
#include "baselines/cpu_runs.h"
#include "baselines/test_graphs.h"
#include "support/catch.h"

namespace mobicuda::test {
namespace {

using cpu::ZeroProducts;

constexpr std::int64_t kPictures = 3;

std::shared_ptr<const Engine> engine_for(const Graph& graph, const cpu::Fp32Kernels& kernels, ZeroProducts zeros,
                                         int threads) {
  EngineOptions options;
  options.max_batch = kPictures;
  options.threads = threads;
  const Graph optimized = optimize(graph);
  cpu::Fp32Choices choices;
  choices.kernels = &kernels;
  choices.zeros = zeros;
  return std::make_shared<const cpu::CpuEngine<float>>(options, optimized.input_desc(), optimized.output_desc(),
                                                       cpu::make_plan(optimized, options, nullptr, choices));
}

std::int64_t layers_without_zeros(const Engine& engine) {
  return std::ranges::count_if(
      engine.layers(), [](const LayerInfo& layer) { return layer.kernel.find("_nonzero") != std::string::npos; });
}

TestGraph graph_of(std::int64_t channels, WeightKind kind = WeightKind::Signed) {
  return TestGraph({DType::F32, Shape{1, channels, 13, 11}, Layout::NHWC}, 5, kind);
}

Conv2d window(std::int64_t stride, std::int64_t groups, Activation activation = Activation::none()) {
  Conv2d op;
  op.strides = {stride, stride};
  op.pads = {1, 1, 1, 1};
  op.groups = groups;
  op.activation = activation;
  return op;
}

Graph network() {
  TestGraph net = graph_of(20);
  net.pointwise(96, Activation::relu6()).depthwise3x3(1, Activation::relu6());
  net.pointwise(40);
  net.pointwise(300, Activation::relu());
  net.pointwise(330, Activation::relu()).conv(window(2, 2, Activation::relu()), 70, 3, 3);
  net.pointwise(33, Activation::of(ActivationKind::Silu));
  net.add(GlobalAveragePool{}, {net.last()});
  return net.build();
}

TEST_CASE("zeros: networks are the same for every number of threads and place in a batch, and close to the oracle") {
  const Graph graph = network();
  const Floats input = input_for(graph, kPictures);
  const Floats oracle = run(*compile(graph, Precision::Fp64, kPictures), input);
  for (const cpu::Fp32Kernels* kernels : cpu::supported_fp32_kernels()) {
    for (const ZeroProducts zeros : {ZeroProducts::LeftOutWhereLikely, ZeroProducts::LeftOut}) {
      CAPTURE(kernels->name, static_cast<int>(zeros));
      const auto engine = engine_for(graph, *kernels, zeros, 1);
      CHECK(layers_without_zeros(*engine) >= 4);
      const Floats expected = run(*engine, input);
      CHECK(compare_rel_l2(expected, std::vector<double>(oracle.begin(), oracle.end()),
                           rel_l2_alarm(20 + 9 + 96 + 40 + 300 + 330 * 9 + 70, kStoreF32)));
      for (const int threads : {2, 3}) {
        CHECK(compare_bits(run(*engine_for(graph, *kernels, zeros, threads), input), expected));
      }
      const auto picture = static_cast<std::ptrdiff_t>(input.size() / kPictures);
      const auto result = static_cast<std::ptrdiff_t>(expected.size() / kPictures);
      for (std::ptrdiff_t i = 0; i < kPictures; ++i) {
        const Floats alone = run(*engine, {input.begin() + i * picture, input.begin() + (i + 1) * picture});
        CHECK(compare_bits(alone, {expected.begin() + i * result, expected.begin() + (i + 1) * result}));
      }
    }
  }
}

TEST_CASE("zeros: a layer gives what one that multiplies by them gives, exactly on whole numbers") {
  for (const std::int64_t groups : {1, 2}) {
    for (const std::int64_t stride : {1, 2}) {
      TestGraph net = graph_of(30, WeightKind::Integer);
      net.add(Clip{Activation::relu()}, {net.last()});
      const Graph graph = net.conv(window(stride, groups), 90, 3, 3).build();
      const Floats input = random_integers(3, static_cast<std::size_t>(graph.input_desc().shape.elements()));
      for (const cpu::Fp32Kernels* kernels : cpu::supported_fp32_kernels()) {
        CAPTURE(kernels->name, groups, stride);
        const Floats expected = run(*engine_for(graph, *kernels, ZeroProducts::Computed, 2), input);
        const Floats actual = run(*engine_for(graph, *kernels, ZeroProducts::LeftOut, 2), input);
        CHECK(compare_exact(actual, std::vector<double>(expected.begin(), expected.end())));
      }
    }
  }
}

TEST_CASE("zeros: weights that are not finite make NaN of them, from a saved engine too") {
  for (const float weight : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Floats weights = random_uniform(6, 40 * 16);
    weights[3 * 16 + 5] = weight;
    GraphBuilder builder("weights");
    const ValueId x = builder.set_input("x", {DType::F32, Shape{1, 16, 5, 5}, Layout::NHWC});
    const ValueId w = builder.add_constant("w", HostTensor::of<float>(Shape{40, 16, 1, 1}, weights));
    const ValueId clipped = builder.add_node(Clip{Activation::relu()}, {x}, {}, "clipped");
    const ValueId y = builder.add_node(Conv2d{}, {clipped, w, kNoValue, kNoValue}, {}, "y");
    const Graph graph = std::move(builder).build(y);
    const auto engine = compile(graph, Precision::Fp32);
    REQUIRE(layers_without_zeros(*engine) == 1);
    const auto restored = make_cpu_backend()->restore(engine->saved(), engine->options());
    const Floats input(static_cast<std::size_t>(graph.input_desc().shape.elements()));
    for (const auto& each : {engine, restored}) {
      const Floats output = run(*each, input);
      CHECK(std::ranges::count(output, 0.0F) == 39 * 25);
      CHECK(std::ranges::count_if(output, [](float value) { return std::isnan(value); }) == 25);
    }
  }
}

TEST_CASE("zeros: values have many where an activation clips at zero, and where that is moved or multiplied") {
  const auto last_has_zeros = [](TestGraph net) {
    const Graph graph = std::move(net).build();
    return bool{cpu::values_with_zeros(graph)[static_cast<std::size_t>(graph.output())]};
  };
  CHECK(last_has_zeros(graph_of(4).pointwise(8, Activation::relu())));
  CHECK(last_has_zeros(graph_of(4).pointwise(8, Activation::relu6())));
  CHECK_FALSE(last_has_zeros(graph_of(4).pointwise(8)));
  CHECK_FALSE(last_has_zeros(graph_of(4).pointwise(8, {-1.0F, 1.0F})));
  CHECK_FALSE(last_has_zeros(graph_of(4).pointwise(8, Activation::of(ActivationKind::HardSwish))));
  for (const bool clipped : {false, true}) {
    CAPTURE(clipped);
    const auto begin = [&] {
      TestGraph net = graph_of(4);
      net.pointwise(8, clipped ? Activation::relu() : Activation::none());
      return net;
    };
    TestGraph pooled = begin();
    CHECK(last_has_zeros(pooled.add(GlobalAveragePool{}, {pooled.last()})) == clipped);
    TestGraph identity = begin();
    CHECK(last_has_zeros(identity.add(Identity{}, {identity.last()})) == clipped);
    TestGraph product = begin();
    const ValueId factor = product.last();
    CHECK(last_has_zeros(product.pointwise(8).add(Mul{}, {product.last(), factor})) == clipped);
    TestGraph sum = begin();
    CHECK_FALSE(last_has_zeros(sum.add(Add{}, {sum.last(), sum.last()})));
    TestGraph joined = begin();
    const ValueId left = joined.last();
    CHECK(last_has_zeros(joined.pointwise(8, Activation::relu()).add(Concat{}, {left, joined.last()})) == clipped);
  }
}

TEST_CASE("zeros: few outputs, and inputs of no activation, take the other loops") {
  const auto layers = [](std::int64_t outputs, Activation activation) {
    TestGraph net = graph_of(8);
    return layers_without_zeros(*compile(net.pointwise(16, activation).pointwise(outputs).build(), Precision::Fp32));
  };
  CHECK(layers(32, Activation::relu()) == 1);
  CHECK(layers(31, Activation::relu()) == 0);
  CHECK(layers(32, Activation::none()) == 0);
}

}  // namespace
}  // namespace mobicuda::test
