#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <stdexcept>

#include "graph_editor.h"
#include "model_rewrites.h"

namespace mobicuda::test {
namespace {

using onnx_schema::NodeProto;
using onnx_schema::TensorProto;
using zoo::set_attribute;

/// The nearest half, ties to even; the tests' constants are far from overflow.
std::uint16_t half_bits(float value) {
  constexpr int kMantissaBits = 10;
  constexpr int kSmallestExponent = -14;
  constexpr int kBias = 15;
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(double{value});
  if (magnitude > 65504.0) throw std::logic_error("constant too large for half precision");
  int exponent = kSmallestExponent;
  if (magnitude >= std::ldexp(1.0, kSmallestExponent)) exponent = std::ilogb(magnitude);
  // Whole steps of this exponent; a carry into the next exponent, or out of the subnormals, adds up by itself.
  const double steps = std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent));
  const int leading = magnitude >= std::ldexp(1.0, kSmallestExponent) ? 1 << kMantissaBits : 0;
  const int biased = leading != 0 ? exponent + kBias : 0;
  return static_cast<std::uint16_t>(sign | ((biased << kMantissaBits) + static_cast<int>(steps) - leading));
}

float half_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
}

void store_half(TensorProto& tensor, bool as_int32) {
  std::vector<std::uint16_t> bits;
  for (const float value : GraphEditor::float_values(tensor)) bits.push_back(half_bits(value));
  tensor.set_data_type(TensorProto::FLOAT16);
  tensor.clear_raw_data();
  if (!as_int32) {
    tensor.set_raw_data(bits.data(), bits.size() * sizeof bits[0]);
    return;
  }
  for (const std::uint16_t pattern : bits) tensor.add_int32_data(pattern);
}

void set_element_type(onnx_schema::ValueInfoProto& info, TensorProto::DataType type) {
  info.mutable_type()->mutable_tensor_type()->set_elem_type(type);
}

void emit_cast(GraphEditor& editor, const std::string& from, const std::string& to, TensorProto::DataType type) {
  set_attribute(editor.emit("Cast", to, {from}), "to", std::int64_t{type});
}

/// Gives every tensor in `renamed` a new name with `suffix`, and puts `op` between it and the old name.
void read_through(Model& model, const std::string& suffix, const std::string& op, bool (*applies)(const TensorProto&)) {
  GraphEditor editor(model);
  for (TensorProto& tensor : *editor.graph().mutable_initializer()) {
    if (!applies(tensor)) continue;
    const std::string name = tensor.name();
    tensor.set_name(name + suffix);
    NodeProto& node = editor.emit(op, name, {tensor.name()});
    if (op == "Cast") set_attribute(node, "to", std::int64_t{TensorProto::FLOAT});
  }
  for (const NodeProto& node : editor.nodes()) editor.keep(node);
}

}  // namespace

void write_nhwc_entry(Model& model) {
  GraphEditor editor(model);
  auto& input = *editor.graph().mutable_input(0);
  const auto shape = input.type().tensor_type().shape();
  auto& dims = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
  constexpr int kFrom[] = {0, 2, 3, 1};
  for (int axis = 0; axis < 4; ++axis) *dims.mutable_dim(axis) = shape.dim(kFrom[axis]);
  set_attribute(editor.emit("Transpose", "input.nchw", {input.name()}), "perm", std::vector<std::int64_t>{0, 3, 1, 2});
  for (NodeProto node : editor.nodes()) {
    for (std::string& read : *node.mutable_input()) {
      if (read == input.name()) read = "input.nchw";
    }
    editor.keep(node);
  }
}

void write_constants_as_nodes(Model& model) {
  GraphEditor editor(model);
  for (const TensorProto& tensor : editor.graph().initializer()) editor.constant_node(tensor);
  editor.graph().clear_initializer();
  for (const NodeProto& node : editor.nodes()) editor.keep(node);
}

void write_identity_constants(Model& model) {
  read_through(model, ".shared", "Identity", [](const TensorProto& tensor) { return tensor.dims_size() > 0; });
}

void write_initializers_as_inputs(Model& model) {
  model.set_ir_version(3);
  auto& graph = *model.mutable_graph();
  for (const TensorProto& tensor : graph.initializer()) {
    auto& input = *graph.add_input();
    input = zoo::make_value_info(tensor.name(), std::vector(tensor.dims().begin(), tensor.dims().end()));
    set_element_type(input, static_cast<TensorProto::DataType>(tensor.data_type()));
  }
}

void write_typed_data(Model& model) {
  for (TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    if (tensor.data_type() == TensorProto::FLOAT) {
      for (const float value : GraphEditor::float_values(tensor)) tensor.add_float_data(value);
    } else {
      std::vector<std::int64_t> values(tensor.raw_data().size() / sizeof(std::int64_t));
      std::memcpy(values.data(), tensor.raw_data().data(), tensor.raw_data().size());
      for (const std::int64_t value : values) tensor.add_int64_data(value);
    }
    tensor.clear_raw_data();
  }
}

void write_anonymous(Model& model) {
  auto& graph = *model.mutable_graph();
  std::map<std::string, std::string> numbers{{"", ""}};  // an absent input stays absent
  const auto number = [&](std::string* name) {
    *name = numbers.try_emplace(*name, std::to_string(numbers.size())).first->second;
  };
  for (auto& input : *graph.mutable_input()) number(input.mutable_name());
  for (auto& tensor : *graph.mutable_initializer()) number(tensor.mutable_name());
  for (auto& node : *graph.mutable_node()) {
    node.clear_name();
    for (auto& input : *node.mutable_input()) number(&input);
    for (auto& output : *node.mutable_output()) number(&output);
  }
  for (auto& output : *graph.mutable_output()) number(output.mutable_name());
}

void write_domains(Model& model) {
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  for (const char* domain : {"ai.onnx.ml", "com.microsoft"}) {
    auto& import = *model.add_opset_import();
    import.set_domain(domain);
    import.set_version(1);
  }
  for (auto& node : *model.mutable_graph()->mutable_node()) node.set_domain("ai.onnx");
}

void write_dynamic_picture(Model& model) {
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("batch");
  shape.mutable_dim(2)->set_dim_param("height");
  shape.mutable_dim(3)->set_dim_param("width");
}

void write_external_data(Model& model, const std::filesystem::path& folder, const std::string& data_name,
                         std::size_t least_bytes) {
  std::ofstream file(folder / data_name, std::ios::binary | std::ios::trunc);
  std::size_t offset = 0;
  for (TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    const std::string bytes = tensor.raw_data();
    if (bytes.size() < least_bytes) continue;
    file << bytes;
    tensor.clear_raw_data();
    tensor.set_data_location(TensorProto::EXTERNAL);
    const std::pair<const char*, std::string> entries[] = {
        {"location", data_name}, {"offset", std::to_string(offset)}, {"length", std::to_string(bytes.size())}};
    for (const auto& [key, value] : entries) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    offset += bytes.size();
  }
}

void round_to_half(Model& model) {
  for (TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    if (tensor.data_type() != TensorProto::FLOAT) continue;
    std::vector<float> values = GraphEditor::float_values(tensor);
    for (float& value : values) value = half_value(half_bits(value));
    tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  }
}

void write_half(Model& model, HalfForm form) {
  for (TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    if (tensor.data_type() == TensorProto::FLOAT) store_half(tensor, form == HalfForm::Int32Payload);
  }
  if (form == HalfForm::WeightCasts) {
    read_through(model, ".half", "Cast",
                 [](const TensorProto& tensor) { return tensor.data_type() == TensorProto::FLOAT16; });
    return;
  }
  auto& graph = *model.mutable_graph();
  if (form != HalfForm::InnerCasts) {
    set_element_type(*graph.mutable_input(0), TensorProto::FLOAT16);
    set_element_type(*graph.mutable_output(0), TensorProto::FLOAT16);
    return;
  }
  GraphEditor editor(model);
  emit_cast(editor, "input", "input.half", TensorProto::FLOAT16);
  for (NodeProto node : editor.nodes()) {
    for (std::string& read : *node.mutable_input()) {
      if (read == "input") read = "input.half";
    }
    if (node.output(0) == "output") node.set_output(0, "output.half");
    editor.keep(node);
  }
  emit_cast(editor, "output.half", "output", TensorProto::FLOAT);
}

}  // namespace mobicuda::test
