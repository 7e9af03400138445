// LocalResponseNorm from the file to the engines.
#include <cmath>
#include <limits>

#include "onnx_import/import_support.h"
#include "ops/op_runs.h"
#include "support/graphs.h"
#include "support/texts.h"

namespace mobicuda::test {
namespace {

TEST_CASE("LRN keeps its attributes, and has ONNX's where the file gives none") {
  OnnxBuilder builder = network(13, {kDynamic, 3, 1, 1});
  builder.node("LRN", {"x"}, {"y"}).attr("size", 2).attr("alpha", 4.0F).attr("beta", 0.5F).attr("bias", 2.0F);
  const Graph graph = import(builder);
  const auto& op = op_at<LocalResponseNorm>(graph);
  CHECK(op.size == 2);
  CHECK(op.alpha == 4.0F);
  CHECK(op.beta == 0.5F);
  CHECK(op.bias == 2.0F);
  // Each channel and the one behind it: 2 + 4 / 2 * (1 + 1), 2 + 2 * (1 + 36), 2 + 2 * 36.
  const std::vector<float> y = evaluate(graph, {1, -1, 6});
  CHECK(std::abs(y[0] - 1 / std::sqrt(6.0F)) < 1e-6F);
  CHECK(std::abs(y[1] + 1 / std::sqrt(76.0F)) < 1e-6F);
  CHECK(std::abs(y[2] - 6 / std::sqrt(74.0F)) < 1e-6F);

  OnnxBuilder plain = network(6);
  plain.node("LRN", {"x"}, {"y"}).attr("size", 5);
  CHECK(op_at<LocalResponseNorm>(import(plain)).alpha == 1e-4F);
  CHECK(op_at<LocalResponseNorm>(import(plain)).beta == 0.75F);
  CHECK(op_at<LocalResponseNorm>(import(plain)).bias == 1.0F);
}

TEST_CASE("LRN is refused where its attributes make no sense, and of what is no image") {
  const auto refused = [](ErrorCode code, const std::vector<std::string>& words, auto spoil) {
    OnnxBuilder builder = network(13);
    spoil(builder.node("LRN", {"x"}, {"y"}, "norm"));
    require_refused(builder, code, words);
  };
  constexpr ErrorCode kInvalid = ErrorCode::invalid_model;
  refused(kInvalid, {"test.onnx: ", "'norm' (LRN)", "attribute 'size'", "missing"}, [](OnnxNode) {});
  refused(kInvalid, {"attribute 'size'", "got 0"}, [](OnnxNode n) { n.attr("size", 0); });
  refused(kInvalid, {"attribute 'alpha'", "got -1"}, [](OnnxNode n) { n.attr("size", 3).attr("alpha", -1.0F); });
  refused(kInvalid, {"attribute 'beta'", "nan"},
          [](OnnxNode n) { n.attr("size", 3).attr("beta", std::numeric_limits<float>::quiet_NaN()); });
  refused(ErrorCode::unsupported, {"attribute 'bias'", "got 0"},
          [](OnnxNode n) { n.attr("size", 3).attr("bias", 0.0F); });
  OnnxBuilder matrix = network(13);
  matrix.node("Flatten", {"x"}, {"flat"});
  matrix.node("LRN", {"flat"}, {"y"}).attr("size", 3);
  require_refused(matrix, ErrorCode::unsupported, {"input #0 'flat'", "1x32"});
}

TEST_CASE("LocalResponseNorm refuses a window or factors that make no sense") {
  const auto refused = [](const LocalResponseNorm& op) { return refusal(op, Shape{1, 8, 10, 10}); };
  CHECK(contains(refused({0}), "'op' (LocalResponseNorm): attribute 'size': must be > 0, got 0"));
  CHECK(contains(refused({3, -1.0F}), "attribute 'alpha': must be >= 0 and finite, got -1"));
  CHECK(contains(refused({3, 1.0F, std::numeric_limits<float>::infinity()}), "attribute 'beta'"));
  CHECK(contains(refused({3, 1.0F, 1.0F, 0.0F}), "attribute 'bias': must be > 0"));
}

TEST_CASE("LocalResponseNorm is printed with its attributes") {
  CHECK(contains(printed(LocalResponseNorm{5}, Shape{1, 8, 10, 10}), "size=5 alpha=0.0001 beta=0.75 bias=1  # op"));
}

TEST_CASE("LocalResponseNorm counts the channels around each, in both layouts") {
  LocalResponseNorm op{3, 3.0F, 1.0F, 1.0F};  // x / (1 + sum of squares)
  const TensorDesc nchw{DType::F32, Shape{1, 3, 1, 2}, Layout::NCHW};
  const TensorDesc nhwc{DType::F32, Shape{1, 3, 1, 2}, Layout::NHWC};
  const std::vector<float> planar{1, 2, 3, 4, 5, 6};
  const std::vector<float> pixels{1, 3, 5, 2, 4, 6};
  using Floats = std::vector<float>;
  CHECK(run_alone(op, nchw, planar) == Floats{1.0F / 11, 2.0F / 21, 3.0F / 36, 4.0F / 57, 5.0F / 35, 6.0F / 53});
  CHECK(run_alone(op, nhwc, pixels) == Floats{1.0F / 11, 3.0F / 36, 5.0F / 35, 2.0F / 21, 4.0F / 57, 6.0F / 53});
  op.size = kMaxWindow;  // wider than there are channels
  op.alpha = static_cast<float>(op.size);
  CHECK(run_alone(op, nhwc, pixels) == Floats{1.0F / 36, 3.0F / 36, 5.0F / 36, 2.0F / 57, 4.0F / 57, 6.0F / 57});
}

TEST_CASE("LocalResponseNorm on every engine equals the oracle", "[engines]") {
  TestNetwork network(Shape{1, 6, 9, 8});
  network.conv(16, 3, 1, {1, 1, 1, 1});
  network.add(LocalResponseNorm{5, 1.0F, 0.75F, 2.0F}, {network.last()});
  network.conv(21, 1);
  network.add(LocalResponseNorm{4, 1.0F, 0.5F, 1.0F}, {network.last()});
  network.conv(7, 1);
  check_engines(std::move(network).build(), 54 + 5 + 16 + 4 + 21);
}

}  // namespace
}  // namespace mobicuda::test
