#pragma once

#include <cstdint>

#include <mobicuda/graph.h>

namespace mobicuda::plan_file {

// The members of each operation, in the order in which a file has them: one list for both directions. `io` writes or
// reads whole(number), of sizes that window kernels take size(number), fractions fraction(number), and so on.

template <class Io>
void fields(Io& io, Activation& value) {
  io.fraction(value.lo);
  io.fraction(value.hi);
  io.choice(value.kind, ActivationKind::Elu);
  io.fraction(value.alpha);
}

template <class Io>
void fields(Io& io, Padding& value) {
  for (auto* side : {&value.top, &value.left, &value.bottom, &value.right}) io.size(*side);
}

template <class Io>
void fields(Io& io, Conv2d& op) {
  for (auto& stride : op.strides) io.size(stride);
  for (auto& dilation : op.dilations) io.size(dilation);
  fields(io, op.pads);
  io.whole(op.groups);
  fields(io, op.activation);
}

template <class Io>
void fields(Io& io, Gemm& op) {
  fields(io, op.activation);
}

template <class Io>
void fields(Io& io, ScaleShift& op) {
  fields(io, op.activation);
}

template <class Io>
void fields(Io& io, Add& op) {
  fields(io, op.activation);
}

template <class Io>
void fields(Io& io, Mul& op) {
  fields(io, op.activation);
}

template <class Io>
void fields(Io& io, Unary& op) {
  io.choice(op.kind, UnaryKind::Silu);
  io.fraction(op.alpha);
}

template <class Io>
void fields(Io& io, Clip& op) {
  fields(io, op.activation);
}

template <class Io>
void fields(Io& io, Pool2d& op) {
  io.choice(op.kind, PoolKind::Average);
  for (auto& extent : op.kernel) io.size(extent);
  for (auto& stride : op.strides) io.size(stride);
  fields(io, op.pads);
  io.flag(op.ceil_mode);
  io.flag(op.count_include_pad);
  for (auto& dilation : op.dilations) io.size(dilation);
}

template <class Io>
void fields(Io& io, LocalResponseNorm& op) {
  io.size(op.size);
  io.fraction(op.alpha);
  io.fraction(op.beta);
  io.fraction(op.bias);
}

template <class Io>
void fields(Io& io, Concat& op) {
  io.whole(op.axis);
}

template <class Io>
void fields(Io& io, Slice& op) {
  io.whole(op.axis);
  io.whole(op.first);
  io.whole(op.extent);
}

template <class Io>
void fields(Io& io, Reshape& op) {
  io.shape(op.shape);
}

template <class Io>
void fields(Io& io, Transpose& op) {
  io.list(op.permutation);
}

template <class Io>
void fields(Io& io, Pad& op) {
  fields(io, op.pads);
  io.fraction(op.value);
  io.choice(op.mode, PadMode::Reflect);
}

template <class Io>
void fields(Io& io, LayoutTransform& op) {
  io.choice(op.to, Layout::NHWC);
}

template <class Io>
void fields(Io&, GlobalAveragePool&) {}
template <class Io>
void fields(Io&, Softmax&) {}
template <class Io>
void fields(Io&, Identity&) {}

}  // namespace mobicuda::plan_file
