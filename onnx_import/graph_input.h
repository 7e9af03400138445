#pragma once

#include "node_importer.h"
#include "schema.h"

namespace mobicuda::onnx_import {

/// Finds the network's input, the graph input that no initializer gives a default to, and sets it in the graph, with
/// the batch freed and open extents bound by ImportOptions::picture_shape. Throws Error.
void read_input(const schema::GraphProto& graph, ImportState& state);

}  // namespace mobicuda::onnx_import
