#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "node_importer.h"

namespace mobicuda::onnx_import {

inline constexpr std::int64_t kOldestOpset = 6;
inline constexpr std::int64_t kNewestOpset = 27;
inline constexpr std::int64_t kNewestIrVersion = 13;

/// Turns a node of the file into nodes of the graph, or into a constant.
using ImportFunction = void (*)(NodeImporter&);

/// OperatorForm::max_inputs where there is no most.
inline constexpr std::size_t kAnyInputs = std::numeric_limits<std::size_t>::max();

/// One form of an operator: the range of opsets that has it, and what it may consist of.
struct OperatorForm {
  std::string_view name;
  std::int64_t first_opset;
  std::int64_t last_opset;
  std::size_t min_inputs;
  std::size_t max_inputs;
  std::string_view attributes;      ///< the names it may have, separated by spaces
  ImportFunction import = nullptr;  ///< when an input is an activation; null when that is not supported
  ImportFunction fold = nullptr;    ///< when all inputs are constants; null when that is not supported
};

/// The forms of all files of ops/, sorted by name and opset.
std::span<const OperatorForm> operator_forms();

/// Imports the node by its form. Throws Error, naming the node.
void import_node(NodeImporter& node);

}  // namespace mobicuda::onnx_import
