#pragma once

// Looks into a model's file and changes to it.

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <mobicuda_onnx.pb.h>

namespace mobicuda::conformance {

inline std::set<std::string> initializers(const onnx_schema::ModelProto& model) {
  std::set<std::string> names;
  for (const auto& tensor : model.graph().initializer()) names.insert(tensor.name());
  return names;
}

/// The first input that is no initializer; -1 if there is none.
inline int first_input(const onnx_schema::ModelProto& model) {
  const auto initialized = initializers(model);
  const auto& inputs = model.graph().input();
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const auto& input) { return !initialized.contains(input.name()); });
  return found == inputs.end() ? -1 : static_cast<int>(found - inputs.begin());
}

inline void freeze(onnx_schema::ModelProto& model, const std::string& name, const onnx_schema::TensorProto& tensor) {
  auto& initializer = *model.mutable_graph()->add_initializer();
  initializer = tensor;
  initializer.set_name(name);
}

/// Of the operators of ONNX itself; 0 when the model uses none.
inline std::int64_t standard_opset(const onnx_schema::ModelProto& model) {
  for (const auto& import : model.opset_import()) {
    if (import.domain().empty()) return import.version();
  }
  return 0;
}

/// An operator without attributes.
inline onnx_schema::NodeProto operation(const std::string& op_type, const std::vector<std::string>& inputs,
                                        const std::string& output) {
  onnx_schema::NodeProto node;
  node.set_op_type(op_type);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

/// A FLOAT matrix without elements yet.
inline onnx_schema::TensorProto float_matrix(std::int64_t rows, std::int64_t columns) {
  onnx_schema::TensorProto tensor;
  tensor.set_data_type(onnx_schema::TensorProto::FLOAT);
  tensor.add_dims(rows);
  tensor.add_dims(columns);
  return tensor;
}

inline onnx_schema::ValueInfoProto declaration(const std::string& name, const onnx_schema::TensorProto& tensor) {
  onnx_schema::ValueInfoProto value;
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(tensor.data_type());
  for (const auto extent : tensor.dims()) type.mutable_shape()->add_dim()->set_dim_value(extent);
  return value;
}

inline onnx_schema::TensorProto integers(const std::vector<std::int64_t>& values) {
  onnx_schema::TensorProto tensor;
  tensor.set_data_type(onnx_schema::TensorProto::INT64);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (const std::int64_t value : values) tensor.add_int64_data(value);
  return tensor;
}

}  // namespace mobicuda::conformance
