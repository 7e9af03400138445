#include "kernels/inverted_residual/inverted_residual_table.h"

#include "kernels/common/table_parts.h"

namespace mobicuda::kernels {
namespace {

OperandBytes operands(InvertedResidualVariant variant, const InvertedResidualParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.elem, p.n, p.h, p.w, p.c_in);
  bytes.weights[0] = table::as_bytes(inverted_residual_packed_bytes(variant, p));
  bytes.y = table::bytes(p.elem, p.n, p.out_h, p.out_w, p.c_out);
  return bytes;
}

cudaError_t launch_on(InvertedResidualVariant variant, const InvertedResidualParams& p, const Operands& at,
                      const Launch& where) {
  return inverted_residual(variant, p, at.x, at.weights[0], at.y, where);
}

std::string shape(const InvertedResidualParams& p) {
  table::ShapeText text("inverted_residual");
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c_in", p.c_in).with("c_hidden", p.c_hidden);
  text.with("c_out", p.c_out).with("out_h", p.out_h).with("out_w", p.out_w).with("stride", p.stride);
  text.with("pad_top", p.pad_top).with("pad_left", p.pad_left).with("expand", p.expand).with("residual", p.residual);
  if (p.expand) text.with("expand_clip", p.expand_clip);
  return text.with("depthwise_clip", p.depthwise_clip).with("project_clip", p.project_clip).take();
}

}  // namespace

const KernelTable<InvertedResidualParams, InvertedResidualVariant>& kernel_of(const InvertedResidualParams&) {
  static const KernelTable<InvertedResidualParams, InvertedResidualVariant> kTable{
      .name = "inverted_residual",
      .variants = inverted_residual_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packs_by_variant = true,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<InvertedResidualParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
