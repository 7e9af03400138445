#include "graph/ops.h"
#include "graph/ops/checks.h"
#include "graph/ops/windows.h"

namespace mobicuda {

Shape convolved_shape(const std::array<std::int64_t, 2>& strides, const std::array<std::int64_t, 2>& dilations,
                      const Padding& pads, std::int64_t groups, const Shape& x, const Shape& w) {
  require_window(strides, "strides");
  require_window(dilations, "dilations");
  require_positive(groups, "group");
  require_padding(pads);
  if (w.rank() != 4 || w.elements() == 0) {
    reject("input 'W'", "must have rank 4 (O, I/group, kH, kW) and elements, got " + to_string(w));
  }
  require_window(w.dims().last(2), "kernel_shape");
  const std::int64_t channels = x[1];
  if (channels % groups != 0 || w[0] % groups != 0) {
    reject("attribute 'group'", "must divide " + std::to_string(channels) + " input and " + std::to_string(w[0]) +
                                    " output channels, got " + std::to_string(groups));
  }
  if (w[1] != channels / groups) {
    reject("input 'W'",
           "has " + std::to_string(w[1]) + " channels a group, but the input has " + std::to_string(channels / groups));
  }
  const std::int64_t span_h = (w[2] - 1) * dilations[0] + 1;
  const std::int64_t span_w = (w[3] - 1) * dilations[1] + 1;
  return {x[0], w[0], window_extent(x[2], span_h, strides[0], pads.top, pads.bottom, "height"),
          window_extent(x[3], span_w, strides[1], pads.left, pads.right, "width")};
}

// ---- Conv2d

TensorDesc infer(const Conv2d& op, const Inputs& inputs) {
  const TensorDesc& x = image(inputs, Conv2d::kInput);
  const TensorDesc& w = required(inputs, Conv2d::kWeight, "W");
  const Shape out = convolved_shape(op.strides, op.dilations, op.pads, op.groups, x.shape, w.shape);
  if (inputs[Conv2d::kBias] != nullptr) require_shape(*inputs[Conv2d::kBias], "B", Shape{w.shape[0]});
  TensorDesc desc{DType::F32, out, x.layout};
  if (inputs[Conv2d::kResidual] != nullptr) require_shape(*inputs[Conv2d::kResidual], "residual", out);
  return checked(desc);
}

std::int64_t flops(const Conv2d&, const Inputs& inputs, const Shape& y) {
  const Shape& w = inputs[Conv2d::kWeight]->shape;
  return 2 * y.elements() * w[1] * w[2] * w[3];
}

void attributes(const Conv2d& op, AttributeText& text) {
  text << " stride=" << op.strides[0] << ',' << op.strides[1] << " pads=" << pads_text(op.pads);
  text << dilations_text(op.dilations);
  if (op.groups != 1) text << " groups=" << op.groups;
  text << activation_text(op.activation);
}

void members(Conv2d& op, Members& io) {
  for (auto& stride : op.strides) io.size(stride);
  for (auto& dilation : op.dilations) io.size(dilation);
  io.padding(op.pads);
  io.whole(op.groups);
  io.activation(op.activation);
}

// ---- Gemm

TensorDesc infer(const Gemm&, const Inputs& inputs) {
  const TensorDesc& x = required(inputs, Gemm::kInput, "A");
  const TensorDesc& w = required(inputs, Gemm::kWeight, "B");
  if (x.shape.rank() != 2) reject("input 'A'", "must have rank 2 (N, features), got " + to_string(x.shape));
  if (w.shape.rank() != 2) reject("input 'B'", "must have rank 2, got " + to_string(w.shape));
  if (w.shape[1] != x.shape[1]) {
    reject("input 'B'",
           "takes " + std::to_string(w.shape[1]) + " features, but the input has " + std::to_string(x.shape[1]));
  }
  if (w.shape.elements() == 0) reject("input 'B'", "has no elements: " + to_string(w.shape));
  if (inputs[Gemm::kBias] != nullptr) require_shape(*inputs[Gemm::kBias], "C", Shape{w.shape[0]});
  return checked({DType::F32, Shape{x.shape[0], w.shape[0]}, Layout::NCHW});
}

std::int64_t flops(const Gemm&, const Inputs& inputs, const Shape& y) {
  return 2 * y.elements() * inputs[Gemm::kWeight]->shape[1];
}

void attributes(const Gemm& op, AttributeText& text) { text << activation_text(op.activation); }

void members(Gemm& op, Members& io) { io.activation(op.activation); }

// ---- BatchedMatMul

TensorDesc infer(const BatchedMatMul&, const Inputs& inputs) {
  const TensorDesc& a = required(inputs, BatchedMatMul::kLeft, "A");
  const TensorDesc& b = required(inputs, BatchedMatMul::kRight, "B");
  const std::size_t rank = a.shape.rank();
  if (rank < 3) reject("input 'A'", "must have rank 3 or more, got " + to_string(a.shape));
  if (a.shape.elements() == 0) reject("input 'A'", "has no elements: " + to_string(a.shape));
  bool fits = b.shape.rank() == rank && b.shape[rank - 2] == a.shape[rank - 1];
  for (std::size_t axis = 0; fits && axis + 2 < rank; ++axis) fits = a.shape[axis] == b.shape[axis];
  if (!fits || b.shape.elements() == 0) {
    reject("input 'B'", "of shape " + to_string(b.shape) + " does not fit 'A' of shape " + to_string(a.shape));
  }
  std::vector<std::int64_t> dims(a.shape.dims().begin(), a.shape.dims().end());
  dims.back() = b.shape[rank - 1];
  return checked({DType::F32, Shape(std::span<const std::int64_t>(dims)), Layout::NCHW});
}

std::int64_t flops(const BatchedMatMul&, const Inputs& inputs, const Shape& y) {
  return 2 * y.elements() * inputs[BatchedMatMul::kLeft]->shape.dims().back();
}

void attributes(const BatchedMatMul&, AttributeText&) {}

void members(BatchedMatMul&, Members&) {}

}  // namespace mobicuda
