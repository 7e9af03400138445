// What is computed between constants: weights that are standardised or normalised in the file, as PyTorch leaves them.

#include <cmath>
#include <functional>

#include "import_support.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

using Floats = std::vector<float>;

// The constant "c" that the nodes make, as what is added to an input of zeros.
Floats computed(std::int64_t opset, const Dims& dims, const std::function<void(OnnxBuilder&)>& nodes) {
  OnnxBuilder builder = network(opset, {kDynamic, 1});
  nodes(builder);
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  // A matrix product with 1 hands the elements over as they are.
  builder.ints("flat", {2}, {1, count}).node("Reshape", {"c", "flat"}, {"row"});
  builder.node("MatMul", {"x", "row"}, {"y"});
  return evaluate(import(builder), {1});
}

Floats reduced(const std::string& op, std::int64_t opset, const Dims& axes, const Dims& result, bool keep = true) {
  return computed(opset, result, [&](OnnxBuilder& b) {
    b.floats("w", {2, 3, 2}, {1, -2, 3, 4, -5, 6, 7, 8, 9, -10, 11, 12});
    const bool as_input = opset >= 18 || (op == "ReduceSum" && opset >= 13);
    if (as_input) b.ints("axes", {static_cast<std::int64_t>(axes.size())}, axes);
    OnnxNode node = b.node(op, as_input ? std::vector<std::string>{"w", "axes"} : std::vector<std::string>{"w"}, {"c"});
    if (!as_input && !axes.empty()) node.ints("axes", axes);
    if (!keep) node.attr("keepdims", 0);
  });
}

Floats unary(const std::string& op, const Floats& values) {
  return computed(13, {static_cast<std::int64_t>(values.size())}, [&](OnnxBuilder& b) {
    b.floats("w", {static_cast<std::int64_t>(values.size())}, values).node(op, {"w"}, {"c"});
  });
}

}  // namespace

TEST_CASE("reductions between constants, with axes as attribute and as input") {
  for (const std::int64_t opset : {6, 12, 13, 17, 18, 28}) {
    CAPTURE(opset);
    CHECK(reduced("ReduceSum", opset, {1}, {2, 1, 2}) == Floats{-1, 8, 27, 10});
    CHECK(reduced("ReduceMean", opset, {0, 2}, {1, 3, 1}) == Floats{3.5F, 1.5F, 6});
    CHECK(reduced("ReduceMax", opset, {2, 1}, {2}, false) == Floats{6, 12});
    CHECK(reduced("ReduceMin", opset, {-1}, {2, 3}, false) == Floats{-2, 3, -5, 7, -10, 11});
    CHECK(reduced("ReduceL1", opset, {0}, {1, 3, 2}) == Floats{8, 10, 12, 14, 16, 18});
    CHECK(reduced("ReduceSumSquare", opset, {1}, {2, 1, 2}) == Floats{35, 56, 251, 308});
    CHECK(reduced("ReduceProd", opset, {0, 1}, {1, 1, 2}) == Floats{-10395, 46080});
    CHECK(reduced("ReduceSum", opset, {}, {1, 1, 1}) == Floats{44});
    const Floats norms = reduced("ReduceL2", opset, {2}, {2, 3, 1});
    REQUIRE(norms.size() == 6);
    CHECK(norms[1] == 5.0F);
    CHECK(std::abs(norms[0] - std::sqrt(5.0F)) < 1e-6F);
  }
}

TEST_CASE("a reduction of shapes is exact, and one without axes may do nothing") {
  OnnxBuilder builder = network(18, {kDynamic, 2, 3, 5});
  builder.ints("from", {1}, {1}).ints("to", {1}, {4}).ints("batch", {1}, {0});
  builder.node("Shape", {"x"}, {"shape"});
  builder.node("Slice", {"shape", "from", "to"}, {"extents"});
  builder.node("ReduceProd", {"extents"}, {"count"});
  builder.node("Concat", {"batch", "count"}, {"target"}).attr("axis", 0);
  builder.node("Reshape", {"x", "target"}, {"y"});
  CHECK(import(builder).output_desc().shape == Shape{1, 30});
  const auto noop = [](const std::string& op) {
    return computed(18, {2}, [&](OnnxBuilder& b) {
      b.floats("w", {2}, {3, 4}).node(op, {"w"}, {"c"}).attr("noop_with_empty_axes", 1);
    });
  };
  CHECK(noop("ReduceSum") == Floats{3, 4});
  CHECK(noop("ReduceMax") == Floats{3, 4});
  CHECK_THROWS_AS(noop("ReduceL2"), Error);
}

TEST_CASE("functions of constants") {
  CHECK(unary("Neg", {1, -2}) == Floats{-1, 2});
  CHECK(unary("Abs", {1, -2}) == Floats{1, 2});
  CHECK(unary("Exp", {0, 1}) == Floats{1, std::exp(1.0F)});
  CHECK(unary("Log", {1, 8}) == Floats{0, std::log(8.0F)});
  CHECK(unary("Sqrt", {4, 9}) == Floats{2, 3});
  CHECK(unary("Reciprocal", {4, -0.5F}) == Floats{0.25F, -2});
  const auto power = [](const std::function<void(OnnxBuilder&)>& exponent) {
    return computed(15, {3}, [&](OnnxBuilder& b) {
      b.floats("w", {3}, {1, 4, 9});
      exponent(b);
      b.node("Pow", {"w", "e"}, {"c"});
    });
  };
  CHECK(power([](auto& b) { b.floats("e", {}, {0.5F}); }) == Floats{1, 2, 3});
  CHECK(power([](auto& b) { b.ints("e", {1, 1}, {2}); }) == Floats{1, 16, 81});
  CHECK(power([](auto& b) { b.ints("e", {3}, {3, 2, -1}); }) == Floats{1, 16, 1.0F / 9});
}

TEST_CASE("operands of constants repeat along any axes") {
  const Floats sums = computed(13, {2, 3, 2}, [](OnnxBuilder& b) {
    b.floats("a", {2, 1, 2}, {1, 2, 3, 4}).floats("b", {3, 1}, {10, 20, 30}).node("Add", {"a", "b"}, {"c"});
  });
  CHECK(sums == Floats{11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34});
}

TEST_CASE("BatchNormalization between constants, with the statistics given or its own") {
  const auto normalised = [](std::int64_t opset, bool training) {
    return computed(opset, {1, 2, 3}, [&](OnnxBuilder& b) {
      b.floats("w", {1, 2, 3}, {1, 2, 3, -1, 0, 4}).floats("s", {2}, {2, 3}).floats("b", {2}, {10, 20});
      b.floats("m", {2}, {1, 2}).floats("v", {2}, {3, 15});
      OnnxNode node = b.node("BatchNormalization", {"w", "s", "b", "m", "v"}, {"c"});
      node.attr("epsilon", 1.0F);
      if (opset >= 14) node.attr("training_mode", training ? 1 : 0);
      if (opset < 7) node.attr("is_test", training ? 0 : 1);
      if (training) {
        node.proto().add_output("mean");
        node.proto().add_output("var");
      }
    });
  };
  for (const std::int64_t opset : {6, 7, 9, 13, 14, 15, 28}) {
    CAPTURE(opset);
    CHECK(normalised(opset, false) == Floats{10, 11, 12, 17.75F, 18.5F, 21.5F});
    // Means 2 and 1, variances 2/3 and 14/3, and epsilon 1.
    const Floats own = normalised(opset, true);
    const float first = 2.0F / std::sqrt(5.0F / 3);
    const float second = 3.0F / std::sqrt(17.0F / 3);
    const Floats expected{10 - first, 10, 10 + first, 20 - 2 * second, 20 - second, 20 + 3 * second};
    for (std::size_t i = 0; i < own.size(); ++i) CHECK(std::abs(own[i] - expected[i]) < 1e-5F);
  }
  const auto refused = [](const Floats& variance, std::int64_t channels, const std::vector<std::string>& words) {
    OnnxBuilder builder = network(14, {kDynamic, 1});
    builder.floats("w", {1, 2}, {1, 1}).floats("s", {channels}, from_one(static_cast<std::size_t>(channels)));
    builder.floats("v", {2}, variance);
    builder.node("BatchNormalization", {"w", "s", "s", "s", "v"}, {"c"}, "bn").attr("epsilon", 0.0F);
    builder.node("MatMul", {"x", "c"}, {"y"});
    require_refused(builder, ErrorCode::invalid_model, words);
  };
  refused({1, 0}, 2, {"'bn'", "input #4 'v'", "channel 1", "> 0"});
  refused({1, 1}, 3, {"'bn'", "input #1 's'", "shape 2", "has 3"});
}

TEST_CASE("weights that PyTorch standardises in the file are those of the convolution") {
  // w - mean, by the root of the mean square, as timm's StdConv2d comes out of torch.onnx.export.
  OnnxBuilder builder = network(18, {kDynamic, 1, 1, 2});
  builder.floats("w", {1, 1, 1, 2}, {1, 5}).ints("axes", {3}, {1, 2, 3}).floats("two", {}, {2}).floats("e", {}, {0});
  builder.node("ReduceMean", {"w", "axes"}, {"mean"});
  builder.node("Sub", {"w", "mean"}, {"centred"});
  builder.node("Pow", {"centred", "two"}, {"squares"});
  builder.node("ReduceMean", {"squares", "axes"}, {"variance"});
  builder.node("Add", {"variance", "e"}, {"shifted"});
  builder.node("Sqrt", {"shifted"}, {"deviation"});
  builder.node("Div", {"centred", "deviation"}, {"standard"});
  builder.node("Conv", {"x", "standard"}, {"y"});
  const Graph graph = import(builder);
  CHECK(ops(graph) == "Conv2d");
  CHECK(constant_of(graph, 0, Conv2d::kWeight) == Floats{-1, 1});
}

TEST_CASE("CastLike does nothing to activations, and makes constants of the other's type") {
  for (const std::int64_t opset : {15, 18, 19, 23, 24, 28}) {
    CAPTURE(opset);
    // A convolution's zero bias as torch.onnx.export(dynamo=True, optimize=False) writes it.
    OnnxBuilder builder = network(opset, {kDynamic, 1, 2, 2});
    builder.floats("w", {3, 1, 1, 1}, {1, 2, 3}).ints("zero", {}, {0});
    builder.node("Shape", {"w"}, {"n"}).attr("start", 0).attr("end", 1);
    builder.node("CastLike", {"zero", "x"}, {"none"});
    builder.node("Expand", {"none", "n"}, {"bias"});
    builder.node("Conv", {"x", "w", "bias"}, {"a"});
    OnnxNode like = builder.node("CastLike", {"a", "w"}, {"y"});
    if (opset >= 19) like.attr("saturate", 1);
    if (opset >= 24) like.attr("round_mode", "up");
    const Graph graph = import(builder);
    CHECK(ops(graph) == "Conv2d Identity");
    CHECK(constant_of(graph, 0, Conv2d::kBias) == Floats{0, 0, 0});
  }
  const auto shape_like = [](const OnnxBuilder& target, float number) {
    OnnxBuilder builder = target;
    builder.floats("f", {2}, {0, number});
    builder.node("CastLike", {"f", "like"}, {"s"});
    builder.node("Reshape", {"x", "s"}, {"y"});
    return builder;
  };
  OnnxBuilder integers = network(19, {kDynamic, 2, 2});
  integers.ints("like", {}, {7});
  CHECK(import(shape_like(integers, 4)).output_desc().shape == Shape{1, 4});
  OnnxBuilder either = network(19, {kDynamic, 2, 2});
  either.ints("like", {}, {1});
  require_refused(shape_like(either, 4), ErrorCode::unsupported, {"(CastLike)", "booleans or of integers", "Cast"});
}
