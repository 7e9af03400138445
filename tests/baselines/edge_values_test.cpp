// Numbers at the edge of what a float is, one at a time in an input of ordinary ones, through every operation on real
// numbers: what fp32 makes of them is what the definition in fp64 does.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "baselines/cpu_runs.h"
#include "support/graphs.h"

namespace mobicuda::test {
namespace {

using Limits = std::numeric_limits<float>;

const std::vector<float>& edge_values() {
  static const std::vector<float> values{
      Limits::quiet_NaN(),
      -Limits::quiet_NaN(),
      Limits::infinity(),
      -Limits::infinity(),
      0.0F,
      -0.0F,
      Limits::denorm_min(),
      -Limits::denorm_min(),
      0x1.fffffcp-127F,  // the largest denormal
      -0x1.fffffcp-127F,
      Limits::min(),
      -Limits::min(),
      Limits::max(),
      -Limits::max(),
      0x1p-24F,
      0x1.fffffep-1F,  // the one before 1
      16777216.0F,     // 2^24, behind which not all whole numbers are floats
      -16777216.0F,
      1e30F,
      -1e30F,
      1e-30F,
      -1e-30F,
      88.72283F,  // the last whose exponential is a float
      -103.97F,   // the last whose exponential is not 0
  };
  return values;
}

struct Case {
  std::string name;
  Graph graph;
  bool moves = false;  ///< elements stay as they are: the sign of 0 as well
};

template <class Make>
Case case_of(const char* name, const Shape& input, const Make& make, bool moves = false) {
  TestNetwork net(input);
  make(net);
  return {name, std::move(net).build(), moves};
}

const Shape kImage{1, 4, 4, 5};

Case of_image(const char* name, Op op, bool moves = false) {
  return case_of(
      name, kImage, [&](TestNetwork& net) { net.add(std::move(op), {net.last()}); }, moves);
}

// By the names of the operations.
std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back(case_of("Conv2d", kImage, [](TestNetwork& net) { net.conv(6, 3, 1, {1, 1, 1, 1}); }));
  all.push_back(case_of("Conv2d", kImage, [](TestNetwork& net) { net.conv(4, 3, 1, {1, 1, 1, 1}, 0); }));
  all.push_back(case_of("Conv2d", kImage, [](TestNetwork& net) { net.conv(6, 1, 1, {}, 1, Activation::relu6()); }));
  all.push_back(case_of("Gemm", Shape{1, 12}, [](TestNetwork& net) { net.gemm(7); }));
  all.push_back(case_of("ScaleShift", kImage, [](TestNetwork& net) { net.scale_shift(); }));
  all.push_back(case_of("Add", kImage, [](TestNetwork& net) { net.add(Add{}, {net.last(), net.last()}); }));
  all.push_back(case_of("Mul", kImage, [](TestNetwork& net) { net.add(Mul{}, {net.last(), net.last()}); }));
  for (const ExtremumKind kind : {ExtremumKind::Max, ExtremumKind::Min}) {
    all.push_back(case_of("Extremum", kImage, [&](TestNetwork& net) {
      const ValueId x = net.last();
      net.add(Extremum{kind, {}}, {x, net.add(Slice{2, 1, 1}, {x})});
    }));
    all.push_back(case_of("Extremum", kImage, [&](TestNetwork& net) {
      const ValueId x = net.last();
      net.add(Extremum{kind, {}}, {x, net.add(Slice{1, 2, 1}, {x})});
    }));
  }
  for (int kind = 0; kind <= static_cast<int>(UnaryKind::Exp); ++kind) {
    all.push_back(of_image("Unary", Unary{static_cast<UnaryKind>(kind), 0.25F}));
  }
  all.push_back(of_image("Clip", Clip{Activation::relu6()}));
  all.push_back(of_image("Clip", Clip{{-Limits::infinity(), Limits::max()}}));
  all.push_back(of_image("Pool2d", Pool2d{PoolKind::Max, {2, 3}, {1, 2}, {0, 1, 0, 1}, false, false}));
  all.push_back(of_image("Pool2d", Pool2d{PoolKind::Average, {2, 3}, {1, 2}, {0, 1, 0, 1}, false, false}));
  all.push_back(of_image("GlobalAveragePool", GlobalAveragePool{}));
  all.push_back(of_image("LocalResponseNorm", LocalResponseNorm{3, 1e-3F, 0.75F, 2.0F}));
  all.push_back(of_image("Normalize", Normalize{NormalizedOver::Channels, 1, 1e-3F}));
  all.push_back(of_image("Normalize", Normalize{NormalizedOver::Groups, 2, 1e-3F}));
  all.push_back(case_of("Softmax", Shape{1, 12}, [](TestNetwork& net) { net.add(Softmax{}, {net.last()}); }));
  all.push_back(case_of("LogSoftmax", Shape{1, 12}, [](TestNetwork& net) { net.add(LogSoftmax{}, {net.last()}); }));
  all.push_back(of_image("Reshape", Reshape{Shape{1, 80}}, true));
  all.push_back(case_of(
      "Concat", kImage,
      [](TestNetwork& net) {
        net.add(Concat{1}, {net.last(), net.last()});
      },
      true));
  all.push_back(of_image("Slice", Slice{1, 1, 2}, true));
  all.push_back(of_image("Transpose", Transpose{{0, 2, 3, 1}}, true));
  all.push_back(of_image("Pad", Pad{{1, 1, 1, 1}, 0.5F, PadMode::Edge}, true));
  all.push_back(of_image("Resize", Resize{{8, 5}}, true));
  Resize between{{7, 9}};
  between.mode = ResizeMode::Linear;
  all.push_back(of_image("Resize", between));
  all.push_back(case_of("BatchedMatMul", Shape{1, 3, 4, 4}, [](TestNetwork& net) {
    net.add(BatchedMatMul{}, {net.last(), net.last()});
  }));
  all.push_back(of_image("LayoutTransform", LayoutTransform{Layout::NHWC}, true));
  all.push_back(of_image("Identity", Identity{}, true));
  const QuantizedResult bytes = QuantizedResult::of(DType::I8, {0.05F, 3});
  all.push_back(case_of("Quantize", kImage,
                        [&](TestNetwork& net) { net.add(Dequantize{}, {net.add(Quantize{bytes}, {net.last()})}); }));
  return all;
}

// What has no floats between its operands and its result.
const std::set<std::string> kIntegers{"Dequantize",    "Requantize",   "QuantizedConv2d",
                                      "QuantizedGemm", "QuantizedAdd", "QuantizedAveragePool"};

template <class T>
struct Names;
template <class... Ops>
struct Names<std::variant<Ops...>> {
  static std::set<std::string> all() { return {std::string(Ops::kName)...}; }
};

// How far fp32 may be from the definition, for sums of up to 40 products of numbers that are not larger than a few, but
// for one.
bool is_near(float actual, float expected) {
  constexpr float kRelative = 2e-5F;
  constexpr float kAbsolute = 1e-5F;
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (std::isinf(expected) || std::isinf(actual)) {
    constexpr float kNearlyInfinite = Limits::max() * (1.0F - kRelative);
    return std::signbit(actual) == std::signbit(expected) && std::abs(expected) >= kNearlyInfinite &&
           std::abs(actual) >= kNearlyInfinite;
  }
  const double off = std::abs(static_cast<double>(actual) - static_cast<double>(expected));
  return off <=
         static_cast<double>(kRelative) * std::abs(static_cast<double>(expected)) + static_cast<double>(kAbsolute);
}

TEST_CASE("edge values: every operation on real numbers has at least 20") {
  REQUIRE(edge_values().size() >= 20);
  std::set<std::string> covered = kIntegers;
  for (const Case& one : cases()) covered.insert(one.name);
  CHECK(covered == Names<Op>::all());
}

TEST_CASE("edge values: fp32 makes of them what the definition does") {
  for (const Case& one : cases()) {
    const auto fp32 = compile(one.graph, Precision::Fp32);
    const auto fp64 = compile(one.graph, Precision::Fp64);
    const std::string graph = print(one.graph);
    for (const float edge : edge_values()) {
      Floats input = random_uniform(9, static_cast<std::size_t>(one.graph.input_desc().shape.elements()), 0.25F, 1.0F);
      input[input.size() / 2] = edge;
      const Floats actual = run(*fp32, input);
      const Floats expected = run(*fp64, input);
      for (std::size_t i = 0; i < actual.size(); ++i) {
        INFO(graph << "edge " << edge << ", element " << i << ": " << actual[i] << ", expected " << expected[i]);
        REQUIRE(is_near(actual[i], expected[i]));
        if (one.moves && !std::isnan(expected[i])) REQUIRE(std::signbit(actual[i]) == std::signbit(expected[i]));
      }
    }
  }
}

TEST_CASE("edge values: what moves elements keeps their bits") {
  for (const Case& one : cases()) {
    if (!one.moves) continue;
    const auto engine = compile(one.graph, Precision::Fp32);
    const std::string graph = print(one.graph);
    for (const float edge : edge_values()) {
      const Floats input(static_cast<std::size_t>(one.graph.input_desc().shape.elements()), edge);
      const Floats output = run(*engine, input);
      for (const float value : output) {
        INFO(graph << "edge " << edge << ": " << value);
        REQUIRE(std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(edge));
      }
    }
  }
}

}  // namespace
}  // namespace mobicuda::test
