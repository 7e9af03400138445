#include "kernels/stem_block/stem_block_table.h"

#include "kernels/common/table_parts.h"

namespace mobicuda::kernels {
namespace {

OperandBytes operands(StemBlockVariant variant, const StemBlockParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.input == StemInput::NhwcUint8 ? 1 : sizeof(float), p.n, p.h, p.w, 3);
  bytes.weights[0] = table::as_bytes(stem_block_packed_bytes(variant, p));
  bytes.y = table::bytes(Elem::F16, p.n, p.out_h, p.out_w, p.c_out);
  return bytes;
}

cudaError_t launch_on(StemBlockVariant variant, const StemBlockParams& p, const Operands& at, const Launch& where) {
  return stem_block(variant, p, at.x, at.weights[0], at.y, where);
}

std::string shape(const StemBlockParams& p) {
  table::ShapeText text("stem_block");
  text.with("input", static_cast<int>(p.input)).with("n", p.n).with("h", p.h).with("w", p.w);
  text.with("c_stem", p.c_stem).with("c_out", p.c_out).with("stem_h", p.stem_h).with("stem_w", p.stem_w);
  text.with("out_h", p.out_h).with("out_w", p.out_w);
  text.with("stem_pad_top", p.stem_pad_top).with("stem_pad_left", p.stem_pad_left);
  text.with("depthwise_pad_top", p.depthwise_pad_top).with("depthwise_pad_left", p.depthwise_pad_left);
  text.with("stem_clip", p.stem_clip).with("depthwise_clip", p.depthwise_clip);
  return text.with("project_clip", p.project_clip).take();
}

}  // namespace

const KernelTable<StemBlockParams, StemBlockVariant>& kernel_of(const StemBlockParams&) {
  static const KernelTable<StemBlockParams, StemBlockVariant> kTable{
      .name = "stem_block",
      .variants = stem_block_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packs_by_variant = true,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<StemBlockParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
