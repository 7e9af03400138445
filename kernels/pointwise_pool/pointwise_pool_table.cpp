#include "kernels/pointwise_pool/pointwise_pool_table.h"

#include "kernels/common/table_parts.h"
#include "kernels/gemm/gemm.h"

namespace mobicuda::kernels {
namespace {

OperandBytes operands(PointwisePoolVariant, const PointwisePoolParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.elem, p.n, p.pixels, p.c_in);
  bytes.weights[0] = table::as_bytes(gemm_packed_bytes(p.elem, p.c, p.c_in));
  bytes.weights[1] = table::bias_bytes(p.c);
  bytes.y = table::bytes(p.elem, p.n, p.c);
  return bytes;
}

cudaError_t launch_on(PointwisePoolVariant variant, const PointwisePoolParams& p, const Operands& at,
                      const Launch& where) {
  return pointwise_pool(variant, p, at.x, at.weights[0], table::bias(p.bias, at.weights[1]), at.y, where);
}

std::string shape(const PointwisePoolParams& p) {
  table::ShapeText text("pointwise_pool");
  text.with("n", p.n).with("pixels", p.pixels).with("c_in", p.c_in).with("c", p.c).with("bias", p.bias);
  return text.with("clip", p.clip).take();
}

}  // namespace

const KernelTable<PointwisePoolParams, PointwisePoolVariant>& kernel_of(const PointwisePoolParams&) {
  static const KernelTable<PointwisePoolParams, PointwisePoolVariant> kTable{
      .name = "pointwise_pool",
      .variants = pointwise_pool_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packs_by_variant = false,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<PointwisePoolParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
