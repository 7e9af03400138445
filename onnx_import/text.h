#pragma once

#include <string>
#include <string_view>

namespace mobicuda::onnx_import {

/// Text out of a file, fit for a message: control characters escaped, cut after 128 bytes.
std::string printable(std::string_view text);

/// printable() in single quotes.
std::string in_quotes(std::string_view text);

}  // namespace mobicuda::onnx_import
