#include <string>

#include <mobicuda/error.h>

#include "ops.h"
#include "window.h"

namespace mobicuda::onnx_import {

Pool2d read_pool(const NodeImporter& node, PoolKind kind) {
  const Shape image = image_shape(node);
  const auto kernel = read_kernel_shape(node);
  if (!kernel) throw node.invalid_attribute("kernel_shape", "is missing");
  const Window window = read_window(node, *kernel, image);
  Pool2d op;
  op.kind = kind;
  op.kernel = window.kernel;
  op.strides = window.strides;
  op.dilations = window.dilations;
  op.pads = window.pads;
  op.ceil_mode = node.flag_attribute("ceil_mode", false);
  op.count_include_pad = node.flag_attribute("count_include_pad", false);
  return op;
}

namespace {

void import_average_pool(NodeImporter& node) {
  const Pool2d op = read_pool(node, PoolKind::Average);
  const Shape image = image_shape(node);
  // Exporters write adaptive_avg_pool2d(1) so; one output pixel without padding is the mean over the whole image.
  if (op.kernel[0] == image[2] && op.kernel[1] == image[3] && !op.pads.any()) {
    set_image(node, node.add(GlobalAveragePool{}, {as_image(node)}));
    return;
  }
  set_image(node, node.add(op, {as_image(node)}));
}

void import_max_pool(NodeImporter& node) {
  set_image(node, node.add(read_pool(node, PoolKind::Max), {as_image(node)}));
}

void import_global_max_pool(NodeImporter& node) {
  const Shape image = image_shape(node);
  Pool2d op;
  op.kernel = {image[2], image[3]};
  set_image(node, node.add(op, {as_image(node)}));
}

void import_global_average_pool(NodeImporter& node) {
  set_image(node, node.add(GlobalAveragePool{}, {as_image(node)}));
}

}  // namespace

Forms pool_forms() {
  static constexpr OperatorForm kForms[] = {
      {"AveragePool", 6, 6, 1, 1, "auto_pad kernel_shape pads strides", import_average_pool},
      {"AveragePool", 7, 9, 1, 1, "auto_pad count_include_pad kernel_shape pads strides", import_average_pool},
      {"AveragePool", 10, 18, 1, 1, "auto_pad ceil_mode count_include_pad kernel_shape pads strides",
       import_average_pool},
      {"AveragePool", 19, kNewestOpset, 1, 1,
       "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides", import_average_pool},
      {"GlobalAveragePool", 6, kNewestOpset, 1, 1, "", import_global_average_pool},
      {"GlobalMaxPool", 6, kNewestOpset, 1, 1, "", import_global_max_pool},
      {"MaxPool", 6, 7, 1, 1, "auto_pad kernel_shape pads strides", import_max_pool},
      {"MaxPool", 8, 9, 1, 1, "auto_pad kernel_shape pads storage_order strides", import_max_pool},
      {"MaxPool", 10, kNewestOpset, 1, 1, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
       import_max_pool},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
