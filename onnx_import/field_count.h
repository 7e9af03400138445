#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mobicuda::onnx_import {

/// Whether the bytes of a ModelProto hold more protobuf fields than that. Each field may cost some hundred bytes of
/// memory once it is parsed, whereas it takes two in the file: this is asked before. Bytes that are no message are
/// counted as far as they go. Allocates nothing.
bool has_more_fields_than(std::span<const std::byte> model, std::int64_t limit);

}  // namespace mobicuda::onnx_import
