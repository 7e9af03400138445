// Convolution, normalisation, pooling, fully connected layers and softmax, in every form that ONNX gives them.

#include <cmath>

#include "import_support.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

OnnxNode conv(OnnxBuilder& builder, const Dims& weight, const std::vector<std::string>& inputs = {"x", "w"}) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : weight) elements *= dim;
  builder.floats("w", weight, from_one(static_cast<std::size_t>(elements)));
  return builder.node("Conv", inputs, {"y"}, "conv");
}

OnnxBuilder batch_norm(std::int64_t opset, const std::vector<std::pair<std::string, int>>& attributes) {
  OnnxBuilder builder = network(opset);
  builder.floats("scale", {2}, {2, 3})
      .floats("b", {2}, {0.5F, -1})
      .floats("mean", {2}, {1, 2})
      .floats("var", {2}, {0, 8});
  OnnxNode node = builder.node("BatchNormalization", {"x", "scale", "b", "mean", "var"}, {"y"});
  node.attr("epsilon", 1.0F).attr("momentum", 0.9F);
  for (const auto& [name, value] : attributes) node.attr(name, value);
  return builder;
}

}  // namespace

TEST_CASE("Conv keeps its strides, dilations, groups and four pads") {
  OnnxBuilder builder = network(17, {kDynamic, 4, 9, 11});
  conv(builder, {6, 2, 3, 2})
      .ints("kernel_shape", {3, 2})
      .ints("strides", {2, 1})
      .ints("dilations", {1, 2})
      .ints("pads", {1, 2, 3, 4})
      .attr("group", 2);
  const Graph graph = import(builder);
  const auto& op = op_at<Conv2d>(graph);
  CHECK(op.strides == std::array<std::int64_t, 2>{2, 1});
  CHECK(op.dilations == std::array<std::int64_t, 2>{1, 2});
  CHECK(op.groups == 2);
  CHECK(op.pads == Padding{1, 2, 3, 4});
  CHECK(op.activation.is_none());
  CHECK(graph.output_desc().shape == Shape{1, 6, 6, 15});
  CHECK(graph.nodes()[0].origin.describe() == "node #0 'conv' (Conv)");
  CHECK(graph.value(graph.output()).name == "y");
}

TEST_CASE("Conv without attributes takes its window from the weight, and a bias only where there is one") {
  OnnxBuilder builder = network(6);
  conv(builder, {3, 2, 3, 3}, {"x", "w", ""});
  const Graph plain = import(builder);
  CHECK(plain.output_desc().shape == Shape{1, 3, 2, 2});
  CHECK(plain.nodes()[0].inputs[Conv2d::kBias] == kNoValue);

  builder.floats("b", {3}, {1, 2, 3}).graph().mutable_node(0)->set_input(2, "b");
  CHECK(constant_of(import(builder), 0, Conv2d::kBias) == std::vector<float>{1, 2, 3});
}

TEST_CASE("auto_pad is resolved from the extents") {
  struct Case {
    std::string mode;
    std::int64_t height, width, stride;
    Padding pads;
  };
  for (const Case& c : {Case{"SAME_UPPER", 4, 5, 2, {0, 1, 1, 1}}, Case{"SAME_LOWER", 4, 5, 2, {1, 1, 0, 1}},
                        Case{"SAME_UPPER", 5, 4, 1, {1, 1, 1, 1}}, Case{"VALID", 4, 5, 2, {}},
                        Case{"NOTSET", 4, 5, 2, {}}, Case{"SAME_UPPER", 7, 9, 4, {0, 1, 0, 1}}}) {
    CAPTURE(c.mode, c.height, c.width, c.stride);
    OnnxBuilder builder = network(13, {kDynamic, 2, c.height, c.width});
    conv(builder, {1, 2, 3, 3}).attr("auto_pad", c.mode).ints("strides", {c.stride, c.stride});
    const Graph graph = import(builder);
    CHECK(op_at<Conv2d>(graph).pads == c.pads);
    if (c.mode.starts_with("SAME")) {
      CHECK(graph.output_desc().shape[2] == (c.height + c.stride - 1) / c.stride);
      CHECK(graph.output_desc().shape[3] == (c.width + c.stride - 1) / c.stride);
    }
  }
}

TEST_CASE("BatchNormalization becomes scale and shift at every opset") {
  const std::vector<std::pair<std::string, int>> none;
  for (const auto& [opset, attributes] :
       {std::pair{6, std::vector<std::pair<std::string, int>>{{"is_test", 1}, {"spatial", 1}}},
        std::pair{7, std::vector<std::pair<std::string, int>>{{"spatial", 1}}}, std::pair{9, none}, std::pair{13, none},
        std::pair{14, std::vector<std::pair<std::string, int>>{{"training_mode", 0}}}, std::pair{15, none},
        std::pair{27, none}}) {
    CAPTURE(opset);
    const Graph graph = import(batch_norm(opset, attributes));
    REQUIRE(ops(graph) == "ScaleShift");
    CHECK(constant_of(graph, 0, ScaleShift::kScale) == std::vector<float>{2, 1});  // 2 / sqrt(0 + 1), 3 / sqrt(8 + 1)
    CHECK(constant_of(graph, 0, ScaleShift::kShift) == std::vector<float>{-1.5F, -3});
  }
}

TEST_CASE("BatchNormalization of values with 3 or 5 axes scales the channels, axis 1") {
  for (const Dims& dims : {Dims{kDynamic, 2, 3}, {kDynamic, 2, 1, 3, 1}}) {
    CAPTURE(dims.size());
    OnnxBuilder builder = network(13, dims);
    builder.floats("scale", {2}, {1, 2}).floats("b", {2}, {0, 1}).floats("mean", {2}, {0, 0});
    builder.floats("var", {2}, {1, 1});
    builder.node("BatchNormalization", {"x", "scale", "b", "mean", "var"}, {"y"}).attr("epsilon", 0.0F);
    CHECK(evaluate(import(builder), from_one(6)) == std::vector<float>{1, 2, 3, 9, 11, 13});
  }
}

TEST_CASE("BatchNormalization in training mode is refused with the remedy") {
  require_refused(batch_norm(14, {{"training_mode", 1}}), ErrorCode::unsupported, {"training_mode", "eval()"});
  require_refused(batch_norm(6, {}), ErrorCode::unsupported, {"is_test", "eval()"});
  require_refused(batch_norm(7, {{"spatial", 0}}), ErrorCode::unsupported, {"spatial"});
  OnnxBuilder statistics = batch_norm(9, {});
  statistics.graph().mutable_node(0)->add_output("running_mean");
  statistics.graph().mutable_node(0)->set_output(0, "z");
  statistics.node("Add", {"z", "running_mean"}, {"y"});
  require_refused(statistics, ErrorCode::unsupported, {"BatchNormalization", "output #1", "eval()"});
}

TEST_CASE("the mean over an image is one op, however it is written") {
  const auto reduce = [](std::int64_t opset, const Dims& axes, int keep, const Dims& input) {
    OnnxBuilder builder = network(opset, input);
    if (opset < 18) {
      builder.node("ReduceMean", {"x"}, {"y"}).ints("axes", axes).attr("keepdims", keep);
    } else {
      builder.ints("axes", {static_cast<std::int64_t>(axes.size())}, axes);
      builder.node("ReduceMean", {"x", "axes"}, {"y"}).attr("keepdims", keep);
    }
    return import(builder);
  };
  for (const std::int64_t opset : {6, 13, 17, 18, 24}) {
    CAPTURE(opset);
    CHECK(ops(reduce(opset, {2, 3}, 1, {kDynamic, 2, 4, 4})) == "GlobalAveragePool");
    CHECK(ops(reduce(opset, {-1, -2}, 1, {kDynamic, 2, 4, 4})) == "GlobalAveragePool");
    const Graph flat = reduce(opset, {3, 2}, 0, {kDynamic, 2, 4, 4});
    CHECK(ops(flat) == "GlobalAveragePool Reshape");
    CHECK(flat.output_desc().shape == Shape{1, 2});
    const Graph channels_last = reduce(opset, {1, 2}, 0, {kDynamic, 4, 4, 3});
    CHECK(ops(channels_last) == "Transpose GlobalAveragePool Reshape");
    CHECK(channels_last.output_desc().shape == Shape{1, 3});
    CHECK(reduce(opset, {1, 2}, 1, {kDynamic, 4, 4, 3}).output_desc().shape == Shape{1, 1, 1, 3});
  }
  OnnxBuilder global = network(17);
  global.node("GlobalAveragePool", {"x"}, {"y"});
  CHECK(ops(import(global)) == "GlobalAveragePool");
  OnnxBuilder window = network(17);
  window.node("AveragePool", {"x"}, {"y"}).ints("kernel_shape", {4, 4});
  CHECK(ops(import(window)) == "GlobalAveragePool");
}

TEST_CASE("means over single axes of an image are exact") {
  const std::vector<float> picture = from_one(2 * 2 * 3);  // (C, H, W)
  OnnxBuilder both = network(11, {kDynamic, 2, 2, 3});
  both.node("ReduceMean", {"x"}, {"rows"}).ints("axes", {3}).attr("keepdims", 0);
  both.node("ReduceMean", {"rows"}, {"y"}).ints("axes", {2}).attr("keepdims", 0);
  CHECK(evaluate(import(both), picture) == std::vector<float>{3.5F, 9.5F});

  OnnxBuilder axis1 = network(11, {kDynamic, 2, 2, 3});
  axis1.node("ReduceMean", {"x"}, {"y"}).ints("axes", {1}).attr("keepdims", 0);
  CHECK(evaluate(import(axis1), picture) == std::vector<float>{4, 5, 6, 7, 8, 9});

  OnnxBuilder height = network(11, {kDynamic, 2, 2, 3});
  height.node("ReduceMean", {"x"}, {"y"}).ints("axes", {2});
  CHECK(evaluate(import(height), picture) == std::vector<float>{2.5F, 3.5F, 4.5F, 8.5F, 9.5F, 10.5F});
}

TEST_CASE("ReduceMean over any axes but the batch") {
  const auto mean = [](const Dims& axes, int keep) {
    OnnxBuilder builder = network(13, {kDynamic, 2, 2, 3});
    builder.node("ReduceMean", {"x"}, {"y"}).ints("axes", axes).attr("keepdims", keep);
    return import(builder);
  };
  CHECK(evaluate(mean({1, 3}, 1), from_one(12)) == std::vector<float>{5, 8});
  CHECK(mean({1, 3}, 1).output_desc().shape == Shape{1, 1, 2, 1});
  CHECK(evaluate(mean({-1, -2, -3}, 0), from_one(12)) == std::vector<float>{6.5F});
  CHECK(mean({1, 2, 3}, 0).output_desc().shape == Shape{1});
  OnnxBuilder features = network(13, {kDynamic, 4});
  features.node("ReduceMean", {"x"}, {"y"}).ints("axes", {1});
  CHECK(evaluate(import(features), from_one(4)) == std::vector<float>{2.5F});
  OnnxBuilder rows = network(13, {kDynamic, 2, 3});
  rows.node("ReduceMean", {"x"}, {"y"}).ints("axes", {1}).attr("keepdims", 0);
  CHECK(evaluate(import(rows), from_one(6)) == std::vector<float>{2.5F, 3.5F, 4.5F});
}

TEST_CASE("ReduceMean without axes is refused, or does nothing where the file says so") {
  OnnxBuilder all = network(18);
  all.node("ReduceMean", {"x"}, {"y"});
  require_refused(all, ErrorCode::unsupported, {"ReduceMean", "1x2x4x4"});
  OnnxBuilder empty = network(18);
  empty.ints("axes", {0}, {}).node("ReduceMean", {"x", "axes"}, {"y"});
  require_refused(empty, ErrorCode::unsupported, {"ReduceMean"});
  OnnxBuilder none = network(18);
  none.node("ReduceMean", {"x"}, {"y"}).attr("noop_with_empty_axes", 1);
  CHECK(ops(import(none)) == "Identity");
}

TEST_CASE("AveragePool and MaxPool keep their window") {
  OnnxBuilder average = network(13, {kDynamic, 2, 7, 7});
  average.node("AveragePool", {"x"}, {"y"})
      .ints("kernel_shape", {3, 2})
      .ints("strides", {2, 2})
      .ints("pads", {1, 0, 2, 1})
      .attr("count_include_pad", 1)
      .attr("ceil_mode", 1);
  const Graph graph = import(average);
  const auto& op = op_at<Pool2d>(graph);
  CHECK(op.kind == PoolKind::Average);
  CHECK(op.kernel == std::array<std::int64_t, 2>{3, 2});
  CHECK(op.strides == std::array<std::int64_t, 2>{2, 2});
  CHECK(op.pads == Padding{1, 0, 2, 1});
  CHECK(op.count_include_pad);
  CHECK(op.ceil_mode);

  OnnxBuilder dilated = network(19, {kDynamic, 1, 3, 3});
  dilated.node("AveragePool", {"x"}, {"y"}).ints("kernel_shape", {2, 2}).ints("dilations", {2, 2});
  CHECK(op_at<Pool2d>(import(dilated)).dilations == std::array<std::int64_t, 2>{2, 2});
  CHECK(evaluate(import(dilated), from_one(9)) == std::vector<float>{5});

  OnnxBuilder max = network(10, {kDynamic, 2, 7, 7});
  max.node("MaxPool", {"x"}, {"y", "unused"}).ints("kernel_shape", {2, 2}).attr("auto_pad", "SAME_UPPER");
  CHECK(op_at<Pool2d>(import(max)).kind == PoolKind::Max);
  CHECK(op_at<Pool2d>(import(max)).pads == Padding{0, 0, 1, 1});
  OnnxBuilder padded = network(13);  // as large as the image, and yet not its mean
  padded.node("AveragePool", {"x"}, {"y"}).ints("kernel_shape", {4, 4}).ints("pads", {1, 1, 1, 1});
  CHECK(ops(import(padded)) == "Pool2d");
}

TEST_CASE("Gemm in all its forms is x * w^T + bias") {
  struct Case {
    std::string what;
    std::int64_t opset;
    bool trans_b;
    float alpha, beta;
    Dims c_dims;
    std::vector<float> c, expected;
  };
  // x = (1, 2, 3); B is (3, 2), or (2, 3) transposed, with the columns (1, 2, 3) and (4, 5, 6).
  for (const Case& c :
       {Case{"plain", 13, false, 1, 1, {2}, {10, 20}, {24, 52}}, Case{"transB", 7, true, 1, 1, {2}, {10, 20}, {24, 52}},
        Case{"alpha", 11, true, 2, 1, {2}, {10, 20}, {38, 84}},
        Case{"beta", 11, false, 1, 0.5F, {2}, {10, 20}, {19, 42}}, Case{"scalar", 11, false, 1, 1, {}, {7}, {21, 39}},
        Case{"one element", 11, false, 1, 2, {1}, {7}, {28, 46}},
        Case{"row", 6, false, 1, 1, {1, 2}, {10, 20}, {24, 52}},
        Case{"beta 0", 9, false, 1, 0, {2}, {10, 20}, {14, 32}},
        Case{"one by one", 9, false, 1, 1, {1, 1}, {7}, {21, 39}}}) {
    CAPTURE(c.what);
    OnnxBuilder builder = network(c.opset, {kDynamic, 3});
    if (c.trans_b) {
      builder.floats("B", {2, 3}, {1, 2, 3, 4, 5, 6});
    } else {
      builder.floats("B", {3, 2}, {1, 4, 2, 5, 3, 6});
    }
    builder.floats("C", c.c_dims, c.c);
    OnnxNode node = builder.node("Gemm", {"x", "B", "C"}, {"y"});
    node.attr("transB", c.trans_b ? 1 : 0).attr("alpha", c.alpha).attr("beta", c.beta);
    if (c.opset < 7) node.attr("broadcast", 1);
    const Graph graph = import(builder);
    CHECK(ops(graph) == "Gemm");
    CHECK(evaluate(graph, {1, 2, 3}) == c.expected);
  }
  OnnxBuilder absent = network(11, {kDynamic, 3});
  absent.floats("B", {3, 2}, {1, 4, 2, 5, 3, 6}).node("Gemm", {"x", "B"}, {"y"});
  CHECK(evaluate(import(absent), {1, 2, 3}) == std::vector<float>{14, 32});
}

TEST_CASE("MatMul takes the Add behind it as its bias, unless somebody else reads the product") {
  OnnxBuilder builder = network(13, {kDynamic, 3});
  builder.floats("w", {3, 2}, {1, 4, 2, 5, 3, 6}).floats("b", {2}, {10, 20});
  builder.node("MatMul", {"x", "w"}, {"product"}, "mm");
  builder.node("Add", {"b", "product"}, {"y"}, "bias");
  const Graph graph = import(builder);
  CHECK(ops(graph) == "Gemm");
  CHECK(graph.nodes()[0].origin.label() == "mm+bias");
  CHECK(evaluate(graph, {1, 2, 3}) == std::vector<float>{24, 52});

  builder.graph().mutable_node(1)->set_output(0, "sum");
  builder.node("Add", {"sum", "product"}, {"y"});
  const Graph shared = import(builder);
  CHECK(ops(shared) == "Gemm ScaleShift Add");
  CHECK(evaluate(shared, {1, 2, 3}) == std::vector<float>{38, 84});
}

TEST_CASE("Softmax flattens before opset 13 and takes one axis since") {
  const auto softmax = [](std::int64_t opset, const Dims& input, std::optional<std::int64_t> axis) {
    OnnxBuilder builder = network(opset, input);
    OnnxNode node = builder.node("Softmax", {"x"}, {"y"});
    if (axis) node.attr("axis", *axis);
    return builder;
  };
  CHECK(ops(import(softmax(11, {kDynamic, 5}, {}))) == "Softmax");
  CHECK(ops(import(softmax(13, {kDynamic, 5}, {}))) == "Softmax");
  CHECK(ops(import(softmax(13, {kDynamic, 5}, 1))) == "Softmax");
  CHECK(ops(import(softmax(13, {kDynamic, 5, 1, 1}, 1))) == "Reshape Softmax Reshape");
  // All of a picture in the old way, one row of a picture in the new.
  const std::vector<float> flattened = evaluate(import(softmax(9, {kDynamic, 1, 2, 2}, {})), {0, 0, 0, 0});
  CHECK(flattened == std::vector<float>{0.25F, 0.25F, 0.25F, 0.25F});
  const std::vector<float> rows = evaluate(import(softmax(13, {kDynamic, 1, 2, 2}, {})), {0, 0, 0, 0});
  CHECK(rows == std::vector<float>(4, 0.5F));
  require_refused(softmax(13, {kDynamic, 5}, 0), ErrorCode::unsupported, {"Softmax", "axis", "0", "opset 13", "batch"});
  require_refused(softmax(11, {kDynamic, 5}, 0), ErrorCode::unsupported, {"axis", "0"});
}

TEST_CASE("Softmax along one of several axes") {
  // In (2, 3, 2), every number but two is 0: they take the whole of their row.
  const std::vector<float> picture{0, 200, 0, 0, 0, 0, 0, 0, 0, 0, 200, 0};
  const auto softmax = [&](std::int64_t opset, std::int64_t axis) {
    OnnxBuilder builder = network(opset, {kDynamic, 2, 3, 2});
    builder.node("Softmax", {"x"}, {"y"}).attr("axis", axis);
    return evaluate(import(builder), picture);
  };
  const float third = 1.0F / 3.0F;
  CHECK(softmax(13, 1) == std::vector<float>{0.5F, 1, 0.5F, 0.5F, 0, 0.5F, 0.5F, 0, 0.5F, 0.5F, 1, 0.5F});
  CHECK(softmax(13, 2) == std::vector<float>{third, 1, third, 0, third, 0, 0, third, 0, third, 1, third});
  const std::vector<float> last{0, 1, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 1, 0};
  CHECK(softmax(13, -1) == last);
  CHECK(softmax(9, 3) == last);
  CHECK(softmax(11, 2) == std::vector<float>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0});
}
