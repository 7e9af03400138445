// The judge of ONNX's test models, on models whose verdict is known.

#include "judge.h"

#include <functional>
#include <stdexcept>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/error.h>

#include "report.h"
#include "support/catch.h"
#include "support/onnx_builder.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::conformance;
using namespace mobicuda::test;

namespace {

using Tensor = onnx_schema::TensorProto;

// A test model on disk: x and what else it is fed, then what it must yield.
Judgement judge_files(const OnnxBuilder& model, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                      const Backend& backend = *make_cpu_backend()) {
  const TemporaryFolder folder;
  folder.write("model.onnx", model.bytes());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    folder.write("test_data_set_0/input_" + std::to_string(i) + ".pb", inputs[i].SerializeAsString());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    folder.write("test_data_set_0/output_" + std::to_string(i) + ".pb", outputs[i].SerializeAsString());
  }
  return judge({"node/test", folder.path()}, backend, {});
}

OnnxBuilder unary(const std::string& op_type) {
  OnnxBuilder builder(13);
  builder.input("x", {2, 2}).output("y");
  builder.node(op_type, {"x"}, {"y"});
  return builder;
}

Tensor floats(const Dims& dims, const std::vector<float>& values) { return tensor("", dims, values); }
Tensor matrix(const std::vector<float>& values) { return floats({2, 2}, values); }

const std::vector<float> kInput = {-1, 2, 3, -4};

// An engine that cannot run anything.
class RefusingBackend : public Backend {
 public:
  explicit RefusingBackend(std::function<void(const Graph&)> refuse) : refuse_(std::move(refuse)) {}
  std::string_view name() const noexcept override { return "refusing"; }
  std::optional<std::string> why_unsupported(const Graph&, const Node&, const EngineOptions&) const override {
    return "it runs nothing";
  }
  std::shared_ptr<const Engine> compile(const Graph& graph, const EngineOptions&) const override {
    refuse_(graph);
    return nullptr;
  }

 private:
  std::function<void(const Graph&)> refuse_;
};

Judgement judge_refused(const std::function<void(const Graph&)>& refuse) {
  return judge_files(unary("Relu"), {matrix(kInput)}, {matrix({0, 2, 3, 0})}, RefusingBackend(refuse));
}

bool mentions(const Judgement& judgement, const std::string& words) {
  return judgement.reason.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("the judge passes what is right within ONNX's tolerance, and nothing else") {
  const auto relu = [](const std::vector<float>& expected) {
    return judge_files(unary("Relu"), {matrix(kInput)}, {matrix(expected)});
  };
  CHECK(relu({0, 2, 3, 0}).verdict == Verdict::Passed);
  CHECK(relu({0, 2.001F, 3, 0}).verdict == Verdict::Passed);
  const Judgement wrong = relu({0, 2, 3.01F, 0});
  CHECK(wrong.verdict == Verdict::Failed);
  CHECK(mentions(wrong, "element 2 is 3, expected 3.00"));
  CHECK(relu({1e-6F, 2, 3, 0}).verdict == Verdict::Failed);
  CHECK(relu({0, 2, std::nanf(""), 0}).verdict == Verdict::Failed);
  CHECK(judge_files(unary("Relu"), {matrix({std::nanf(""), 2, 3, -4})}, {matrix({std::nanf(""), 2, 3, 0})}).verdict ==
        Verdict::Passed);
  const Judgement shape = judge_files(unary("Relu"), {matrix(kInput)}, {floats({2, 1, 2}, {0, 2, 3, 0})});
  CHECK(shape.verdict == Verdict::Failed);
  CHECK(mentions(shape, "expected [2,1,2]"));
}

TEST_CASE("the judge makes initializers of parameters") {
  OnnxBuilder gemm(13);
  gemm.input("x", {2, 2}).input("w", {2, 1}).output("y");
  gemm.node("Gemm", {"x", "w"}, {"y"});
  const Tensor weight = floats({2, 1}, {10, 1});
  CHECK(judge_files(gemm, {matrix(kInput), weight}, {floats({2, 1}, {-8, 26})}).verdict == Verdict::Passed);
  CHECK(judge_files(gemm, {matrix(kInput), weight}, {floats({2, 1}, {-8, 25})}).verdict == Verdict::Failed);
}

TEST_CASE("the judge looks at every output") {
  OnnxBuilder split(13);
  split.input("x", {2, 2}).output("a").output("b");
  split.node("Split", {"x"}, {"a", "b"}).attr("axis", 1);
  const auto columns = [&](const std::vector<float>& a, const std::vector<float>& b) {
    return judge_files(split, {matrix(kInput)}, {floats({2, 1}, a), floats({2, 1}, b)}).verdict;
  };
  CHECK(columns({-1, 3}, {2, -4}) == Verdict::Passed);
  CHECK(columns({-1, 3}, {2, -5}) == Verdict::Failed);
  CHECK(columns({-2, 3}, {2, -4}) == Verdict::Failed);
}

TEST_CASE("the judge wants refusals to name the operator, and valid models to be called so") {
  const Judgement unknown = judge_files(unary("Sinh"), {matrix(kInput)}, {matrix(kInput)});
  CHECK(unknown.verdict == Verdict::RefusedByImporter);
  CHECK(unknown.op == "Sinh");
  OnnxBuilder broken(13);
  broken.input("x", {2, 2}).output("y");
  broken.node("Relu", {"absent"}, {"y"});
  CHECK(judge_files(broken, {matrix(kInput)}, {matrix(kInput)}).verdict == Verdict::Failed);

  const Judgement named = judge_refused([](const Graph& graph) {
    throw Error(ErrorCode::unsupported, "graph", "cannot run " + graph.nodes()[0].origin.describe() + ": no kernel");
  });
  CHECK(named.verdict == Verdict::RefusedByEngine);
  CHECK(named.op == "Relu");
  const Judgement nameless = judge_refused([](const Graph&) { throw Error(ErrorCode::unsupported, "", "cannot"); });
  CHECK(nameless.verdict == Verdict::Failed);
  CHECK(mentions(nameless, "names no operator"));
  CHECK(judge_refused([](const Graph&) { throw Error(ErrorCode::internal, "node #0 'r' (Relu)", "bug"); }).verdict ==
        Verdict::Failed);
  const Judgement foreign = judge_refused([](const Graph&) { throw std::out_of_range("index"); });
  CHECK(foreign.verdict == Verdict::Failed);
  CHECK(mentions(foreign, "something else than Error: index"));
}

TEST_CASE("the judge computes from constants what is no network") {
  OnnxBuilder slice(9);
  slice.input("x", {4}).output("y");
  slice.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(Tensor::INT64);
  slice.node("Slice", {"x"}, {"y"}).ints("starts", {1}).ints("ends", {3});
  const auto numbers = [](const std::vector<std::int64_t>& values) {
    return tensor("", {static_cast<std::int64_t>(values.size())}, values);
  };
  const Judgement right = judge_files(slice, {numbers({1, 2, 3, 4})}, {numbers({2, 3})});
  CHECK(right.verdict == Verdict::PassedAsConstant);
  CHECK(right.reason == "an input that is not FLOAT");
  CHECK(judge_files(slice, {numbers({1, 2, 3, 4})}, {numbers({2, 4})}).verdict == Verdict::Failed);
}

TEST_CASE("the judge joins activations into one input") {
  for (const std::int64_t opset : {9, 13}) {
    CAPTURE(opset);
    OnnxBuilder concat(opset);
    concat.input("x", {2, 2}).input("z", {2, 1, 2}).output("y");
    concat.node("Flatten", {"z"}, {"flat"});
    concat.node("Concat", {"x", "flat"}, {"y"}).attr("axis", 1);
    const Tensor z = floats({2, 1, 2}, {10, 11, 12, 13});
    const auto joined = [&](const std::vector<float>& expected) {
      return judge_files(concat, {matrix(kInput), z}, {floats({2, 4}, expected)}).verdict;
    };
    CHECK(joined({-1, 2, 10, 11, 3, -4, 12, 13}) == Verdict::Passed);
    CHECK(joined({-1, 2, 10, 11, 3, -4, 12, 14}) == Verdict::Failed);
  }
  OnnxBuilder pow(13);
  pow.input("x", {2, 2}).input("z", {2, 2}).output("y");
  pow.node("Pow", {"x", "z"}, {"y"});
  const Judgement refused = judge_files(pow, {matrix(kInput), matrix(kInput)}, {matrix(kInput)});
  CHECK(refused.verdict == Verdict::RefusedByImporter);
  CHECK(refused.op == "Pow");
}

TEST_CASE("the judge says why a model is out of scope") {
  OnnxBuilder transpose(13);
  transpose.input("x", {2, 1}).output("y");
  transpose.node("Transpose", {"x"}, {"y"});
  const Judgement batch = judge_files(transpose, {floats({2, 1}, {1, 2})}, {floats({1, 2}, {1, 2})});
  CHECK(batch.verdict == Verdict::PassedAsConstant);
  CHECK(batch.reason == "an output without the input's first axis, the batch");
  OnnxBuilder vector(13);
  vector.input("x", {2}).output("y");
  vector.node("Sinh", {"x"}, {"y"});
  const Tensor pair = floats({2}, {1, 2});
  CHECK(judge_files(vector, {pair}, {pair}).reason == "an input of rank 0 or 1");
  OnnxBuilder old(1);
  old.input("x", {2, 2}).output("y");
  old.node("Relu", {"x"}, {"y"});
  CHECK(judge_files(old, {matrix(kInput)}, {matrix(kInput)}).reason == "an opset before 6, of 2017");
}

TEST_CASE("the gate complains of what it lists and does not pass, and of what passes and is not listed") {
  Summary summary{"custom", "fp32", {}};
  const auto add = [&](const std::string& name, Verdict verdict) {
    summary.results.push_back({name, {verdict, "Relu", "why"}});
  };
  add("a", Verdict::Passed);
  add("b", Verdict::PassedAsConstant);
  add("c", Verdict::RefusedByEngine);
  add("d", Verdict::OutOfScope);
  CHECK(complaints(summary, {"a", "b"}, {}).empty());
  CHECK(complaints(summary, {"a", "b", "c"}, {.engine_may_refuse = true}).empty());
  CHECK(complaints(summary, {"a", "b", "c"}, {}) ==
        std::vector<std::string>{"c: is in the gate and does not pass: why"});
  CHECK(complaints(summary, {"a", "b", "d"}, {.engine_may_refuse = true}).size() == 1);
  CHECK(complaints(summary, {"a"}, {.engine_may_refuse = true}) ==
        std::vector<std::string>{"b: passes and is not in the gate"});
  CHECK(complaints(summary, {"a"}, {.engine_may_refuse = true, .all_listed = false}).empty());
  CHECK(unlisted(summary, {"a"}) == 1);
  add("e", Verdict::Failed);
  CHECK(complaints(summary, {"a", "b"}, {.engine_may_refuse = true}) == std::vector<std::string>{"e: why"});
  CHECK(complaints({"cpu", "fp32", {}}, {"a", "b"}, {}).size() == 1);
}
