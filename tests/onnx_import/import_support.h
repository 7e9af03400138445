#pragma once

// What the importer's tests share: small models of one operator, and looks into the graph made of them.

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/error.h>
#include <mobicuda/graph.h>
#include <mobicuda/onnx_import.h>

#include "support/catch.h"
#include "support/onnx_builder.h"

namespace mobicuda::test {

/// A model with the input "x" and the output "y", for nodes to be added between them.
inline OnnxBuilder network(std::int64_t opset, const Dims& input = {kDynamic, 2, 4, 4}) {
  OnnxBuilder builder(opset);
  builder.input("x", input).output("y");
  return builder;
}

inline Graph import(const OnnxBuilder& builder, const onnx_import::ImportOptions& options = {}) {
  const std::string bytes = builder.bytes();
  if (const char* folder = std::getenv("MOBICUDA_SAVE_MODELS")) {  // scripts/fuzz begins with them
    builder.write(std::string(folder) + "/" + std::to_string(std::hash<std::string>{}(bytes)));
  }
  return onnx_import::load_from_memory(as_bytes(bytes), "test.onnx", options);
}

/// The node at that position as a T; fails the test when it is another op.
template <class T>
const T& op_at(const Graph& graph, std::size_t position = 0) {
  INFO(print(graph));
  REQUIRE(position < graph.nodes().size());
  REQUIRE(std::holds_alternative<T>(graph.nodes()[position].op));
  return std::get<T>(graph.nodes()[position].op);
}

/// The names of the ops, in order: "Conv2d Clip".
inline std::string ops(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) text += (text.empty() ? "" : " ") + std::string(op_name(node.op));
  return text;
}

/// The elements of a constant input of a node.
inline std::vector<float> constant_of(const Graph& graph, std::size_t node, std::size_t input) {
  const Value& value = graph.value(graph.nodes()[node].inputs[input]);
  REQUIRE(value.constant != nullptr);
  const auto data = value.constant->data<float>();
  return {data.begin(), data.end()};
}

/// Output of one picture, computed in double precision and rounded once.
inline std::vector<float> evaluate(const Graph& graph, const std::vector<float>& input) {
  EngineOptions options;
  options.precision = Precision::Fp64;
  options.threads = 1;
  const auto session = make_cpu_backend()->compile(graph, options)->create_session();
  std::vector<float> output(static_cast<std::size_t>(graph.output_desc().shape.elements()));
  session->run(input, output);
  return output;
}

/// Importing must throw Error with that code, and its text must contain all the words.
inline void require_refused(const OnnxBuilder& builder, ErrorCode code, const std::vector<std::string>& words,
                            const onnx_import::ImportOptions& options = {}) {
  try {
    import(builder, options);
    FAIL("the model was accepted");
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(to_string(error.code()) == to_string(code));
    for (const std::string& word : words) {
      INFO("expected: " << word);
      CHECK(std::string(error.what()).find(word) != std::string::npos);
    }
  }
}

/// The numbers from 1, as many as asked for.
inline std::vector<float> from_one(std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 1; i <= count; ++i) values.push_back(static_cast<float>(i));
  return values;
}

inline constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace mobicuda::test
