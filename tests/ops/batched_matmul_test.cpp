// MatMul of activations, and of tokens with weights, from the file to the engines.
#include "onnx_import/import_support.h"
#include "ops/op_runs.h"
#include "support/graphs.h"
#include "support/texts.h"

namespace mobicuda::test {
namespace {

using Floats = std::vector<float>;

TEST_CASE("MatMul of two activations multiplies matrix by matrix") {
  OnnxBuilder builder = network(13, {kDynamic, 2, 1, 2});
  builder.node("Transpose", {"x"}, {"turned"}).ints("perm", {0, 1, 3, 2});
  builder.node("MatMul", {"turned", "x"}, {"y"});
  const Graph graph = import(builder);
  CHECK(contains(ops(graph), "BatchedMatMul"));
  CHECK(evaluate(graph, {1, 2, 3, 4}) == Floats{1, 2, 2, 4, 9, 12, 12, 16});
}

TEST_CASE("MatMul of tokens with a matrix is a pointwise convolution, which its bias goes into") {
  OnnxBuilder builder = network(13, {kDynamic, 2, 3});
  builder.floats("w", {3, 2}, {1, 0, 0, 1, 1, 1}).floats("bias", {2}, {10, 20});
  builder.node("MatMul", {"x", "w"}, {"product"});
  builder.node("Add", {"bias", "product"}, {"sum"});
  builder.node("Relu", {"sum"}, {"y"});
  const Graph graph = optimize(import(builder));
  INFO(print(graph));
  CHECK(contains(ops(graph), "Conv2d"));
  CHECK(!contains(ops(graph), "ScaleShift"));
  CHECK(evaluate(graph, {1, 2, 3, -40, 5, 6}) == Floats{14, 25, 0, 31});
}

TEST_CASE("MatMul of (N, H, W, C) between two transpositions needs neither") {
  OnnxBuilder builder = network(13, {kDynamic, 2, 1, 2});
  builder.floats("w", {2, 2}, {1, 2, 3, 4});
  builder.node("Transpose", {"x"}, {"nhwc"}).ints("perm", {0, 2, 3, 1});
  builder.node("MatMul", {"nhwc", "w"}, {"product"});
  builder.node("Transpose", {"product"}, {"y"}).ints("perm", {0, 3, 1, 2});
  const Graph graph = optimize(import(builder));
  INFO(print(graph));
  CHECK(!contains(ops(graph), "Transpose"));
  CHECK(evaluate(graph, {1, 0, 0, 1}) == Floats{1, 3, 2, 4});
}

TEST_CASE("MatMul is refused where matrices do not fit") {
  OnnxBuilder rows = network(13, {kDynamic, 2, 3});
  rows.node("MatMul", {"x", "x"}, {"y"}, "product");
  require_refused(rows, ErrorCode::invalid_model, {"'product' (MatMul)", "input #1 'x'", "2 rows", "3 columns"});
  OnnxBuilder matrices = network(13, {kDynamic, 4});
  matrices.node("MatMul", {"x", "x"}, {"y"}, "product");
  require_refused(matrices, ErrorCode::unsupported, {"'product' (MatMul)", "1x4", "cannot be multiplied as matrices"});
  OnnxBuilder features = network(13, {kDynamic, 2, 3});
  features.floats("w", {2, 2}, {1, 2, 3, 4});
  features.node("MatMul", {"x", "w"}, {"y"}, "product");
  require_refused(features, ErrorCode::invalid_model, {"'product' (MatMul)", "takes 2 features, but the input has 3"});
}

Graph product_of(const Shape& left, const Shape& right) {
  GraphBuilder builder("test");
  const ValueId x = builder.set_input("x", {DType::F32, Shape{1, 12}, Layout::NCHW});
  const Origin origin{{{0, "op", "BatchedMatMul"}}};
  const ValueId a = builder.add_node(Reshape{left}, {x}, origin, "a");
  const ValueId b = builder.add_node(Reshape{right}, {x}, origin, "b");
  const ValueId y = builder.add_node(BatchedMatMul{}, {a, b}, origin, "y");
  return std::move(builder).build(y);
}

TEST_CASE("BatchedMatMul refuses matrices that do not fit") {
  const auto refused = [](const Shape& left, const Shape& right) -> std::string {
    try {
      product_of(left, right);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_model);
      return error.what();
    }
    return "no error";
  };
  CHECK(contains(refused(Shape{1, 12}, Shape{1, 12}), "input 'A': must have rank 3 or more, got 1x12"));
  CHECK(contains(refused(Shape{1, 3, 4}, Shape{1, 3, 4}), "input 'B': of shape 1x3x4 does not fit 'A' of shape 1x3x4"));
  CHECK(contains(refused(Shape{1, 3, 2, 2}, Shape{1, 1, 2, 6}), "does not fit"));
  CHECK(refused(Shape{1, 3, 4}, Shape{1, 4, 3}) == "no error");
}

TEST_CASE("BatchedMatMul is printed with its shape") {
  CHECK(contains(print(product_of(Shape{1, 3, 4}, Shape{1, 4, 3})), "BatchedMatMul"));
}

// Attention as networks have it: scores of tokens by their products, their softmax, weighted values.
TEST_CASE("BatchedMatMul on every engine equals the oracle", "[engines]") {
  TestNetwork network(Shape{1, 6, 5, 4});
  const ValueId x = network.conv(24, 1);
  const auto heads = [&](std::int64_t first) {
    Slice part;
    part.first = first;
    part.extent = 8;
    network.add(part, {x});
    return network.add(Reshape{Shape{1, 2, 4, 20}}, {network.last()});
  };
  const ValueId queries = network.add(Transpose{{0, 1, 3, 2}}, {heads(0)});
  const ValueId scores = network.add(BatchedMatMul{}, {queries, heads(8)});
  network.add(Softmax{}, {network.add(Transpose{{0, 3, 1, 2}}, {scores})});
  const ValueId weights = network.add(Transpose{{0, 2, 1, 3}}, {network.last()});
  network.add(BatchedMatMul{}, {heads(16), weights});
  network.add(Reshape{Shape{1, 8, 5, 4}}, {network.last()});
  network.conv(7, 3);
  check_engines(std::move(network).build(), 6 + 4 + 20 + 20 + 72);
}

}  // namespace
}  // namespace mobicuda::test
