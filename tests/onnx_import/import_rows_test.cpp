// Windows over rows (N, C, W): images of height 1.

#include "import_support.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("Conv of a row, in all its forms") {
  const auto of = [](const Dims& weight, std::int64_t channels, auto spoil) {
    OnnxBuilder builder = network(13, {kDynamic, channels, 5});
    std::int64_t count = 1;
    for (const std::int64_t dim : weight) count *= dim;
    builder.floats("w", weight, from_one(static_cast<std::size_t>(count)));
    spoil(builder.node("Conv", {"x", "w"}, {"y"}));
    return import(builder);
  };
  const Graph plain = of({1, 1, 3}, 1, [](OnnxNode n) { n.ints("kernel_shape", {3}); });
  CHECK(plain.output_desc().shape == Shape{1, 1, 3});
  CHECK(ops(plain) == "Reshape Conv2d Reshape");
  CHECK(evaluate(plain, from_one(5)) == Floats{14, 20, 26});
  const Graph padded = of({1, 1, 3}, 1, [](OnnxNode n) { n.ints("pads", {1, 2}); });
  CHECK(evaluate(padded, from_one(5)) == Floats{8, 14, 20, 26, 14, 5});
  const Graph same = of({1, 1, 3}, 1, [](OnnxNode n) { n.attr("auto_pad", "SAME_UPPER").ints("strides", {2}); });
  CHECK(evaluate(same, from_one(5)) == Floats{8, 20, 14});
  const Graph dilated = of({1, 1, 2}, 1, [](OnnxNode n) { n.ints("dilations", {3}); });
  CHECK(evaluate(dilated, from_one(5)) == Floats{9, 12});
  const Graph groups = of({2, 1, 1}, 2, [](OnnxNode n) { n.attr("group", 2); });
  CHECK(evaluate(groups, from_one(10)) == Floats{1, 2, 3, 4, 5, 12, 14, 16, 18, 20});
  const Graph channels = of({1, 2, 1}, 2, [](OnnxNode) {});
  CHECK(evaluate(channels, from_one(10)) == Floats{13, 16, 19, 22, 25});
}

TEST_CASE("an ECA gate, as PyTorch writes it, is a convolution over channels whose result Mul repeats") {
  // Mean, 1-D convolution over the channels, Sigmoid, and the product; Expand only where exporters write expand_as.
  for (const bool expands : {false, true}) {
    CAPTURE(expands);
    OnnxBuilder builder = network(17, {kDynamic, 3, 2, 2});
    builder.floats("w", {1, 1, 3}, {1, 2, 1}).ints("row", {3}, {0, 1, -1}).ints("image", {4}, {0, -1, 1, 1});
    builder.node("ReduceMean", {"x"}, {"mean"}).ints("axes", {2, 3}).attr("keepdims", 0);
    builder.node("Reshape", {"mean", "row"}, {"channels"});
    builder.node("Conv", {"channels", "w"}, {"mixed"}).ints("pads", {1, 1});
    builder.node("Relu", {"mixed"}, {"gate"});
    builder.node("Reshape", {"gate", "image"}, {"small"});
    if (expands) {
      builder.node("Shape", {"x"}, {"shape"});
      builder.node("Expand", {"small", "shape"}, {"large"});
    }
    builder.node("Mul", {"x", expands ? "large" : "small"}, {"y"});
    const Graph graph = import(builder);
    // Means 1, -2, 3: the gates are 2 - 2 = 0, 1 - 4 + 3 = 0 and -2 + 6 = 4.
    CHECK(evaluate(graph, {1, 1, 1, 1, -2, -2, -2, -2, 2, 2, 4, 4}) == Floats{0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 16, 16});
    for (const Node& node : graph.nodes()) CHECK(op_name(node.op) != "Expand");
  }
}

TEST_CASE("an Expand that repeats nothing is none") {
  OnnxBuilder builder = network(13, {kDynamic, 2, 3});
  builder.ints("s", {2}, {1, 3}).node("Expand", {"x", "s"}, {"y"});
  CHECK(ops(import(builder)) == "Identity");
}

TEST_CASE("pools of a row") {
  const auto of = [](const std::string& op, bool window) {
    OnnxBuilder builder = network(13, {kDynamic, 2, 4});
    OnnxNode node = builder.node(op, {"x"}, {"y"});
    if (window) node.ints("kernel_shape", {2}).ints("strides", {2}).ints("pads", {1, 1});
    return evaluate(import(builder), from_one(8));
  };
  CHECK(of("MaxPool", true) == Floats{1, 3, 4, 5, 7, 8});
  CHECK(of("AveragePool", true) == Floats{1, 2.5F, 4, 5, 6.5F, 8});
  CHECK(of("GlobalMaxPool", false) == Floats{4, 8});
  CHECK(of("GlobalAveragePool", false) == Floats{2.5F, 6.5F});
}

TEST_CASE("ReduceSum and ReduceMax over any axes but the batch") {
  const auto of = [](const std::string& op, const Dims& axes, bool keep, const Dims& input) {
    OnnxBuilder builder = network(18, input);
    builder.ints("a", {static_cast<std::int64_t>(axes.size())}, axes);
    builder.node(op, {"x", "a"}, {"y"}).attr("keepdims", keep ? 1 : 0);
    return import(builder);
  };
  const Dims image{kDynamic, 2, 3, 2};
  const Floats x = from_one(12);
  CHECK(evaluate(of("ReduceSum", {2, 3}, false, image), x) == Floats{21, 57});
  CHECK(ops(of("ReduceSum", {2, 3}, true, image)) == "GlobalAveragePool ScaleShift");
  CHECK(of("ReduceSum", {2, 3}, true, image).output_desc().shape == Shape{1, 2, 1, 1});
  CHECK(evaluate(of("ReduceSum", {1}, false, image), x) == Floats{8, 10, 12, 14, 16, 18});
  CHECK(ops(of("ReduceSum", {1}, true, image)) == "Slice Slice Add");
  CHECK(evaluate(of("ReduceSum", {3}, false, image), x) == Floats{3, 7, 11, 15, 19, 23});
  CHECK(of("ReduceSum", {-1}, false, image).output_desc().shape == Shape{1, 2, 3});
  CHECK(evaluate(of("ReduceSum", {1, 2, 3}, true, image), x) == Floats{78});
  // Split attention: (N, branches, C, H, W).
  CHECK(evaluate(of("ReduceSum", {1}, false, {kDynamic, 2, 3, 2, 1}), x) == Floats{8, 10, 12, 14, 16, 18});
  CHECK(evaluate(of("ReduceSum", {1}, false, {kDynamic, 1, 12}), x) == x);
  CHECK(evaluate(of("ReduceSum", {1}, true, {kDynamic, 12}), x) == Floats{78});
  CHECK(evaluate(of("ReduceMax", {2, 3}, false, image), {1, -2, 9, 4, 5, 6, -7, -8, -9, -1, -3, -2}) == Floats{9, -1});
  CHECK(ops(of("ReduceMax", {2, 3}, true, image)) == "Pool2d");
  CHECK(evaluate(of("ReduceMax", {2}, false, image), x) == Floats{5, 6, 11, 12});
  CHECK(evaluate(of("ReduceMax", {1}, true, image), x) == Floats{7, 8, 9, 10, 11, 12});
  CHECK(of("ReduceMax", {1}, true, image).output_desc().shape == Shape{1, 1, 3, 2});
  CHECK(evaluate(of("ReduceMax", {1, 3}, false, image), x) == Floats{8, 10, 12});
  CHECK(evaluate(of("ReduceMax", {1}, false, {kDynamic, 12}), x) == Floats{12});
  OnnxBuilder noop = network(18);
  noop.node("ReduceMax", {"x"}, {"y"}).attr("noop_with_empty_axes", 1);
  CHECK(ops(import(noop)) == "Identity");
  OnnxBuilder attribute = network(11, image);
  attribute.node("ReduceSum", {"x"}, {"y"}).ints("axes", {2, 3});
  CHECK(ops(import(attribute)) == "GlobalAveragePool ScaleShift");
}
