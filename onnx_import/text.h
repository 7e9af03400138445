#pragma once

#include <string>
#include <string_view>

#include <mobicuda/error.h>

namespace mobicuda::onnx_import {

/// Text out of a file, fit for a message: mobicuda::printable(), and cut after 128 bytes.
std::string printable(std::string_view text);

/// printable() in single quotes.
std::string in_quotes(std::string_view text);

/// A model that breaks ONNX's rules.
Error invalid(const std::string& where, const std::string& message, const std::string& hint = {});

}  // namespace mobicuda::onnx_import
