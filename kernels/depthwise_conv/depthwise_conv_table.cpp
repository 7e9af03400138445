#include "kernels/depthwise_conv/depthwise_conv_table.h"

#include "kernels/common/table_parts.h"

namespace mobicuda::kernels {
namespace {

OperandBytes operands(DepthwiseConvVariant, const DepthwiseConvParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.elem, p.n, p.h, p.w, p.c);
  bytes.weights[0] = table::as_bytes(depthwise_conv_packed_bytes(p.elem, p.c, p.kernel_h, p.kernel_w));
  bytes.weights[1] = table::bias_bytes(p.c);
  bytes.y = table::bytes(p.elem, p.n, p.out_h, p.out_w, p.c);
  return bytes;
}

cudaError_t launch_on(DepthwiseConvVariant variant, const DepthwiseConvParams& p, const Operands& at,
                      const Launch& where) {
  return depthwise_conv(variant, p, at.x, at.weights[0], table::bias(p.bias, at.weights[1]), at.y, where);
}

std::string shape(const DepthwiseConvParams& p) {
  table::ShapeText text("depthwise_conv");
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c", p.c).with("out_h", p.out_h).with("out_w", p.out_w);
  return text.with_window(p).with("bias", p.bias).with("activation", p.activation).take();
}

}  // namespace

const KernelTable<DepthwiseConvParams, DepthwiseConvVariant>& kernel_of(const DepthwiseConvParams&) {
  static const KernelTable<DepthwiseConvParams, DepthwiseConvVariant> kTable{
      .name = "depthwise_conv",
      .variants = depthwise_conv_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packs_by_variant = false,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<DepthwiseConvParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
