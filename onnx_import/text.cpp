#include "text.h"

#include <cstddef>

namespace mobicuda::onnx_import {
namespace {

constexpr std::size_t kMaxPrintedBytes = 128;

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

std::string printable(std::string_view text) {
  const bool cut = text.size() > kMaxPrintedBytes;
  if (cut) {
    std::size_t length = kMaxPrintedBytes;
    while (length > 0 && is_continuation(text[length])) --length;  // whole UTF-8 characters only
    text = text.substr(0, length);
  }
  constexpr char kHex[] = "0123456789abcdef";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      result += {'\\', 'x', kHex[byte >> 4U], kHex[byte & 15U]};
    } else {
      result += c;
    }
  }
  if (cut) result += "...";
  return result;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

Error invalid(const std::string& where, const std::string& message, const std::string& hint) {
  return {ErrorCode::invalid_model, where, message, hint};
}

}  // namespace mobicuda::onnx_import
