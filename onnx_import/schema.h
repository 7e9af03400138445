#pragma once

#include <mobicuda_onnx.pb.h>

namespace mobicuda::onnx_import {

namespace schema = onnx_schema;

}  // namespace mobicuda::onnx_import
