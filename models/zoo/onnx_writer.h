#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda_onnx.pb.h>

namespace mobicuda::zoo {

/// Attributes, replaced where the node already has one of that name.
void set_attribute(onnx_schema::NodeProto& node, std::string_view name, std::int64_t value);
void set_attribute(onnx_schema::NodeProto& node, std::string_view name, float value);
void set_attribute(onnx_schema::NodeProto& node, std::string_view name, std::string_view value);
void set_attribute(onnx_schema::NodeProto& node, std::string_view name, std::span<const std::int64_t> values);

/// Tensors with raw little-endian data. An empty `dims` makes a scalar.
onnx_schema::TensorProto make_tensor(std::string_view name, std::span<const std::int64_t> dims,
                                     std::span<const float> values);
onnx_schema::TensorProto make_tensor(std::string_view name, std::span<const std::int64_t> dims,
                                     std::span<const std::int64_t> values);

/// A float input or output. An extent of 0 is the dynamic batch, written as the dim_param "N".
onnx_schema::ValueInfoProto make_value_info(std::string_view name, std::span<const std::int64_t> dims);

/// Appends a node with one output, which is named after the node.
onnx_schema::NodeProto& add_node(onnx_schema::GraphProto& graph, std::string_view op_type, std::string_view name,
                                 std::initializer_list<std::string_view> inputs);

/// The IR version that came with an opset.
std::int64_t ir_version_of(std::int64_t opset);

/// Writes the file in place of whatever is there. Throws Error(io).
void write_model(const onnx_schema::ModelProto& model, const std::filesystem::path& path);

}  // namespace mobicuda::zoo
