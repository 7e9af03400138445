#include "judge.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <exception>
#include <span>
#include <sstream>
#include <utility>

#include <mobicuda/error.h>
#include <mobicuda/onnx_import.h>

#include "case_forms.h"

namespace mobicuda::conformance {
namespace {

using onnx_schema::TensorProto;

std::string to_text(const TensorProto& tensor) {
  std::string text = "[";
  for (const auto extent : tensor.dims()) text += (text.size() > 1 ? "," : "") + std::to_string(extent);
  return text + "]";
}

bool is_close(double actual, double expected) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected))) return true;
  return std::abs(actual - expected) <= kAbsolute + kRelative * std::abs(expected);
}

/// What differs; empty when nothing does. The batch is not part of a graph's shape.
std::string difference(const Shape& shape, const std::vector<float>& actual, const TensorProto& expected) {
  bool same = static_cast<int>(shape.rank()) == expected.dims_size();
  for (std::size_t axis = 1; same && axis < shape.rank(); ++axis) {
    same = shape[axis] == expected.dims(static_cast<int>(axis));
  }
  const std::vector<float> values = numbers_of(expected);
  if (!same || actual.size() != values.size()) {
    return "the output is " + to_string(shape) + " for each picture, expected " + to_text(expected);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_close(actual[i], values[i])) continue;
    std::ostringstream text;
    text.precision(9);
    text << "element " << i << " is " << actual[i] << ", expected " << values[i];
    return text.str();
  }
  return {};
}

/// The operator in "node #4 'bn' (BatchNormalization), attribute 'x': ..."; empty if there is none.
std::string operator_in(const std::string& message) {
  const std::size_t node = message.find("node #");
  if (node == std::string::npos) return {};
  const std::size_t open = message.find(" (", node);
  const std::size_t close = message.find(')', open);
  if (close == std::string::npos) return {};
  const std::string name = message.substr(open + 2, close - open - 2);
  const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; };
  return std::all_of(name.begin(), name.end(), is_letter) ? name : std::string();
}

Judgement judge_compiled(const OnnxCase& onnx_case, const Graph& graph, const Engine& engine) {
  const std::vector<float> input = numbers_of(*onnx_case.input);
  const auto batch = static_cast<std::size_t>(engine.options().max_batch);
  std::vector<float> output(batch * static_cast<std::size_t>(graph.output_desc().shape.elements()));
  engine.create_session()->run(input, output);
  const std::string wrong = difference(graph.output_desc().shape, output, *onnx_case.expected);
  return wrong.empty() ? Judgement{Verdict::Passed, {}, {}} : Judgement{Verdict::Failed, {}, wrong};
}

// The weights of ONNX's light models are made by nodes: 144 million of them for VGG-19.
constexpr std::int64_t kMostGenerated = std::int64_t{1} << 28;

/// Imports, compiles, runs and compares.
Judgement attempt(const OnnxCase& onnx_case, const std::string& name, const Backend& backend, EngineOptions options,
                  bool in_scope) {
  Verdict refused = Verdict::RefusedByImporter;
  try {
    const std::string bytes = onnx_case.model.SerializeAsString();
    onnx_import::ImportOptions import;
    import.limits.generated_elements = kMostGenerated;
    const Graph graph = onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), name, import);
    if (!is_float(onnx_case.input) || !is_float(onnx_case.expected)) return {Verdict::OutOfScope, {}, {}};
    const std::int64_t picture = graph.input_desc().shape.elements();
    options.max_batch = static_cast<std::int64_t>(numbers_of(*onnx_case.input).size()) / picture;
    refused = Verdict::RefusedByEngine;
    const auto engine = backend.compile(graph, options);
    refused = Verdict::Failed;
    return judge_compiled(onnx_case, graph, *engine);
  } catch (const Error& error) {
    const std::string message = error.what();
    const bool is_valid = !has_no_elements(onnx_case);
    if (is_valid && error.code() != ErrorCode::unsupported) return {Verdict::Failed, {}, message};
    const std::string op = operator_in(message);
    if (in_scope && op.empty()) return {Verdict::Failed, {}, "names no operator: " + message};
    return {refused, op, message};
  } catch (const std::exception& error) {
    return {Verdict::Failed, {}, std::string("threw something else than Error: ") + error.what()};
  }
}

}  // namespace

Judgement judge(const OnnxCase& onnx_case, const std::string& name, const Backend& backend,
                const EngineOptions& options) {
  if (const auto joined = with_joined_activations(onnx_case); joined && !out_of_scope(*joined)) {
    return attempt(*joined, name, backend, options, true);
  }
  const auto scope = out_of_scope(onnx_case);
  Judgement direct = attempt(onnx_case, name, backend, options, !scope);
  if (!scope || direct.verdict == Verdict::Passed) return direct;
  if (direct.verdict == Verdict::Failed) return direct;
  if (const auto folded = with_constant_input(onnx_case)) {
    Judgement constant = attempt(*folded, name, backend, options, false);
    if (constant.verdict == Verdict::Failed) return constant;
    if (constant.verdict == Verdict::Passed) return {Verdict::PassedAsConstant, {}, *scope};
  }
  return {Verdict::OutOfScope, {}, *scope};
}

Judgement judge(const CaseFolder& folder, const Backend& backend, const EngineOptions& options) {
  try {
    const std::vector<OnnxCase> cases = read_cases(folder);
    if (cases.empty()) return {Verdict::OutOfScope, {}, "no output"};
    // The worst output speaks for the model.
    Judgement worst = judge(cases.front(), folder.name, backend, options);
    for (std::size_t i = 1; i < cases.size(); ++i) {
      const Judgement next = judge(cases[i], folder.name, backend, options);
      if (next.verdict > worst.verdict) worst = next;
    }
    return worst;
  } catch (const std::exception& error) {
    return {Verdict::Failed, {}, error.what()};
  }
}

std::string why_unavailable(const Backend& backend, const EngineOptions& options) {
  GraphBuilder builder("probe");
  const ValueId input = builder.set_input("x", {DType::F32, Shape{1, 4}, Layout::NCHW});
  const ValueId output = builder.add_node(Clip{}, {input}, Origin{}, "y");
  try {
    backend.compile(std::move(builder).build(output), options);
    return {};
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_unavailable) return error.message();
    throw;
  }
}

}  // namespace mobicuda::conformance
