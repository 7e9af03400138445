#pragma once

#include <span>

#include "../op_table.h"

namespace mobicuda::onnx_import {

/// The remedy for nodes in training mode.
inline constexpr const char* kEvalHint = "the model was exported in training mode: call model.eval() before the export";

// Each file of ops/ gives the forms of its operators, in any order.
using Forms = std::span<const OperatorForm>;
Forms conv_forms();
Forms elementwise_forms();
Forms gemm_forms();
Forms norm_forms();
Forms pool_forms();
Forms qoperator_forms();
Forms quantize_forms();
Forms reduce_forms();
Forms resize_forms();
Forms shape_forms();
Forms slice_forms();
Forms fold_arithmetic_forms();
Forms fold_generate_forms();

inline constexpr Forms (*kFamilies[])() = {conv_forms,         elementwise_forms, gemm_forms,     norm_forms,
                                           pool_forms,         qoperator_forms,   quantize_forms, reduce_forms,
                                           resize_forms,       shape_forms,       slice_forms,    fold_arithmetic_forms,
                                           fold_generate_forms};

// Between constants, for forms of other files.
void fold_identity(NodeImporter& node);
void fold_cast(NodeImporter& node);
void fold_cast_like(NodeImporter& node);  ///< the second input may be an activation
void fold_expand(NodeImporter& node);
void fold_gather(NodeImporter& node);
void fold_reshape(NodeImporter& node);
void fold_flatten(NodeImporter& node);
void fold_squeeze(NodeImporter& node);
void fold_unsqueeze(NodeImporter& node);
void fold_transpose(NodeImporter& node);
void fold_slice_attributes(NodeImporter& node);
void fold_slice_inputs(NodeImporter& node);
void fold_concat(NodeImporter& node);
void fold_add(NodeImporter& node);
void fold_sub(NodeImporter& node);
void fold_mul(NodeImporter& node);
void fold_div(NodeImporter& node);
void fold_min(NodeImporter& node);
void fold_max(NodeImporter& node);
void fold_abs(NodeImporter& node);
void fold_exp(NodeImporter& node);
void fold_reciprocal(NodeImporter& node);
void fold_sqrt(NodeImporter& node);
void fold_neg(NodeImporter& node);
void fold_pow(NodeImporter& node);
void fold_relu(NodeImporter& node);
void fold_clip(NodeImporter& node);

}  // namespace mobicuda::onnx_import
