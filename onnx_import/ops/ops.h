#pragma once

#include "../node_importer.h"

namespace mobicuda::onnx_import {

/// The remedy for nodes in training mode.
inline constexpr const char* kEvalHint = "the model was exported in training mode: call model.eval() before the export";

// The import functions of the operator table (op_table.cpp). Each handles one form of one operator.

void import_conv(NodeImporter& node);

void import_batch_norm_6(NodeImporter& node);
void import_batch_norm_7(NodeImporter& node);
void import_batch_norm_14(NodeImporter& node);

void import_average_pool(NodeImporter& node);
void import_max_pool(NodeImporter& node);
void import_global_average_pool(NodeImporter& node);
void import_global_max_pool(NodeImporter& node);

void import_reduce_mean_attribute(NodeImporter& node);
void import_reduce_mean_input(NodeImporter& node);
void import_softmax_flattened(NodeImporter& node);
void import_softmax_axis(NodeImporter& node);

void import_gemm(NodeImporter& node);
void import_matmul(NodeImporter& node);

void import_lrn(NodeImporter& node);

void import_relu(NodeImporter& node);
void import_sigmoid(NodeImporter& node);
void import_tanh(NodeImporter& node);
void import_leaky_relu(NodeImporter& node);
void import_prelu(NodeImporter& node);
void import_elu(NodeImporter& node);
void import_hard_sigmoid(NodeImporter& node);
void import_hard_swish(NodeImporter& node);
void import_clip_attributes(NodeImporter& node);
void import_clip_inputs(NodeImporter& node);
void import_min(NodeImporter& node);
void import_max(NodeImporter& node);
void import_add(NodeImporter& node);
void import_sub(NodeImporter& node);
void import_mul(NodeImporter& node);
void import_div(NodeImporter& node);
void import_sum(NodeImporter& node);

void import_identity(NodeImporter& node);
void import_cast(NodeImporter& node);
void import_dropout_6(NodeImporter& node);
void import_dropout_7(NodeImporter& node);
void import_dropout_12(NodeImporter& node);
void import_reshape(NodeImporter& node);
void import_flatten(NodeImporter& node);
void import_squeeze(NodeImporter& node);
void import_unsqueeze(NodeImporter& node);
void import_transpose(NodeImporter& node);
void import_concat(NodeImporter& node);
void import_slice_attributes(NodeImporter& node);
void import_slice_inputs(NodeImporter& node);
void import_split(NodeImporter& node);
void import_pad_attributes(NodeImporter& node);
void import_pad_inputs(NodeImporter& node);
void import_shape(NodeImporter& node);
void import_size(NodeImporter& node);

void fold_constant(NodeImporter& node);
void fold_constant_of_shape(NodeImporter& node);
void fold_range(NodeImporter& node);
void fold_identity(NodeImporter& node);
void fold_cast(NodeImporter& node);
void fold_reshape(NodeImporter& node);
void fold_flatten(NodeImporter& node);
void fold_squeeze(NodeImporter& node);
void fold_unsqueeze(NodeImporter& node);
void fold_transpose(NodeImporter& node);
void fold_gather(NodeImporter& node);
void fold_slice_attributes(NodeImporter& node);
void fold_slice_inputs(NodeImporter& node);
void fold_concat(NodeImporter& node);
void fold_expand(NodeImporter& node);
void fold_add(NodeImporter& node);
void fold_sub(NodeImporter& node);
void fold_mul(NodeImporter& node);
void fold_div(NodeImporter& node);
void fold_min(NodeImporter& node);
void fold_max(NodeImporter& node);
void fold_relu(NodeImporter& node);
void fold_clip(NodeImporter& node);
void fold_neg(NodeImporter& node);
void fold_ceil(NodeImporter& node);
void fold_floor(NodeImporter& node);
void fold_sqrt(NodeImporter& node);

}  // namespace mobicuda::onnx_import
