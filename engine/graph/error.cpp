#include <mobicuda/error.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace mobicuda {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::invalid_model:
      return "invalid_model";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::io:
      return "io";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::device_unavailable:
      return "device_unavailable";
    case ErrorCode::device_lost:
      return "device_lost";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// Bytes of the UTF-8 character that `text` begins with; 0 where it begins with none, or with a control character.
std::size_t printable_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return first < 0x20 || first == 0x7F ? 0 : 1;
  const std::size_t bytes = first >= 0xF8 ? 0 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 0;
  if (bytes == 0 || bytes > text.size() ||
      !std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(bytes), is_continuation)) {
    return 0;
  }
  const bool c1 = first < 0xC2 || (first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
  return c1 ? 0 : bytes;
}

std::string shown(std::string text) {
  text = printable(text);
  if (text.size() <= kMaxErrorBytes) return text;
  std::size_t length = kMaxErrorBytes;
  while (length > 0 && is_continuation(text[length])) --length;  // whole characters
  text.resize(length);
  return text + "...";
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    std::size_t bytes = printable_bytes(text);
    if (bytes > 0) {
      result += text.substr(0, bytes);
    } else {
      bytes = 1;
      const auto byte = static_cast<unsigned char>(text[0]);
      result += {'\\', 'x', kHex[byte >> 4U], kHex[byte & 15U]};
    }
    text.remove_prefix(bytes);
  }
  return result;
}

Error::Error(ErrorCode code, std::string where, std::string message, std::string hint)
    : code_(code), where_(shown(std::move(where))), message_(shown(std::move(message))), hint_(shown(std::move(hint))) {
  what_ = std::string(to_string(code_)) + ": ";
  if (!where_.empty()) what_ += where_ + ": ";
  what_ += message_;
  if (!hint_.empty()) what_ += "; " + hint_;
}

Error Error::inside(std::string_view outer) const {
  std::string where(outer);
  if (!where_.empty()) where += ": " + where_;
  return {code_, std::move(where), message_, hint_};
}

}  // namespace mobicuda
