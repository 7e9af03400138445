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
  return mobicuda::printable(text) + (cut ? "..." : "");
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

Error invalid(const std::string& where, const std::string& message, const std::string& hint) {
  return {ErrorCode::invalid_model, where, message, hint};
}

}  // namespace mobicuda::onnx_import
