#include "kernels/expand_depthwise/expand_depthwise_table.h"

#include "kernels/common/table_parts.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/gemm/gemm.h"

namespace mobicuda::kernels {
namespace {

OperandBytes operands(ExpandDepthwiseVariant, const ExpandDepthwiseParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.elem, p.n, p.h, p.w, p.c_in);
  bytes.weights[0] = table::as_bytes(gemm_packed_bytes(p.elem, p.c, p.c_in));
  bytes.weights[1] = table::bias_bytes(p.c);
  bytes.weights[2] = table::as_bytes(depthwise_conv_packed_bytes(p.elem, p.c, 3, 3));
  bytes.weights[3] = table::bias_bytes(p.c);
  bytes.y = table::bytes(p.elem, p.n, p.out_h, p.out_w, p.c);
  return bytes;
}

cudaError_t launch_on(ExpandDepthwiseVariant variant, const ExpandDepthwiseParams& p, const Operands& at,
                      const Launch& where) {
  return expand_depthwise(variant, p, at.x, at.weights[0], table::bias(p.expand_bias, at.weights[1]), at.weights[2],
                          table::bias(p.depthwise_bias, at.weights[3]), at.y, where);
}

std::string shape(const ExpandDepthwiseParams& p) {
  table::ShapeText text("expand_depthwise");
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c_in", p.c_in).with("c", p.c);
  text.with("out_h", p.out_h).with("out_w", p.out_w).with("stride", p.stride);
  text.with("pad_top", p.pad_top).with("pad_left", p.pad_left);
  text.with("expand_bias", p.expand_bias).with("depthwise_bias", p.depthwise_bias);
  return text.with("expand_clip", p.expand_clip).with("depthwise_clip", p.depthwise_clip).take();
}

}  // namespace

const KernelTable<ExpandDepthwiseParams, ExpandDepthwiseVariant>& kernel_of(const ExpandDepthwiseParams&) {
  static const KernelTable<ExpandDepthwiseParams, ExpandDepthwiseVariant> kTable{
      .name = "expand_depthwise",
      .variants = expand_depthwise_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packs_by_variant = false,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<ExpandDepthwiseParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
