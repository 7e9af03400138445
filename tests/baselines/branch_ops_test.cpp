// What networks with branches need: Concat, Mul of two activations and its gates. Against values worked out by hand,
// and through the CPU engine, fp32 against the fp64 oracle.
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "baselines/cpu/ops/concat.h"
#include "baselines/cpu/ops/elementwise.h"
#include "baselines/cpu/plan_maker.h"
#include "baselines/cpu_runs.h"
#include "baselines/test_graphs.h"
#include "support/catch.h"
#include "support/tolerance.h"

namespace mobicuda::cpu {
namespace {

using Doubles = std::vector<double>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TensorDesc nchw(Shape shape) { return {DType::F32, shape, Layout::NCHW}; }

Doubles one_to(int last) {
  Doubles values;
  for (int i = 1; i <= last; ++i) values.push_back(i);
  return values;
}

TEST_CASE("concat joins channels in both layouts, for every picture") {
  // Pictures of (1, 2, 1) and (2, 2, 1): of the batch of two, first 1 2 / 3 4, then 10 20 30 40 / 50 60 70 80.
  const Doubles a{1, 2, 3, 4};
  const auto join = [&](Layout layout, const Doubles& b) {
    const TensorDesc y_desc{DType::F32, Shape{1, 3, 2, 1}, layout};
    const std::vector<TensorDesc> parts{{DType::F32, Shape{1, 1, 2, 1}, layout},
                                        {DType::F32, Shape{1, 2, 2, 1}, layout}};
    const ConcatPlan plan = plan_concat(Concat{1}, y_desc, parts);
    Doubles y(12, kNaN);
    concat(plan, 0, a.data(), y.data(), {0, 2 * plan.rows});
    concat(plan, 1, b.data(), y.data(), {0, plan.rows});
    concat(plan, 1, b.data(), y.data(), {plan.rows, 2 * plan.rows});
    return y;
  };
  CHECK(join(Layout::NCHW, {10, 20, 30, 40, 50, 60, 70, 80}) == Doubles{1, 2, 10, 20, 30, 40, 3, 4, 50, 60, 70, 80});
  CHECK(join(Layout::NHWC, {10, 30, 20, 40, 50, 70, 60, 80}) == Doubles{1, 10, 30, 2, 20, 40, 3, 50, 70, 4, 60, 80});
}

TEST_CASE("slice takes channels or columns in both layouts, for every picture") {
  const Doubles x = one_to(24);  // 2 pictures of (3, 2, 2)
  const auto part = [&](Layout layout, const Slice& op) {
    const SlicePlan plan = plan_slice(op, {DType::F32, Shape{1, 3, 2, 2}, layout});
    Doubles y(static_cast<std::size_t>(2 * plan.rows * plan.chunk), kNaN);
    slice(plan, x.data(), y.data(), {0, plan.rows});
    slice(plan, x.data(), y.data(), {plan.rows, 2 * plan.rows});
    return y;
  };
  CHECK(part(Layout::NCHW, {1, 1, 1}) == Doubles{5, 6, 7, 8, 17, 18, 19, 20});
  CHECK(part(Layout::NHWC, {1, 1, 1}) == Doubles{2, 5, 8, 11, 14, 17, 20, 23});
  CHECK(part(Layout::NCHW, {3, 1, 1}) == Doubles{2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24});
  CHECK(part(Layout::NHWC, {3, 1, 1}) == Doubles{4, 5, 6, 10, 11, 12, 16, 17, 18, 22, 23, 24});
}

TEST_CASE("mul repeats its second input along the axes where that has extent 1") {
  const Doubles x = one_to(16);  // 2 pictures of (2, 2, 2)
  const auto product = [&](Layout layout, const Shape& shape, const Doubles& b, Activation activation = {}) {
    const TensorDesc x_desc{DType::F32, Shape{1, 2, 2, 2}, layout};
    const BroadcastPlan plan = plan_broadcast(x_desc, {DType::F32, shape, Layout::NCHW});
    Doubles y(16, kNaN);
    mul(Mul{activation}, plan, x.data(), b.data(), y.data(), {0, plan.rows()});
    mul(Mul{activation}, plan, x.data(), b.data(), y.data(), {plan.rows(), 2 * plan.rows()});
    return y;
  };
  const Shape channels{1, 2, 1, 1};
  CHECK(product(Layout::NCHW, channels, {1, 2, 3, -1}) ==
        Doubles{1, 2, 3, 4, 10, 12, 14, 16, 27, 30, 33, 36, -13, -14, -15, -16});
  CHECK(product(Layout::NHWC, channels, {1, 2, 3, -1}) ==
        Doubles{1, 4, 3, 8, 5, 12, 7, 16, 27, -10, 33, -12, 39, -14, 45, -16});
  CHECK(product(Layout::NCHW, Shape{1, 1, 2, 2}, {1, 2, 3, 4, 0, 0, 0, 1}) ==
        Doubles{1, 4, 9, 16, 5, 12, 21, 32, 0, 0, 0, 12, 0, 0, 0, 16});
  CHECK(product(Layout::NCHW, Shape{1, 2, 2, 2}, x, {0.0F, 50.0F})[7] == 50);
  CHECK(product(Layout::NCHW, Shape{1, 2, 2, 2}, x)[15] == 256);
}

TEST_CASE("extremum repeats its second input, takes a NaN of either side and of two zeros the second") {
  const auto extremum_of = [](ExtremumKind kind, const Shape& shape, const Doubles& a, const Doubles& b,
                              Activation activation = {}) {
    const BroadcastPlan plan =
        plan_broadcast({DType::F32, Shape{1, 2, 2}, Layout::NCHW}, {DType::F32, shape, Layout::NCHW});
    Doubles y(a.size(), -77);
    extremum(Extremum{kind, activation}, plan, a.data(), b.data(), y.data(), {0, plan.rows()});
    extremum(Extremum{kind, activation}, plan, a.data(), b.data(), y.data(), {plan.rows(), 2 * plan.rows()});
    return y;
  };
  const Doubles a{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(extremum_of(ExtremumKind::Max, Shape{1, 2, 1}, a, {2, 3, 9, 6}) == Doubles{2, 2, 3, 4, 9, 9, 7, 8});
  CHECK(extremum_of(ExtremumKind::Min, Shape{1, 2, 1}, a, {2, 3, 9, 6}) == Doubles{1, 2, 3, 3, 5, 6, 6, 6});
  CHECK(extremum_of(ExtremumKind::Min, Shape{1, 1, 2}, a, {2, 3, 9, 6}, {2.0F, 5.0F}) ==
        Doubles{2, 2, 2, 3, 5, 5, 5, 5});
  const Doubles left{kNaN, 1, kNaN, 0.0, -0.0, kInf, -kInf, -kInf};
  const Doubles right{1, kNaN, kNaN, -0.0, 0.0, 1, 1, kNaN};
  const Shape whole{1, 2, 2};
  for (const ExtremumKind kind : {ExtremumKind::Max, ExtremumKind::Min}) {
    const Doubles y = extremum_of(kind, whole, left, right);
    for (const std::size_t i : {0U, 1U, 2U, 7U}) CHECK(std::isnan(y[i]));
    CHECK(std::signbit(y[3]));
    CHECK(!std::signbit(y[4]));
    CHECK(y[5] == (kind == ExtremumKind::Max ? kInf : 1));
    CHECK(y[6] == (kind == ExtremumKind::Max ? 1 : -kInf));
  }
}

TEST_CASE("Sigmoid and HardSwish give the values worked out by hand, far from zero as well") {
  const Doubles x{0, std::log(3.0), -std::log(3.0), 2000, -2000, kInf, -kInf, kNaN};
  Doubles y(8, kNaN);
  unary(Unary{UnaryKind::Sigmoid}, x.data(), y.data(), {0, 8});
  constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();
  CHECK(y[0] == 0.5);
  CHECK(std::abs(y[1] - 0.75) <= kRounding);
  CHECK(std::abs(y[2] - 0.25) <= kRounding);
  CHECK(Doubles(y.begin() + 3, y.begin() + 7) == Doubles{1, 0, 1, 0});
  CHECK(std::isnan(y[7]));
  const Doubles z{-4, -3, -1.5, 0, 1.5, 3, 4, kNaN};
  unary(Unary{UnaryKind::HardSwish}, z.data(), y.data(), {0, 8});
  CHECK(Doubles(y.begin(), y.begin() + 7) == Doubles{0, 0, -0.375, 0, 1.125, 3, 4});
  CHECK(std::isnan(y[7]));
}

TEST_CASE("Tanh, LeakyRelu and Elu bend at zero, and NaN passes") {
  constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();
  const Doubles x{-2, -std::log(2.0), 0, 3, -kInf, kNaN};
  Doubles y(6, 0.0);
  const auto check_nan = [&] { CHECK(std::isnan(y[5])); };
  unary(Unary{UnaryKind::LeakyRelu, 0.25F}, x.data(), y.data(), {0, 6});
  CHECK(y[0] == -0.5);
  CHECK(y[2] == 0);
  CHECK(y[3] == 3);
  check_nan();
  unary(Unary{UnaryKind::Elu, 2.0F}, x.data(), y.data(), {0, 6});
  CHECK(std::abs(y[1] + 1.0) <= kRounding);
  CHECK(y[3] == 3);
  CHECK(y[4] == -2);
  check_nan();
  unary(Unary{UnaryKind::Tanh}, x.data(), y.data(), {0, 6});
  CHECK(std::abs(y[1] + 0.6) <= kRounding);  // (1/4 - 1) / (1/4 + 1)
  CHECK(y[2] == 0);
  CHECK(y[4] == -1);
  check_nan();
}

TEST_CASE("a block with squeeze and excite runs in fp32 as in fp64") {
  const UnaryKind gate = GENERATE(UnaryKind::Sigmoid, UnaryKind::HardSwish);
  test::TestGraph net(nchw(Shape{1, 7, 30, 23}), 3);
  net.pointwise(37);
  const ValueId expanded = net.add(Unary{gate}, {net.last()}).last();
  net.add(GlobalAveragePool{}, {expanded}).pointwise(9, Activation::relu()).pointwise(37);
  net.add(Unary{UnaryKind::Sigmoid}, {net.last()}).add(Mul{}, {expanded, net.last()}).pointwise(12);
  test::check_fp32(net.build(), 7 + 30 * 23 + 37 + 9 + 37);
}

TEST_CASE("branches joined by Concat and normalised run in fp32 as in fp64") {
  const std::int64_t axis = GENERATE(1, 2, 3);
  test::TestGraph net(nchw(Shape{1, 5, 12, 9}), 4);
  const ValueId entry = net.last();
  const ValueId left = net.pointwise(6).last();
  const ValueId right = net.add(Unary{}, {entry}).pointwise(6).last();
  net.add(Concat{axis}, {left, right, left}).add(LocalResponseNorm{5, 1.0F, 0.75F, 2.0F}, {net.last()}).pointwise(8);
  test::check_fp32(net.build(), 5 + 5 + 18);
}

// Of the branches, the first three are written where Concat would copy them to: of whole vectors, of few channels, of
// groups. The others are a depthwise convolution, a value that is read elsewhere too, one that is there twice, one with
// a residual, and a Concat of its own.
Graph convolutions_that_are_joined() {
  test::TestGraph net(nchw(Shape{1, 6, 9, 7}), 11);
  net.pointwise(16, Activation::relu());
  const ValueId entry = net.last();
  const auto branch = [&] { net.add(Clip{{-1.0F, 9.0F}}, {entry}); };
  std::vector<ValueId> parts;
  const auto part = [&] { parts.push_back(net.last()); };
  Conv2d window;
  window.pads = {1, 1, 1, 1};
  branch();
  net.pointwise(32, Activation::relu());
  part();
  branch();
  net.conv(window, 3, 3, 3);
  net.pointwise(5, Activation::of(ActivationKind::HardSwish));
  part();
  branch();
  window.groups = 2;
  net.conv(window, 12, 3, 3);
  part();
  branch();
  net.depthwise3x3(1);
  part();
  branch();
  const ValueId read_twice = net.pointwise(7).last();
  part();
  branch();
  net.pointwise(4);
  part();
  part();
  branch();
  net.pointwise(7).add(Add{}, {net.last(), read_twice});
  part();
  net.add(Concat{1}, {entry, read_twice});
  part();
  net.add(Concat{1}, parts).pointwise(10);
  return net.build();
}

TEST_CASE("convolutions write where Concat would copy them to") {
  const Graph graph = convolutions_that_are_joined();
  test::check_fp32(graph, 6 + 16 + 9 * 16 + 3 + 105);

  const Graph optimized = optimize(graph);
  const Plan plan = make_plan(optimized, {}, nullptr);
  std::vector<std::int64_t> joined;  // their channels
  for (const Step& step : plan.steps) {
    if (step.output_stride == 0) continue;
    CHECK(step.output_stride == 16 + 7 + 32 + 5 + 12 + 16 + 7 + 4 + 4 + 7);
    joined.push_back(step.output_desc.shape[1]);
  }
  CHECK(joined == std::vector<std::int64_t>{32, 5, 12});
}

TEST_CASE("what a layer writes is read by itself, also where it lies in a Concat's output") {
  const Graph graph = convolutions_that_are_joined();
  constexpr std::int64_t kPictures = 2;
  const test::Floats input = test::input_for(graph, kPictures);
  const auto outputs = [&](Precision precision) {
    const auto engine = test::compile(graph, precision, kPictures);
    const auto session = engine->create_session();
    test::Floats last(static_cast<std::size_t>(kPictures * engine->output().shape.elements()));
    session->run(input, last);
    std::map<std::string, test::Floats> by_name;
    for (std::size_t layer = 0; layer < engine->layers().size(); ++layer) {
      const LayerInfo& info = engine->layers()[layer];
      session->execute_layer(kPictures, layer);
      test::Floats& output = by_name[std::to_string(layer) + " " + info.name];
      output.resize(static_cast<std::size_t>(kPictures * info.output.elements()));
      session->get_layer_output(output);
    }
    return by_name;
  };
  const auto actual = outputs(Precision::Fp32);
  const auto expected = outputs(Precision::Fp64);
  REQUIRE(actual.size() == expected.size());
  for (const auto& [name, values] : actual) {
    CAPTURE(name);
    const test::Floats& reference = expected.at(name);
    CHECK(test::compare_rel_l2(values, std::vector<double>(reference.begin(), reference.end()),
                               test::rel_l2_alarm(6 + 16 + 9 * 16 + 3 + 105, test::kStoreF32)));
  }
}

TEST_CASE("channels that are split, computed apart and shuffled run in fp32 as in fp64") {
  test::TestGraph net(nchw(Shape{1, 8, 9, 7}), 5);
  net.pointwise(8);
  const ValueId entry = net.last();
  const ValueId kept = net.add(Slice{1, 0, 4}, {entry}).last();
  net.add(Slice{1, 4, 4}, {entry}).pointwise(4);
  net.add(Concat{}, {kept, net.last()}).add(Reshape{Shape{1, 2, 4, 9, 7}}, {net.last()});
  net.add(Transpose{{0, 2, 1, 3, 4}}, {net.last()}).add(Reshape{Shape{1, 8, 9, 7}}, {net.last()}).pointwise(6);
  test::check_fp32(net.build(), 8 + 4 + 8);
}

TEST_CASE("Concat of features and of values that are the network's own input or output") {
  test::TestGraph net(nchw(Shape{1, 4}), 4);
  const ValueId x = net.last();
  net.gemm(3);
  net.add(Concat{}, {x, net.last(), x});
  const Graph graph = net.build();
  const test::Floats y = test::run(*test::compile(graph, Precision::Fp32), {1, 2, 3, 4});
  CHECK(test::Floats(y.begin(), y.begin() + 4) == test::Floats{1, 2, 3, 4});
  CHECK(test::Floats(y.end() - 4, y.end()) == test::Floats{1, 2, 3, 4});
}

}  // namespace
}  // namespace mobicuda::cpu
