// Max and Min from the file to the engines.
#include <cmath>
#include <limits>
#include <string>

#include "onnx_import/import_support.h"
#include "ops/op_runs.h"
#include "support/graphs.h"
#include "support/texts.h"

namespace mobicuda::test {
namespace {

using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A picture of 2 channels of 2 x 2.
const Dims kPicture{kDynamic, 2, 2, 2};
const Floats kInput{1, -2, 3, -4, -5, 6, -7, 8};

OnnxBuilder of(const std::string& op, const std::vector<std::string>& inputs, std::int64_t opset = 13) {
  OnnxBuilder builder = network(opset, kPicture);
  builder.node("Neg", {"x"}, {"negative"});
  builder.node("ReduceMean", {"x"}, {"means"}).ints("axes", {2, 3});   // -0.5 and 0.5
  builder.node("ReduceMax", {"x"}, {"largest"}).ints("axes", {1, 2});  // 3 and 8
  builder.floats("zero", {}, {0}).floats("three", {1, 1, 1}, {3}).floats("bounds", {2, 1, 1}, {2, -6});
  builder.floats("columns", {2}, {0, 2}).floats("infinite", {2, 1, 1}, {kInf, -kInf}).floats("unbounded", {}, {-kInf});
  builder.node(op, inputs, {"y"}, "extremum");
  return builder;
}

TEST_CASE("Max and Min of one, two and more activations") {
  CHECK(ops(import(of("Max", {"x"}))) == "Identity");
  CHECK(evaluate(import(of("Min", {"x"})), kInput) == kInput);
  CHECK(ops(import(of("Max", {"x", "negative"}))) == "ScaleShift Max");
  CHECK(evaluate(import(of("Max", {"x", "negative"})), kInput) == Floats{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(evaluate(import(of("Min", {"x", "negative"})), kInput) == Floats{-1, -2, -3, -4, -5, -6, -7, -8});
  CHECK(ops(import(of("Min", {"x", "negative", "x"}))) == "ScaleShift Min");
  CHECK(ops(import(of("Max", {"x", "x"}))) == "Identity");
  CHECK(evaluate(import(of("Max", {"means", "x", "negative"})), kInput) == Floats{1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("Max and Min repeat the smaller activation, whichever side it is on") {
  const Floats larger{1, -0.5F, 3, -0.5F, 0.5F, 6, 0.5F, 8};
  const Floats smaller{-0.5F, -2, -0.5F, -4, -5, 0.5F, -7, 0.5F};
  CHECK(evaluate(import(of("Max", {"x", "means"})), kInput) == larger);
  CHECK(evaluate(import(of("Max", {"means", "x"})), kInput) == larger);
  CHECK(evaluate(import(of("Min", {"means", "x"})), kInput) == smaller);
  CHECK(evaluate(import(of("Min", {"x", "means"}, 8)), kInput) == smaller);
  // Of which neither repeats to the other, but each to x.
  CHECK(evaluate(import(of("Max", {"means", "largest", "x"})), kInput) == Floats{3, 8, 3, 8, 3, 8, 3, 8});
}

TEST_CASE("constants of Max and Min with one value are one clip, in whatever place") {
  CHECK(ops(import(of("Max", {"zero", "x"}))) == "Clip");
  CHECK(op_at<Clip>(import(of("Max", {"x", "zero"}))).activation == Activation::relu());
  CHECK(op_at<Clip>(import(of("Max", {"zero", "x", "three"}))).activation == Activation{3, kInf});
  CHECK(ops(import(of("Max", {"x", "unbounded"}))) == "Identity");
  const Graph graph = import(of("Max", {"zero", "x", "three", "negative"}));
  CHECK(ops(graph) == "ScaleShift Max Clip");
  CHECK(evaluate(graph, kInput) == Floats{3, 3, 3, 4, 5, 6, 7, 8});
  CHECK(contains(print(optimize(graph)), "clip(3,inf)"));
}

TEST_CASE("constants of Max and Min may differ from place to place, and may be infinite") {
  CHECK(evaluate(import(of("Max", {"x", "bounds"})), kInput) == Floats{2, 2, 3, 2, -5, 6, -6, 8});
  CHECK(evaluate(import(of("Min", {"bounds", "x"})), kInput) == Floats{1, -2, 2, -4, -6, -6, -7, -6});
  CHECK(evaluate(import(of("Max", {"columns", "x"})), kInput) == Floats{1, 2, 3, 2, 0, 6, 0, 8});
  CHECK(evaluate(import(of("Min", {"x", "three", "columns"})), kInput) == Floats{0, -2, 0, -4, -5, 2, -7, 2});
  CHECK(evaluate(import(of("Max", {"x", "infinite"})), kInput) == Floats{kInf, kInf, kInf, kInf, -5, 6, -7, 8});
  const Floats edges{kNan, -kInf, kInf, 0, kNan, -kInf, kInf, 0};
  const Floats bounded = evaluate(import(of("Max", {"x", "bounds"})), edges);
  CHECK(std::isnan(bounded[0]));
  CHECK(std::isnan(bounded[4]));
  CHECK(Floats(bounded.begin() + 1, bounded.begin() + 4) == Floats{2, kInf, 2});
  CHECK(Floats(bounded.begin() + 5, bounded.end()) == Floats{-6, kInf, 0});
}

TEST_CASE("Max and Min of channels that come last are those of the image") {
  OnnxBuilder builder = network(13, kPicture);
  builder.node("Transpose", {"x"}, {"last"}).ints("perm", {0, 2, 3, 1});
  builder.floats("w", {2, 2}, {1, 0, 0, -1}).node("MatMul", {"last", "w"}, {"tokens"});
  builder.floats("zero", {}, {0}).floats("bounds", {2}, {2, -6});
  builder.node("Min", {"tokens", "last"}, {"a"});
  builder.node("Max", {"a", "zero", "bounds"}, {"b"});
  builder.node("Transpose", {"b"}, {"y"}).ints("perm", {0, 3, 1, 2});
  CHECK(evaluate(import(builder), kInput) == Floats{2, 2, 3, 2, 0, 0, 0, 0});
}

TEST_CASE("Max and Min between constants take NaN from either side") {
  for (const char* op : {"Max", "Min"}) {
    OnnxBuilder builder = network(13, {kDynamic, 4, 1, 1});
    builder.floats("a", {4, 1, 1}, {kNan, 1, 2, kNan}).floats("b", {4, 1, 1}, {1, kNan, 3, kNan});
    builder.node(op, {"a", "b"}, {"c"});
    builder.node("Add", {"x", "c"}, {"y"});
    const Floats y = evaluate(import(builder), {0, 0, 0, 0});
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y[1]));
    CHECK(y[2] == (op == std::string("Max") ? 3.0F : 2.0F));
    CHECK(std::isnan(y[3]));
  }
}

TEST_CASE("Max and Min are refused with the reason") {
  OnnxBuilder flat = network(13);
  flat.node("Flatten", {"x"}, {"a"}).attr("axis", 1);
  flat.node("Max", {"x", "a"}, {"y"}, "most");
  require_refused(flat, ErrorCode::unsupported, {"node #1 'most' (Max)", "1x2x4x4", "1x32", "opset 13"});
  OnnxBuilder both_ways = network(13);
  both_ways.node("ReduceMean", {"x"}, {"a"}).ints("axes", {2});
  both_ways.node("ReduceMean", {"x"}, {"b"}).ints("axes", {3});
  both_ways.node("Min", {"a", "b"}, {"y"});
  require_refused(both_ways, ErrorCode::unsupported, {"(Min)", "1x2x1x4", "1x2x4x1"});
  require_refused(of("Max", {"x", "means"}, 7), ErrorCode::unsupported,
                  {"'extremum' (Max)", "1x2x2x2", "1x2x1x1", "opset 7", "since opset 8"});
  const Graph graph = import(of("Max", {"x", "negative"}, 6));
  CHECK(ops(graph) == "ScaleShift Max");
}

TEST_CASE("the graph refuses operands of Max and Min that do not fit") {
  for (const ExtremumKind kind : {ExtremumKind::Max, ExtremumKind::Min}) {
    TestNetwork network(Shape{1, 8, 10, 10});
    const ValueId x = network.last();
    const ValueId mean = network.add(GlobalAveragePool{}, {x});
    const std::string name(op_name(Op{Extremum{kind, {}}}));
    const std::string refused = message_of([&] { network.add(Extremum{kind, {}}, {mean, x}, "least"); });
    CHECK(contains(refused, "'least' (" + name + "): input 'B': must have the extents of 'A', 1x8x1x1"));
    CHECK(contains(message_of([&] { network.add(Extremum{kind, {}}, {x}, "least"); }), "input positions"));
  }
}

TEST_CASE("Max and Min are printed by their names") {
  TestNetwork network(Shape{1, 8, 4, 4});
  const ValueId x = network.last();
  const ValueId most = network.add(Extremum{ExtremumKind::Max, Activation::relu6()}, {x, x});
  network.add(Extremum{ExtremumKind::Min, {}}, {most, x});
  const std::string text = print(std::move(network).build());
  CHECK(contains(text, "= Max("));
  CHECK(contains(text, "= Min("));
  CHECK(contains(text, to_string(Activation::relu6())));
}

TEST_CASE("Max and Min on every engine equal the oracle", "[engines]") {
  for (const ExtremumKind kind : {ExtremumKind::Max, ExtremumKind::Min}) {
    for (const bool repeats : {false, true}) {
      CAPTURE(op_name(Op{Extremum{kind, {}}}), repeats);
      TestNetwork network(Shape{1, 6, 9, 8});
      const ValueId left = network.conv(16, 3, 1, {1, 1, 1, 1});
      ValueId right = network.conv(16, 1);
      if (repeats) right = network.add(GlobalAveragePool{}, {right});
      network.add(Extremum{kind, {-0.5F, 0.5F}}, {left, right});
      network.conv(7, 1);
      check_engines(std::move(network).build(), 54 + 16 + 72 + 16);
    }
  }
}

// The max-feature-maps of LightCNN.
TEST_CASE("Max of the halves of the channels on every engine equals the oracle", "[engines]") {
  TestNetwork network(Shape{1, 3, 12, 12});
  const ValueId x = network.conv(24, 3, 1, {1, 1, 1, 1});
  const ValueId first = network.add(Slice{1, 0, 12}, {x});
  network.add(Extremum{}, {first, network.add(Slice{1, 12, 12}, {x})});
  network.conv(10, 3, 2, {1, 1, 1, 1});
  check_engines(std::move(network).build(), 27 + 108);
}

}  // namespace
}  // namespace mobicuda::test
