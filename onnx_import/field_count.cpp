#include "field_count.h"

#include <optional>

namespace mobicuda::onnx_import {
namespace {

// Messages that hold other messages, as far as their number can grow with the file.
enum class Message : std::uint8_t {
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
  Training,
  Function,
  Leaf  // no messages inside that matter: still counted field by field
};

struct Member {
  Message parent;
  std::uint64_t field;
  Message child;
};

// Field numbers of onnx.proto.
constexpr Member kMembers[] = {{Message::Model, 7, Message::Graph},
                               {Message::Model, 8, Message::Leaf},
                               {Message::Model, 14, Message::Leaf},
                               {Message::Model, 20, Message::Training},
                               {Message::Model, 25, Message::Function},
                               {Message::Graph, 1, Message::Node},
                               {Message::Graph, 5, Message::Tensor},
                               {Message::Graph, 11, Message::ValueInfo},
                               {Message::Graph, 12, Message::ValueInfo},
                               {Message::Graph, 13, Message::ValueInfo},
                               {Message::Graph, 14, Message::Leaf},
                               {Message::Graph, 15, Message::SparseTensor},
                               {Message::Node, 5, Message::Attribute},
                               {Message::Attribute, 5, Message::Tensor},
                               {Message::Attribute, 6, Message::Graph},
                               {Message::Attribute, 10, Message::Tensor},
                               {Message::Attribute, 11, Message::Graph},
                               {Message::Attribute, 14, Message::Type},
                               {Message::Attribute, 15, Message::Type},
                               {Message::Attribute, 22, Message::SparseTensor},
                               {Message::Attribute, 23, Message::SparseTensor},
                               {Message::Tensor, 13, Message::Leaf},
                               {Message::SparseTensor, 1, Message::Tensor},
                               {Message::SparseTensor, 2, Message::Tensor},
                               {Message::ValueInfo, 2, Message::Type},
                               {Message::Type, 1, Message::TensorType},
                               {Message::TensorType, 2, Message::Shape},
                               {Message::Shape, 1, Message::Leaf},
                               {Message::Training, 1, Message::Graph},
                               {Message::Training, 2, Message::Graph},
                               {Message::Function, 7, Message::Node},
                               {Message::Function, 9, Message::Leaf}};

constexpr int kMaxDepth = 100;  // protobuf's own

std::optional<Message> child_of(Message parent, std::uint64_t field) {
  for (const Member& member : kMembers) {
    if (member.parent == parent && member.field == field) return member.child;
  }
  return std::nullopt;
}

// Takes a varint off the front; nothing when it is cut off or too long.
std::optional<std::uint64_t> take_varint(std::span<const std::byte>& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<std::uint64_t>(bytes.front());
    bytes = bytes.subspan(1);
    value |= (byte & 0x7FU) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Subtracts the fields of a message from `left`, until it is below zero or the bytes make no sense.
void subtract_fields(std::span<const std::byte> bytes, Message kind, int depth, std::int64_t& left) {
  while (!bytes.empty() && left >= 0) {
    const std::optional<std::uint64_t> tag = take_varint(bytes);
    if (!tag) return;
    --left;
    std::optional<std::uint64_t> length;
    switch (*tag & 7U) {
      case 0:
        if (!take_varint(bytes)) return;
        continue;
      case 1:
        length = 8;
        break;
      case 2:
        length = take_varint(bytes);
        break;
      case 3:  // a group's begin and end: obsolete, but protobuf skips them and reads on
      case 4:
        continue;
      case 5:
        length = 4;
        break;
      default:
        return;
    }
    if (!length || *length > bytes.size()) return;
    const std::span<const std::byte> content = bytes.first(*length);
    bytes = bytes.subspan(*length);
    const std::optional<Message> child = (*tag & 7U) == 2 ? child_of(kind, *tag >> 3U) : std::nullopt;
    if (child && depth < kMaxDepth) subtract_fields(content, *child, depth + 1, left);
  }
}

}  // namespace

bool has_more_fields_than(std::span<const std::byte> model, std::int64_t limit) {
  std::int64_t left = limit;
  subtract_fields(model, Message::Model, 0, left);
  return left < 0;
}

}  // namespace mobicuda::onnx_import
