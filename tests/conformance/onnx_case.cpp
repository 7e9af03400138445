#include "onnx_case.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string_view>

#include "model_edits.h"

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

bool has_batch(const OnnxCase& onnx_case) {
  const TensorProto& input = *onnx_case.input;
  const TensorProto& expected = *onnx_case.expected;
  return expected.dims_size() > 0 && expected.dims(0) == input.dims(0);
}

bool has_parameters(const NodeProto& node) {
  return std::find(kWithParameters.begin(), kWithParameters.end(), node.op_type()) != kWithParameters.end();
}

template <class T, class Field>
std::vector<float> convert(const TensorProto& tensor, const Field& field) {
  std::vector<T> values(field.begin(), field.end());
  if (!tensor.raw_data().empty()) {
    values.resize(tensor.raw_data().size() / sizeof(T));
    std::memcpy(values.data(), tensor.raw_data().data(), values.size() * sizeof(T));
  }
  std::vector<float> numbers;
  numbers.reserve(values.size());
  for (const T value : values) numbers.push_back(static_cast<float>(value));
  return numbers;
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
      whole.fed.push_back(input.name());
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

std::vector<std::string> fed_activations(const OnnxCase& onnx_case) {
  const auto& graph = onnx_case.model.graph();
  const auto is_activation = [&](const std::string& name) {
    return std::any_of(graph.node().begin(), graph.node().end(), [&](const NodeProto& node) {
      const auto& inputs = node.input();
      return !has_parameters(node) && std::find(inputs.begin(), inputs.end(), name) != inputs.end();
    });
  };
  std::vector<std::string> names;
  for (const TensorProto& tensor : graph.initializer()) {
    const bool fed = std::find(onnx_case.fed.begin(), onnx_case.fed.end(), tensor.name()) != onnx_case.fed.end();
    if (fed && tensor.data_type() == TensorProto::FLOAT && is_activation(tensor.name())) names.push_back(tensor.name());
  }
  return names;
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
