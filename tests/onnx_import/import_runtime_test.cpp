// FusedConv and FusedGemm, which ONNX Runtime's optimiser writes at its extended level.

#include <cmath>
#include <optional>

#include "import_support.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

using Floats = std::vector<float>;

// Those domains that ONNX Runtime writes, whatever the model uses.
OnnxBuilder optimised(const Dims& input) {
  OnnxBuilder builder = network(17, input);
  for (const char* domain : {"ai.onnx.ml", "com.microsoft"}) {
    auto& import = *builder.model().add_opset_import();
    import.set_domain(domain);
    import.set_version(1);
  }
  return builder;
}

OnnxNode of_runtime(OnnxNode node) {
  node.proto().set_domain("com.microsoft");
  return node;
}

OnnxBuilder fused_conv(const std::optional<std::string>& activation, const Floats& parameters, bool sum = false) {
  OnnxBuilder builder = optimised({kDynamic, 1, 1, 3});
  builder.floats("w", {1, 1, 1, 1}, {2}).floats("b", {1}, {1});
  std::vector<std::string> inputs{"x", "w", "b"};
  if (sum) inputs.emplace_back("x");
  OnnxNode node = of_runtime(builder.node("FusedConv", inputs, {"y"}, "fused"));
  if (activation) node.attr("activation", *activation);
  if (!parameters.empty()) node.floats("activation_params", parameters);
  node.attr("auto_pad", "NOTSET").ints("kernel_shape", {1, 1}).attr("group", 1);
  return builder;
}

OnnxBuilder fused_gemm(const std::string& activation, std::optional<float> alpha) {
  OnnxBuilder builder = optimised({kDynamic, 2});
  builder.floats("w", {2, 2}, {1, 0, 0, 1}).floats("b", {2}, {0, 1});
  OnnxNode node = of_runtime(builder.node("FusedGemm", {"x", "w", "b"}, {"y"}, "fused"));
  node.attr("activation", activation).attr("transB", 1).attr("alpha", 1.0F);
  if (alpha) node.attr("activation_alpha", *alpha);
  return builder;
}

}  // namespace

TEST_CASE("FusedConv is a convolution, a sum and an activation") {
  const auto of = [](const std::optional<std::string>& activation, const Floats& parameters, bool sum = false) {
    return evaluate(import(fused_conv(activation, parameters, sum)), {-2, 0, 3});  // 2 x + 1: -3, 1, 7
  };
  CHECK(of({}, {}) == Floats{-3, 1, 7});
  CHECK(of("Relu", {}) == Floats{0, 1, 7});
  CHECK(of("Clip", {0, 6}) == Floats{0, 1, 6});
  CHECK(of("LeakyRelu", {0.5F}) == Floats{-1.5F, 1, 7});
  CHECK(of("LeakyRelu", {}) == Floats{-0.03F, 1, 7});
  CHECK(of("HardSigmoid", {0.125F, 0.5F}) == Floats{0.125F, 0.625F, 1});
  CHECK(of("HardSwish", {}) == Floats{0, 4.0F / 6, 7});
  CHECK(std::abs(of("Sigmoid", {})[1] - 0.73105858F) < 1e-6F);
  CHECK(std::abs(of("Tanh", {})[1] - 0.76159416F) < 1e-6F);
  CHECK(of("Relu", {}, true) == Floats{0, 1, 10});
  CHECK(of({}, {}, true) == Floats{-5, 1, 10});
  CHECK(ops(optimize(import(fused_conv("Clip", {0, 6}, true)))) == "LayoutTransform Conv2d");
}

TEST_CASE("FusedGemm is a Gemm and an activation") {
  const auto of = [](const std::string& activation, std::optional<float> alpha = {}) {
    return evaluate(import(fused_gemm(activation, alpha)), {-2, 3});
  };
  CHECK(of("Relu") == Floats{0, 4});
  CHECK(of("LeakyRelu", 0.25F) == Floats{-0.5F, 4});
  CHECK(of("LeakyRelu") == Floats{-0.02F, 4});
  CHECK(std::abs(of("Sigmoid")[0] - 0.11920292F) < 1e-6F);
  CHECK(std::abs(of("Tanh")[0] + 0.96402758F) < 1e-6F);
}

TEST_CASE("QuickGelu is SiLU, and with another factor its like") {
  const auto of = [](std::optional<float> alpha) {
    OnnxBuilder builder = optimised({kDynamic, 1, 1, 2});
    OnnxNode node = of_runtime(builder.node("QuickGelu", {"x"}, {"y"}));
    if (alpha) node.attr("alpha", *alpha);
    return import(builder);
  };
  const auto expected = [](double alpha, double x) { return static_cast<float>(x / (1 + std::exp(-alpha * x))); };
  CHECK(ops(optimize(of(1.0F))) == "LayoutTransform Silu");
  const std::vector<std::pair<std::optional<float>, double>> cases{{{}, 1.702}, {1.0F, 1}, {-2.0F, -2}};
  for (const auto& [given, alpha] : cases) {
    const Floats y = evaluate(of(given), {-1, 3});
    CHECK(std::abs(y[0] - expected(alpha, -1)) < 1e-6F);
    CHECK(std::abs(y[1] - expected(alpha, 3)) < 1e-6F);
  }
}

TEST_CASE("fused operators are refused where they say what is not known") {
  const ErrorCode invalid = ErrorCode::invalid_model;
  const ErrorCode unsupported = ErrorCode::unsupported;
  require_refused(fused_conv("Softplus", {}), unsupported, {"'fused' (FusedConv)", "'Softplus'", "ORT_ENABLE_BASIC"});
  require_refused(fused_conv("Clip", {1}), invalid, {"attribute 'activation_params'", "Clip takes 2"});
  require_refused(fused_conv("Relu", {1}), invalid, {"attribute 'activation_params'", "Relu takes 0"});
  require_refused(fused_conv("LeakyRelu", {kInf}), invalid, {"attribute 'activation_params'", "finite"});
  require_refused(fused_conv("Clip", {std::nanf(""), 1}), invalid, {"attribute 'activation_params'", "finite"});
  require_refused(fused_gemm("LeakyRelu", kInf), invalid, {"attribute 'activation_alpha'", "finite"});
  require_refused(fused_gemm("Selu", {}), unsupported, {"'fused' (FusedGemm)", "'Selu'"});
  OnnxBuilder shapes = fused_conv("Relu", {});
  shapes.graph().mutable_node(0)->add_input("other");
  shapes.ints("a", {1}, {1});
  OnnxBuilder reduced = optimised({kDynamic, 1, 2, 3});
  reduced.floats("w", {1, 1, 1, 1}, {2}).node("GlobalAveragePool", {"x"}, {"z"});
  of_runtime(reduced.node("FusedConv", {"x", "w", "", "z"}, {"y"}));
  require_refused(reduced, unsupported, {"(FusedConv)", "input #3 'z'", "1x1x2x3", "1x1x1x1"});
  OnnxBuilder undeclared = fused_conv("Relu", {});
  undeclared.model().mutable_opset_import()->RemoveLast();
  require_refused(undeclared, invalid, {"(FusedConv)", "'com.microsoft'"});
  OnnxBuilder attribute = fused_conv("Relu", {});
  attribute.graph().mutable_node(0)->add_attribute()->set_name("beta");
  require_refused(attribute, invalid, {"attribute 'beta'", "opset 1"});
}
