#include "onnx_case.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string_view>

namespace mobicuda::conformance {

namespace fs = std::filesystem;
using onnx_schema::ModelProto;
using onnx_schema::NodeProto;
using onnx_schema::TensorProto;
using onnx_schema::ValueInfoProto;

namespace {

constexpr std::array<std::string_view, 4> kKinds = {"node", "pytorch-converted", "pytorch-operator", "simple"};

constexpr std::int64_t kOldestOpset = 6;

// Operators whose further inputs are parameters of the layer. Those of all others are activations where they are FLOAT.
constexpr std::array<std::string_view, 16> kWithParameters = {"BatchNormalization",
                                                              "Clip",
                                                              "Conv",
                                                              "ConvTranspose",
                                                              "Dropout",
                                                              "Gemm",
                                                              "InstanceNormalization",
                                                              "GRU",
                                                              "LSTM",
                                                              "MatMul",
                                                              "Pad",
                                                              "PRelu",
                                                              "RNN",
                                                              "Resize",
                                                              "Upsample",
                                                              "LayerNormalization"};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_tensor(const ValueInfoProto& value) { return !value.has_type() || value.type().has_tensor_type(); }

std::optional<TensorProto> read_tensor(const ValueInfoProto& value, const fs::path& path) {
  if (!is_tensor(value) || !fs::exists(path)) return std::nullopt;
  TensorProto tensor;
  if (!tensor.ParseFromString(read_file(path))) throw std::runtime_error(path.string() + " is no tensor");
  // NumPy has no bfloat16: the data files hold its bits.
  const bool is_bfloat16 = value.type().tensor_type().elem_type() == TensorProto::BFLOAT16;
  if (is_bfloat16 && tensor.data_type() == TensorProto::UINT16) tensor.set_data_type(TensorProto::BFLOAT16);
  return tensor;
}

fs::path data_file(const CaseFolder& folder, std::string_view what, int index) {
  return folder.path / "test_data_set_0" / (std::string(what) + "_" + std::to_string(index) + ".pb");
}

std::set<std::string> initializers(const ModelProto& model) {
  std::set<std::string> names;
  for (const auto& tensor : model.graph().initializer()) names.insert(tensor.name());
  return names;
}

/// The first input that is no initializer; -1 if there is none.
int first_input(const ModelProto& model) {
  const auto initialized = initializers(model);
  const auto& inputs = model.graph().input();
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const auto& input) { return !initialized.contains(input.name()); });
  return found == inputs.end() ? -1 : static_cast<int>(found - inputs.begin());
}

void freeze(ModelProto& model, const std::string& name, const TensorProto& tensor) {
  auto& initializer = *model.mutable_graph()->add_initializer();
  initializer = tensor;
  initializer.set_name(name);
}

/// Of the operators of ONNX itself; 0 when the model uses none.
std::int64_t standard_opset(const ModelProto& model) {
  for (const auto& import : model.opset_import()) {
    if (import.domain().empty()) return import.version();
  }
  return 0;
}

bool has_batch(const OnnxCase& onnx_case) {
  const TensorProto& input = *onnx_case.input;
  const TensorProto& expected = *onnx_case.expected;
  return expected.dims_size() > 0 && expected.dims(0) == input.dims(0);
}

bool has_parameters(const NodeProto& node) {
  return std::find(kWithParameters.begin(), kWithParameters.end(), node.op_type()) != kWithParameters.end();
}

/// Whether an input that was frozen is an activation.
bool has_frozen_activation(const ModelProto& model) {
  std::set<std::string> frozen;
  const auto initialized = initializers(model);
  for (const auto& input : model.graph().input()) {
    const bool is_fed =
        initialized.contains(input.name()) && input.type().tensor_type().elem_type() == TensorProto::FLOAT;
    if (is_fed) frozen.insert(input.name());
  }
  const auto& nodes = model.graph().node();
  return std::any_of(nodes.begin(), nodes.end(), [&](const NodeProto& node) {
    return !has_parameters(node) && std::any_of(node.input().begin(), node.input().end(),
                                                [&](const std::string& name) { return frozen.contains(name); });
  });
}

template <class T, class Field>
std::vector<float> convert(const TensorProto& tensor, const Field& field) {
  std::vector<T> values(field.begin(), field.end());
  if (tensor.has_raw_data()) {
    values.resize(tensor.raw_data().size() / sizeof(T));
    std::memcpy(values.data(), tensor.raw_data().data(), values.size() * sizeof(T));
  }
  std::vector<float> numbers;
  numbers.reserve(values.size());
  for (const T value : values) numbers.push_back(static_cast<float>(value));
  return numbers;
}

ValueInfoProto float_value(const std::string& name, std::int64_t elements) {
  ValueInfoProto value;
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_value(1);
  type.mutable_shape()->add_dim()->set_dim_value(elements);
  return value;
}

NodeProto& add_node(ModelProto& model, const std::string& op_type, const std::vector<std::string>& inputs,
                    const std::string& output) {
  NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type(op_type);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

TensorProto flat_tensor(std::int64_t elements) {
  TensorProto tensor;
  tensor.set_data_type(TensorProto::FLOAT);
  tensor.add_dims(1);
  tensor.add_dims(elements);
  return tensor;
}

}  // namespace

std::vector<CaseFolder> list_cases(const fs::path& root) {
  std::vector<CaseFolder> cases;
  for (const std::string_view kind : kKinds) {
    if (!fs::is_directory(root / kind)) continue;
    for (const auto& entry : fs::directory_iterator(root / kind)) {
      if (!fs::exists(entry.path() / "model.onnx")) continue;
      cases.push_back({std::string(kind) + "/" + entry.path().filename().string(), entry.path()});
    }
  }
  std::sort(cases.begin(), cases.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return cases;
}

std::vector<OnnxCase> read_cases(const CaseFolder& folder) {
  ModelProto model;
  if (!model.ParseFromString(read_file(folder.path / "model.onnx"))) {
    throw std::runtime_error(folder.name + ": model.onnx is no ONNX model");
  }
  const int free_input = first_input(model);
  const auto initialized = initializers(model);
  OnnxCase whole;
  // Data files are numbered without the initializers.
  int file = 0;
  for (int i = 0; i < model.graph().input_size(); ++i) {
    const ValueInfoProto& input = model.graph().input(i);
    if (initialized.contains(input.name())) continue;
    const auto tensor = read_tensor(input, data_file(folder, "input", file++));
    if (i == free_input) {
      whole.input = tensor;
    } else if (tensor) {
      freeze(model, input.name(), *tensor);
    }
  }
  std::vector<OnnxCase> cases;
  for (int i = 0; i < model.graph().output_size(); ++i) {
    OnnxCase one = whole;
    one.model = model;
    const ValueInfoProto output = model.graph().output(i);
    one.model.mutable_graph()->clear_output();
    *one.model.mutable_graph()->add_output() = output;
    one.expected = read_tensor(output, data_file(folder, "output", i));
    cases.push_back(std::move(one));
  }
  return cases;
}

std::optional<OnnxCase> with_constant_input(const OnnxCase& original) {
  if (!original.expected || !is_number(*original.expected)) return std::nullopt;
  const std::vector<float> expected = numbers_of(*original.expected);
  if (expected.empty() || standard_opset(original.model) == 0) return std::nullopt;
  const auto elements = static_cast<std::int64_t>(expected.size());

  OnnxCase folded;
  folded.model = original.model;
  auto& graph = *folded.model.mutable_graph();
  const std::string result = graph.output(0).name();
  if (const int free_input = first_input(folded.model); free_input >= 0) {
    if (!original.input) return std::nullopt;
    freeze(folded.model, graph.input(free_input).name(), *original.input);
  }
  graph.clear_input();
  *graph.add_input() = float_value("conformance_zeros", elements);
  graph.clear_output();
  *graph.add_output() = float_value("conformance_sum", elements);

  TensorProto shape;
  shape.set_data_type(TensorProto::INT64);
  shape.add_dims(2);
  shape.add_int64_data(1);
  shape.add_int64_data(elements);
  freeze(folded.model, "conformance_shape", shape);
  auto& to = *add_node(folded.model, "Cast", {result}, "conformance_float").add_attribute();
  to.set_name("to");
  to.set_type(onnx_schema::AttributeProto::INT);
  to.set_i(TensorProto::FLOAT);
  add_node(folded.model, "Reshape", {"conformance_float", "conformance_shape"}, "conformance_flat");
  add_node(folded.model, "Add", {"conformance_zeros", "conformance_flat"}, "conformance_sum");

  folded.input = flat_tensor(elements);
  for (std::int64_t i = 0; i < elements; ++i) folded.input->add_float_data(0.0F);
  folded.expected = flat_tensor(elements);
  for (const float value : expected) folded.expected->add_float_data(value);
  return folded;
}

bool has_no_elements(const OnnxCase& onnx_case) {
  if (!onnx_case.input) return false;
  const auto& dims = onnx_case.input->dims();
  return std::find(dims.begin(), dims.end(), 0) != dims.end();
}

std::optional<std::string> out_of_scope(const OnnxCase& onnx_case) {
  const auto& graph = onnx_case.model.graph();
  const int free_input = first_input(onnx_case.model);
  if (free_input < 0) return "no input";
  if (standard_opset(onnx_case.model) == 0) return "operators of another domain only";
  if (standard_opset(onnx_case.model) < kOldestOpset) return "an opset before 6, of 2017";
  if (!is_tensor(graph.input(free_input)) || !is_tensor(graph.output(0))) return "sequences and optionals";
  if (!is_float(onnx_case.input)) return "an input that is not FLOAT";
  if (has_no_elements(onnx_case)) return "an input without elements";
  if (!is_float(onnx_case.expected)) return "an output that is not FLOAT";
  if (onnx_case.input->dims_size() < 2) return "an input of rank 0 or 1";
  if (!has_batch(onnx_case)) return "an output without the input's first axis, the batch";
  if (has_frozen_activation(onnx_case.model)) return "several activations as inputs";
  return std::nullopt;
}

std::vector<float> numbers_of(const TensorProto& tensor) {
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      return convert<float>(tensor, tensor.float_data());
    case TensorProto::INT32:
      return convert<std::int32_t>(tensor, tensor.int32_data());
    case TensorProto::INT64:
      return convert<std::int64_t>(tensor, tensor.int64_data());
    case TensorProto::BOOL:
      return convert<std::uint8_t>(tensor, tensor.int32_data());
    default:
      throw std::runtime_error("numbers_of: type " + std::to_string(tensor.data_type()));
  }
}

bool is_number(const TensorProto& tensor) {
  const auto type = tensor.data_type();
  return type == TensorProto::FLOAT || type == TensorProto::INT32 || type == TensorProto::INT64 ||
         type == TensorProto::BOOL;
}

bool is_float(const std::optional<TensorProto>& tensor) { return tensor && tensor->data_type() == TensorProto::FLOAT; }

}  // namespace mobicuda::conformance
