#include <algorithm>

#include "kernels/streaming/elementwise.h"
#include "kernels/streaming/layout_transform.h"
#include "kernels/streaming/pooling.h"
#include "kernels/streaming/resize.h"
#include "kernels/streaming/softmax.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

/// By kernels that read the network's own input where it is in either layout.
bool read_in_any_layout(const Lowering& to, ValueId id) {
  const auto readers = to.graph().consumers(id);
  return id != to.graph().output() && std::all_of(readers.begin(), readers.end(), [&](std::size_t i) {
           const Node& reader = to.graph().nodes()[i];
           if (std::holds_alternative<Quantize>(reader.op)) return true;
           const auto* conv = std::get_if<Conv2d>(&reader.op);
           if (conv == nullptr || reader.inputs[Conv2d::kResidual] == id) return false;
           const Shape& weight = to.shape(reader.inputs[Conv2d::kWeight]);
           return !is_pointwise(*conv, weight) && !is_depthwise(*conv, weight);
         });
}

void lower_softmax(Lowering& to, const Node& node, bool logarithm) {
  const Storage x = to.read_input(node.inputs[0]);
  const Storage y = to.make_output(node, true);
  kernels::SoftmaxParams params;
  params.elem = to.elem();
  params.output = y.elem;
  params.logarithm = logarithm;
  const TensorDesc& desc = to.graph().value(node.output).desc;
  params.columns = as_int(desc.shape[1]);
  const std::int64_t rows = desc.shape.elements() / desc.shape[1];
  const bool channels_last = desc.shape.rank() == 4 && desc.layout == Layout::NHWC;
  params.inner = channels_last ? 1 : as_int(rows);
  to.add_step(to.describe(node, logarithm ? "softmax/logarithm" : "softmax"), {x.buffer, y.buffer},
              [params, rows, x, y](const CudaStepContext& context) {
                auto p = params;
                p.rows = as_int(context.n * rows);
                return kernels::softmax(p, x.in(context), y.in(context), launch_of(context));
              });
}

}  // namespace

void lower(Lowering& to, const Node& node, const LayoutTransform& op) {
  const ValueId source = node.inputs[0];
  if (to.storage_of(source).byte_pitch != 0) {  // NHWC in every layout
    to.storage_of(node.output) = to.storage_of(source);
    return;
  }
  if (source == to.graph().input() && op.to == Layout::NHWC && read_in_any_layout(to, node.output)) return;
  const Storage x = to.storage_of(source);
  const Storage y = to.make_output(node, true);
  const Shape& in = to.shape(source);
  kernels::LayoutTransformParams params;
  params.from = x.elem;
  params.to = y.elem;
  params.from_nhwc = to.graph().value(source).desc.layout == Layout::NHWC;
  params.to_nhwc = op.to == Layout::NHWC;
  params.c = as_int(in[1]);
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  to.add_streaming(to.describe(node, "layout_transform"), x, y, params, kernels::layout_transform);
}

void lower(Lowering& to, const Node& node, const Add& op) {
  const Storage a = to.read_input(node.inputs[Add::kLeft]);
  const Storage b = to.read_input(node.inputs[Add::kRight]);
  const Storage y = to.make_output(node, false);
  add_addition(to, to.describe(node, "elementwise/add"), a, b, y, to.shape(node.output), op.activation);
}

void add_addition(Lowering& to, LayerInfo info, Storage a, Storage b, Storage y, const Shape& picture,
                  const Activation& activation) {
  to.add_step(std::move(info), {a.buffer, b.buffer, y.buffer},
              [elem = to.elem(), elements = picture.elements(), act = as_kernel_activation(activation), a, b,
               y](const CudaStepContext& context) {
                return kernels::add(elem, context.n * elements, act, a.in(context), b.in(context), y.in(context),
                                    launch_of(context));
              });
}

void lower(Lowering& to, const Node& node, const Clip& op) {
  const Storage x = to.read_input(node.inputs[0]);
  const Storage y = to.make_output(node, false);
  to.add_step(to.describe(node, "elementwise/clip"), {x.buffer, y.buffer},
              [elem = to.elem(), elements = to.shape(node.output).elements(), clip = as_clip(op.activation), x,
               y](const CudaStepContext& context) {
                return kernels::clip(elem, context.n * elements, clip, x.in(context), y.in(context),
                                     launch_of(context));
              });
}

void lower(Lowering& to, const Node& node, const ScaleShift& op) {
  const Storage x = to.read_rows(node.inputs[ScaleShift::kInput]);
  // Where elements of a channel lie together in memory, each has its own factors: the kernel wants channels innermost.
  const Shape& picture = to.shape(node.output);
  const std::int64_t repeat = picture.rank() == 4 ? 1 : picture.elements() / picture[1];
  const Packed scale = to.pack_floats(node.inputs[ScaleShift::kScale], repeat);
  const Packed shift = to.pack_floats(node.inputs[ScaleShift::kShift], repeat);
  const Storage y = to.make_output(node, false);
  const int channels = as_int(picture[1] * repeat);
  LayerInfo info = to.describe(node, "elementwise/scale_shift");
  info.weight_bytes = scale.bytes + shift.bytes;
  to.add_step(std::move(info), {x.buffer, y.buffer},
              [elem = to.elem(), rows = to.shape(node.output).elements() / channels, channels,
               act = as_kernel_activation(op.activation), x, y, s = to.pointer(scale),
               t = to.pointer(shift)](const CudaStepContext& context) {
                return kernels::scale_shift(elem, context.n * rows, channels, act, x.in(context),
                                            s.template get<float>(), t.template get<float>(), y.in(context),
                                            launch_of(context), x.pitch);
              });
}

void lower(Lowering& to, const Node& node, const Pool2d& op) {
  if (to.storage_of(node.inputs[0]).byte_pitch != 0) {
    lower_int8_pooling(to, node, op);
    return;
  }
  const Storage x = to.read_rows(node.inputs[0]);
  const Storage y = to.make_rows(node, false);
  const Shape& in = to.shape(node.inputs[0]);
  const Shape& out = to.shape(node.output);
  kernels::PoolingParams params;
  params.elem = to.elem();
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
  to.add_streaming(to.describe(node, kernel), x, y, params, kernels::pooling);
}

void lower(Lowering& to, const Node& node, const GlobalAveragePool&) {
  const Storage x = to.read_input(node.inputs[0]);
  const Storage y = to.make_output(node, false);
  const Shape& in = to.shape(node.inputs[0]);
  kernels::GlobalAveragePoolParams params;
  params.elem = to.elem();
  params.c = as_int(in[1]);
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  to.add_streaming(to.describe(node, "pooling/global_average"), x, y, params, kernels::global_average_pool);
}

void lower(Lowering& to, const Node& node, const Softmax&) { lower_softmax(to, node, false); }

void lower(Lowering& to, const Node& node, const LogSoftmax&) { lower_softmax(to, node, true); }

// choose_layout put the input in the order that the reshape speaks of: the same bytes under another shape.
void lower(Lowering& to, const Node& node, const Reshape&) {
  to.storage_of(node.output) = to.storage_of(node.inputs[0]);
}

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

void lower(Lowering& to, const Node& node, const Transpose& op) {
  const Storage x = to.read_input(node.inputs[0]);
  const Storage y = to.make_output(node, false);
  kernels::TransposeParams params = transpose_params(to.shape(node.inputs[0]), op).value();
  params.elem = to.elem();
  to.add_step(to.describe(node, "layout_transform/transpose"), {x.buffer, y.buffer},
              [params, x, y](const CudaStepContext& context) {
                auto p = params;
                p.shape[0] = as_int(context.n);
                return kernels::transpose(p, x.in(context), y.in(context), launch_of(context));
              });
}

void lower(Lowering& to, const Node& node, const Pad& op) {
  const Storage x = to.read_input(node.inputs[0]);
  const Storage y = to.make_output(node, false);
  const Shape& in = to.shape(node.inputs[0]);
  kernels::PadParams params;
  params.elem = to.elem();
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
  to.add_streaming(to.describe(node, "layout_transform/pad"), x, y, params, kernels::pad);
}

void lower(Lowering& to, const Node& node, const Resize& op) {
  const Storage x = to.read_input(node.inputs[0]);
  const Storage y = to.make_output(node, false);
  const Shape& in = to.shape(node.inputs[0]);
  const auto line = [&](std::size_t axis) {
    const std::int64_t extent = in[axis + 2];
    const ResizeAxis at = resize_axis(op, axis, extent);
    return kernels::ResizeLine{as_int(extent), as_int(op.extents.at(axis)), at.factor, at.offset, at.divisor};
  };
  kernels::ResizeParams params;
  params.elem = to.elem();
  params.linear = op.mode == ResizeMode::Linear;
  params.c = as_int(in[1]);
  params.rows = line(0);
  params.columns = line(1);
  to.add_streaming(to.describe(node, "resize"), x, y, params, kernels::resize);
}

// The passes leave the one of a network that computes nothing: its output is memory of its own.
void lower(Lowering& to, const Node& node, const Identity&) { lower(to, node, Clip{}); }

}  // namespace mobicuda
