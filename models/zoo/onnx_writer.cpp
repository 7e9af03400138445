#include "onnx_writer.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <mobicuda/error.h>

namespace mobicuda::zoo {
namespace {

using onnx_schema::AttributeProto;
using onnx_schema::NodeProto;
using onnx_schema::TensorProto;

static_assert(std::endian::native == std::endian::little,
              "raw_data is little-endian and is written as it lies in memory");

AttributeProto& attribute(NodeProto& node, std::string_view name) {
  const auto same_name = [&](const AttributeProto& other) { return other.name() == name; };
  auto& all = *node.mutable_attribute();
  const auto found = std::find_if(all.begin(), all.end(), same_name);
  AttributeProto& result = found != all.end() ? *found : *all.Add();
  result.Clear();
  result.set_name(std::string(name));
  return result;
}

template <class T>
TensorProto tensor_of(std::string_view name, std::span<const std::int64_t> dims, std::span<const T> values,
                      TensorProto::DataType type) {
  TensorProto tensor;
  tensor.set_name(std::string(name));
  tensor.set_data_type(type);
  for (const std::int64_t extent : dims) tensor.add_dims(extent);
  tensor.set_raw_data(values.data(), values.size_bytes());
  return tensor;
}

}  // namespace

void set_attribute(NodeProto& node, std::string_view name, std::int64_t value) {
  AttributeProto& made = attribute(node, name);
  made.set_type(AttributeProto::INT);
  made.set_i(value);
}

void set_attribute(NodeProto& node, std::string_view name, float value) {
  AttributeProto& made = attribute(node, name);
  made.set_type(AttributeProto::FLOAT);
  made.set_f(value);
}

void set_attribute(NodeProto& node, std::string_view name, std::string_view value) {
  AttributeProto& made = attribute(node, name);
  made.set_type(AttributeProto::STRING);
  made.set_s(std::string(value));
}

void set_attribute(NodeProto& node, std::string_view name, std::span<const std::int64_t> values) {
  AttributeProto& made = attribute(node, name);
  made.set_type(AttributeProto::INTS);
  for (const std::int64_t value : values) made.add_ints(value);
}

TensorProto make_tensor(std::string_view name, std::span<const std::int64_t> dims, std::span<const float> values) {
  return tensor_of(name, dims, values, TensorProto::FLOAT);
}

TensorProto make_tensor(std::string_view name, std::span<const std::int64_t> dims,
                        std::span<const std::int64_t> values) {
  return tensor_of(name, dims, values, TensorProto::INT64);
}

onnx_schema::ValueInfoProto make_value_info(std::string_view name, std::span<const std::int64_t> dims) {
  onnx_schema::ValueInfoProto info;
  info.set_name(std::string(name));
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(TensorProto::FLOAT);
  auto& shape = *type.mutable_shape();  // present, if empty, for scalars
  for (const std::int64_t extent : dims) {
    auto& dim = *shape.add_dim();
    if (extent == 0) {
      dim.set_dim_param("N");
    } else {
      dim.set_dim_value(extent);
    }
  }
  return info;
}

NodeProto& add_node(onnx_schema::GraphProto& graph, std::string_view op_type, std::string_view name,
                    std::initializer_list<std::string_view> inputs) {
  NodeProto& node = *graph.add_node();
  node.set_op_type(std::string(op_type));
  node.set_name(std::string(name));
  for (const std::string_view input : inputs) node.add_input(std::string(input));
  node.add_output(std::string(name));
  return node;
}

std::int64_t ir_version_of(std::int64_t opset) {
  if (opset >= 23) return 11;
  if (opset >= 21) return 10;
  if (opset >= 19) return 9;
  if (opset >= 15) return 8;
  if (opset >= 12) return 7;
  if (opset >= 11) return 6;
  if (opset >= 10) return 5;
  return opset >= 9 ? 4 : 3;
}

void write_model(const onnx_schema::ModelProto& model, const std::filesystem::path& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) throw Error(ErrorCode::io, path.string(), std::string("cannot write: ") + std::strerror(errno));
  const bool serialized = model.SerializeToOstream(&file);
  file.close();
  if (!serialized || !file) throw Error(ErrorCode::io, path.string(), "writing failed", "is the disk full?");
}

}  // namespace mobicuda::zoo
