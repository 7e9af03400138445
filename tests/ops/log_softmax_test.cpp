// LogSoftmax from the file to the engines.
#include <cmath>
#include <optional>

#include "onnx_import/import_support.h"
#include "ops/op_runs.h"
#include "support/graphs.h"
#include "support/texts.h"

namespace mobicuda::test {
namespace {

using Floats = std::vector<float>;

OnnxBuilder log_softmax(std::int64_t opset, const Dims& input, std::optional<std::int64_t> axis) {
  OnnxBuilder builder = network(opset, input);
  OnnxNode node = builder.node("LogSoftmax", {"x"}, {"y"}, "log");
  if (axis) node.attr("axis", *axis);
  return builder;
}

void check_near(const Floats& actual, const Floats& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i, actual[i], expected[i]);
    CHECK(std::abs(actual[i] - expected[i]) <= 1e-6F * std::max(1.0F, std::abs(expected[i])));
  }
}

TEST_CASE("LogSoftmax flattens before opset 13 and takes one axis since") {
  CHECK(ops(import(log_softmax(11, {kDynamic, 5}, {}))) == "LogSoftmax");
  CHECK(ops(import(log_softmax(13, {kDynamic, 5}, {}))) == "LogSoftmax");
  CHECK(ops(import(log_softmax(13, {kDynamic, 5, 1, 1}, 1))) == "Reshape LogSoftmax Reshape");
  // All of a picture in the old way, one row of a picture in the new.
  const float log2 = std::log(2.0F);
  const Dims picture{kDynamic, 1, 2, 2};
  check_near(evaluate(import(log_softmax(9, picture, {})), {7, 7, 7, 7}), Floats(4, -2 * log2));
  check_near(evaluate(import(log_softmax(13, picture, {})), {7, 7, 7, 7}), Floats(4, -log2));
  check_near(evaluate(import(log_softmax(9, picture, 3)), {7, 7, 7, 7}), Floats(4, -log2));
}

TEST_CASE("LogSoftmax along one of several axes is finite where a softmax would be 0") {
  const Floats x{0, 200, 0, 0, 0, 0, 0, 0, 0, 0, 200, 0};
  const auto of_axis = [&](std::int64_t axis) {
    return evaluate(import(log_softmax(13, {kDynamic, 2, 3, 2}, axis)), x);
  };
  const float half = -std::log(2.0F);
  const float third = -std::log(3.0F);
  check_near(of_axis(1), {half, 0, half, half, -200, half, half, -200, half, half, 0, half});
  check_near(of_axis(2), {third, 0, third, -200, third, -200, -200, third, -200, third, 0, third});
  check_near(of_axis(-1), {-200, 0, half, half, half, half, half, half, half, half, 0, -200});
}

TEST_CASE("LogSoftmax is refused over the batch and over an axis that is not there") {
  require_refused(log_softmax(13, {kDynamic, 5}, 0), ErrorCode::unsupported,
                  {"'log' (LogSoftmax)", "axis", "opset 13", "batch"});
  require_refused(log_softmax(11, {kDynamic, 5}, -2), ErrorCode::unsupported, {"'log' (LogSoftmax)", "axis -2"});
  require_refused(log_softmax(13, {kDynamic, 5}, 2), ErrorCode::invalid_model, {"'log' (LogSoftmax)", "got 2"});
  CHECK(contains(refusal(LogSoftmax{}, Shape{1}), "'op' (LogSoftmax): input 'x': must have channels on axis 1, got 1"));
}

TEST_CASE("LogSoftmax is printed with its shape") {
  CHECK(contains(printed(LogSoftmax{}, Shape{1, 7}), "LogSoftmax"));
  CHECK(contains(printed(LogSoftmax{}, Shape{1, 7}), "1x7"));
}

TEST_CASE("LogSoftmax on every engine equals the oracle", "[engines]") {
  TestNetwork network(Shape{1, 3, 6, 5});
  network.conv(19, 3, 1, {1, 1, 1, 1});
  network.add(LogSoftmax{}, {network.last()});  // of each pixel
  network.conv(8, 1);
  network.add(Reshape{Shape{1, 8, 30}}, {network.last()});
  network.add(LogSoftmax{}, {network.last()});  // columns that lie apart
  network.add(Reshape{Shape{1, 8 * 30}}, {network.last()});
  network.gemm(11);
  network.add(LogSoftmax{}, {network.last()});
  check_engines(std::move(network).build(), 27 + 19 + 19 + 8 + 240 + 11);
}

}  // namespace
}  // namespace mobicuda::test
