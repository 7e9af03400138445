#include "case_forms.h"

#include <algorithm>

#include "model_edits.h"

namespace mobicuda::conformance {

using onnx_schema::ModelProto;
using onnx_schema::NodeProto;
using onnx_schema::TensorProto;

namespace {

struct Part {
  std::string name;
  TensorProto tensor;
  std::int64_t columns = 0;  ///< elements of one picture
};

std::int64_t columns_of(const TensorProto& tensor) {
  std::int64_t columns = 1;
  for (int axis = 1; axis < tensor.dims_size(); ++axis) columns *= tensor.dims(axis);
  return columns;
}

/// The first input, and the activations of the same batch.
std::vector<Part> parts_of(const OnnxCase& original) {
  const auto& graph = original.model.graph();
  const int free_input = first_input(original.model);
  const bool joinable = free_input >= 0 && is_float(original.input) && original.input->dims_size() >= 2;
  if (!joinable || has_no_elements(original)) return {};
  std::vector<Part> parts = {{graph.input(free_input).name(), *original.input, columns_of(*original.input)}};
  const std::vector<std::string> activations = fed_activations(original);
  for (const TensorProto& tensor : graph.initializer()) {
    const bool of_batch = tensor.dims_size() >= 2 && tensor.dims(0) == original.input->dims(0);
    if (of_batch && std::find(activations.begin(), activations.end(), tensor.name()) != activations.end()) {
      parts.push_back({tensor.name(), tensor, columns_of(tensor)});
    }
  }
  return parts;
}

TensorProto join(const std::vector<Part>& parts) {
  std::int64_t columns = 0;
  for (const Part& part : parts) columns += part.columns;
  TensorProto joined = float_matrix(parts.front().tensor.dims(0), columns);
  for (std::int64_t n = 0; n < joined.dims(0); ++n) {
    for (const Part& part : parts) {
      const std::vector<float> values = numbers_of(part.tensor);
      for (std::int64_t i = 0; i < part.columns; ++i) {
        joined.add_float_data(values[static_cast<std::size_t>(n * part.columns + i)]);
      }
    }
  }
  return joined;
}

/// The nodes that cut a part out of `source` and give it its shape, and the constants that they need.
std::vector<NodeProto> cut_out(ModelProto& model, const Part& part, const std::string& source, std::int64_t first) {
  const std::string slice = source + "/" + part.name;
  std::vector<NodeProto> nodes;
  if (standard_opset(model) < 10) {
    nodes.push_back(operation("Slice", {source}, slice));
    for (const auto& [name, value] :
         {std::pair<const char*, std::int64_t>{"axes", 1}, {"starts", first}, {"ends", first + part.columns}}) {
      auto& attribute = *nodes.back().add_attribute();
      attribute.set_name(name);
      attribute.set_type(onnx_schema::AttributeProto::INTS);
      attribute.add_ints(value);
    }
  } else {
    freeze(model, slice + "/starts", integers({first}));
    freeze(model, slice + "/ends", integers({first + part.columns}));
    freeze(model, slice + "/axes", integers({1}));
    nodes.push_back(operation("Slice", {source, slice + "/starts", slice + "/ends", slice + "/axes"}, slice));
  }
  std::vector<std::int64_t> shape(part.tensor.dims().begin(), part.tensor.dims().end());
  shape.front() = 0;
  freeze(model, slice + "/shape", integers(shape));
  nodes.push_back(operation("Reshape", {slice, slice + "/shape"}, part.name));
  return nodes;
}

void remove_initializer(ModelProto& model, const std::string& name) {
  auto& initializers = *model.mutable_graph()->mutable_initializer();
  const auto found = std::find_if(initializers.begin(), initializers.end(),
                                  [&](const TensorProto& tensor) { return tensor.name() == name; });
  if (found != initializers.end()) initializers.erase(found);
}

void remove_input(ModelProto& model, const std::string& name) {
  auto& inputs = *model.mutable_graph()->mutable_input();
  const auto found =
      std::find_if(inputs.begin(), inputs.end(), [&](const auto& input) { return input.name() == name; });
  if (found != inputs.end()) inputs.erase(found);
}

}  // namespace

std::optional<OnnxCase> with_joined_activations(const OnnxCase& original) {
  const std::vector<Part> parts = parts_of(original);
  if (parts.size() < 2) return std::nullopt;
  OnnxCase joined = original;
  joined.fed.clear();
  joined.input = join(parts);
  auto& graph = *joined.model.mutable_graph();
  const std::string source = "conformance_joined";
  std::vector<NodeProto> nodes;
  std::int64_t first = 0;
  for (const Part& part : parts) {
    remove_input(joined.model, part.name);
    remove_initializer(joined.model, part.name);
    for (NodeProto& node : cut_out(joined.model, part, source, first)) nodes.push_back(std::move(node));
    first += part.columns;
  }
  *graph.add_input() = declaration(source, *joined.input);
  nodes.insert(nodes.end(), graph.node().begin(), graph.node().end());
  graph.clear_node();
  for (NodeProto& node : nodes) *graph.add_node() = std::move(node);
  return joined;
}

std::optional<OnnxCase> with_constant_input(const OnnxCase& original) {
  if (!original.expected || !is_number(*original.expected) || standard_opset(original.model) == 0) return std::nullopt;
  const std::vector<float> expected = numbers_of(*original.expected);
  if (expected.empty()) return std::nullopt;
  const auto elements = static_cast<std::int64_t>(expected.size());

  OnnxCase folded;
  folded.model = original.model;
  folded.input = float_matrix(1, elements);
  for (std::int64_t i = 0; i < elements; ++i) folded.input->add_float_data(0.0F);
  folded.expected = float_matrix(1, elements);
  for (const float value : expected) folded.expected->add_float_data(value);

  auto& graph = *folded.model.mutable_graph();
  const std::string result = graph.output(0).name();
  if (const int free_input = first_input(folded.model); free_input >= 0) {
    if (!original.input) return std::nullopt;
    freeze(folded.model, graph.input(free_input).name(), *original.input);
  }
  graph.clear_input();
  *graph.add_input() = declaration("conformance_zeros", *folded.input);
  graph.clear_output();
  *graph.add_output() = declaration("conformance_sum", *folded.expected);
  freeze(folded.model, "conformance_shape", integers({1, elements}));
  NodeProto cast = operation("Cast", {result}, "conformance_float");
  auto& to = *cast.add_attribute();
  to.set_name("to");
  to.set_type(onnx_schema::AttributeProto::INT);
  to.set_i(TensorProto::FLOAT);
  *graph.add_node() = cast;
  *graph.add_node() = operation("Reshape", {"conformance_float", "conformance_shape"}, "conformance_flat");
  *graph.add_node() = operation("Add", {"conformance_zeros", "conformance_flat"}, "conformance_sum");
  return folded;
}

}  // namespace mobicuda::conformance
