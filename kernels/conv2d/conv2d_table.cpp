#include "kernels/conv2d/conv2d_table.h"

#include <algorithm>

#include "kernels/common/table_parts.h"

namespace mobicuda::kernels {
namespace {

std::size_t input_element(const Conv2dParams& p) {
  if (p.input == Conv2dParams::Input::NhwcElem) return size_of(p.elem);
  return p.input == Conv2dParams::Input::NhwcUint8 ? 1 : sizeof(float);
}

OperandBytes operands(Conv2dVariant, const Conv2dParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(input_element(p), p.n, p.h, p.w, p.c_in);
  bytes.weights[0] = table::as_bytes(conv2d_packed_bytes(p));
  bytes.weights[1] = table::bias_bytes(p.c_out);
  bytes.y = table::bytes(p.elem, p.n, p.out_h, p.out_w, std::max(p.c_out, p.y_pitch));
  if (p.residual) bytes.residual = bytes.y;
  return bytes;
}

cudaError_t launch_on(Conv2dVariant variant, const Conv2dParams& p, const Operands& at, const Launch& where) {
  return conv2d(variant, p, at.x, at.weights[0], table::bias(p.bias, at.weights[1]), at.residual, at.y, where);
}

std::string shape(const Conv2dParams& p) {
  table::ShapeText text("conv2d");
  text.with("input", static_cast<int>(p.input)).with("n", p.n).with("h", p.h).with("w", p.w);
  text.with("c_in", p.c_in).with("c_out", p.c_out).with("out_h", p.out_h).with("out_w", p.out_w).with_window(p);
  text.with("groups", p.groups).with("bias", p.bias).with("residual", p.residual).with("y_pitch", p.y_pitch);
  return text.with("activation", p.activation).take();
}

}  // namespace

const KernelTable<Conv2dParams, Conv2dVariant>& kernel_of(const Conv2dParams&) {
  static const KernelTable<Conv2dParams, Conv2dVariant> kTable{
      .name = "conv2d",
      .variants = conv2d_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packs_by_variant = false,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<Conv2dParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
