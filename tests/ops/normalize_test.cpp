// Normalize from the file to the engines: LayerNormalization, InstanceNormalization, GroupNormalization, written out
// too.
#include <cmath>

#include "onnx_import/import_support.h"
#include "ops/op_runs.h"
#include "support/graphs.h"
#include "support/texts.h"

namespace mobicuda::test {
namespace {

using Floats = std::vector<float>;

void check_near(const Floats& actual, const Floats& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i, actual[i], expected[i]);
    CHECK(std::abs(actual[i] - expected[i]) <= 2e-6F * std::max(1.0F, std::abs(expected[i])));
  }
}

// 0 and 2 about 1 with a variance of 1, and epsilon 3: -1/2 and 1/2.
TEST_CASE("LayerNormalization of the last axis normalises each row") {
  OnnxBuilder builder = network(17, {kDynamic, 2, 2});
  builder.floats("scale", {2}, {2, 4}).floats("shift", {2}, {10, 20});
  builder.node("LayerNormalization", {"x", "scale", "shift"}, {"y"}).attr("epsilon", 3.0F);
  check_near(evaluate(import(builder), {0, 2, 7, 5}), {9, 22, 11, 18});
}

TEST_CASE("LayerNormalization of several axes has a factor for each of their elements") {
  OnnxBuilder builder = network(17, {kDynamic, 1, 2, 2});
  builder.floats("scale", {2, 2}, {1, 2, 3, 4});
  builder.node("LayerNormalization", {"x", "scale"}, {"y"}).attr("axis", -2).attr("epsilon", 3.0F);
  check_near(evaluate(import(builder), {0, 2, 2, 0}), {-0.5F, 1, 1.5F, -2});
}

TEST_CASE("LayerNormalization of (N, H, W, C) between two transpositions has channels of an image") {
  OnnxBuilder builder = network(17, {kDynamic, 2, 1, 2});
  builder.floats("scale", {2}, {1, 1}).floats("shift", {2}, {0, 0});
  builder.node("Transpose", {"x"}, {"nhwc"}).ints("perm", {0, 2, 3, 1});
  builder.node("LayerNormalization", {"nhwc", "scale", "shift"}, {"norm"}).attr("epsilon", 3.0F);
  builder.node("Relu", {"norm"}, {"act"});
  builder.node("Transpose", {"act"}, {"y"}).ints("perm", {0, 3, 1, 2});
  const Graph graph = optimize(import(builder));
  INFO(print(graph));
  CHECK(!contains(ops(graph), "Transpose"));
  check_near(evaluate(graph, {0, 7, 2, 5}), {0, 0.5F, 0.5F, 0});
}

// As exporters write it before opset 17, with the square as a power or a product, and a division or a reciprocal.
TEST_CASE("LayerNormalization written out becomes one operation") {
  for (const bool power : {false, true}) {
    for (const bool divides : {false, true}) {
      CAPTURE(power, divides);
      OnnxBuilder builder = network(13, {kDynamic, 2, 2});
      builder.floats("two", {}, {2}).floats("epsilon", {}, {3}).floats("scale", {2}, {2, 4});
      builder.node("ReduceMean", {"x"}, {"mean"}).ints("axes", {-1});
      builder.node("Sub", {"x", "mean"}, {"deviation"});
      if (power) builder.node("Pow", {"deviation", "two"}, {"square"});
      if (!power) builder.node("Mul", {"deviation", "deviation"}, {"square"});
      builder.node("ReduceMean", {"square"}, {"variance"}).ints("axes", {-1});
      builder.node("Add", {"variance", "epsilon"}, {"sum"});
      builder.node("Sqrt", {"sum"}, {"root"});
      if (divides) builder.node("Div", {"deviation", "root"}, {"norm"});
      if (!divides) builder.node("Reciprocal", {"root"}, {"inverse"});
      if (!divides) builder.node("Mul", {"deviation", "inverse"}, {"norm"});
      builder.node("Mul", {"norm", "scale"}, {"y"});
      const Graph graph = import(builder);
      CHECK(contains(ops(graph), "Normalize"));
      check_near(evaluate(graph, {0, 2, 7, 5}), {-1, 2, 1, -2});
    }
  }
}

TEST_CASE("a deviation from the mean of a single element is an ordinary difference") {
  OnnxBuilder builder = network(13, {kDynamic, 3, 1, 1});
  builder.node("ReduceMean", {"x"}, {"mean"}).ints("axes", {2, 3});
  builder.node("Sub", {"x", "mean"}, {"difference"});
  builder.node("Relu", {"difference"}, {"y"});
  CHECK(evaluate(import(builder), {1, 2, 3}) == Floats{0, 0, 0});
}

TEST_CASE("a deviation that goes elsewhere is refused by name") {
  OnnxBuilder builder = network(13);
  builder.node("ReduceMean", {"x"}, {"mean"}).ints("axes", {1});
  builder.node("Sub", {"x", "mean"}, {"deviation"});
  builder.node("Relu", {"deviation"}, {"y"}, "act");
  require_refused(builder, ErrorCode::unsupported,
                  {"'act' (Relu)", "input #0 'deviation'", "sqrt(variance + epsilon)"});
  OnnxBuilder bare = network(13);
  bare.floats("two", {}, {2});
  bare.node("ReduceMean", {"x"}, {"mean"}).ints("axes", {1});
  bare.node("Sub", {"x", "mean"}, {"deviation"});
  bare.node("Pow", {"deviation", "two"}, {"square"});
  bare.node("ReduceMean", {"square"}, {"variance"}).ints("axes", {1});
  bare.node("Sqrt", {"variance"}, {"root"});
  bare.node("Div", {"deviation", "root"}, {"y"}, "norm");
  require_refused(bare, ErrorCode::unsupported, {"'norm' (Div)", "epsilon > 0"});
}

TEST_CASE("InstanceNormalization normalises each channel") {
  OnnxBuilder builder = network(6, {kDynamic, 2, 1, 2});
  builder.floats("scale", {2}, {2, 4}).floats("shift", {2}, {10, 20});
  builder.node("InstanceNormalization", {"x", "scale", "shift"}, {"y"}).attr("epsilon", 3.0F);
  check_near(evaluate(import(builder), {0, 2, 7, 5}), {9, 11, 22, 18});
}

TEST_CASE("GroupNormalization has factors for groups, and since opset 21 for channels") {
  OnnxBuilder groups = network(18, {kDynamic, 4, 1, 1});
  groups.floats("scale", {2}, {2, 4}).floats("shift", {2}, {0, 1});
  groups.node("GroupNormalization", {"x", "scale", "shift"}, {"y"}).attr("num_groups", 2).attr("epsilon", 3.0F);
  check_near(evaluate(import(groups), {0, 2, 7, 5}), {-1, 1, 3, -1});
  OnnxBuilder channels = network(21, {kDynamic, 4, 1, 1});
  channels.floats("scale", {4}, {2, 4, 6, 8}).floats("shift", {4}, {0, 0, 1, 1});
  channels.node("GroupNormalization", {"x", "scale", "shift"}, {"y"}).attr("num_groups", 2).attr("epsilon", 3.0F);
  check_near(evaluate(import(channels), {0, 2, 7, 5}), {-1, 2, 4, -3});
}

TEST_CASE("GroupNorm as PyTorch writes it is one operation of the image") {
  OnnxBuilder builder = network(17, {kDynamic, 4, 1, 2});
  builder.ints("groups", {3}, {0, 2, -1}).ints("image", {4}, {-1, 4, 1, 2});
  builder.floats("one", {2}, {1, 1}).floats("zero", {2}, {0, 0}).floats("scale", {4, 1, 1}, {1, 2, 3, 4});
  builder.node("Reshape", {"x", "groups"}, {"rows"});
  builder.node("InstanceNormalization", {"rows", "one", "zero"}, {"norm"}).attr("epsilon", 3.0F);
  builder.node("Reshape", {"norm", "image"}, {"back"});
  builder.node("Mul", {"back", "scale"}, {"y"});
  const Graph graph = optimize(import(builder));
  INFO(print(graph));
  CHECK(!contains(ops(graph), "Reshape"));
  check_near(evaluate(graph, {0, 2, 0, 2, 7, 5, 5, 7}), {-0.5F, 0.5F, -1, 1, 1.5F, -1.5F, -2, 2});
}

TEST_CASE("normalisations are refused where their attributes or inputs make no sense") {
  const auto refused = [](const char* op, ErrorCode code, const std::vector<std::string>& words, std::int64_t factors,
                          auto spoil, std::int64_t opset = 21) {
    OnnxBuilder builder = network(opset);
    builder.floats("scale", {factors}, Floats(static_cast<std::size_t>(factors), 1.0F));
    builder.floats("shift", {factors}, Floats(static_cast<std::size_t>(factors), 0.0F));
    spoil(builder.node(op, {"x", "scale", "shift"}, {"y"}, "norm"));
    require_refused(builder, code, words);
  };
  constexpr ErrorCode kInvalid = ErrorCode::invalid_model;
  constexpr ErrorCode kUnsupported = ErrorCode::unsupported;
  refused("LayerNormalization", kInvalid,
          {"'norm' (LayerNormalization)", "input #1 'scale'", "4 elements", "has shape 3"}, 3, [](OnnxNode) {});
  refused("LayerNormalization", kUnsupported, {"attribute 'axis'", "mix the pictures"}, 4,
          [](OnnxNode n) { n.attr("axis", 0); });
  refused("LayerNormalization", kInvalid, {"axis"}, 4, [](OnnxNode n) { n.attr("axis", 7); });
  refused("LayerNormalization", kUnsupported, {"attribute 'epsilon'", "got 0"}, 4,
          [](OnnxNode n) { n.attr("epsilon", 0.0F); });
  refused("InstanceNormalization", kInvalid, {"'norm' (InstanceNormalization)", "must have shape 2", "has 3"}, 3,
          [](OnnxNode) {});
  refused("InstanceNormalization", kInvalid, {"attribute 'epsilon'", "-1"}, 2,
          [](OnnxNode n) { n.attr("epsilon", -1.0F); });
  refused("GroupNormalization", kInvalid, {"attribute 'num_groups'", "missing"}, 2, [](OnnxNode) {});
  refused("GroupNormalization", kInvalid, {"attribute 'num_groups'", "got 3"}, 2,
          [](OnnxNode n) { n.attr("num_groups", 3); });
  OnnxBuilder matrix = network(17);
  matrix.floats("scale", {32}, Floats(32, 1.0F)).floats("shift", {32}, Floats(32, 0.0F));
  matrix.node("Flatten", {"x"}, {"flat"});
  matrix.node("InstanceNormalization", {"flat", "scale", "shift"}, {"y"});
  require_refused(matrix, kUnsupported, {"input #0 'flat'", "1x32"});
}

TEST_CASE("Normalize refuses groups and an epsilon that make no sense") {
  const auto refused = [](const Normalize& op) { return refusal(op, Shape{1, 8, 10, 10}); };
  CHECK(contains(refused({NormalizedOver::Groups, 3}), "'op' (Normalize): attribute 'groups': must divide 8 channels"));
  CHECK(contains(refused({NormalizedOver::Groups, 0}), "attribute 'groups': must be > 0, got 0"));
  CHECK(contains(refused({NormalizedOver::Channels, 2}), "attribute 'groups': must be 1 over channels, got 2"));
  CHECK(contains(refused({NormalizedOver::Channels, 1, 0.0F}), "attribute 'epsilon': must be > 0"));
}

TEST_CASE("Normalize is printed with its attributes") {
  CHECK(contains(printed(Normalize{}, Shape{1, 8, 4, 4}), "over=channels epsilon=1e-05  # op"));
  CHECK(contains(printed(Normalize{NormalizedOver::Groups, 4}, Shape{1, 8, 4, 4}), "groups=4 epsilon=1e-05"));
}

TEST_CASE("Normalize counts channels and pixels in both layouts") {
  const TensorDesc nchw{DType::F32, Shape{1, 2, 1, 2}, Layout::NCHW};
  const TensorDesc nhwc{DType::F32, Shape{1, 2, 1, 2}, Layout::NHWC};
  const Normalize channels{NormalizedOver::Channels, 1, 3.0F};
  check_near(run_alone(channels, nchw, {0, 7, 2, 5}), {-0.5F, 0.5F, 0.5F, -0.5F});
  check_near(run_alone(channels, nhwc, {0, 2, 7, 5}), {-0.5F, 0.5F, 0.5F, -0.5F});
  const Normalize each{NormalizedOver::Groups, 2, 3.0F};
  check_near(run_alone(each, nchw, {0, 2, 7, 5}), {-0.5F, 0.5F, 0.5F, -0.5F});
  check_near(run_alone(each, nhwc, {0, 7, 2, 5}), {-0.5F, 0.5F, 0.5F, -0.5F});
}

TEST_CASE("Normalize on every engine equals the oracle", "[engines]") {
  for (const Normalize op : {Normalize{}, Normalize{NormalizedOver::Groups, 4}, Normalize{NormalizedOver::Groups, 16},
                             Normalize{NormalizedOver::Groups, 1}}) {
    CAPTURE(op.groups, static_cast<int>(op.over));
    TestNetwork network(Shape{1, 6, 9, 8});
    network.conv(16, 3, 1, {1, 1, 1, 1});
    network.add(op, {network.last()});
    network.scale_shift();
    network.conv(7, 3);
    check_engines(std::move(network).build(), 54 + 16 * 72 + 9 * 16);
  }
}

}  // namespace
}  // namespace mobicuda::test
