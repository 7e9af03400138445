// Clip, Relu, Min, Max and arithmetic with constants.

#include <cmath>
#include <optional>

#include "import_support.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

Activation clip_of(const OnnxBuilder& builder) { return op_at<Clip>(import(builder)).activation; }

// Output for the picture 1 to 12 in (2, 2, 3), of `op` with the constant "c" on one side.
std::vector<float> with_constant(const std::string& op, const Dims& dims, const std::vector<float>& values,
                                 bool constant_first = false, std::int64_t opset = 13) {
  OnnxBuilder builder = network(opset, {kDynamic, 2, 2, 3});
  builder.floats("c", dims, values);
  builder.node(op, constant_first ? std::vector<std::string>{"c", "x"} : std::vector<std::string>{"x", "c"}, {"z"});
  builder.node("Flatten", {"z"}, {"y"});
  return evaluate(import(builder), from_one(12));
}

}  // namespace

TEST_CASE("Clip has its bounds in attributes before opset 11 and in inputs since") {
  OnnxBuilder old_form = network(10);
  old_form.node("Clip", {"x"}, {"y"}).attr("min", 0.0F).attr("max", 6.0F);
  CHECK(clip_of(old_form) == Activation::relu6());
  OnnxBuilder one_sided = network(6);
  one_sided.node("Clip", {"x"}, {"y"}).attr("min", 0.0F);
  CHECK(clip_of(one_sided) == Activation::relu());

  for (const std::int64_t opset : {11, 12, 13, 21}) {
    OnnxBuilder builder = network(opset);
    builder.floats("lo", {}, {0}).floats("hi", {1}, {6});
    OnnxBuilder both = builder;
    both.node("Clip", {"x", "lo", "hi"}, {"y"});
    CHECK(clip_of(both) == Activation::relu6());
    OnnxBuilder max_only = builder;
    max_only.node("Clip", {"x", "", "hi"}, {"y"});
    CHECK(clip_of(max_only) == Activation{-kInf, 6});
    OnnxBuilder min_only = builder;
    min_only.node("Clip", {"x", "lo", ""}, {"y"});
    CHECK(clip_of(min_only) == Activation::relu());
    OnnxBuilder none = builder;
    none.node("Clip", {"x"}, {"y"});
    CHECK(clip_of(none).is_none());
    OnnxBuilder crossed = builder;
    crossed.node("Clip", {"x", "hi", "lo"}, {"y"});
    CHECK(evaluate(import(crossed), from_one(32)) == std::vector<float>(32, 0));  // the upper bound wins
  }
}

TEST_CASE("Clip's bounds may come from Constant and Cast nodes") {
  OnnxBuilder builder = network(12);
  builder.node("Constant", {}, {"lo"}).attr("value_float", 0.0F);
  builder.node("Constant", {}, {"six"}).attr("value", tensor("", {}, std::vector<std::int64_t>{6}));
  builder.node("Cast", {"six"}, {"hi"}).attr("to", 1);
  builder.node("Clip", {"x", "lo", "hi"}, {"y"});
  CHECK(clip_of(builder) == Activation::relu6());
}

TEST_CASE("Relu, Min and Max by constants are clips") {
  OnnxBuilder relu = network(13);
  relu.node("Relu", {"x"}, {"y"});
  CHECK(clip_of(relu) == Activation::relu());
  OnnxBuilder builder = network(13);
  builder.floats("c", {1, 1, 1, 1}, {6}).floats("d", {}, {5}).floats("e", {2, 1, 1}, {4, 4});
  OnnxBuilder min = builder;
  min.node("Min", {"x", "c"}, {"y"});
  CHECK(clip_of(min) == Activation{-kInf, 6});
  OnnxBuilder max = builder;
  max.node("Max", {"c", "d", "x"}, {"y"});
  CHECK(clip_of(max) == Activation{6, kInf});
  OnnxBuilder several = builder;
  several.node("Min", {"c", "x", "e", "d"}, {"y"});
  CHECK(clip_of(several) == Activation{-kInf, 4});
}

TEST_CASE("arithmetic with a scalar") {
  CHECK(with_constant("Add", {}, {2})[11] == 14);
  CHECK(with_constant("Add", {1}, {2}, true)[11] == 14);
  CHECK(with_constant("Sub", {}, {2})[11] == 10);
  CHECK(with_constant("Sub", {1, 1, 1, 1}, {2}, true)[11] == -10);
  CHECK(with_constant("Mul", {}, {3})[11] == 36);
  CHECK(with_constant("Div", {}, {4})[11] == 3);
}

TEST_CASE("arithmetic with a constant for each channel, or for each column") {
  const std::vector<float> by_channel{11, 12, 13, 14, 15, 16, 27, 28, 29, 30, 31, 32};
  CHECK(with_constant("Add", {1, 2, 1, 1}, {10, 20}) == by_channel);
  CHECK(with_constant("Add", {2, 1, 1}, {10, 20}, true) == by_channel);
  CHECK(with_constant("Mul", {2, 1, 1}, {1, 0.5F}) == std::vector<float>{1, 2, 3, 4, 5, 6, 3.5F, 4, 4.5F, 5, 5.5F, 6});
  CHECK(with_constant("Sub", {2, 1, 1}, {1, 2}, true) ==
        std::vector<float>{0, -1, -2, -3, -4, -5, -5, -6, -7, -8, -9, -10});
  CHECK(with_constant("Add", {3}, {10, 20, 30}) == std::vector<float>{11, 22, 33, 14, 25, 36, 17, 28, 39, 20, 31, 42});
  CHECK(with_constant("Add", {2, 2, 3}, std::vector<float>(12, 1)) ==
        std::vector<float>{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
}

TEST_CASE("before opset 7 a constant is aligned by the attribute axis") {
  OnnxBuilder builder = network(6, {kDynamic, 2, 2, 3});
  builder.floats("c", {2}, {10, 20}).node("Add", {"x", "c"}, {"y"}).attr("broadcast", 1).attr("axis", 1);
  CHECK(evaluate(import(builder), from_one(12)) == std::vector<float>{11, 12, 13, 14, 15, 16, 27, 28, 29, 30, 31, 32});
}

TEST_CASE("constants that do not broadcast are refused") {
  const auto refused = [](const std::string& op, const Dims& dims, std::size_t count, const std::string& word) {
    OnnxBuilder builder = network(13, {kDynamic, 2, 2, 3});
    builder.floats("c", dims, from_one(count)).node(op, {"x", "c"}, {"y"}, "sum");
    require_refused(builder, ErrorCode::unsupported, {"node #0 'sum' (" + op + ")", word});
  };
  refused("Mul", {5, 1, 1}, 5, "5x1x1");
  refused("Add", {4, 1, 1, 1}, 4, "4x1x1x1");
  refused("Sub", {2, 1, 2, 2, 3}, 24, "more axes");
  refused("Max", {5, 1, 1}, 5, "5x1x1");
}

TEST_CASE("two activations can be added, subtracted, multiplied and divided") {
  OnnxBuilder builder = network(13);
  builder.node("Relu", {"x"}, {"a"});
  OnnxBuilder sum = builder;
  sum.node("Add", {"x", "a"}, {"y"});
  CHECK(ops(import(sum)) == "Clip Add");
  OnnxBuilder three = builder;
  three.node("Sum", {"x", "a", "x"}, {"y"});
  CHECK(ops(import(three)) == "Clip Add Add");
  OnnxBuilder one = builder;
  one.node("Sum", {"a"}, {"y"});
  CHECK(ops(import(one)) == "Clip Identity");
  OnnxBuilder difference = builder;
  difference.node("Sub", {"a", "x"}, {"y"});
  CHECK(ops(import(difference)) == "Clip ScaleShift Add");
  const std::vector<float> negative = evaluate(import(difference), std::vector<float>(32, -3));
  CHECK(negative == std::vector<float>(32, 3));
  OnnxBuilder quotient = builder;
  quotient.node("Div", {"x", "a"}, {"y"});
  CHECK(ops(import(quotient)) == "Clip Reciprocal Mul");
  for (const bool first : {false, true}) {
    OnnxBuilder broadcast = network(13, {kDynamic, 2, 1, 2});
    broadcast.node("GlobalAveragePool", {"x"}, {"a"});
    broadcast.node("Add", first ? std::vector<std::string>{"a", "x"} : std::vector<std::string>{"x", "a"}, {"y"});
    CHECK(evaluate(import(broadcast), {1, 3, 5, 9}) == std::vector<float>{3, 5, 12, 16});
  }
  OnnxBuilder columns = network(13);
  columns.node("ReduceMean", {"x"}, {"a"}).ints("axes", {3});
  columns.node("Add", {"x", "a"}, {"y"});
  require_refused(columns, ErrorCode::unsupported, {"1x2x4x4", "1x2x4x1", "broadcasting"});
}

TEST_CASE("Neg, and whole powers, of activations") {
  const auto of = [](const std::string& op, std::optional<float> exponent) {
    OnnxBuilder builder = network(13, {kDynamic, 1, 1, 3});
    if (exponent) builder.floats("e", {}, {*exponent});
    builder.node(op, exponent ? std::vector<std::string>{"x", "e"} : std::vector<std::string>{"x"}, {"y"});
    return builder;
  };
  using Floats = std::vector<float>;
  CHECK(evaluate(import(of("Neg", {})), {-2, 0, 3}) == Floats{2, 0, -3});
  CHECK(evaluate(import(of("Pow", 1)), {-2, 0, 3}) == Floats{-2, 0, 3});
  CHECK(evaluate(import(of("Pow", 2)), {-2, 0, 3}) == Floats{4, 0, 9});
  CHECK(evaluate(import(of("Pow", 3)), {-2, 0, 3}) == Floats{-8, 0, 27});
  CHECK(evaluate(import(of("Pow", 4)), {-2, 0, 3}) == Floats{16, 0, 81});
  for (const float exponent : {0.0F, -1.0F, 0.5F, 2.5F, 5.0F, std::nanf("")}) {
    require_refused(of("Pow", exponent), ErrorCode::unsupported, {"(Pow)", "input #1 'e'", "1, 2, 3 or 4"});
  }
  OnnxBuilder integer = network(15, {kDynamic, 1, 1, 2});
  integer.ints("e", {1, 1, 1}, {2}).node("Pow", {"x", "e"}, {"y"});
  CHECK(evaluate(import(integer), {-3, 2}) == Floats{9, 4});
}

TEST_CASE("Mul of two activations repeats the smaller one, whichever side it is on") {
  // Of the picture 1 to 8 in (2, 2, 2), times the means of its channels, 2.5 and 6.5.
  const std::vector<float> product{2.5F, 5, 7.5F, 10, 32.5F, 39, 45.5F, 52};
  for (const bool small_first : {false, true}) {
    OnnxBuilder builder = network(13, {kDynamic, 2, 2, 2});
    builder.node("GlobalAveragePool", {"x"}, {"a"});
    builder.node("Mul", small_first ? std::vector<std::string>{"a", "x"} : std::vector<std::string>{"x", "a"}, {"y"});
    const Graph graph = import(builder);
    CHECK(graph.output_desc().shape == Shape{1, 2, 2, 2});
    CHECK(evaluate(graph, from_one(8)) == product);
  }
  OnnxBuilder square = network(6, {kDynamic, 2, 2, 2});
  square.node("Mul", {"x", "x"}, {"y"});
  CHECK(evaluate(import(square), from_one(8)) == std::vector<float>{1, 4, 9, 16, 25, 36, 49, 64});
}

TEST_CASE("Mul of activations that do not fit is refused with both shapes") {
  OnnxBuilder ranks = network(13);
  ranks.node("Flatten", {"x"}, {"a"}).attr("axis", 1);
  ranks.node("Mul", {"x", "a"}, {"y"}, "gate");
  require_refused(ranks, ErrorCode::unsupported, {"node #1 'gate' (Mul)", "1x2x4x4", "1x32", "opset 13"});
  OnnxBuilder both_ways = network(13);
  both_ways.node("ReduceMean", {"x"}, {"a"}).ints("axes", {2});
  both_ways.node("ReduceMean", {"x"}, {"b"}).ints("axes", {3});
  both_ways.node("Mul", {"a", "b"}, {"y"});
  require_refused(both_ways, ErrorCode::unsupported, {"(Mul)", "1x2x1x4", "1x2x4x1"});
  OnnxBuilder before = network(6);
  before.node("GlobalAveragePool", {"x"}, {"a"});
  before.node("Mul", {"x", "a"}, {"y"}).attr("broadcast", 1);
  require_refused(before, ErrorCode::unsupported, {"(Mul)", "since opset 7"});
}

TEST_CASE("Sigmoid, HardSigmoid and HardSwish") {
  const auto of = [](const std::string& op, std::int64_t opset, float alpha = 0.0F) {
    OnnxBuilder builder = network(opset, {kDynamic, 1, 1, 5});
    OnnxNode node = builder.node(op, {"x"}, {"y"});
    if (alpha != 0.0F) node.attr("alpha", alpha).attr("beta", 0.25F);
    return evaluate(import(builder), {-1000, -1, 0, 1, 1000});
  };
  const std::vector<float> sigmoid = of("Sigmoid", 6);
  CHECK(sigmoid[0] == 0);
  CHECK(std::abs(sigmoid[1] - 0.26894143F) < 1e-7F);
  CHECK(sigmoid[2] == 0.5F);
  CHECK(std::abs(sigmoid[3] - 0.73105854F) < 1e-7F);
  CHECK(sigmoid[4] == 1);
  const std::vector<float> hard = of("HardSigmoid", 6);
  CHECK(hard[0] == 0);
  CHECK(std::abs(hard[1] - 0.3F) < 1e-7F);
  CHECK(hard[2] == 0.5F);
  CHECK(std::abs(hard[3] - 0.7F) < 1e-7F);
  CHECK(hard[4] == 1);
  CHECK(of("HardSigmoid", 22, 0.5F) == std::vector<float>{0, 0, 0.25F, 0.75F, 1});
  CHECK(of("HardSwish", 14) == std::vector<float>{0, -1.0F / 3.0F, 0, 2.0F / 3.0F, 1000});

  OnnxBuilder early = network(13);
  early.node("HardSwish", {"x"}, {"y"});
  require_refused(early, ErrorCode::invalid_model, {"(HardSwish)", "does not exist in opset 13"});
  OnnxBuilder infinite = network(13);
  infinite.node("HardSigmoid", {"x"}, {"y"}, "gate").attr("alpha", kInf);
  require_refused(infinite, ErrorCode::invalid_model, {"'gate' (HardSigmoid)", "attribute 'alpha'", "finite", "inf"});
}

TEST_CASE("Tanh, LeakyRelu and Elu") {
  const auto of = [](const std::string& op, std::optional<float> alpha) {
    OnnxBuilder builder = network(13, {kDynamic, 1, 1, 2});
    OnnxNode node = builder.node(op, {"x"}, {"y"}, "act");
    if (alpha) node.attr("alpha", *alpha);
    return builder;
  };
  CHECK(evaluate(import(of("LeakyRelu", {})), {-100, 2}) == std::vector<float>{-1, 2});
  CHECK(evaluate(import(of("LeakyRelu", 0.5F)), {-100, 2}) == std::vector<float>{-50, 2});
  CHECK(evaluate(import(of("Elu", {})), {-1000, 2}) == std::vector<float>{-1, 2});
  CHECK(evaluate(import(of("Elu", 3.0F)), {-1000, 2}) == std::vector<float>{-3, 2});
  CHECK(evaluate(import(of("Tanh", {})), {-1000, 0}) == std::vector<float>{-1, 0});
  require_refused(of("Elu", kInf), ErrorCode::invalid_model, {"'act' (Elu)", "attribute 'alpha'", "finite"});
  OnnxBuilder pool = network(13, {kDynamic, 2, 2, 2});
  pool.node("GlobalMaxPool", {"x"}, {"y"});
  CHECK(evaluate(import(pool), from_one(8)) == std::vector<float>{4, 8});
}

TEST_CASE("PRelu with one slope is a LeakyRelu, with one for each channel it is computed from parts") {
  const auto prelu = [](std::int64_t opset, const Dims& dims, const std::vector<float>& slopes) {
    OnnxBuilder builder = network(opset, {kDynamic, 2, 1, 2});
    builder.floats("slope", dims, slopes).node("PRelu", {"x", "slope"}, {"y"}, "act");
    return builder;
  };
  const std::vector<float> input = {-8, 4, -2, kInf};
  for (const auto& [opset, dims] : {std::pair<std::int64_t, Dims>{6, {1}}, {9, {1}}, {16, {}}, {16, {2, 1, 1}}}) {
    CAPTURE(opset, dims.size());
    const Graph graph = import(prelu(opset, dims, std::vector<float>(dims.size() == 3 ? 2 : 1, 0.5F)));
    CHECK(ops(graph) == "LeakyRelu");
    CHECK(evaluate(graph, input) == std::vector<float>{-4, 4, -1, kInf});
  }
  for (const auto& [opset, dims] : {std::pair<std::int64_t, Dims>{6, {2}}, {9, {2, 1, 1}}, {16, {1, 2, 1, 1}}}) {
    CAPTURE(opset, dims.size());
    const Graph graph = import(prelu(opset, dims, {0.5F, -3}));
    CHECK(ops(graph) == "Clip ScaleShift Clip Add");
    CHECK(evaluate(graph, input) == std::vector<float>{-4, 4, 6, kInf});
    const std::vector<float> special = evaluate(graph, {std::nanf(""), -kInf, -kInf, 0});
    CHECK(std::isnan(special[0]));
    CHECK(std::vector<float>(special.begin() + 1, special.end()) == std::vector<float>{-kInf, kInf, 0});
  }
  // From opset 7 on, slopes broadcast like those of NumPy: these are for the columns.
  CHECK(evaluate(import(prelu(7, {2}, {0.5F, -3})), input) == std::vector<float>{-4, 4, -1, kInf});
  require_refused(prelu(6, {3}, {1, 2, 3}), ErrorCode::invalid_model, {"input #1 'slope'", "has 3"});
  CHECK(evaluate(import(prelu(9, {1, 2, 1, 2}, {1, 2, 3, 4})), {-8, 4, -2, -1}) == std::vector<float>{-8, 4, -6, -4});
  require_refused(prelu(9, {1}, {kInf}), ErrorCode::invalid_model, {"input #1 'slope'", "finite"});
  OnnxBuilder computed = network(13, {kDynamic, 2, 1, 2});
  computed.node("PRelu", {"x", "x"}, {"y"});
  require_refused(computed, ErrorCode::unsupported, {"(PRelu)", "must be a constant"});
}

TEST_CASE("squeeze and excite as exporters write it") {
  OnnxBuilder builder = network(13, {kDynamic, 2, 2, 2});
  builder.floats("w", {2, 2, 1, 1}, {1, 0, 0, -1});
  builder.node("ReduceMean", {"x"}, {"squeezed"}).ints("axes", {2, 3}).attr("keepdims", 1);
  builder.node("Conv", {"squeezed", "w"}, {"excited"});
  builder.node("HardSigmoid", {"excited"}, {"gate"}).attr("alpha", 0.25F).attr("beta", 0.0F);
  builder.node("Mul", {"gate", "x"}, {"y"});
  const Graph graph = import(builder);
  CHECK(evaluate(graph, from_one(8)) == std::vector<float>{0.625F, 1.25F, 1.875F, 2.5F, 0, 0, 0, 0});
  CHECK(ops(optimize(graph)) == "LayoutTransform GlobalAveragePool Conv2d Mul LayoutTransform");
}

TEST_CASE("constant operands may not divide by zero nor bound by NaN") {
  OnnxBuilder zero = network(13);
  zero.floats("c", {}, {0}).node("Div", {"x", "c"}, {"y"});
  require_refused(zero, ErrorCode::invalid_model, {"Div", "divides by 0"});
  OnnxBuilder reciprocal = network(13);
  reciprocal.floats("c", {}, {1}).node("Div", {"c", "x"}, {"y"});
  CHECK(ops(import(reciprocal)) == "Reciprocal ScaleShift");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  OnnxBuilder clip = network(13);
  clip.floats("c", {}, {nan}).node("Clip", {"x", "c"}, {"y"});
  require_refused(clip, ErrorCode::invalid_model, {"input #1 'c'", "NaN"});
  OnnxBuilder max = network(13);
  max.floats("c", {}, {nan}).node("Max", {"x", "c"}, {"y"});
  require_refused(max, ErrorCode::invalid_model, {"input #1 'c'", "NaN"});
  OnnxBuilder attribute = network(9);
  attribute.node("Clip", {"x"}, {"y"}).attr("max", nan);
  require_refused(attribute, ErrorCode::invalid_model, {"attribute 'max'", "NaN"});
}
