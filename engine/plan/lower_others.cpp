#include "kernels/streaming/elementwise.h"
#include "kernels/streaming/layout_transform.h"
#include "kernels/streaming/pooling.h"
#include "kernels/streaming/softmax.h"
#include "plan/lowering.h"

namespace mobicuda {

void Lowering::lower(const Node& node, const LayoutTransform& op) {
  const ValueId source = node.inputs[0];
  if (source == graph_.input() && op.to == Layout::NHWC && read_by_conv2d_only(node.output)) return;
  const Storage x = storage_of(source);
  const Storage y = make_output(node, true);
  const Shape& in = shape(source);
  kernels::LayoutTransformParams params;
  params.from = x.elem;
  params.to = y.elem;
  params.from_nhwc = graph_.value(source).desc.layout == Layout::NHWC;
  params.to_nhwc = op.to == Layout::NHWC;
  params.c = as_int(in[1]);
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  add_step(describe(node, "layout_transform"), {x.buffer, y.buffer}, [params, x, y](const CudaStepContext& context) {
    auto p = params;
    p.n = as_int(context.n);
    return kernels::layout_transform(p, context.buffers[x.buffer], context.buffers[y.buffer], launch_of(context));
  });
}

void Lowering::lower(const Node& node, const Add& op) {
  const Storage a = read_input(node.inputs[Add::kLeft]);
  const Storage b = read_input(node.inputs[Add::kRight]);
  const Storage y = make_output(node, false);
  add_addition(describe(node, "elementwise/add"), a, b, y, shape(node.output), op.activation);
}

void Lowering::add_addition(LayerInfo info, Storage a, Storage b, Storage y, const Shape& picture,
                            const Activation& activation) {
  add_step(std::move(info), {a.buffer, b.buffer, y.buffer},
           [elem = elem_, elements = picture.elements(), act = as_kernel_activation(activation), a, b,
            y](const CudaStepContext& context) {
             return kernels::add(elem, context.n * elements, act, context.buffers[a.buffer], context.buffers[b.buffer],
                                 context.buffers[y.buffer], launch_of(context));
           });
}

void Lowering::lower(const Node& node, const Clip& op) {
  const Storage x = read_input(node.inputs[0]);
  const Storage y = make_output(node, false);
  add_step(describe(node, "elementwise/clip"), {x.buffer, y.buffer},
           [elem = elem_, elements = shape(node.output).elements(), clip = as_clip(op.activation), x,
            y](const CudaStepContext& context) {
             return kernels::clip(elem, context.n * elements, clip, context.buffers[x.buffer],
                                  context.buffers[y.buffer], launch_of(context));
           });
}

void Lowering::lower(const Node& node, const ScaleShift& op) {
  const Storage x = read_rows(node.inputs[ScaleShift::kInput]);
  // Where elements of a channel lie together in memory, each has its own factors: the kernel wants channels innermost.
  const Shape& picture = shape(node.output);
  const std::int64_t repeat = picture.rank() == 4 ? 1 : picture.elements() / picture[1];
  const Packed scale = pack_floats(node.inputs[ScaleShift::kScale], repeat);
  const Packed shift = pack_floats(node.inputs[ScaleShift::kShift], repeat);
  const Storage y = make_output(node, false);
  const int channels = as_int(picture[1] * repeat);
  LayerInfo info = describe(node, "elementwise/scale_shift");
  info.weight_bytes = scale.bytes + shift.bytes;
  add_step(std::move(info), {x.buffer, y.buffer},
           [elem = elem_, rows = shape(node.output).elements() / channels, channels,
            act = as_kernel_activation(op.activation), x, y, s = pointer(scale),
            t = pointer(shift)](const CudaStepContext& context) {
             return kernels::scale_shift(elem, context.n * rows, channels, act, x.in(context), s.template get<float>(),
                                         t.template get<float>(), context.buffers[y.buffer], launch_of(context),
                                         x.pitch);
           });
}

void Lowering::lower(const Node& node, const Pool2d& op) {
  const Storage x = read_rows(node.inputs[0]);
  const Storage y = make_rows(node, false);
  const Shape& in = shape(node.inputs[0]);
  const Shape& out = shape(node.output);
  kernels::PoolingParams params;
  params.elem = elem_;
  params.kind = op.kind == PoolKind::Max ? kernels::PoolingKind::Max : kernels::PoolingKind::Average;
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  params.c = as_int(in[1]);
  params.out_h = as_int(out[2]);
  params.out_w = as_int(out[3]);
  params.kernel_h = as_int(op.kernel[0]);
  params.kernel_w = as_int(op.kernel[1]);
  params.stride_h = as_int(op.strides[0]);
  params.stride_w = as_int(op.strides[1]);
  params.pad_top = as_int(op.pads.top);
  params.pad_left = as_int(op.pads.left);
  params.pad_bottom = as_int(op.pads.bottom);
  params.pad_right = as_int(op.pads.right);
  params.x_pitch = x.pitch;
  params.y_pitch = y.pitch;
  params.count_include_pad = op.count_include_pad;
  params.dilation_h = as_int(op.dilations[0]);
  params.dilation_w = as_int(op.dilations[1]);
  const char* kernel = op.kind == PoolKind::Max ? "pooling/max" : "pooling/average";
  add_step(describe(node, kernel), {x.buffer, y.buffer}, [params, x, y](const CudaStepContext& context) {
    auto p = params;
    p.n = as_int(context.n);
    return kernels::pooling(p, x.in(context), y.in(context), launch_of(context));
  });
}

void Lowering::lower(const Node& node, const GlobalAveragePool&) {
  const Storage x = read_input(node.inputs[0]);
  const Storage y = make_output(node, false);
  const Shape& in = shape(node.inputs[0]);
  kernels::GlobalAveragePoolParams params;
  params.elem = elem_;
  params.c = as_int(in[1]);
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  add_step(describe(node, "pooling/global_average"), {x.buffer, y.buffer},
           [params, x, y](const CudaStepContext& context) {
             auto p = params;
             p.n = as_int(context.n);
             return kernels::global_average_pool(p, context.buffers[x.buffer], context.buffers[y.buffer],
                                                 launch_of(context));
           });
}

void Lowering::lower(const Node& node, const Softmax&) {
  const Storage x = read_input(node.inputs[0]);
  const Storage y = make_output(node, true);
  kernels::SoftmaxParams params;
  params.elem = elem_;
  params.output = y.elem;
  const TensorDesc& desc = graph_.value(node.output).desc;
  params.columns = as_int(desc.shape[1]);
  const std::int64_t rows = desc.shape.elements() / desc.shape[1];
  const bool channels_last = desc.shape.rank() == 4 && desc.layout == Layout::NHWC;
  params.inner = channels_last ? 1 : as_int(rows);
  add_step(describe(node, "softmax"), {x.buffer, y.buffer}, [params, rows, x, y](const CudaStepContext& context) {
    auto p = params;
    p.rows = as_int(context.n * rows);
    return kernels::softmax(p, context.buffers[x.buffer], context.buffers[y.buffer], launch_of(context));
  });
}

// choose_layout put the input in the order that the reshape speaks of: the same bytes under another shape.
void Lowering::lower(const Node& node, const Reshape&) { storage_of(node.output) = storage_of(node.inputs[0]); }

std::optional<kernels::TransposeParams> transpose_params(const Shape& x, const Transpose& op) {
  constexpr int kAxes = 4;
  int joined[Shape::kMaxRank] = {};  // an axis of x to one of the kernel's
  int order[Shape::kMaxRank] = {};   // the first axis of x in each of y's
  int axes = 0;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const bool follows = axis > 1 && op.permutation[axis] == op.permutation[axis - 1] + 1;
    if (follows) continue;
    if (axes == kAxes) return std::nullopt;
    order[axes++] = as_int(op.permutation[axis]);
  }
  kernels::TransposeParams params;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    joined[axis] = as_int(std::count_if(order, order + axes,
                                        [&](int first) { return first <= as_int(static_cast<std::int64_t>(axis)); })) -
                   1;
    params.shape[joined[axis]] *= as_int(x[axis]);
  }
  for (int axis = 0; axis < axes; ++axis) params.permutation[axis] = joined[order[axis]];
  return params;
}

void Lowering::lower(const Node& node, const Transpose& op) {
  const Storage x = read_input(node.inputs[0]);
  const Storage y = make_output(node, false);
  kernels::TransposeParams params = transpose_params(shape(node.inputs[0]), op).value();
  params.elem = elem_;
  add_step(describe(node, "layout_transform/transpose"), {x.buffer, y.buffer},
           [params, x, y](const CudaStepContext& context) {
             auto p = params;
             p.shape[0] = as_int(context.n);
             return kernels::transpose(p, context.buffers[x.buffer], context.buffers[y.buffer], launch_of(context));
           });
}

void Lowering::lower(const Node& node, const Pad& op) {
  const Storage x = read_input(node.inputs[0]);
  const Storage y = make_output(node, false);
  const Shape& in = shape(node.inputs[0]);
  kernels::PadParams params;
  params.elem = elem_;
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  params.c = as_int(in[1]);
  params.top = as_int(op.pads.top);
  params.left = as_int(op.pads.left);
  params.bottom = as_int(op.pads.bottom);
  params.right = as_int(op.pads.right);
  params.value = op.value;
  params.mode = op.mode == PadMode::Edge      ? kernels::PadMode::Edge
                : op.mode == PadMode::Reflect ? kernels::PadMode::Reflect
                                              : kernels::PadMode::Constant;
  add_step(describe(node, "layout_transform/pad"), {x.buffer, y.buffer},
           [params, x, y](const CudaStepContext& context) {
             auto p = params;
             p.n = as_int(context.n);
             return kernels::pad(p, context.buffers[x.buffer], context.buffers[y.buffer], launch_of(context));
           });
}

// The passes leave the one of a network that computes nothing: its output is memory of its own.
void Lowering::lower(const Node& node, const Identity&) { lower(node, Clip{}); }

}  // namespace mobicuda
