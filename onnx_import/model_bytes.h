#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mobicuda::onnx_import {

/// Throws Error(unsupported) where the bytes of a ModelProto would take far more memory once they are parsed than in
/// the file. Bytes that are no message are judged as far as they go.
void check_parsed_bytes(std::span<const std::byte> model);

}  // namespace mobicuda::onnx_import
