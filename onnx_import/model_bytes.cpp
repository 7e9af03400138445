#include "model_bytes.h"

#include <array>
#include <string>

#include <mobicuda/error.h>

#include "schema.h"
#include "wire_format/parsed_bytes.h"

namespace mobicuda::onnx_import {
namespace {

// MobileNetV2's messages take some hundred KiB, 65,536 nodes with attributes 150 MiB of a file of 12.
constexpr std::int64_t kParsedWithoutBytes = std::int64_t{64} << 20;
constexpr std::int64_t kParsedForEachByte = 16;

// Messages whose number can grow with the file.
struct Message {
  enum : std::size_t {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    ValueInfo,
    Type,
    TensorType,
    Shape,
    Dimension,
    Training,
    Function,
    OperatorSet,
    Entry,
    Annotation,
    kKinds
  };
};

constexpr std::array<std::size_t, Message::kKinds> kObjectBytes = [] {
  std::array<std::size_t, Message::kKinds> bytes{};
  bytes[Message::Model] = sizeof(schema::ModelProto);
  bytes[Message::Graph] = sizeof(schema::GraphProto);
  bytes[Message::Node] = sizeof(schema::NodeProto);
  bytes[Message::Attribute] = sizeof(schema::AttributeProto);
  bytes[Message::Tensor] = sizeof(schema::TensorProto);
  bytes[Message::SparseTensor] = sizeof(schema::SparseTensorProto);
  bytes[Message::ValueInfo] = sizeof(schema::ValueInfoProto);
  bytes[Message::Type] = sizeof(schema::TypeProto);
  bytes[Message::TensorType] = sizeof(schema::TypeProto_Tensor);
  bytes[Message::Shape] = sizeof(schema::TensorShapeProto);
  bytes[Message::Dimension] = sizeof(schema::TensorShapeProto_Dimension);
  bytes[Message::Training] = sizeof(schema::TrainingInfoProto);
  bytes[Message::Function] = sizeof(schema::FunctionProto);
  bytes[Message::OperatorSet] = sizeof(schema::OperatorSetIdProto);
  bytes[Message::Entry] = sizeof(schema::StringStringEntryProto);
  bytes[Message::Annotation] = sizeof(schema::TensorAnnotation);
  return bytes;
}();

// Field numbers of onnx.proto.
constexpr wire_format::MessageField kFields[] = {{Message::Model, 7, Message::Graph},
                                                 {Message::Model, 8, Message::OperatorSet},
                                                 {Message::Model, 14, Message::Entry},
                                                 {Message::Model, 20, Message::Training},
                                                 {Message::Model, 25, Message::Function},
                                                 {Message::Graph, 1, Message::Node},
                                                 {Message::Graph, 5, Message::Tensor},
                                                 {Message::Graph, 11, Message::ValueInfo},
                                                 {Message::Graph, 12, Message::ValueInfo},
                                                 {Message::Graph, 13, Message::ValueInfo},
                                                 {Message::Graph, 14, Message::Annotation},
                                                 {Message::Graph, 15, Message::SparseTensor},
                                                 {Message::Graph, 16, Message::Entry},
                                                 {Message::Node, 5, Message::Attribute},
                                                 {Message::Node, 9, Message::Entry},
                                                 {Message::Attribute, 5, Message::Tensor},
                                                 {Message::Attribute, 6, Message::Graph},
                                                 {Message::Attribute, 10, Message::Tensor},
                                                 {Message::Attribute, 11, Message::Graph},
                                                 {Message::Attribute, 14, Message::Type},
                                                 {Message::Attribute, 15, Message::Type},
                                                 {Message::Attribute, 22, Message::SparseTensor},
                                                 {Message::Attribute, 23, Message::SparseTensor},
                                                 {Message::Tensor, 13, Message::Entry},
                                                 {Message::Tensor, 16, Message::Entry},
                                                 {Message::SparseTensor, 1, Message::Tensor},
                                                 {Message::SparseTensor, 2, Message::Tensor},
                                                 {Message::ValueInfo, 2, Message::Type},
                                                 {Message::ValueInfo, 4, Message::Entry},
                                                 {Message::Type, 1, Message::TensorType},
                                                 {Message::TensorType, 2, Message::Shape},
                                                 {Message::Shape, 1, Message::Dimension},
                                                 {Message::Annotation, 2, Message::Entry},
                                                 {Message::Training, 1, Message::Graph},
                                                 {Message::Training, 2, Message::Graph},
                                                 {Message::Training, 3, Message::Entry},
                                                 {Message::Training, 4, Message::Entry},
                                                 {Message::Function, 7, Message::Node},
                                                 {Message::Function, 9, Message::OperatorSet},
                                                 {Message::Function, 11, Message::Attribute},
                                                 {Message::Function, 12, Message::ValueInfo},
                                                 {Message::Function, 14, Message::Entry}};

constexpr wire_format::PackedField kPacked[] = {
    {Message::Tensor, 1, sizeof(std::int64_t)},    {Message::Tensor, 5, sizeof(std::int32_t)},
    {Message::Tensor, 7, sizeof(std::int64_t)},    {Message::Tensor, 11, sizeof(std::uint64_t)},
    {Message::Attribute, 8, sizeof(std::int64_t)}, {Message::SparseTensor, 3, sizeof(std::int64_t)}};

}  // namespace

void check_parsed_bytes(std::span<const std::byte> model) {
  const std::int64_t limit = kParsedWithoutBytes + kParsedForEachByte * static_cast<std::int64_t>(model.size());
  if (wire_format::parsed_bytes(model, {kObjectBytes, kFields, kPacked}, limit) > limit) {
    throw Error(ErrorCode::unsupported, "",
                "has so many small fields that they would take more than " + std::to_string(limit) +
                    " bytes of memory, of a file of " + std::to_string(model.size()),
                "store integers as raw_data, and nothing that the network does not need");
  }
}

}  // namespace mobicuda::onnx_import
