#include "plan/timed_kernels.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace mobicuda {
namespace {

using namespace kernels;

template <class... Factors>
std::int64_t bytes(std::size_t one, Factors... factors) {
  return (static_cast<std::int64_t>(one) * ... * static_cast<std::int64_t>(factors));
}

std::int64_t bytes(Elem elem, auto... factors) { return bytes(size_of(elem), factors...); }

std::int64_t as_bytes(std::size_t count) { return static_cast<std::int64_t>(count); }

std::int64_t bias_bytes(int channels) { return bytes(sizeof(float), channels); }

std::size_t input_bytes(StemInput input) { return input == StemInput::NhwcUint8 ? 1 : sizeof(float); }

std::size_t input_bytes(Conv2dParams::Input input, Elem elem) {
  if (input == Conv2dParams::Input::NhwcElem) return size_of(elem);
  return input == Conv2dParams::Input::NhwcUint8 ? 1 : sizeof(float);
}

template <class Variant>
std::string kernel_name(const char* kernel, Variant variant) {
  return std::string(kernel) + "/" + std::string(name(variant));
}

const float* floats(const void* data) { return static_cast<const float*>(data); }

std::string text_of(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.begin(), text.end(), value).ptr;
  return {text.begin(), end};
}

std::string text_of(const Clip& clip) { return "[" + text_of(clip.lo) + "," + text_of(clip.hi) + "]"; }

std::string text_of(const Activation& activation) {
  if (activation.kind == ActivationKind::Clip) return text_of(Clip{activation.lo, activation.hi});
  return std::to_string(static_cast<int>(activation.kind)) + "[" + text_of(activation.alpha) + "]";
}

// "gemm n=16 k=32 ..."
class ShapeText {
 public:
  explicit ShapeText(std::string_view kernel) : text_(kernel) {}

  ShapeText& with(std::string_view what, int value) { return add(what, std::to_string(value)); }
  ShapeText& with(std::string_view what, const Clip& clip) { return add(what, text_of(clip)); }
  ShapeText& with(std::string_view what, const Activation& activation) { return add(what, text_of(activation)); }
  std::string take() { return std::move(text_); }

 private:
  ShapeText& add(std::string_view what, const std::string& value) {
    text_ += " " + std::string(what) + "=" + value;
    return *this;
  }

  std::string text_;
};

template <class Params>
void add_window(ShapeText& text, const Params& p) {
  text.with("kernel_h", p.kernel_h).with("kernel_w", p.kernel_w);
  text.with("stride_h", p.stride_h).with("stride_w", p.stride_w);
  text.with("dilation_h", p.dilation_h).with("dilation_w", p.dilation_w);
  text.with("pad_top", p.pad_top).with("pad_left", p.pad_left);
}

}  // namespace

TimedKernel timed(GemmVariant variant, const GemmParams& params) {
  TimedKernel kernel{kernel_name("gemm", variant)};
  kernel.x_bytes = bytes(params.elem, params.m, params.k);
  kernel.weight_bytes = {as_bytes(gemm_packed_bytes(params.elem, params.n, params.k)), bias_bytes(params.n)};
  if (params.residual) kernel.residual_bytes = bytes(params.elem, params.m, params.n);
  kernel.y_bytes = bytes(params.output, params.m, params.n);
  kernel.enqueue = [variant, params](const TimedOperands& at, const Launch& where) {
    return gemm(variant, params, at.x, at.weights[0], params.bias ? floats(at.weights[1]) : nullptr, at.residual, at.y,
                where);
  };
  return kernel;
}

TimedKernel timed(DepthwiseConvVariant variant, const DepthwiseConvParams& params) {
  TimedKernel kernel{kernel_name("depthwise_conv", variant)};
  kernel.x_bytes = bytes(params.elem, params.n, params.h, params.w, params.c);
  kernel.weight_bytes = {as_bytes(depthwise_conv_packed_bytes(params.elem, params.c, params.kernel_h, params.kernel_w)),
                         bias_bytes(params.c)};
  kernel.y_bytes = bytes(params.elem, params.n, params.out_h, params.out_w, params.c);
  kernel.enqueue = [variant, params](const TimedOperands& at, const Launch& where) {
    return depthwise_conv(variant, params, at.x, at.weights[0], params.bias ? floats(at.weights[1]) : nullptr, at.y,
                          where);
  };
  return kernel;
}

TimedKernel timed(Conv2dVariant variant, const Conv2dParams& params) {
  TimedKernel kernel{kernel_name("conv2d", variant)};
  kernel.x_bytes = bytes(input_bytes(params.input, params.elem), params.n, params.h, params.w, params.c_in);
  kernel.weight_bytes = {as_bytes(conv2d_packed_bytes(params)), bias_bytes(params.c_out)};
  kernel.y_bytes = bytes(params.elem, params.n, params.out_h, params.out_w, std::max(params.c_out, params.y_pitch));
  if (params.residual) kernel.residual_bytes = kernel.y_bytes;
  kernel.enqueue = [variant, params](const TimedOperands& at, const Launch& where) {
    return conv2d(variant, params, at.x, at.weights[0], params.bias ? floats(at.weights[1]) : nullptr, at.residual,
                  at.y, where);
  };
  return kernel;
}

TimedKernel timed(InvertedResidualVariant variant, const InvertedResidualParams& params) {
  TimedKernel kernel{kernel_name("inverted_residual", variant)};
  kernel.x_bytes = bytes(params.elem, params.n, params.h, params.w, params.c_in);
  kernel.weight_bytes = {as_bytes(inverted_residual_packed_bytes(variant, params))};
  kernel.y_bytes = bytes(params.elem, params.n, params.out_h, params.out_w, params.c_out);
  kernel.enqueue = [variant, params](const TimedOperands& at, const Launch& where) {
    return inverted_residual(variant, params, at.x, at.weights[0], at.y, where);
  };
  return kernel;
}

TimedKernel timed(ExpandDepthwiseVariant variant, const ExpandDepthwiseParams& params) {
  TimedKernel kernel{kernel_name("expand_depthwise", variant)};
  kernel.x_bytes = bytes(params.elem, params.n, params.h, params.w, params.c_in);
  kernel.weight_bytes = {as_bytes(gemm_packed_bytes(params.elem, params.c, params.c_in)), bias_bytes(params.c),
                         as_bytes(depthwise_conv_packed_bytes(params.elem, params.c, 3, 3)), bias_bytes(params.c)};
  kernel.y_bytes = bytes(params.elem, params.n, params.out_h, params.out_w, params.c);
  kernel.enqueue = [variant, params](const TimedOperands& at, const Launch& where) {
    return expand_depthwise(variant, params, at.x, at.weights[0], params.expand_bias ? floats(at.weights[1]) : nullptr,
                            at.weights[2], params.depthwise_bias ? floats(at.weights[3]) : nullptr, at.y, where);
  };
  return kernel;
}

TimedKernel timed(PointwisePoolVariant variant, const PointwisePoolParams& params) {
  TimedKernel kernel{kernel_name("pointwise_pool", variant)};
  kernel.x_bytes = bytes(params.elem, params.n, params.pixels, params.c_in);
  kernel.weight_bytes = {as_bytes(gemm_packed_bytes(params.elem, params.c, params.c_in)), bias_bytes(params.c)};
  kernel.y_bytes = bytes(params.elem, params.n, params.c);
  kernel.enqueue = [variant, params](const TimedOperands& at, const Launch& where) {
    return pointwise_pool(variant, params, at.x, at.weights[0], params.bias ? floats(at.weights[1]) : nullptr, at.y,
                          where);
  };
  return kernel;
}

TimedKernel timed(StemBlockVariant variant, const StemBlockParams& params) {
  TimedKernel kernel{kernel_name("stem_block", variant)};
  kernel.x_bytes = bytes(input_bytes(params.input), params.n, params.h, params.w, 3);
  kernel.weight_bytes = {as_bytes(stem_block_packed_bytes(variant, params))};
  kernel.y_bytes = bytes(Elem::F16, params.n, params.out_h, params.out_w, params.c_out);
  kernel.enqueue = [variant, params](const TimedOperands& at, const Launch& where) {
    return stem_block(variant, params, at.x, at.weights[0], at.y, where);
  };
  return kernel;
}

TimedKernel timed(const GlobalAveragePoolParams& params) {
  TimedKernel kernel{"pooling/global_average"};
  kernel.x_bytes = bytes(params.elem, params.n, params.h, params.w, params.c);
  kernel.y_bytes = bytes(params.elem, params.n, params.c);
  kernel.enqueue = [params](const TimedOperands& at, const Launch& where) {
    return global_average_pool(params, at.x, at.y, where);
  };
  return kernel;
}

std::string timed_shape(const GemmParams& p) {
  ShapeText text("gemm");
  text.with("m", p.m).with("n", p.n).with("k", p.k).with("float_output", p.output == Elem::F32);
  return text.with("bias", p.bias).with("residual", p.residual).with("activation", p.activation).take();
}

std::string timed_shape(const DepthwiseConvParams& p) {
  ShapeText text("depthwise_conv");
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c", p.c).with("out_h", p.out_h).with("out_w", p.out_w);
  add_window(text, p);
  return text.with("bias", p.bias).with("activation", p.activation).take();
}

std::string timed_shape(const Conv2dParams& p) {
  ShapeText text("conv2d");
  text.with("input", static_cast<int>(p.input)).with("n", p.n).with("h", p.h).with("w", p.w);
  text.with("c_in", p.c_in).with("c_out", p.c_out).with("out_h", p.out_h).with("out_w", p.out_w);
  add_window(text, p);
  text.with("groups", p.groups).with("bias", p.bias).with("residual", p.residual).with("y_pitch", p.y_pitch);
  return text.with("activation", p.activation).take();
}

std::string timed_shape(const InvertedResidualParams& p) {
  ShapeText text("inverted_residual");
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c_in", p.c_in).with("c_hidden", p.c_hidden);
  text.with("c_out", p.c_out).with("out_h", p.out_h).with("out_w", p.out_w).with("stride", p.stride);
  text.with("pad_top", p.pad_top).with("pad_left", p.pad_left).with("expand", p.expand);
  text.with("residual", p.residual);
  if (p.expand) text.with("expand_clip", p.expand_clip);
  return text.with("depthwise_clip", p.depthwise_clip).with("project_clip", p.project_clip).take();
}

std::string timed_shape(const PointwisePoolParams& p) {
  ShapeText text("pointwise_pool");
  text.with("n", p.n).with("pixels", p.pixels).with("c_in", p.c_in).with("c", p.c).with("bias", p.bias);
  return text.with("clip", p.clip).take();
}

std::string timed_shape(const StemBlockParams& p) {
  ShapeText text("stem_block");
  text.with("input", static_cast<int>(p.input)).with("n", p.n).with("h", p.h).with("w", p.w);
  text.with("c_stem", p.c_stem).with("c_out", p.c_out).with("stem_h", p.stem_h).with("stem_w", p.stem_w);
  text.with("out_h", p.out_h).with("out_w", p.out_w);
  text.with("stem_pad_top", p.stem_pad_top).with("stem_pad_left", p.stem_pad_left);
  text.with("depthwise_pad_top", p.depthwise_pad_top).with("depthwise_pad_left", p.depthwise_pad_left);
  text.with("stem_clip", p.stem_clip).with("depthwise_clip", p.depthwise_clip);
  return text.with("project_clip", p.project_clip).take();
}

GemmParams expand_layer(const InvertedResidualParams& block) {
  GemmParams params;
  params.elem = params.output = block.elem;
  params.m = block.n * block.h * block.w;
  params.n = block.c_hidden;
  params.k = block.c_in;
  params.bias = true;
  params.activation = block.expand_clip;
  return params;
}

DepthwiseConvParams depthwise_layer(const InvertedResidualParams& block) {
  DepthwiseConvParams params;
  params.elem = block.elem;
  params.n = block.n;
  params.h = block.h;
  params.w = block.w;
  params.c = block.c_hidden;
  params.out_h = block.out_h;
  params.out_w = block.out_w;
  params.stride_h = params.stride_w = block.stride;
  params.pad_top = block.pad_top;
  params.pad_left = block.pad_left;
  params.bias = true;
  params.activation = block.depthwise_clip;
  return params;
}

GemmParams project_layer(const InvertedResidualParams& block) {
  GemmParams params;
  params.elem = params.output = block.elem;
  params.m = block.n * block.out_h * block.out_w;
  params.n = block.c_out;
  params.k = block.c_hidden;
  params.bias = true;
  params.residual = block.residual;
  params.activation = block.project_clip;
  return params;
}

Conv2dParams first_layer(const StemBlockParams& stem) {
  const bool integers = stem.input == StemInput::NhwcUint8;
  Conv2dParams params;
  params.elem = Elem::F16;
  params.input = integers ? Conv2dParams::Input::NhwcUint8 : Conv2dParams::Input::NchwFloat;
  params.n = stem.n;
  params.h = stem.h;
  params.w = stem.w;
  params.c_in = 3;
  params.c_out = stem.c_stem;
  params.out_h = stem.stem_h;
  params.out_w = stem.stem_w;
  params.kernel_h = params.kernel_w = 3;
  params.stride_h = params.stride_w = 2;
  params.pad_top = stem.stem_pad_top;
  params.pad_left = stem.stem_pad_left;
  params.bias = true;
  params.activation = stem.stem_clip;
  return params;
}

InvertedResidualParams block_after(const StemBlockParams& stem) {
  InvertedResidualParams params;
  params.n = stem.n;
  params.h = stem.stem_h;
  params.w = stem.stem_w;
  params.c_in = params.c_hidden = stem.c_stem;
  params.c_out = stem.c_out;
  params.out_h = stem.out_h;
  params.out_w = stem.out_w;
  params.pad_top = stem.depthwise_pad_top;
  params.pad_left = stem.depthwise_pad_left;
  params.expand = false;
  params.depthwise_clip = stem.depthwise_clip;
  params.project_clip = stem.project_clip;
  return params;
}

GemmParams pointwise_layer(const PointwisePoolParams& head) {
  GemmParams params;
  params.elem = params.output = head.elem;
  params.m = head.n * head.pixels;
  params.n = head.c;
  params.k = head.c_in;
  params.bias = head.bias;
  params.activation = head.clip;
  return params;
}

GlobalAveragePoolParams pool_layer(const PointwisePoolParams& head) {
  return {head.elem, head.n, head.pixels, 1, head.c};
}

}  // namespace mobicuda
