#include "wire_format/parsed_bytes.h"

#include <algorithm>
#include <optional>
#include <string>

namespace mobicuda::wire_format {
namespace {

constexpr int kMaxDepth = 100;  // protobuf's own

// Lists grow by doubling: while one grows, its old place is there beside the new one.
constexpr std::int64_t kPlacesOfAnElement = 3;
constexpr std::int64_t kNumber = kPlacesOfAnElement * static_cast<std::int64_t>(sizeof(std::int64_t));
constexpr std::int64_t kAllocation = 16;  // what malloc adds
constexpr std::int64_t kPointer = kPlacesOfAnElement * static_cast<std::int64_t>(sizeof(void*)) + kAllocation;
constexpr std::int64_t kText = kPointer + static_cast<std::int64_t>(sizeof(std::string)) + kAllocation;

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

class Counter {
 public:
  Counter(const Schema& schema, std::int64_t limit) : schema_(schema), limit_(limit) {}

  std::int64_t bytes() const { return bytes_; }

  void add_message(std::span<const std::byte> bytes, std::size_t kind, int depth) {
    bytes_ += kPointer + static_cast<std::int64_t>(schema_.object_bytes[kind]);
    while (!bytes.empty() && bytes_ <= limit_) {
      const std::optional<std::uint64_t> tag = take_varint(bytes);
      if (!tag) return;
      std::optional<std::uint64_t> length;
      switch (*tag & 7U) {
        case 0:
          bytes_ += kNumber;
          if (!take_varint(bytes)) return;
          continue;
        case 1:
          bytes_ += kNumber;
          length = 8;
          break;
        case 2:
          length = take_varint(bytes);
          break;
        case 3:  // a group's begin and end: obsolete, but protobuf keeps their bytes and reads on
        case 4:
          bytes_ += kNumber;
          continue;
        case 5:
          bytes_ += kNumber;
          length = 4;
          break;
        default:
          return;
      }
      if (!length || *length > bytes.size()) return;
      const std::span<const std::byte> content = bytes.first(*length);
      bytes = bytes.subspan(*length);
      if ((*tag & 7U) == 2) add_content(content, kind, *tag >> 3U, depth);
    }
  }

 private:
  void add_content(std::span<const std::byte> content, std::size_t parent, std::uint64_t number, int depth) {
    const auto is_this = [&](const auto& field) { return field.parent == parent && field.number == number; };
    const auto size = static_cast<std::int64_t>(content.size());
    const auto message = std::find_if(schema_.messages.begin(), schema_.messages.end(), is_this);
    const auto packed = std::find_if(schema_.packed.begin(), schema_.packed.end(), is_this);
    if (message != schema_.messages.end() && depth < kMaxDepth) {
      add_message(content, message->child, depth + 1);
    } else if (packed != schema_.packed.end()) {
      bytes_ += kPlacesOfAnElement * static_cast<std::int64_t>(packed->object_bytes) * size;
    } else {
      bytes_ += kText + size;
    }
  }

  const Schema& schema_;
  std::int64_t limit_;
  std::int64_t bytes_ = 0;
};

}  // namespace

std::int64_t parsed_bytes(std::span<const std::byte> message, const Schema& schema, std::int64_t limit) {
  Counter counter(schema, limit);
  counter.add_message(message, 0, 0);
  return counter.bytes();
}

}  // namespace mobicuda::wire_format
