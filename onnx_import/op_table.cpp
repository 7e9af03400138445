#include "op_table.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include <mobicuda/error.h>

#include "ops/ops.h"
#include "text.h"

namespace mobicuda::onnx_import {
namespace {

// Operators that deserve a better answer than that they are not known.
struct Refusal {
  std::string_view name;
  std::string_view reason;
};

constexpr std::string_view kStatic =
    "its scales are computed at run time: quantise statically, with QuantizeLinear and DequantizeLinear around "
    "operators "
    "(scripts/quantize)";
constexpr std::string_view kSumsOfIntegers =
    "it gives sums of integers: quantise with QuantizeLinear and DequantizeLinear around operators (scripts/quantize)";
constexpr std::string_view kTables =
    "leave it in floating point, between DequantizeLinear and QuantizeLinear: quantise in the QDQ format "
    "(scripts/quantize)";
constexpr std::string_view kControlFlow = "control flow is not supported";

constexpr std::string_view kLogits = "export the logits (or probabilities), and find the best classes in the program";

constexpr Refusal kRefusals[] = {{"ArgMax", kLogits},
                                 {"ConvInteger", kSumsOfIntegers},
                                 {"DynamicQuantizeLinear", kStatic},
                                 {"DynamicQuantizeMatMul", kStatic},
                                 {"If", kControlFlow},
                                 {"Loop", kControlFlow},
                                 {"MatMulInteger", kSumsOfIntegers},
                                 {"MatMulIntegerToFloat", kStatic},
                                 {"QLinearLeakyRelu", kTables},
                                 {"QLinearMul", kTables},
                                 {"QLinearReduceMean", kTables},
                                 {"QLinearSigmoid", kTables},
                                 {"QLinearSoftmax", kTables},
                                 {"Scan", kControlFlow},
                                 {"TopK", kLogits}};

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

Error unknown_operator(const NodeImporter& node, bool known_at_other_opsets) {
  const std::string opset = "opset " + std::to_string(node.opset());
  if (const std::string_view remedy = remedy_for(node.op_type()); !remedy.empty()) {
    return node.error(ErrorCode::unsupported, "the operator is not supported (" + opset + ")", std::string(remedy));
  }
  if (known_at_other_opsets && node.opset() == 0) {
    return node.error(ErrorCode::invalid_model, "its domain " + in_quotes(node.domain()) + " is not imported");
  }
  if (known_at_other_opsets) {
    return node.error(ErrorCode::invalid_model, "the operator does not exist in " + opset);
  }
  return node.error(ErrorCode::unsupported, "the operator is not supported (" + opset + ")",
                    "docs/onnx.md lists the operators that are");
}

const OperatorForm& find_form(const NodeImporter& node) {
  bool known = false;
  for (const OperatorForm& form : operator_forms()) {
    if (form.name != node.op_type() || form.domain != node.domain()) continue;
    known = true;
    if (node.opset() >= form.first_opset && node.opset() <= form.last_opset) return form;
  }
  throw unknown_operator(node, known);
}

void check_attributes(const NodeImporter& node, const OperatorForm& form) {
  const auto& attributes = node.proto().attribute();
  if (attributes.size() > node.state().options.limits.attribute_entries) {
    throw node.error(ErrorCode::unsupported, "has " + std::to_string(attributes.size()) + " attributes, the limit is " +
                                                 std::to_string(node.state().options.limits.attribute_entries));
  }
  std::vector<std::string_view> names;
  for (const auto& attribute : attributes) {
    if (!lists(form.attributes, attribute.name())) {
      throw node.invalid_attribute(attribute.name(), "does not exist in opset " + std::to_string(node.opset()));
    }
    if (!attribute.ref_attr_name().empty()) {
      throw node.invalid_attribute(attribute.name(), "refers to a function's attribute outside of a function");
    }
    names.push_back(attribute.name());
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw node.invalid_attribute(*twice, "is given twice");
}

void check_inputs(const NodeImporter& node, const OperatorForm& form) {
  if (node.inputs() < form.min_inputs || node.inputs() > form.max_inputs) {
    std::string expected = std::to_string(form.min_inputs);
    if (form.max_inputs == kAnyInputs) {
      expected += " or more";
    } else if (form.max_inputs != form.min_inputs) {
      expected += " to " + std::to_string(form.max_inputs);
    }
    throw node.error(ErrorCode::invalid_model, "must have " + expected + " inputs in opset " +
                                                   std::to_string(node.opset()) + ", has " +
                                                   std::to_string(node.inputs()));
  }
  for (std::size_t position = 0; position < form.min_inputs; ++position) {
    if (!node.has_input(position)) throw node.invalid_input(position, "is missing");
  }
  if (form.max_inputs != kAnyInputs) return;
  for (std::size_t position = 0; position < node.inputs(); ++position) {
    if (!node.has_input(position)) throw node.invalid_input(position, "is missing");
  }
}

}  // namespace

std::span<const OperatorForm> operator_forms() {
  static const std::vector<OperatorForm> kSorted = [] {
    std::vector<OperatorForm> all;
    for (const auto forms : kFamilies) all.insert(all.end(), forms().begin(), forms().end());
    std::ranges::sort(all, {},
                      [](const OperatorForm& form) { return std::tuple(form.domain, form.name, form.first_opset); });
    return all;
  }();
  return kSorted;
}

bool is_read(std::string_view domain, std::string_view name) {
  return std::ranges::any_of(operator_forms(),
                             [&](const OperatorForm& form) { return form.domain == domain && form.name == name; });
}

std::string_view remedy_for(std::string_view name) {
  for (const Refusal& refusal : kRefusals) {
    if (refusal.name == name) return refusal.reason;
  }
  return {};
}

void import_node(NodeImporter& node) {
  const OperatorForm& form = find_form(node);
  check_attributes(node, form);
  check_inputs(node, form);
  if (node.proto().output(0).empty()) throw node.error(ErrorCode::invalid_model, "has no first output");
  const bool constants_only = node.all_inputs_constant();
  const ImportFunction function = constants_only && form.fold != nullptr ? form.fold : form.import;
  if (function == nullptr) {
    throw node.error(ErrorCode::unsupported, constants_only
                                                 ? "is not supported between constants"
                                                 : "is supported between constants only, as in shape arithmetic");
  }
  try {
    function(node);
  } catch (const Error& error) {
    // A size or shape that no tensor has: it came from the file.
    if (error.code() != ErrorCode::invalid_argument) throw;
    throw Error(ErrorCode::invalid_model, node.origin().describe() + ", " + error.where(), error.message(),
                error.hint());
  }
  for (std::size_t position = 1; position < static_cast<std::size_t>(node.proto().output_size()); ++position) {
    if (node.output_is_used(position) && !node.output_is_set(position)) {
      throw node.error(ErrorCode::unsupported, "output #" + std::to_string(position) + " " +
                                                   in_quotes(node.proto().output(static_cast<int>(position))) +
                                                   " is used; only the first is supported");
    }
  }
}

}  // namespace mobicuda::onnx_import
