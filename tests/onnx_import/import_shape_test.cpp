// Reshapes of activations, shape arithmetic on constants, and what becomes of the batch.

#include <limits>

#include "import_support.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

// A model that reshapes the picture by a list of numbers.
OnnxBuilder reshape(const Dims& target, const Dims& input = {kDynamic, 2, 4, 4}, std::int64_t opset = 13) {
  OnnxBuilder builder = network(opset, input);
  builder.ints("shape", {static_cast<std::int64_t>(target.size())}, target);
  builder.node("Reshape", {"x", "shape"}, {"y"}, "reshape");
  return builder;
}

// The value that a chain of nodes, ending in "c", computes: used as the extents after the batch of a reshape of 2x4x4.
Shape reshaped_by(OnnxBuilder builder) {
  builder.ints("batch", {1}, {0}).node("Concat", {"batch", "c"}, {"shape"}).attr("axis", 0);
  builder.node("Reshape", {"x", "shape"}, {"y"});
  return import(builder).output_desc().shape;
}

}  // namespace

TEST_CASE("Reshape keeps the batch, whether it is written as 0, -1 or a number") {
  CHECK(import(reshape({0, -1})).output_desc().shape == Shape{1, 32});
  CHECK(import(reshape({-1, 32})).output_desc().shape == Shape{1, 32});
  CHECK(import(reshape({0, 0, 16})).output_desc().shape == Shape{1, 2, 16});
  CHECK(import(reshape({0, 4, -1, 2})).output_desc().shape == Shape{1, 4, 4, 2});
  CHECK(import(reshape({1, 32}, {1, 2, 4, 4})).output_desc().shape == Shape{1, 32});
  CHECK(import(reshape({1, -1}, {1, 2, 4, 4})).output_desc().shape == Shape{1, 32});
  CHECK(import(reshape({8, -1}, {8, 2, 4, 4})).output_desc().shape == Shape{1, 32});
  OnnxBuilder allow_zero = reshape({-1, 32}, {kDynamic, 2, 4, 4}, 14);
  OnnxNode(*allow_zero.graph().mutable_node(0)).attr("allowzero", 1);
  CHECK(import(allow_zero).output_desc().shape == Shape{1, 32});
}

TEST_CASE("a Reshape that mixes pictures is refused") {
  require_refused(reshape({-1}), ErrorCode::unsupported, {"node #0 'reshape' (Reshape)", "batch", "32*N"});
  require_refused(reshape({1, -1}), ErrorCode::unsupported, {"[1,32*N]", "batch"});
  require_refused(reshape({-1, 16}), ErrorCode::unsupported, {"[2*N,16]"});
  require_refused(reshape({2, -1, 16}), ErrorCode::unsupported, {"[2,N,16]"});
  require_refused(reshape({32}, {1, 2, 4, 4}), ErrorCode::unsupported, {"[32]", "batch"});
  require_refused(reshape({4, 24}, {3, 2, 4, 4}), ErrorCode::unsupported, {"[4,24]", "[N,2,4,4]", "batch"});
  require_refused(reshape({-1, 2, 6}, {3, 2, 4, 4}), ErrorCode::unsupported, {"[-1,2,6]", "batch"});
  require_refused(reshape({4, 25}, {3, 2, 4, 4}), ErrorCode::invalid_model, {"[4,25]", "elements"});
  require_refused(reshape({-1, 5}, {3, 2, 4, 4}), ErrorCode::invalid_model, {"[-1,5]", "divide"});
  require_refused(reshape({33}), ErrorCode::invalid_model, {"[33]", "elements"});
}

TEST_CASE("Flatten, Squeeze and Unsqueeze keep the batch") {
  const auto one = [](std::int64_t opset, const std::string& op, const Dims& input, std::optional<std::int64_t> axis) {
    OnnxBuilder builder = network(opset, input);
    OnnxNode node = builder.node(op, {"x"}, {"y"});
    if (axis) node.attr("axis", *axis);
    return builder;
  };
  CHECK(import(one(9, "Flatten", {kDynamic, 2, 4, 4}, {})).output_desc().shape == Shape{1, 32});
  CHECK(import(one(11, "Flatten", {kDynamic, 2, 4, 4}, -3)).output_desc().shape == Shape{1, 32});
  CHECK(import(one(13, "Flatten", {kDynamic, 1, 4, 4}, 2)).output_desc().shape == Shape{1, 16});
  require_refused(one(13, "Flatten", {kDynamic, 2, 4, 4}, 0), ErrorCode::unsupported, {"Flatten", "[1,32*N]"});
  require_refused(one(13, "Flatten", {kDynamic, 2, 4, 4}, 2), ErrorCode::unsupported, {"[2*N,16]"});
  CHECK(import(one(9, "Squeeze", {kDynamic, 2, 1, 1}, {})).output_desc().shape == Shape{1, 2});
  require_refused(one(9, "Squeeze", {1, 2, 1, 1}, {}), ErrorCode::unsupported, {"Squeeze", "batch"});

  OnnxBuilder squeeze = network(11, {1, 2, 1, 1});
  squeeze.node("Squeeze", {"x"}, {"y"}).ints("axes", {2, -1});
  CHECK(import(squeeze).output_desc().shape == Shape{1, 2});
  for (const std::int64_t opset : {13, 21}) {
    OnnxBuilder newer = network(opset, {kDynamic, 2, 1, 1});
    newer.ints("axes", {2}, {3, 2}).node("Squeeze", {"x", "axes"}, {"flat"});
    newer.ints("back", {1}, {-1}).node("Unsqueeze", {"flat", "back"}, {"y"});
    CHECK(import(newer).output_desc().shape == Shape{1, 2, 1});
  }
  OnnxBuilder unsqueeze = network(11, {kDynamic, 6});
  unsqueeze.node("Unsqueeze", {"x"}, {"y"}).ints("axes", {3, 2});
  CHECK(import(unsqueeze).output_desc().shape == Shape{1, 6, 1, 1});
  OnnxBuilder in_front = network(11, {kDynamic, 6});
  in_front.node("Unsqueeze", {"x"}, {"y"}).ints("axes", {0});
  require_refused(in_front, ErrorCode::unsupported, {"[1,N,6]"});
}

TEST_CASE("Transpose permutes a picture, not the batch") {
  OnnxBuilder builder = network(13, {kDynamic, 3, 4, 5});
  builder.node("Transpose", {"x"}, {"y"}).ints("perm", {0, 2, 3, 1});
  CHECK(import(builder).output_desc().shape == Shape{1, 4, 5, 3});
  OnnxBuilder reversed = network(13);
  reversed.node("Transpose", {"x"}, {"y"});
  require_refused(reversed, ErrorCode::unsupported, {"(Transpose)", "the network's output 'y'"});
  OnnxBuilder read = network(13, {kDynamic, 2, 4});
  read.node("Transpose", {"x"}, {"turned"}).ints("perm", {1, 0, 2});
  read.node("Relu", {"turned"}, {"y"}, "act");
  require_refused(read, ErrorCode::unsupported, {"'act' (Relu)", "input #0 'turned'", "the batch as axis 1"});
}

// As attention parts queries, keys and values: (N, T, 3, C) with the three in front, then one of them taken.
TEST_CASE("a Transpose may move the batch where a part of the axes before it is taken") {
  const std::vector<float> input = from_one(24);  // (1, 2, 3, 4)
  const std::vector<float> second{5, 6, 7, 8, 17, 18, 19, 20};
  const auto moved = [](OnnxBuilder& builder) {
    builder.node("Transpose", {"x"}, {"turned"}).ints("perm", {2, 0, 1, 3});
    builder.ints("zero", {1}, {0}).ints("one", {1}, {1}).ints("two", {1}, {2}).ints("index", {}, {1});
  };
  OnnxBuilder gather = network(13, {kDynamic, 2, 3, 4});
  moved(gather);
  gather.node("Gather", {"turned", "index"}, {"y"}).attr("axis", 0);
  CHECK(import(gather).output_desc().shape == Shape{1, 2, 4});
  CHECK(evaluate(import(gather), input) == second);
  OnnxBuilder slice = network(13, {kDynamic, 2, 3, 4});
  moved(slice);
  slice.node("Slice", {"turned", "one", "two", "zero"}, {"part"});
  slice.node("Squeeze", {"part", "zero"}, {"y"});
  CHECK(evaluate(import(slice), input) == second);
  OnnxBuilder split = network(11, {kDynamic, 2, 3, 4});
  moved(split);
  split.node("Split", {"turned"}, {"a", "b", "c"}).attr("axis", 0);
  split.node("Squeeze", {"b"}, {"y"}).ints("axes", {0});
  CHECK(evaluate(import(split), input) == second);
  OnnxBuilder back = network(13, {kDynamic, 2, 3, 4});
  moved(back);
  back.node("Transpose", {"turned"}, {"y"}).ints("perm", {1, 2, 0, 3});
  CHECK(evaluate(import(back), input) == input);
  OnnxBuilder batch = network(13, {kDynamic, 2, 3, 4});
  moved(batch);
  batch.node("Gather", {"turned", "index"}, {"y"}, "pick").attr("axis", 1);
  require_refused(batch, ErrorCode::unsupported, {"'pick' (Gather)", "not along the batch"});
}

// The class token of a vision transformer, as both of PyTorch's exporters expand it to the batch.
TEST_CASE("a constant that is the same for each image is joined to activations") {
  const auto joined = [](OnnxBuilder& builder, const char* token) {
    builder.node("Concat", {token, "x"}, {"y"}).attr("axis", 1);
    const Graph graph = import(builder);
    CHECK(graph.output_desc().shape == Shape{1, 3, 2});
    CHECK(evaluate(graph, {1, 2, 3, 4}) == std::vector<float>{7, 8, 1, 2, 3, 4});
  };
  OnnxBuilder plain = network(17, {kDynamic, 2, 2});
  plain.floats("token", {1, 1, 2}, {7, 8});
  plain.node("Shape", {"x"}, {"batch"}).attr("end", 1);
  plain.ints("ones", {2}, {1, 1}).node("Concat", {"batch", "ones"}, {"shape"}).attr("axis", 0);
  plain.node("Expand", {"token", "shape"}, {"tokens"});
  joined(plain, "tokens");
  OnnxBuilder chosen = network(17, {kDynamic, 2, 2});
  chosen.floats("token", {1, 1, 2}, {7, 8});
  chosen.node("Shape", {"x"}, {"batch"}).attr("end", 1);
  chosen.ints("keep", {2}, {-1, -1}).node("Concat", {"batch", "keep"}, {"wanted"}).attr("axis", 0);
  chosen.ints("minus", {1}, {-1}).ints("ones", {3}, {1, 1, 1});
  chosen.node("Equal", {"wanted", "minus"}, {"kept"});
  chosen.node("Where", {"kept", "ones", "wanted"}, {"shape"});
  chosen.node("Expand", {"token", "shape"}, {"tokens"});
  joined(chosen, "tokens");
  OnnxBuilder fixed = network(17, {2, 2, 2});
  fixed.floats("token", {2, 1, 2}, {7, 8, 7, 8});
  joined(fixed, "token");
  OnnxBuilder differing = network(17, {2, 2, 2});
  differing.floats("token", {2, 1, 2}, {7, 8, 7, 9});
  differing.node("Concat", {"token", "x"}, {"y"}, "join").attr("axis", 1);
  require_refused(differing, ErrorCode::unsupported, {"'join' (Concat)", "input #0 'token'", "2x1x2"});
  OnnxBuilder between = network(17, {kDynamic, 1, 2});
  between.floats("c", {1, 1, 1}, {5});
  between.node("Concat", {"c", "x", "c", "x"}, {"y"}).attr("axis", 2);
  CHECK(evaluate(import(between), {1, 2}) == std::vector<float>{5, 1, 2, 5, 1, 2});
  OnnxBuilder unknown = network(17, {kDynamic, 2, 2});
  unknown.node("Shape", {"x"}, {"batch"}).attr("end", 1);
  unknown.ints("three", {1}, {3}).node("Equal", {"batch", "three"}, {"same"}, "compare");
  unknown.node("Reshape", {"x", "same"}, {"y"});
  require_refused(unknown, ErrorCode::unsupported, {"'compare' (Equal)", "depends on the batch"});
}

TEST_CASE("Slice takes parts of activations, in both of its forms") {
  const auto evaluated = [](const Dims& starts, const Dims& ends, const Dims& axes, std::int64_t opset) {
    OnnxBuilder builder = network(opset, {kDynamic, 2, 2, 3});
    if (opset < 10) {
      builder.node("Slice", {"x"}, {"y"}).ints("starts", starts).ints("ends", ends).ints("axes", axes);
    } else {
      const auto count = static_cast<std::int64_t>(axes.size());
      builder.ints("s", {count}, starts).ints("e", {count}, ends).ints("a", {count}, axes);
      builder.node("Slice", {"x", "s", "e", "a"}, {"y"});
    }
    return evaluate(import(builder), from_one(12));
  };
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t opset : {9, 13}) {
    CHECK(evaluated({1}, {kEnd}, {1}, opset) == std::vector<float>{7, 8, 9, 10, 11, 12});
    CHECK(evaluated({-2}, {-1}, {-1}, opset) == std::vector<float>{2, 5, 8, 11});
    CHECK(evaluated({0, 1, 0}, {kEnd, 2, 2}, {0, 1, 3}, opset) == std::vector<float>{7, 8, 10, 11});
    CHECK(evaluated({0}, {kEnd}, {2}, opset) == from_one(12));
  }
}

TEST_CASE("Split gives equal parts, given parts, and since opset 18 a smaller last one") {
  // The parts in opposite order.
  const auto swapped = [](OnnxBuilder& builder, const std::vector<std::string>& inputs) {
    return builder.node("Split", inputs, {"a", "b"}, "split").attr("axis", 1);
  };
  const auto join = [](OnnxBuilder& builder) {
    builder.node("Concat", {"b", "a"}, {"y"}).attr("axis", 1);
    return evaluate(import(builder), from_one(3));
  };
  OnnxBuilder given = network(11, {kDynamic, 3});
  swapped(given, {"x"}).ints("split", {1, 2});
  CHECK(join(given) == std::vector<float>{2, 3, 1});
  OnnxBuilder input = network(13, {kDynamic, 3});
  swapped(input.ints("parts", {2}, {2, 1}), {"x", "parts"});
  CHECK(join(input) == std::vector<float>{3, 1, 2});
  OnnxBuilder uneven = network(18, {kDynamic, 3});
  swapped(uneven, {"x"}).attr("num_outputs", 2);
  CHECK(join(uneven) == std::vector<float>{3, 1, 2});
  OnnxBuilder equal = network(6, {kDynamic, 4});
  equal.node("Split", {"x"}, {"unused", "y"}).attr("axis", -1);
  CHECK(evaluate(import(equal), from_one(4)) == std::vector<float>{3, 4});
  CHECK(import(equal).value(import(equal).output()).name == "y");
}

TEST_CASE("Pad adds channels, with or without a border") {
  const auto pad = [](const Dims& pads) {
    OnnxBuilder builder = network(13, {kDynamic, 2, 1, 2});
    builder.ints("pads", {8}, pads).floats("value", {}, {9}).node("Pad", {"x", "pads", "value"}, {"y"});
    return import(builder);
  };
  CHECK(evaluate(pad({0, 1, 0, 0, 0, 0, 0, 0}), from_one(4)) == std::vector<float>{9, 9, 1, 2, 3, 4});
  const Graph both = pad({0, 0, 0, 1, 0, 1, 0, 0});
  CHECK(both.output_desc().shape == Shape{1, 3, 1, 3});
  CHECK(evaluate(both, from_one(4)) == std::vector<float>{9, 1, 2, 9, 3, 4, 9, 9, 9});
}

TEST_CASE("Pad repeats the border or mirrors the picture") {
  const auto padded = [](const std::string& mode, const Dims& pads) {
    OnnxBuilder builder = network(9, {kDynamic, 1, 2, 3});
    builder.node("Pad", {"x"}, {"y"}).ints("pads", pads).attr("mode", mode);
    return evaluate(import(builder), from_one(6));
  };
  CHECK(padded("edge", {0, 0, 1, 0, 0, 0, 0, 2}) == std::vector<float>{1, 2, 3, 3, 3, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6});
  CHECK(padded("reflect", {0, 0, 0, 2, 0, 0, 1, 1}) ==
        std::vector<float>{3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5, 3, 2, 1, 2, 3, 2});
}

TEST_CASE("Pad surrounds the height and width") {
  OnnxBuilder attributes = network(9);
  attributes.node("Pad", {"x"}, {"y"}).ints("pads", {0, 0, 1, 2, 0, 0, 3, 4}).attr("value", 0.5F);
  CHECK(op_at<Pad>(import(attributes)).pads == Padding{1, 2, 3, 4});
  CHECK(op_at<Pad>(import(attributes)).value == 0.5F);
  OnnxBuilder inputs = network(13);
  inputs.ints("pads", {8}, {0, 0, 0, 0, 0, 0, 1, 1})
      .floats("value", {}, {2})
      .node("Pad", {"x", "pads", "value"}, {"y"});
  CHECK(op_at<Pad>(import(inputs)).pads == Padding{0, 0, 1, 1});
  CHECK(op_at<Pad>(import(inputs)).value == 2);
  OnnxBuilder axes = network(18);
  axes.ints("pads", {4}, {1, 2, 3, 4}).ints("axes", {2}, {-1, 2}).node("Pad", {"x", "pads", "", "axes"}, {"y"});
  CHECK(op_at<Pad>(import(axes)).pads == Padding{2, 1, 4, 3});
  OnnxBuilder none = network(11);
  none.ints("pads", {8}, {0, 0, 0, 0, 0, 0, 0, 0}).node("Pad", {"x", "pads"}, {"y"});
  CHECK(ops(import(none)) == "Identity");
}

TEST_CASE("Identity, Dropout and casts between floats change nothing") {
  const auto one = [](std::int64_t opset, const std::string& op) {
    OnnxBuilder builder = network(opset);
    builder.node(op, {"x"}, {"y"});
    return builder;
  };
  CHECK(ops(import(one(13, "Identity"))) == "Identity");
  CHECK(ops(import(one(7, "Dropout"))) == "Identity");
  CHECK(ops(import(one(13, "Dropout"))) == "Identity");
  for (const std::int64_t type : {1, 10, 11, 16}) {
    OnnxBuilder cast = network(13);
    cast.node("Cast", {"x"}, {"y"}).attr("to", type);
    CHECK(ops(import(cast)) == "Identity");
  }
  OnnxBuilder to_int = network(13);
  to_int.node("Cast", {"x"}, {"y"}).attr("to", 7);
  require_refused(to_int, ErrorCode::unsupported, {"Cast", "'to'", "INT64"});
  require_refused(one(6, "Dropout"), ErrorCode::unsupported, {"is_test", "eval()"});
  OnnxBuilder training = network(13);
  training.graph().add_initializer()->CopyFrom(tensor("yes", {}, std::vector<std::int64_t>{1}));
  training.graph().mutable_initializer(0)->set_data_type(onnx_schema::TensorProto::BOOL);
  training.graph().mutable_initializer(0)->set_raw_data(std::string(1, '\1'));
  training.node("Dropout", {"x", "", "yes"}, {"y"});
  require_refused(training, ErrorCode::unsupported, {"Dropout", "eval()"});
}

TEST_CASE("the reshape chains of old exporters fold: Shape, Gather, Unsqueeze, Concat") {
  for (const Dims& input : {Dims{kDynamic, 2, 4, 4}, Dims{1, 2, 4, 4}, Dims{3, 2, 4, 4}}) {
    OnnxBuilder builder = network(11, input);
    builder.node("Shape", {"x"}, {"s"});
    builder.node("Constant", {}, {"zero"}).attr("value", tensor("", {}, std::vector<std::int64_t>{0}));
    builder.node("Gather", {"s", "zero"}, {"n"}).attr("axis", 0);
    builder.node("Unsqueeze", {"n"}, {"n1"}).ints("axes", {0});
    builder.node("Constant", {}, {"rest"}).attr("value", tensor("", {1}, std::vector<std::int64_t>{-1}));
    builder.node("Concat", {"n1", "rest"}, {"shape"}).attr("axis", 0);
    builder.node("Reshape", {"x", "shape"}, {"y"});
    const Graph graph = import(builder);
    CHECK(ops(graph) == "Reshape");
    CHECK(graph.output_desc().shape == Shape{1, 32});
  }
}

TEST_CASE("arithmetic on the batch is exact or refused") {
  const auto chain = [](const std::string& op, std::int64_t operand) {
    OnnxBuilder builder = network(13);
    builder.ints("zero", {1}, {0}).ints("k", {1}, {operand}).ints("rest", {1}, {-1});
    builder.node("Shape", {"x"}, {"s"});
    builder.node("Gather", {"s", "zero"}, {"n"});
    builder.node("Mul", {"n", "k"}, {"many"});
    builder.node(op, {"many", "k"}, {"m"}, "last");
    builder.node("Concat", {"m", "rest"}, {"shape"}).attr("axis", 0);
    builder.node("Reshape", {"x", "shape"}, {"y"});
    return builder;
  };
  CHECK(import(chain("Div", 2)).output_desc().shape == Shape{1, 32});  // 2N / 2
  require_refused(chain("Mul", 2), ErrorCode::unsupported, {"[4*N,8]"});
  require_refused(chain("Add", 2), ErrorCode::unsupported, {"'last'", "2*N + 2", "batch"});
  require_refused(chain("Max", 2), ErrorCode::unsupported, {"'last'", "2*N > 2"});
  OnnxBuilder halved = chain("Div", 1);
  halved.ints("two", {1}, {2}).graph().mutable_node(3)->set_input(1, "two");
  require_refused(halved, ErrorCode::unsupported, {"'last'", "N / 2"});
}

TEST_CASE("shape arithmetic folds") {
  const auto base = [] {
    OnnxBuilder builder = network(13);
    builder.ints("one", {1}, {1}).ints("two", {1}, {2}).ints("zero", {1}, {0}).ints("all", {4}, {0, 2, 4, 4});
    return builder;
  };
  OnnxBuilder slice = base();
  slice.ints("end", {1}, {9}).node("Slice", {"all", "one", "end"}, {"c"});
  CHECK(reshaped_by(slice) == Shape{1, 2, 4, 4});
  OnnxBuilder backwards = base();
  backwards.ints("from", {1}, {-1}).ints("to", {1}, {-4}).ints("step", {1}, {-1});
  backwards.node("Slice", {"all", "from", "to", "zero", "step"}, {"c"});
  CHECK(reshaped_by(backwards) == Shape{1, 4, 4, 2});
  OnnxBuilder reversed = base();
  reversed.ints("sizes", {3}, {2, 4, 4}).ints("from", {1}, {-1}).ints("step", {1}, {-1});
  reversed.ints("to", {1}, {std::numeric_limits<std::int64_t>::min()});
  reversed.node("Slice", {"sizes", "from", "to", "zero", "step"}, {"c"});
  CHECK(reshaped_by(reversed) == Shape{1, 4, 4, 2});
  OnnxBuilder gather = base();
  gather.ints("pick", {3}, {-1, 1, 2}).node("Gather", {"all", "pick"}, {"c"});
  CHECK(reshaped_by(gather) == Shape{1, 4, 2, 4});
  OnnxBuilder filled = base();
  filled.ints("n", {1}, {5})
      .node("ConstantOfShape", {"n"}, {"c"})
      .attr("value", tensor("", {1}, std::vector<std::int64_t>{2}));
  CHECK(reshaped_by(filled) == Shape{1, 2, 2, 2, 2, 2});
  OnnxBuilder range = base();
  range.ints("a", {}, {1}).ints("b", {}, {8}).ints("s", {}, {3}).node("Range", {"a", "b", "s"}, {"r"});  // 1 4 7
  range.ints("f", {3}, {1, 0, 1}).ints("g", {3}, {0, 4, 1}).node("Mul", {"r", "f"}, {"m"});
  range.node("Add", {"m", "g"}, {"c"});  // 1 4 8
  CHECK(reshaped_by(range) == Shape{1, 1, 4, 8});
  OnnxBuilder transpose = base();
  transpose.ints("m", {2, 2}, {2, 4, 4, 1}).node("Transpose", {"m"}, {"t"}).ints("perm", {1, 0});
  transpose.ints("flat", {1}, {-1}).node("Reshape", {"t", "flat"}, {"c"});
  CHECK(reshaped_by(transpose) == Shape{1, 2, 4, 4, 1});
  OnnxBuilder expand = base();
  expand.ints("n", {1}, {5}).node("Expand", {"two", "n"}, {"c"});
  CHECK(reshaped_by(expand) == Shape{1, 2, 2, 2, 2, 2});
}

TEST_CASE("floating-point shape arithmetic folds: the padding that a stride of 2 needs") {
  OnnxBuilder builder = network(13, {kDynamic, 2, 7, 7});
  builder.node("Shape", {"x"}, {"s"});
  builder.ints("two", {1}, {2}).floats("stride", {1}, {2}).node("Gather", {"s", "two"}, {"h"});
  builder.node("Cast", {"h"}, {"hf"}).attr("to", 1);
  builder.node("Div", {"hf", "stride"}, {"half"});
  builder.node("Ceil", {"half"}, {"up"});
  builder.node("Floor", {"half"}, {"down"});
  builder.node("Mul", {"up", "down"}, {"product"});  // 4 * 3
  builder.node("Neg", {"product"}, {"minus"});
  builder.floats("hundred", {1}, {100}).node("Add", {"minus", "hundred"}, {"rest"});  // 88
  builder.floats("ten", {1}, {10}).node("Sub", {"rest", "ten"}, {"n"});               // 78
  builder.floats("hundreds", {1}, {98}).node("Min", {"n", "hundreds"}, {"least"});
  builder.node("Max", {"least", "ten"}, {"most"});
  builder.floats("twenty", {1}, {20}).node("Add", {"most", "twenty"}, {"sum"});  // 98
  builder.node("Cast", {"sum"}, {"extent"}).attr("to", 7);
  builder.ints("batch", {1}, {0}).node("Concat", {"batch", "extent"}, {"shape"}).attr("axis", 0);
  builder.node("Reshape", {"x", "shape"}, {"y"});
  CHECK(import(builder).output_desc().shape == Shape{1, 98});
}

TEST_CASE("Constant has six forms of number") {
  for (const std::string form : {"value", "value_int", "value_ints"}) {
    CAPTURE(form);
    OnnxBuilder builder = network(13);
    OnnxNode node = builder.node("Constant", {}, {"n"});
    if (form == "value") node.attr("value", tensor("", {1}, std::vector<std::int64_t>{32}));
    if (form == "value_int") node.attr("value_int", 32);
    if (form == "value_ints") node.ints("value_ints", {32});
    builder.ints("one", {1}, {1}).node("Reshape", {"n", "one"}, {"c"});
    CHECK(reshaped_by(builder) == Shape{1, 32});
  }
  for (const std::string form : {"value", "value_float", "value_floats"}) {
    CAPTURE(form);
    OnnxBuilder builder = network(13);
    OnnxNode node = builder.node("Constant", {}, {"c"});
    if (form == "value") node.attr("value", tensor("", {}, std::vector<float>{6}));
    if (form == "value_float") node.attr("value_float", 6.0F);
    if (form == "value_floats") node.floats("value_floats", {6});
    builder.node("Min", {"x", "c"}, {"y"});
    CHECK(op_at<Clip>(import(builder)).activation == Activation{-kInf, 6});
  }
}

TEST_CASE("operators that make sense between constants only say so") {
  OnnxBuilder builder = network(13);
  builder.node("Log", {"x"}, {"y"});
  require_refused(builder, ErrorCode::unsupported, {"Log", "constants only"});
}

TEST_CASE("SplitToSequence and SequenceAt cut an activation as Split does") {
  // A split scalar (1 without), a list, or none, and the part asked for.
  const auto of = [](const std::optional<Dims>& parts, bool list, std::int64_t index, bool keep = true) {
    OnnxBuilder builder = network(18, {kDynamic, 3, 2});
    builder.ints("i", {}, {index});
    std::vector<std::string> inputs{"x"};
    if (parts) {
      builder.ints("p", list ? Dims{static_cast<std::int64_t>(parts->size())} : Dims{}, *parts);
      inputs.emplace_back("p");
    }
    OnnxNode node = builder.node("SplitToSequence", inputs, {"parts"});
    node.attr("axis", -2);
    if (!keep) node.attr("keepdims", 0);
    builder.node("SequenceAt", {"parts", "i"}, {"y"});
    return import(builder);
  };
  using Floats = std::vector<float>;
  CHECK(evaluate(of(Dims{2}, false, 0), from_one(6)) == Floats{1, 2, 3, 4});
  CHECK(evaluate(of(Dims{2}, false, 1), from_one(6)) == Floats{5, 6});
  CHECK(evaluate(of(Dims{1, 2}, true, -1), from_one(6)) == Floats{3, 4, 5, 6});
  CHECK(evaluate(of({}, false, 2), from_one(6)) == Floats{5, 6});
  CHECK(of({}, false, 1).output_desc().shape == Shape{1, 1, 2});
  CHECK(of({}, false, 1, false).output_desc().shape == Shape{1, 2});
  CHECK(of(Dims{2}, false, 1, false).output_desc().shape == Shape{1, 1, 2});  // keepdims is for parts of 1 only
  // One part of a billion is one Slice.
  OnnxBuilder many = network(18, {kDynamic, 1000000000});
  many.ints("i", {}, {999999999}).node("SplitToSequence", {"x"}, {"parts"}).attr("axis", 1);
  many.node("SequenceAt", {"parts", "i"}, {"y"});
  CHECK(ops(import(many)) == "Slice");
}

TEST_CASE("a channel shuffle as PyTorch writes it without optimising") {
  OnnxBuilder builder = network(18, {kDynamic, 4, 1, 2});
  builder.ints("two", {}, {2}).ints("first", {}, {0}).ints("second", {}, {1});
  builder.ints("groups", {5}, {0, 2, 2, 1, 2}).ints("joined", {4}, {0, 4, 1, 2});
  builder.node("SplitToSequence", {"x", "two"}, {"halves"}).attr("axis", 1);
  builder.node("SequenceAt", {"halves", "first"}, {"a"});
  builder.node("SequenceAt", {"halves", "second"}, {"b"});
  builder.node("Neg", {"b"}, {"branch"});
  builder.node("Concat", {"a", "branch"}, {"both"}).attr("axis", 1);
  builder.node("Reshape", {"both", "groups"}, {"grouped"});
  builder.node("Transpose", {"grouped"}, {"turned"}).ints("perm", {0, 2, 1, 3, 4});
  builder.node("Reshape", {"turned", "joined"}, {"y"});
  CHECK(evaluate(import(builder), from_one(8)) == std::vector<float>{1, 2, -5, -6, 3, 4, -7, -8});
}

TEST_CASE("Split leaves out parts of 0 that nobody reads") {
  OnnxBuilder builder = network(18, {kDynamic, 3});
  builder.ints("p", {3}, {2, 0, 1}).node("Split", {"x", "p"}, {"y", "none", "rest"}).attr("axis", 1);
  CHECK(evaluate(import(builder), {1, 2, 3}) == std::vector<float>{1, 2});
}

TEST_CASE("Slice takes every other row or column of an image, as Focus and some shortcuts do") {
  const auto of = [](std::int64_t axis, std::int64_t first, std::int64_t end, std::int64_t step) {
    OnnxBuilder builder = network(13, {kDynamic, 1, 3, 5});
    builder.ints("s", {1}, {first}).ints("e", {1}, {end}).ints("a", {1}, {axis}).ints("t", {1}, {step});
    builder.node("Slice", {"x", "s", "e", "a", "t"}, {"y"});
    return evaluate(import(builder), from_one(15));
  };
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  using Floats = std::vector<float>;
  CHECK(of(2, 0, kEnd, 2) == Floats{1, 2, 3, 4, 5, 11, 12, 13, 14, 15});
  CHECK(of(2, 1, kEnd, 2) == Floats{6, 7, 8, 9, 10});
  CHECK(of(3, 1, kEnd, 2) == Floats{2, 4, 7, 9, 12, 14});
  CHECK(of(-1, 0, -1, 3) == Floats{1, 4, 6, 9, 11, 14});
  CHECK(of(3, 1, 4, 9) == Floats{2, 7, 12});
}

TEST_CASE("Gather puts the channels of an activation in another order") {
  const auto of = [](const Dims& dims, const Dims& indices, std::int64_t axis) {
    OnnxBuilder builder = network(13, {kDynamic, 3, 1, 2});
    builder.ints("i", dims, indices).node("Gather", {"x", "i"}, {"y"}).attr("axis", axis);
    return import(builder);
  };
  using Floats = std::vector<float>;
  CHECK(evaluate(of({3}, {2, 1, 0}, 1), from_one(6)) == Floats{5, 6, 3, 4, 1, 2});
  CHECK(evaluate(of({4}, {1, 2, -3, 1}, 1), from_one(6)) == Floats{3, 4, 5, 6, 1, 2, 3, 4});
  CHECK(ops(of({2}, {1, 2}, 1)) == "Slice");
  CHECK(evaluate(of({}, {1}, -1), from_one(6)) == Floats{2, 4, 6});
  CHECK(of({}, {1}, 1).output_desc().shape == Shape{1, 1, 2});
}

TEST_CASE("an input of three axes that becomes an image is said to lack the batch") {
  OnnxBuilder builder = network(13, {3, 4, 4});
  builder.ints("a", {1}, {0}).node("Unsqueeze", {"x", "a"}, {"y"}, "batch");
  require_refused(builder, ErrorCode::unsupported, {"'batch' (Unsqueeze)", "[1,N,4,4]", "rank 3", "(N, C, H, W)"});
}

TEST_CASE("Range may say how half precision is added up") {
  OnnxBuilder builder = network(28, {kDynamic, 2, 3});
  builder.ints("a", {}, {0}).ints("e", {}, {2}).ints("s", {}, {1});
  builder.node("Range", {"a", "e", "s"}, {"axes"}).attr("stash_type", 1);
  builder.ints("six", {2}, {0, 6}).node("Mul", {"axes", "six"}, {"target"});
  builder.node("Reshape", {"x", "target"}, {"y"});
  CHECK(import(builder).output_desc().shape == Shape{1, 6});
}

// The picture 1 to 12 in (2, 2, 3), whose channels are turned to the end, cut in two along an axis, and joined the
// other way round.
TEST_CASE("parts of a value whose channels come last are parts of its image") {
  struct Case {
    bool tokens;  // (N, 6, 2) instead of (N, 2, 3, 2)
    std::int64_t axis;
    std::vector<std::int64_t> parts;
    std::vector<float> expected;  // in the order of the image
  };
  const std::vector<Case> cases{
      {false, 3, {1, 1}, {7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6}},
      {false, 2, {1, 2}, {2, 3, 1, 5, 6, 4, 8, 9, 7, 11, 12, 10}},
      {false, -3, {1, 1}, {4, 5, 6, 1, 2, 3, 10, 11, 12, 7, 8, 9}},
      {true, 2, {1, 1}, {7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6}},
      {true, 1, {2, 4}, {3, 4, 5, 6, 1, 2, 9, 10, 11, 12, 7, 8}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.tokens, c.axis);
    OnnxBuilder builder = network(13, {kDynamic, 2, 2, 3});
    builder.ints("parts", {2}, c.parts);
    if (c.tokens) {
      builder.ints("flat", {3}, {0, 2, 6}).node("Reshape", {"x", "flat"}, {"rows"});
      builder.node("Transpose", {"rows"}, {"last"}).ints("perm", {0, 2, 1});
    } else {
      builder.node("Transpose", {"x"}, {"last"}).ints("perm", {0, 2, 3, 1});
    }
    builder.node("Split", {"last", "parts"}, {"a", "b"}).attr("axis", c.axis);
    builder.node("Concat", {"b", "a"}, {"joined"}).attr("axis", c.axis);
    builder.node("Transpose", {"joined"}, {"y"})
        .ints("perm", c.tokens ? std::vector<std::int64_t>{0, 2, 1} : std::vector<std::int64_t>{0, 3, 1, 2});
    const Graph graph = import(builder);
    CHECK(evaluate(graph, from_one(12)) == c.expected);
    CHECK(ops(graph).find("Transpose") == std::string::npos);
  }
}

TEST_CASE("Concat joins activations along any axis but the batch") {
  struct Case {
    std::int64_t axis;
    Shape shape;
    std::vector<float> expected;
  };
  // The picture 1 to 8 in (2, 2, 2), joined to its opposite.
  for (const Case& c : {Case{1, Shape{1, 4, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8}},
                        Case{-3, Shape{1, 4, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8}},
                        Case{2, Shape{1, 2, 4, 2}, {1, 2, 3, 4, -1, -2, -3, -4, 5, 6, 7, 8, -5, -6, -7, -8}},
                        Case{-1, Shape{1, 2, 2, 4}, {1, 2, -1, -2, 3, 4, -3, -4, 5, 6, -5, -6, 7, 8, -7, -8}}}) {
    CAPTURE(c.axis);
    OnnxBuilder builder = network(13, {kDynamic, 2, 2, 2});
    builder.floats("minus", {}, {-1}).node("Mul", {"x", "minus"}, {"opposite"});
    builder.node("Concat", {"x", "opposite"}, {"y"}).attr("axis", c.axis);
    const Graph graph = import(builder);
    CHECK(graph.output_desc().shape == c.shape);
    CHECK(evaluate(graph, from_one(8)) == c.expected);
  }
  OnnxBuilder one = network(6);
  one.node("Concat", {"x"}, {"y"}).attr("axis", 1);
  CHECK(ops(import(one)) == "Identity");
  OnnxBuilder features = network(13, {kDynamic, 2});
  features.node("Concat", {"x", "x", "x"}, {"y"}).attr("axis", 1);
  CHECK(evaluate(import(features), {1, 2}) == std::vector<float>{1, 2, 1, 2, 1, 2});
}
