#include "kernels/gemm/gemm_table.h"

#include "kernels/common/table_parts.h"

namespace mobicuda::kernels {
namespace {

// Rows are pixels of images.
GemmParams with_batch(GemmParams p, int n, int of) {
  p.m = p.m / of * n;
  return p;
}

OperandBytes operands(GemmVariant, const GemmParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.elem, p.m, p.k);
  bytes.weights[0] = table::as_bytes(gemm_packed_bytes(p.elem, p.n, p.k));
  bytes.weights[1] = table::bias_bytes(p.n);
  if (p.residual) bytes.residual = table::bytes(p.elem, p.m, p.n);
  bytes.y = table::bytes(p.output, p.m, p.n);
  return bytes;
}

cudaError_t launch_on(GemmVariant variant, const GemmParams& p, const Operands& at, const Launch& where) {
  return gemm(variant, p, at.x, at.weights[0], table::bias(p.bias, at.weights[1]), at.residual, at.y, where);
}

std::string shape(const GemmParams& p) {
  table::ShapeText text("gemm");
  text.with("m", p.m).with("n", p.n).with("k", p.k).with("float_output", p.output == Elem::F32);
  return text.with("bias", p.bias).with("residual", p.residual).with("activation", p.activation).take();
}

}  // namespace

const KernelTable<GemmParams, GemmVariant>& kernel_of(const GemmParams&) {
  static const KernelTable<GemmParams, GemmVariant> kTable{
      .name = "gemm",
      .variants = gemm_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packs_by_variant = false,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_batch,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
