#include "graph/ops.h"
#include "graph/ops/checks.h"
#include "graph/ops/windows.h"

namespace mobicuda {
namespace {

std::int64_t pool_extent(const Pool2d& op, std::int64_t extent, std::size_t axis, std::int64_t before,
                         std::int64_t after) {
  const std::int64_t span = (op.kernel[axis] - 1) * op.dilations[axis] + 1;
  if (before >= span || after >= span) {
    reject("attribute 'pads'", "must be smaller than the window's " + std::to_string(span) + ", got " +
                                   std::to_string(before) + " and " + std::to_string(after));
  }
  const std::int64_t floor_extent =
      window_extent(extent, span, op.strides[axis], before, after, axis == 0 ? "height" : "width");
  if (!op.ceil_mode) return floor_extent;
  const std::int64_t room = extent + before + after - span;
  std::int64_t out = (room + op.strides[axis] - 1) / op.strides[axis] + 1;
  if ((out - 1) * op.strides[axis] >= extent + before) --out;  // a window that starts in the padding is dropped
  return out;
}

}  // namespace

Shape pooled_shape(const Pool2d& op, const Shape& x) {
  require_window(op.kernel, "kernel_shape");
  require_window(op.strides, "strides");
  require_window(op.dilations, "dilations");
  require_padding(op.pads);
  return {x[0], x[1], pool_extent(op, x[2], 0, op.pads.top, op.pads.bottom),
          pool_extent(op, x[3], 1, op.pads.left, op.pads.right)};
}

// ---- Pool2d

TensorDesc infer(const Pool2d& op, const Inputs& inputs) {
  const TensorDesc& x = image(inputs, Pool2d::kInput);
  if (is_quantized(x.dtype) && op.kind == PoolKind::Average) {
    reject("input 'x'", "is of integers, whose average is a QuantizedAveragePool");
  }
  return checked(moved(x, pooled_shape(op, x.shape), x.layout));
}

std::int64_t flops(const Pool2d& op, const Inputs&, const Shape& y) {
  return y.elements() * op.kernel[0] * op.kernel[1];
}

void attributes(const Pool2d& op, AttributeText& text) {
  text << (op.kind == PoolKind::Max ? " max " : " average ") << op.kernel[0] << 'x' << op.kernel[1]
       << " stride=" << op.strides[0] << ',' << op.strides[1] << " pads=" << pads_text(op.pads)
       << dilations_text(op.dilations) << (op.ceil_mode ? " ceil" : "") << (op.count_include_pad ? " include_pad" : "");
}

void members(Pool2d& op, Members& io) {
  io.choice(op.kind, PoolKind::Average);
  for (auto& extent : op.kernel) io.size(extent);
  for (auto& stride : op.strides) io.size(stride);
  io.padding(op.pads);
  io.flag(op.ceil_mode);
  io.flag(op.count_include_pad);
  for (auto& dilation : op.dilations) io.size(dilation);
}

// ---- GlobalAveragePool

TensorDesc infer(const GlobalAveragePool&, const Inputs& inputs) {
  const TensorDesc& x = image(inputs, GlobalAveragePool::kInput);
  return {DType::F32, Shape{x.shape[0], x.shape[1], 1, 1}, x.layout};
}

std::int64_t flops(const GlobalAveragePool&, const Inputs& inputs, const Shape&) {
  return inputs[GlobalAveragePool::kInput]->shape.elements();
}

void attributes(const GlobalAveragePool&, AttributeText&) {}

void members(GlobalAveragePool&, Members&) {}

}  // namespace mobicuda
