#include "kernels/squeeze_excite/squeeze_excite_table.h"

#include "kernels/common/table_parts.h"

namespace mobicuda::kernels {
namespace {

OperandBytes operands(SqueezeExciteVariant variant, const SqueezeExciteParams& p) {
  OperandBytes bytes;
  bytes.x = bytes.y = table::bytes(p.elem, p.n, p.pixels, p.c);
  bytes.weights[0] = table::as_bytes(squeeze_excite_packed_bytes(variant, p));
  return bytes;
}

cudaError_t launch_on(SqueezeExciteVariant variant, const SqueezeExciteParams& p, const Operands& at,
                      const Launch& where) {
  return squeeze_excite(variant, p, at.x, at.weights[0], at.y, where);
}

std::string shape(const SqueezeExciteParams& p) {
  table::ShapeText text("squeeze_excite");
  text.with("n", p.n).with("pixels", p.pixels).with("c", p.c).with("squeezed", p.squeezed);
  text.with("squeeze_activation", p.squeeze_activation);
  return text.with("gate_activation", p.gate_activation).take();
}

}  // namespace

const KernelTable<SqueezeExciteParams, SqueezeExciteVariant>& kernel_of(const SqueezeExciteParams&) {
  static const KernelTable<SqueezeExciteParams, SqueezeExciteVariant> kTable{
      .name = "squeeze_excite",
      .variants = squeeze_excite_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packs_by_variant = true,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<SqueezeExciteParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
