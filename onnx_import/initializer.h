#pragma once

#include <cstdint>
#include <string_view>

#include <mobicuda/onnx_import.h>

#include "constant.h"
#include "external_data.h"
#include "schema.h"

namespace mobicuda::onnx_import {

/// Checks everything about a tensor that can be known without its elements: type, shape, limits, and that the
/// file holds exactly as many bytes as they need. Returns that number. Throws Error, without naming the tensor.
std::int64_t validate_tensor(const schema::TensorProto& tensor, const ImportLimits& limits,
                             const ExternalData& external);

/// The elements of a tensor that validate_tensor() has passed. Floating-point types become F32: FLOAT16 and
/// BFLOAT16 exactly, DOUBLE rounded, which `log` is told of.
ConstantPtr decode_tensor(const schema::TensorProto& tensor, const ExternalData& external, const LogCallback& log);

/// INT8 and UINT8.
bool is_byte_type(std::int32_t data_type);

/// The elements of a tensor of such a type that validate_tensor() has passed.
IntegersPtr decode_bytes(const schema::TensorProto& tensor, const ExternalData& external);

/// ONNX's name of a tensor element type, e.g. "FLOAT16"; "type 77" for one that ONNX does not know.
std::string data_type_name(std::int32_t data_type);

/// FLOAT, FLOAT16, BFLOAT16, DOUBLE.
bool is_float_type(std::int32_t data_type);
/// The integer types of 8 to 64 bits, and BOOL.
bool is_integer_type(std::int32_t data_type);

}  // namespace mobicuda::onnx_import
