#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "node_importer.h"

namespace mobicuda::onnx_import {

inline constexpr std::int64_t kOldestOpset = 6;
inline constexpr std::int64_t kNewestOpset = 28;
inline constexpr std::int64_t kNewestIrVersion = 14;

/// The domain of ONNX Runtime's own operators, of which its optimiser writes some into the files that it saves.
inline constexpr std::string_view kMicrosoftDomain = "com.microsoft";

/// Turns a node of the file into nodes of the graph, or into a constant.
using ImportFunction = void (*)(NodeImporter&);

/// OperatorForm::max_inputs where there is no most.
inline constexpr std::size_t kAnyInputs = std::numeric_limits<std::size_t>::max();

/// One form of an operator: the range of its domain's opsets that has it, and what it may consist of.
struct OperatorForm {
  std::string_view name;
  std::int64_t first_opset;
  std::int64_t last_opset;
  std::size_t min_inputs;
  std::size_t max_inputs;
  std::string_view attributes;      ///< the names it may have, separated by spaces
  ImportFunction import = nullptr;  ///< when an input is an activation; null when that is not supported
  ImportFunction fold = nullptr;    ///< when all inputs are constants; null when that is not supported
  std::string_view domain = {};     ///< empty: ONNX's own
};

/// The forms of all files of ops/, sorted by domain, name and opset.
std::span<const OperatorForm> operator_forms();

/// Whether the operator of another domain than ONNX's is read.
bool is_read(std::string_view domain, std::string_view name);

/// What to do instead of an operator that is known and not supported; empty for others.
std::string_view remedy_for(std::string_view name);

/// Imports the node by its form. Throws Error, naming the node.
void import_node(NodeImporter& node);

}  // namespace mobicuda::onnx_import
