#pragma once

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda_onnx.pb.h>
#include "models/zoo/onnx_writer.h"

namespace mobicuda::test {

/// Rebuilds a model's node list: takes the nodes out, and puts them back one by one or others in their place.
class GraphEditor {
 public:
  using Node = onnx_schema::NodeProto;

  explicit GraphEditor(onnx_schema::ModelProto& model) : model_(&model) { nodes_.Swap(graph().mutable_node()); }

  onnx_schema::GraphProto& graph() { return *model_->mutable_graph(); }
  std::int64_t opset() const { return model_->opset_import(0).version(); }
  const google::protobuf::RepeatedPtrField<Node>& nodes() const { return nodes_; }

  void keep(const Node& node) { *graph().add_node() = node; }

  /// A node with one output that is named after it.
  Node& emit(const std::string& op_type, const std::string& name, std::initializer_list<std::string_view> inputs) {
    return zoo::add_node(graph(), op_type, name, inputs);
  }
  /// The same in the place of `old`: it writes old's output.
  Node& emit_as(const Node& old, const std::string& op_type, std::initializer_list<std::string_view> inputs) {
    Node& node = emit(op_type, old.name(), inputs);
    node.set_output(0, old.output(0));
    return node;
  }

  std::string floats(const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<float>& values) {
    return constant(zoo::make_tensor(name, dims, std::span(values)));
  }
  std::string ints(const std::string& name, const std::vector<std::int64_t>& dims,
                   const std::vector<std::int64_t>& values) {
    return constant(zoo::make_tensor(name, dims, std::span(values)));
  }
  /// A Constant node.
  std::string constant_node(onnx_schema::TensorProto tensor) {
    Node& node = emit("Constant", tensor.name(), {});
    onnx_schema::AttributeProto& value = *node.add_attribute();
    value.set_name("value");
    value.set_type(onnx_schema::AttributeProto::TENSOR);
    *value.mutable_t() = std::move(tensor);
    return node.output(0);
  }

  onnx_schema::TensorProto* find_initializer(const std::string& name) {
    for (auto& tensor : *graph().mutable_initializer()) {
      if (tensor.name() == name) return &tensor;
    }
    return nullptr;
  }
  onnx_schema::TensorProto& initializer(const std::string& name) {
    if (auto* found = find_initializer(name)) return *found;
    throw std::logic_error("no initializer " + name);
  }
  std::vector<float> values(const std::string& name) { return float_values(initializer(name)); }

  static std::vector<float> float_values(const onnx_schema::TensorProto& tensor) {
    std::vector<float> result(tensor.raw_data().size() / sizeof(float));
    std::memcpy(result.data(), tensor.raw_data().data(), tensor.raw_data().size());
    return result;
  }

  /// Drops initializers that no node reads any more.
  void drop_unused() {
    const auto unused = [this](const onnx_schema::TensorProto& tensor) {
      const auto reads = [&](const Node& node) {
        return std::find(node.input().begin(), node.input().end(), tensor.name()) != node.input().end();
      };
      return std::none_of(graph().node().begin(), graph().node().end(), reads);
    };
    auto& all = *graph().mutable_initializer();
    all.erase(std::remove_if(all.begin(), all.end(), unused), all.end());
  }

 private:
  std::string constant(const onnx_schema::TensorProto& tensor) {
    if (find_initializer(tensor.name()) == nullptr) *graph().add_initializer() = tensor;
    return tensor.name();
  }

  onnx_schema::ModelProto* model_;
  google::protobuf::RepeatedPtrField<Node> nodes_;
};

/// The node's attribute, null when it has none of that name.
inline const onnx_schema::AttributeProto* find_attribute(const onnx_schema::NodeProto& node, const std::string& name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

inline void remove_attribute(onnx_schema::NodeProto& node, const std::string& name) {
  auto& all = *node.mutable_attribute();
  all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& attribute) { return attribute.name() == name; }),
            all.end());
}

inline std::vector<std::int64_t> ints_of(const onnx_schema::NodeProto& node, const std::string& name) {
  const auto* attribute = find_attribute(node, name);
  if (attribute == nullptr) throw std::logic_error(node.name() + " has no attribute " + name);
  return {attribute->ints().begin(), attribute->ints().end()};
}

}  // namespace mobicuda::test
