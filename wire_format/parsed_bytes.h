#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mobicuda::wire_format {

/// A field that holds messages: of which kind of message, which number, and of which kind they are.
struct MessageField {
  std::size_t parent;
  std::uint64_t number;
  std::size_t child;
};

/// A field that holds numbers one behind the other, of one byte each in the file at least and of `object_bytes` once
/// parsed.
struct PackedField {
  std::size_t parent;
  std::uint64_t number;
  std::size_t object_bytes;
};

/// What a schema says about messages whose number can grow with the file. Kinds are positions in `object_bytes`, the
/// sizes of their classes; kind 0 is that of the file. A field of bytes that is in neither list counts as a
/// text.
struct Schema {
  std::span<const std::size_t> object_bytes;
  std::span<const MessageField> messages;
  std::span<const PackedField> packed;
};

/// At most how many bytes protobuf's objects of this message take, with what their lists allocate ahead: a field of two
/// bytes becomes an object of up to some hundred, so this is asked before parsing. A number above `limit` is a lower
/// bound, as no more is read then. Bytes that are no message are counted as far as they go. Allocates nothing.
std::int64_t parsed_bytes(std::span<const std::byte> message, const Schema& schema, std::int64_t limit);

}  // namespace mobicuda::wire_format
