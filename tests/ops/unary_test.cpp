// Functions of single elements from the file to the engines.
#include <cmath>

#include "onnx_import/import_support.h"
#include "ops/op_runs.h"
#include "support/graphs.h"
#include "support/texts.h"

namespace mobicuda::test {
namespace {

using Floats = std::vector<float>;

constexpr float kHalfRoot = 0.707106769F;  // as exporters write 1 / sqrt 2
constexpr float kRoot = 1.41421354F;

void check_near(const Floats& actual, const Floats& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i, actual[i], expected[i]);
    CHECK(std::abs(actual[i] - expected[i]) <= 1e-6F * std::max(1.0F, std::abs(expected[i])));
  }
}

Floats of_one_node(std::int64_t opset, const char* op, const Floats& x) {
  OnnxBuilder builder = network(opset, {kDynamic, static_cast<std::int64_t>(x.size()), 1, 1});
  builder.node(op, {"x"}, {"y"});
  return evaluate(import(builder), x);
}

TEST_CASE("functions are those of ONNX") {
  check_near(of_one_node(9, "Erf", {-1, 0, 0.5F}), {-0.842700793F, 0, 0.520499878F});
  check_near(of_one_node(20, "Gelu", {-1, 0, 2}), {-0.158655254F, 0, 1.954499736F});
  check_near(of_one_node(6, "Softplus", {-1, 0, 100}), {0.313261688F, 0.693147181F, 100});
  check_near(of_one_node(6, "Sqrt", {0, 2, 9}), {0, 1.414213562F, 3});
  check_near(of_one_node(6, "Reciprocal", {-4, 0.5F, 8}), {-0.25F, 2, 0.125F});
  check_near(of_one_node(6, "Exp", {-1, 0, 1}), {0.367879441F, 1, 2.718281828F});
  check_near(of_one_node(6, "Abs", {-2, 0, 3}), {2, 0, 3});
  check_near(of_one_node(6, "Selu", {-1, 0, 2}), {-1.111330738F, 0, 2.101402F});
  check_near(of_one_node(18, "Mish", {-1, 0, 2}), {-0.303401461F, 0, 1.943958998F});
}

TEST_CASE("Gelu has the form that the file asks for") {
  OnnxBuilder builder = network(20, {kDynamic, 3, 1, 1});
  builder.node("Gelu", {"x"}, {"y"}).attr("approximate", "tanh");
  const Graph graph = import(builder);
  CHECK(op_at<Unary>(graph).kind == UnaryKind::GeluTanh);
  check_near(evaluate(graph, {-1, 0, 2}), {-0.158808009F, 0, 1.954597694F});
  OnnxBuilder other = network(20);
  other.node("Gelu", {"x"}, {"y"}, "act").attr("approximate", "cubic");
  require_refused(other, ErrorCode::invalid_model, {"'act' (Gelu)", "attribute 'approximate'", "'cubic'"});
  OnnxBuilder early = network(19);
  early.node("Gelu", {"x"}, {"y"});
  require_refused(early, ErrorCode::invalid_model, {"Gelu", "opset 19"});
}

// x * (1 + erf(x / sqrt 2)) / 2 as PyTorch, Keras and others write it.
TEST_CASE("Gelu written out becomes one function") {
  const auto write = [](OnnxBuilder& builder, bool divides, int place_of_half) {
    builder.floats("root", {1}, {divides ? kRoot : kHalfRoot}).floats("one", {1}, {1}).floats("half", {1}, {0.5F});
    builder.node(divides ? "Div" : "Mul", {"x", "root"}, {"scaled"});
    builder.node("Erf", {"scaled"}, {"erf"});
    builder.node("Add", {"erf", "one"}, {"sum"});
    if (place_of_half == 0) {
      builder.node("Mul", {"half", "x"}, {"before"});
      builder.node("Mul", {"before", "sum"}, {"y"});
    } else if (place_of_half == 1) {
      builder.node("Mul", {"sum", "half"}, {"gate"});
      builder.node("Mul", {"x", "gate"}, {"y"});
    } else {
      builder.node("Mul", {"x", "sum"}, {"product"});
      builder.node("Mul", {"product", "half"}, {"y"});
    }
  };
  for (const bool divides : {false, true}) {
    for (const int place : {0, 1, 2}) {
      CAPTURE(divides, place);
      OnnxBuilder builder = network(13, {kDynamic, 3, 1, 1});
      write(builder, divides, place);
      const Graph graph = optimize(import(builder));
      CHECK(contains(ops(graph), "Gelu"));
      CHECK(!contains(ops(graph), "Erf"));
      CHECK(!contains(ops(graph), "Mul"));
      check_near(evaluate(graph, {-1, 0, 2}), {-0.158655254F, 0, 1.954499736F});
    }
  }
}

TEST_CASE("what is not quite Gelu stays what it is") {
  const auto check = [](float root, float one, float half) {
    OnnxBuilder builder = network(13, {kDynamic, 3, 1, 1});
    builder.floats("root", {1}, {root}).floats("one", {1}, {one}).floats("half", {1}, {half});
    builder.node("Div", {"x", "root"}, {"scaled"});
    builder.node("Erf", {"scaled"}, {"erf"});
    builder.node("Add", {"erf", "one"}, {"sum"});
    builder.node("Mul", {"x", "sum"}, {"product"});
    builder.node("Mul", {"product", "half"}, {"y"});
    const Graph graph = optimize(import(builder));
    CHECK(!contains(ops(graph), "Gelu"));
    const float x = 1.5F;
    check_near(evaluate(graph, {x, 0, -x}),
               {half * x * (one + std::erf(x / root)), 0, half * -x * (one + std::erf(-x / root))});
  };
  check(1.5F, 1.0F, 0.5F);
  check(kRoot, 0.5F, 0.5F);
  check(kRoot, 1.0F, 0.25F);
}

TEST_CASE("an activation divides another, which it may repeat for") {
  OnnxBuilder builder = network(13, {kDynamic, 2, 1, 2});
  builder.node("GlobalAveragePool", {"x"}, {"mean"});
  builder.node("Div", {"x", "mean"}, {"y"});
  check_near(evaluate(import(builder), {1, 3, 2, 6}), {0.5F, 1.5F, 0.5F, 1.5F});
  OnnxBuilder turned = network(13, {kDynamic, 2, 1, 2});
  turned.node("GlobalAveragePool", {"x"}, {"mean"});
  turned.node("Div", {"mean", "x"}, {"y"}, "quotient");
  require_refused(turned, ErrorCode::unsupported, {"'quotient' (Div)", "input #1 'x'", "1x2x1x2", "1x2x1x1"});
  OnnxBuilder one = network(13, {kDynamic, 2, 1, 1});
  one.floats("four", {1}, {4});
  one.node("Div", {"four", "x"}, {"y"});
  check_near(evaluate(import(one), {2, -8}), {2, -0.5F});
}

TEST_CASE("a constant may vary over height and width, or over any axis") {
  OnnxBuilder builder = network(13, {kDynamic, 2, 1, 3});
  builder.floats("c", {2, 1, 3}, {1, 2, 3, 4, 5, 6});
  builder.node("Add", {"x", "c"}, {"y"});
  CHECK(evaluate(import(builder), {0, 0, 0, 10, 10, 10}) == Floats{1, 2, 3, 14, 15, 16});
  OnnxBuilder columns = network(13, {kDynamic, 2, 2, 3});
  columns.floats("c", {3}, {1, 2, 3});
  columns.node("Mul", {"x", "c"}, {"y"});
  CHECK(evaluate(import(columns), {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}) == Floats{1, 2, 3, 2, 4, 6, 3, 6, 9, 4, 8, 12});
  OnnxBuilder rows = network(13, {kDynamic, 2, 2, 2});
  rows.floats("c", {2, 1}, {1, 2});
  rows.node("Sub", {"x", "c"}, {"y"});
  CHECK(evaluate(import(rows), {1, 1, 1, 1, 2, 2, 2, 2}) == Floats{0, 0, -1, -1, 1, 1, 0, 0});
}

TEST_CASE("functions are printed by their names") {
  CHECK(contains(printed(Unary{UnaryKind::Gelu}, Shape{1, 8, 4, 4}), "Gelu"));
  CHECK(contains(printed(Unary{UnaryKind::Reciprocal}, Shape{1, 8, 4, 4}), "Reciprocal"));
}

TEST_CASE("functions on every engine equal the oracle", "[engines]") {
  for (const UnaryKind kind :
       {UnaryKind::Erf, UnaryKind::Gelu, UnaryKind::GeluTanh, UnaryKind::Softplus, UnaryKind::Exp}) {
    CAPTURE(op_name(Op{Unary{kind}}));
    TestNetwork network(Shape{1, 6, 9, 8});
    network.conv(16, 3, 1, {1, 1, 1, 1});
    network.add(Unary{kind}, {network.last()});
    network.conv(7, 1);
    check_engines(std::move(network).build(), 54 + 16);
  }
}

TEST_CASE("roots and reciprocals on every engine equal the oracle", "[engines]") {
  TestNetwork network(Shape{1, 6, 9, 8});
  const ValueId x = network.conv(16, 3, 1, {1, 1, 1, 1});
  const ValueId positive = network.add(Unary{UnaryKind::Softplus}, {x});
  const ValueId root = network.add(Unary{UnaryKind::Sqrt}, {positive});
  network.add(Mul{}, {x, network.add(Unary{UnaryKind::Reciprocal}, {root})});
  network.conv(7, 1);
  check_engines(std::move(network).build(), 54 + 16);
}

}  // namespace
}  // namespace mobicuda::test
