#include "op_table.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "ops/ops.h"
#include "text.h"

namespace mobicuda::onnx_import {
namespace {

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
constexpr ImportFunction kNone = nullptr;
constexpr std::int64_t kNewest = kNewestOpset;

constexpr std::string_view kWindow = "auto_pad dilations group kernel_shape pads strides";
constexpr std::string_view kConstant6 = "value";
constexpr std::string_view kConstant11 = "sparse_value value";
constexpr std::string_view kConstant12 =
    "sparse_value value value_float value_floats value_int value_ints value_string value_strings";

// name, opsets, inputs, attributes, with an activation, with constants only
constexpr OperatorForm kForms[] = {
    {"Add", 6, 6, 2, 2, "axis broadcast", import_add, fold_add},
    {"Add", 7, kNewest, 2, 2, "", import_add, fold_add},
    {"AveragePool", 6, 6, 1, 1, "auto_pad kernel_shape pads strides", import_average_pool, kNone},
    {"AveragePool", 7, 9, 1, 1, "auto_pad count_include_pad kernel_shape pads strides", import_average_pool, kNone},
    {"AveragePool", 10, 18, 1, 1, "auto_pad ceil_mode count_include_pad kernel_shape pads strides", import_average_pool,
     kNone},
    {"AveragePool", 19, kNewest, 1, 1, "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides",
     import_average_pool, kNone},
    {"BatchNormalization", 6, 6, 5, 5, "epsilon is_test momentum spatial", import_batch_norm_6, kNone},
    {"BatchNormalization", 7, 8, 5, 5, "epsilon momentum spatial", import_batch_norm_7, kNone},
    {"BatchNormalization", 9, 13, 5, 5, "epsilon momentum", import_batch_norm_7, kNone},
    {"BatchNormalization", 14, kNewest, 5, 5, "epsilon momentum training_mode", import_batch_norm_14, kNone},
    {"Cast", 6, 18, 1, 1, "to", import_cast, fold_cast},
    {"Cast", 19, 23, 1, 1, "saturate to", import_cast, fold_cast},
    {"Cast", 24, kNewest, 1, 1, "round_mode saturate to", import_cast, fold_cast},
    {"Ceil", 6, kNewest, 1, 1, "", kNone, fold_ceil},
    {"Clip", 6, 10, 1, 1, "max min", import_clip_attributes, kNone},
    {"Clip", 11, kNewest, 1, 3, "", import_clip_inputs, fold_clip},
    {"Concat", 6, kNewest, 1, kAny, "axis", import_concat, fold_concat},
    {"Constant", 6, 10, 0, 0, kConstant6, kNone, fold_constant},
    {"Constant", 11, 11, 0, 0, kConstant11, kNone, fold_constant},
    {"Constant", 12, kNewest, 0, 0, kConstant12, kNone, fold_constant},
    {"ConstantOfShape", 9, kNewest, 1, 1, "value", kNone, fold_constant_of_shape},
    {"Conv", 6, kNewest, 2, 3, kWindow, import_conv, kNone},
    {"Div", 6, 6, 2, 2, "axis broadcast", import_div, fold_div},
    {"Div", 7, kNewest, 2, 2, "", import_div, fold_div},
    {"Dropout", 6, 6, 1, 1, "is_test ratio", import_dropout_6, fold_identity},
    {"Dropout", 7, 11, 1, 1, "ratio", import_dropout_7, fold_identity},
    {"Dropout", 12, kNewest, 1, 3, "seed", import_dropout_12, kNone},
    {"Elu", 6, kNewest, 1, 1, "alpha", import_elu, kNone},
    {"Expand", 8, kNewest, 2, 2, "", kNone, fold_expand},
    {"Flatten", 6, kNewest, 1, 1, "axis", import_flatten, fold_flatten},
    {"Floor", 6, kNewest, 1, 1, "", kNone, fold_floor},
    {"Gather", 6, kNewest, 2, 2, "axis", kNone, fold_gather},
    {"Gemm", 6, 6, 3, 3, "alpha beta broadcast transA transB", import_gemm, kNone},
    {"Gemm", 7, 10, 3, 3, "alpha beta transA transB", import_gemm, kNone},
    {"Gemm", 11, kNewest, 2, 3, "alpha beta transA transB", import_gemm, kNone},
    {"GlobalAveragePool", 6, kNewest, 1, 1, "", import_global_average_pool, kNone},
    {"GlobalMaxPool", 6, kNewest, 1, 1, "", import_global_max_pool, kNone},
    {"HardSigmoid", 6, kNewest, 1, 1, "alpha beta", import_hard_sigmoid, kNone},
    {"HardSwish", 14, kNewest, 1, 1, "", import_hard_swish, kNone},
    {"Identity", 6, kNewest, 1, 1, "", import_identity, fold_identity},
    {"LRN", 6, kNewest, 1, 1, "alpha beta bias size", import_lrn, kNone},
    {"LeakyRelu", 6, kNewest, 1, 1, "alpha", import_leaky_relu, kNone},
    {"MatMul", 6, kNewest, 2, 2, "", import_matmul, kNone},
    {"Max", 6, kNewest, 1, kAny, "", import_max, fold_max},
    {"MaxPool", 6, 7, 1, 1, "auto_pad kernel_shape pads strides", import_max_pool, kNone},
    {"MaxPool", 8, 9, 1, 1, "auto_pad kernel_shape pads storage_order strides", import_max_pool, kNone},
    {"MaxPool", 10, kNewest, 1, 1, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
     import_max_pool, kNone},
    {"Min", 6, kNewest, 1, kAny, "", import_min, fold_min},
    {"Mul", 6, 6, 2, 2, "axis broadcast", import_mul, fold_mul},
    {"Mul", 7, kNewest, 2, 2, "", import_mul, fold_mul},
    {"Neg", 6, kNewest, 1, 1, "", kNone, fold_neg},
    {"PRelu", 6, kNewest, 2, 2, "", import_prelu, kNone},
    {"Pad", 6, 10, 1, 1, "mode pads value", import_pad_attributes, kNone},
    {"Pad", 11, 17, 2, 3, "mode", import_pad_inputs, kNone},
    {"Pad", 18, kNewest, 2, 4, "mode", import_pad_inputs, kNone},
    {"Range", 11, kNewest, 3, 3, "", kNone, fold_range},
    {"ReduceMean", 6, 17, 1, 1, "axes keepdims", import_reduce_mean_attribute, kNone},
    {"ReduceMean", 18, kNewest, 1, 2, "keepdims noop_with_empty_axes", import_reduce_mean_input, kNone},
    {"Relu", 6, kNewest, 1, 1, "", import_relu, fold_relu},
    {"Reshape", 6, 13, 2, 2, "", import_reshape, fold_reshape},
    {"Reshape", 14, kNewest, 2, 2, "allowzero", import_reshape, fold_reshape},
    {"Shape", 6, 14, 1, 1, "", import_shape, import_shape},
    {"Shape", 15, kNewest, 1, 1, "end start", import_shape, import_shape},
    {"Sigmoid", 6, kNewest, 1, 1, "", import_sigmoid, kNone},
    {"Size", 6, kNewest, 1, 1, "", import_size, import_size},
    {"Slice", 6, 9, 1, 1, "axes ends starts", import_slice_attributes, fold_slice_attributes},
    {"Slice", 10, kNewest, 3, 5, "", import_slice_inputs, fold_slice_inputs},
    {"Softmax", 6, 12, 1, 1, "axis", import_softmax_flattened, kNone},
    {"Softmax", 13, kNewest, 1, 1, "axis", import_softmax_axis, kNone},
    {"Split", 6, 12, 1, 1, "axis split", import_split, kNone},
    {"Split", 13, 17, 1, 2, "axis", import_split, kNone},
    {"Split", 18, kNewest, 1, 2, "axis num_outputs", import_split, kNone},
    {"Sqrt", 6, kNewest, 1, 1, "", kNone, fold_sqrt},
    {"Squeeze", 6, 12, 1, 1, "axes", import_squeeze, fold_squeeze},
    {"Squeeze", 13, kNewest, 1, 2, "", import_squeeze, fold_squeeze},
    {"Sub", 6, 6, 2, 2, "axis broadcast", import_sub, fold_sub},
    {"Sub", 7, kNewest, 2, 2, "", import_sub, fold_sub},
    {"Sum", 6, kNewest, 1, kAny, "", import_sum, fold_add},
    {"Tanh", 6, kNewest, 1, 1, "", import_tanh, kNone},
    {"Transpose", 6, kNewest, 1, 1, "perm", import_transpose, fold_transpose},
    {"Unsqueeze", 6, 12, 1, 1, "axes", import_unsqueeze, fold_unsqueeze},
    {"Unsqueeze", 13, kNewest, 2, 2, "", import_unsqueeze, fold_unsqueeze},
};

// Operators that deserve a better answer than that they are not known.
struct Refusal {
  std::string_view name;
  std::string_view reason;
};

constexpr std::string_view kInt8 = "int8 models are not supported yet; use the floating-point model";
constexpr std::string_view kControlFlow = "control flow is not supported";

constexpr Refusal kRefusals[] = {{"ConvInteger", kInt8},
                                 {"DequantizeLinear", kInt8},
                                 {"DynamicQuantizeLinear", kInt8},
                                 {"If", kControlFlow},
                                 {"Loop", kControlFlow},
                                 {"MatMulInteger", kInt8},
                                 {"QLinearConv", kInt8},
                                 {"QLinearMatMul", kInt8},
                                 {"QuantizeLinear", kInt8},
                                 {"Scan", kControlFlow},
                                 {"LogSoftmax", "export the logits, or a Softmax, instead"}};

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

Error unknown_operator(const NodeImporter& node, bool known_at_other_opsets) {
  const std::string opset = "opset " + std::to_string(node.state().opset);
  for (const Refusal& refusal : kRefusals) {
    if (refusal.name == node.op_type()) {
      return node.error(ErrorCode::unsupported, "the operator is not supported (" + opset + ")",
                        std::string(refusal.reason));
    }
  }
  if (known_at_other_opsets) {
    return node.error(ErrorCode::invalid_model, "the operator does not exist in " + opset);
  }
  return node.error(ErrorCode::unsupported, "the operator is not supported (" + opset + ")",
                    "docs/onnx.md lists the operators that are");
}

const OperatorForm& find_form(const NodeImporter& node) {
  bool known = false;
  for (const OperatorForm& form : kForms) {
    if (form.name != node.op_type()) continue;
    known = true;
    if (node.state().opset >= form.first_opset && node.state().opset <= form.last_opset) return form;
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
      throw node.invalid_attribute(attribute.name(), "does not exist in opset " + std::to_string(node.state().opset));
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
    if (form.max_inputs == kAny) {
      expected += " or more";
    } else if (form.max_inputs != form.min_inputs) {
      expected += " to " + std::to_string(form.max_inputs);
    }
    throw node.error(ErrorCode::invalid_model, "must have " + expected + " inputs in opset " +
                                                   std::to_string(node.state().opset) + ", has " +
                                                   std::to_string(node.inputs()));
  }
  for (std::size_t position = 0; position < form.min_inputs; ++position) {
    if (!node.has_input(position)) throw node.invalid_input(position, "is missing");
  }
  if (form.max_inputs != kAny) return;
  for (std::size_t position = 0; position < node.inputs(); ++position) {
    if (!node.has_input(position)) throw node.invalid_input(position, "is missing");
  }
}

}  // namespace

std::span<const OperatorForm> operator_forms() { return kForms; }

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
