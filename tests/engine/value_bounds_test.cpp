// How large values can become, against what they are.
#include "lower/value_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "support/catch.h"
#include "support/graphs.h"

namespace mobicuda {
namespace {

using test::TestNetwork;

constexpr double kUnknown = std::numeric_limits<double>::infinity();

ValueId named(const Graph& graph, std::string_view name) {
  for (std::size_t id = 0; id < graph.values().size(); ++id) {
    if (graph.values()[id].name == name) return static_cast<ValueId>(id);
  }
  throw std::invalid_argument("no value " + std::string(name));
}

double bound(const Graph& graph, std::string_view name) {
  return value_bounds(graph)[static_cast<std::size_t>(named(graph, name))];
}

/// 2 channels, the weights 3, -4 and -1, 2, the biases 10 and -20.
ValueId add_pointwise(GraphBuilder& builder, ValueId x, const Activation& activation, const std::string& name) {
  const std::vector<float> weights{3.0F, -4.0F, -1.0F, 2.0F};
  const std::vector<float> biases{10.0F, -20.0F};
  const ValueId weight = builder.add_constant(name + ".w", HostTensor::of<float>(Shape{2, 2, 1, 1}, weights));
  const ValueId bias = builder.add_constant(name + ".b", HostTensor::of<float>(Shape{2}, biases));
  Conv2d conv;
  conv.activation = activation;
  return builder.add_node(conv, {x, weight, bias, kNoValue}, {}, name);
}

TEST_CASE("value bounds: clips, weights and biases, sums and moves") {
  GraphBuilder builder("bounds");
  const ValueId x = builder.set_input("x", {DType::F32, Shape{1, 2, 3, 3}, Layout::NCHW});
  const ValueId unknown = add_pointwise(builder, x, {}, "unknown");
  const ValueId clipped = builder.add_node(Clip{{-1.0F, 2.0F}}, {unknown}, {}, "clipped");
  const ValueId product = add_pointwise(builder, clipped, {}, "product");            // 2 (3 + 4) + 10, 2 (1 + 2) + 20
  const ValueId relu = add_pointwise(builder, product, Activation::relu(), "relu");  // 26 * 7 + 10
  const ValueId sum = builder.add_node(Add{}, {product, clipped}, {}, "sum");
  const ValueId squashed = builder.add_node(Unary{UnaryKind::Sigmoid}, {relu}, {}, "squashed");
  const ValueId joined = builder.add_node(Concat{}, {sum, squashed}, {}, "joined");
  const ValueId scaled = builder.add_node(Mul{}, {sum, squashed}, {}, "scaled");
  const ValueId pooled = builder.add_node(GlobalAveragePool{}, {joined}, {}, "pooled");
  const ValueId last = builder.add_node(Reshape{Shape{1, 4}}, {pooled}, {}, "last");
  static_cast<void>(scaled);
  const Graph graph = std::move(builder).build(last);
  CHECK(bound(graph, "x") == kUnknown);
  CHECK(bound(graph, "unknown") == kUnknown);
  CHECK(bound(graph, "clipped") == 2.0);
  CHECK(bound(graph, "product") == 26.0);
  CHECK(bound(graph, "relu") == 192.0);
  CHECK(bound(graph, "sum") == 28.0);
  CHECK(bound(graph, "squashed") == 1.0);
  CHECK(bound(graph, "joined") == 28.0);
  CHECK(bound(graph, "last") == 28.0);
}

TEST_CASE("value bounds: no tensor of a network is beyond its bound") {
  TestNetwork network(Shape{1, 3, 20, 17});
  network.conv(16, 3, 2, {1, 0, 2, 1}, 1, Activation::relu6(), "stem");
  const ValueId branch = network.last();
  network.conv(16, 3, 1, {1, 1, 1, 1}, 0, Activation::relu(), "depthwise");
  network.conv(16, 1, 1, {}, 1, {}, "pointwise");
  network.add(Add{}, {network.last(), branch}, "residual");
  network.conv(24, 3, 1, {1, 1, 1, 1}, 4, Activation::relu(), "grouped");
  network.add(Pool2d{PoolKind::Average, {2, 2}, {1, 1}, {1, 0, 0, 1}, false, true}, {network.last()}, "avg_pool");
  network.add(Pad{{1, 2, 0, 1}, -9.5F}, {network.last()}, "pad");
  network.head(10);
  const Graph graph = std::move(network).build();
  const auto engine = make_cpu_backend()->compile(graph, {});
  const std::vector<double> bounds = value_bounds(graph);
  const auto input =
      test::random_uniform(3, static_cast<std::size_t>(graph.input_desc().shape.elements()), -50.0F, 50.0F);
  const auto session = engine->create_session();
  std::vector<float> output(static_cast<std::size_t>(graph.output_desc().shape.elements()));
  session->run(input, output);
  const double last = bounds[static_cast<std::size_t>(graph.output())];
  CHECK(last < kUnknown);
  for (const float value : output) CHECK(std::abs(static_cast<double>(value)) <= last * (1 + 1e-5));
}

}  // namespace
}  // namespace mobicuda
