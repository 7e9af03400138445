// Mutations of protobuf messages without their schema: the wire format says which fields there are, and whether a field
// of bytes may be a message is seen by reading it as one.
#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/target.h"

namespace mobicuda::fuzz {
namespace {

constexpr int kMostDepth = 8;

enum WireType : unsigned { Varint = 0, Fixed64 = 1, Length = 2, Fixed32 = 5 };

struct Field {
  std::uint64_t tag = 0;
  std::uint64_t number = 0;   ///< of Varint
  std::string bytes;          ///< of all others, unless it is a message
  std::vector<Field> fields;  ///< of a message
  bool message = false;

  unsigned type() const { return static_cast<unsigned>(tag & 7U); }
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool done() const { return text_.empty(); }
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !text_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(text_.front());
      text_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  std::optional<std::string_view> take(std::uint64_t count) {
    if (count > text_.size()) return std::nullopt;
    const std::string_view part = text_.substr(0, count);
    text_.remove_prefix(count);
    return part;
  }

 private:
  std::string_view text_;
};

// Nothing where that is no message.
std::optional<std::vector<Field>> parse(std::string_view text, int depth) {
  std::vector<Field> fields;
  Reader reader(text);
  while (!reader.done()) {
    const auto tag = reader.varint();
    if (!tag || *tag < 8 || *tag > (1U << 29U)) return std::nullopt;
    Field field;
    field.tag = *tag;
    std::optional<std::string_view> part;
    switch (field.type()) {
      case Varint: {
        const auto number = reader.varint();
        if (!number) return std::nullopt;
        field.number = *number;
        break;
      }
      case Fixed64:
        part = reader.take(8);
        break;
      case Fixed32:
        part = reader.take(4);
        break;
      case Length: {
        const auto length = reader.varint();
        if (length) part = reader.take(*length);
        break;
      }
      default:
        return std::nullopt;
    }
    if (field.type() != Varint) {
      if (!part) return std::nullopt;
      if (field.type() == Length && part->size() >= 2 && depth < kMostDepth) {
        if (auto inner = parse(*part, depth + 1)) {
          field.message = true;
          field.fields = std::move(*inner);
        }
      }
      if (!field.message) field.bytes = *part;
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

void append_varint(std::string& text, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) text += static_cast<char>((value & 0x7FU) | 0x80U);
  text += static_cast<char>(value);
}

std::string serialise(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) {
    append_varint(text, field.tag);
    if (field.type() == Varint) {
      append_varint(text, field.number);
      continue;
    }
    const std::string inner = field.message ? serialise(field.fields) : field.bytes;
    if (field.type() == Length) append_varint(text, inner.size());
    text += inner;
  }
  return text;
}

void collect(std::vector<Field>& fields, std::vector<std::vector<Field>*>& messages) {
  if (!fields.empty()) messages.push_back(&fields);
  for (Field& field : fields) collect(field.fields, messages);
}

class Mutation {
 public:
  explicit Mutation(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t count) { return random_() % count; }

  void change(std::vector<Field>& root) {
    std::vector<std::vector<Field>*> messages;
    collect(root, messages);
    if (messages.empty()) return;
    std::vector<Field>& fields = *messages[below(messages.size())];
    const std::size_t at = below(fields.size());
    switch (below(8)) {
      case 0:
        fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(below(fields.size())), Field(fields[at]));
        break;
      case 2:
        std::swap(fields[at], fields[below(fields.size())]);
        break;
      case 3: {  // another one's content
        std::vector<Field>& others = *messages[below(messages.size())];
        const Field& other = others[below(others.size())];
        if (other.type() == fields[at].type() && &other != &fields[at]) {
          Field copy = other;
          copy.tag = fields[at].tag;
          fields[at] = std::move(copy);
        }
        break;
      }
      case 4: {  // a copy of another message's field
        std::vector<Field>& others = *messages[below(messages.size())];
        Field copy = others[below(others.size())];
        fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(at), std::move(copy));
        break;
      }
      default:
        content(fields[at]);
    }
  }

 private:
  void content(Field& field) {
    if (field.type() == Varint) {
      static constexpr std::int64_t kNumbers[] = {
          0,          1,          2,   3,    4,         7,        8,     16,
          64,         255,        256, 1024, 65535,     65536,    65537, std::int64_t{1} << 24,
          2147483647, 2147483648, -1,  -2,   INT64_MAX, INT64_MIN};
      const auto number = static_cast<std::uint64_t>(kNumbers[below(std::size(kNumbers))]);
      switch (below(3)) {
        case 0:
          field.number = number;
          break;
        case 1:
          field.number += below(2) == 0 ? 1 : ~std::uint64_t{0};
          break;
        default:
          field.number = below(32);
      }
      return;
    }
    std::string text = field.message ? serialise(field.fields) : field.bytes;
    if (field.type() == Length) {
      const std::size_t before = text.size();
      text.resize(before + 16);
      text.resize(plain_mutation(reinterpret_cast<std::uint8_t*>(text.data()), before, text.size()));
    } else {
      text[below(text.size())] = static_cast<char>(random_());
    }
    field.message = false;
    field.fields.clear();
    field.bytes = std::move(text);
  }

  std::minstd_rand random_;
};

}  // namespace

std::size_t mutate_message(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  constexpr std::size_t kPlainOneIn = 4;
  Mutation mutation(seed);
  auto fields = parse({reinterpret_cast<const char*>(data), size}, 0);
  if (!fields || fields->empty() || mutation.below(kPlainOneIn) == 0) return plain_mutation(data, size, room);
  for (std::size_t changes = 1 + mutation.below(3); changes > 0; --changes) mutation.change(*fields);
  const std::string text = serialise(*fields);
  if (text.size() > room) return plain_mutation(data, size, room);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

}  // namespace mobicuda::fuzz
