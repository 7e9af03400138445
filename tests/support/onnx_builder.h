#pragma once

// Writes ONNX models in a few words. Programs that include this link mobicuda_onnx_schema_headers.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobicuda_onnx.pb.h>

namespace mobicuda::test {

namespace schema = onnx_schema;
using Dims = std::vector<std::int64_t>;
inline constexpr std::int64_t kDynamic = -1;  ///< a dimension written as the symbol "N"

/// An attribute in the making; the value's C++ type decides the ONNX type.
class OnnxNode {
 public:
  explicit OnnxNode(schema::NodeProto& node) : node_(&node) {}

  OnnxNode& attr(const std::string& name, std::int64_t value) {
    auto& attribute = add(name, schema::AttributeProto::INT);
    attribute.set_i(value);
    return *this;
  }
  OnnxNode& attr(const std::string& name, int value) { return attr(name, std::int64_t{value}); }
  OnnxNode& attr(const std::string& name, float value) {
    auto& attribute = add(name, schema::AttributeProto::FLOAT);
    attribute.set_f(value);
    return *this;
  }
  OnnxNode& ints(const std::string& name, const Dims& values) {
    auto& attribute = add(name, schema::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
    return *this;
  }
  OnnxNode& floats(const std::string& name, const std::vector<float>& values) {
    auto& attribute = add(name, schema::AttributeProto::FLOATS);
    for (const float value : values) attribute.add_floats(value);
    return *this;
  }
  OnnxNode& attr(const std::string& name, const std::string& value) {
    auto& attribute = add(name, schema::AttributeProto::STRING);
    attribute.set_s(value);
    return *this;
  }
  OnnxNode& attr(const std::string& name, const char* value) { return attr(name, std::string(value)); }
  OnnxNode& attr(const std::string& name, schema::TensorProto value) {
    auto& attribute = add(name, schema::AttributeProto::TENSOR);
    *attribute.mutable_t() = std::move(value);
    return *this;
  }
  schema::NodeProto& proto() { return *node_; }

 private:
  schema::AttributeProto& add(const std::string& name, schema::AttributeProto::AttributeType type) {
    auto& attribute = *node_->add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }

  schema::NodeProto* node_;
};

template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline schema::TensorProto tensor(const std::string& name, const Dims& dims, const std::vector<float>& values) {
  schema::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(schema::TensorProto::FLOAT);
  for (const std::int64_t dim : dims) proto.add_dims(dim);
  proto.set_raw_data(raw_bytes(values));
  return proto;
}

inline schema::TensorProto tensor(const std::string& name, const Dims& dims, const std::vector<std::int64_t>& values) {
  schema::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(schema::TensorProto::INT64);
  for (const std::int64_t dim : dims) proto.add_dims(dim);
  proto.set_raw_data(raw_bytes(values));
  return proto;
}

/// Of T std::int8_t, std::uint8_t or std::int32_t.
template <class T>
schema::TensorProto integer_tensor(const std::string& name, const Dims& dims, const std::vector<T>& values) {
  schema::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(std::is_same_v<T, std::int8_t>    ? schema::TensorProto::INT8
                      : std::is_same_v<T, std::uint8_t> ? schema::TensorProto::UINT8
                                                        : schema::TensorProto::INT32);
  for (const std::int64_t dim : dims) proto.add_dims(dim);
  proto.set_raw_data(raw_bytes(values));
  return proto;
}

/// One model: nodes in the order they are added, IR 8 and the default domain unless told otherwise.
class OnnxBuilder {
 public:
  explicit OnnxBuilder(std::int64_t opset, std::int64_t ir_version = 8) {
    model_.set_ir_version(ir_version);
    model_.set_producer_name("mobicuda-tests");
    model_.mutable_graph()->set_name("test");
    auto& import = *model_.add_opset_import();
    import.set_domain("");
    import.set_version(opset);
  }

  OnnxBuilder& input(const std::string& name, const Dims& dims) {
    describe(*graph().add_input(), name, dims);
    return *this;
  }
  /// Without dims, the file does not say what shape the output has.
  OnnxBuilder& output(const std::string& name, const Dims& dims = {}) {
    auto& info = *graph().add_output();
    describe(info, name, dims);
    if (dims.empty()) info.mutable_type()->mutable_tensor_type()->clear_shape();
    return *this;
  }
  OnnxBuilder& floats(const std::string& name, const Dims& dims, const std::vector<float>& values) {
    *graph().add_initializer() = tensor(name, dims, values);
    return *this;
  }
  OnnxBuilder& ints(const std::string& name, const Dims& dims, const std::vector<std::int64_t>& values) {
    *graph().add_initializer() = tensor(name, dims, values);
    return *this;
  }
  template <class T>
  OnnxBuilder& integers(const std::string& name, const Dims& dims, const std::vector<T>& values) {
    *graph().add_initializer() = integer_tensor(name, dims, values);
    return *this;
  }
  /// The version of another domain.
  OnnxBuilder& import_domain(const std::string& domain, std::int64_t version) {
    auto& import = *model_.add_opset_import();
    import.set_domain(domain);
    import.set_version(version);
    return *this;
  }
  OnnxNode node(const std::string& op_type, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const std::string& name = {}) {
    auto& proto = *graph().add_node();
    proto.set_op_type(op_type);
    proto.set_name(name);
    for (const auto& input : inputs) proto.add_input(input);
    for (const auto& output : outputs) proto.add_output(output);
    return OnnxNode(proto);
  }
  /// IR 3 style: every initializer is listed among the inputs as well.
  OnnxBuilder& list_initializers_as_inputs() {
    for (const auto& initializer : graph().initializer()) {
      describe(*graph().add_input(), initializer.name(), {initializer.dims().begin(), initializer.dims().end()},
               initializer.data_type());
    }
    return *this;
  }

  schema::ModelProto& model() { return model_; }
  schema::GraphProto& graph() { return *model_.mutable_graph(); }
  std::string bytes() const { return model_.SerializeAsString(); }
  void write(const std::string& path) const { std::ofstream(path, std::ios::binary) << bytes(); }

 private:
  static void describe(schema::ValueInfoProto& info, const std::string& name, const Dims& dims,
                       int data_type = schema::TensorProto::FLOAT) {
    info.set_name(name);
    auto& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(data_type);
    auto& shape = *type.mutable_shape();
    for (const std::int64_t dim : dims) {
      if (dim == kDynamic) {
        shape.add_dim()->set_dim_param("N");
      } else {
        shape.add_dim()->set_dim_value(dim);
      }
    }
  }

  schema::ModelProto model_;
};

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace mobicuda::test
