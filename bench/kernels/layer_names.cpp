// What shapes are called, and what they cost.
#include <array>

#include "layer_shapes.h"

namespace mobicuda::bench {
namespace {

const char* suffix_of(LayerActivation activation) {
  constexpr std::array kSuffixes = {"",      "_relu",       "_relu6", "_clip",       "_sigmoid",
                                    "_silu", "_hard_swish", "_tanh",  "_leaky_relu", "_elu"};
  return kSuffixes[static_cast<std::size_t>(activation)];
}

/// "k3", "k1x7"
std::string pair(const char* letter, int vertical, int horizontal) {
  const std::string text = letter + std::to_string(vertical);
  return vertical == horizontal ? text : text + "x" + std::to_string(horizontal);
}

std::string window_text(const LayerShape& shape) {
  const Window& v = shape.vertical;
  const Window& h = shape.horizontal;
  std::string text = "_" + pair("k", v.size, h.size) + "_" + pair("s", v.stride, h.stride) + "_" +
                     pair("p", v.pad_before, h.pad_before);
  if (v.pad_after != v.pad_before || h.pad_after != h.pad_before) text += "_" + pair("q", v.pad_after, h.pad_after);
  if (v.dilation != 1 || h.dilation != 1) text += "_" + pair("d", v.dilation, h.dilation);
  if (shape.groups != 1 && shape.kind == LayerKind::Conv2d) text += "_g" + std::to_string(shape.groups);
  return text;
}

bool has_window(LayerKind kind) {
  switch (kind) {
    case LayerKind::DepthwiseConv:
    case LayerKind::Conv2d:
    case LayerKind::Block:
    case LayerKind::Stem:
    case LayerKind::MaxPool:
    case LayerKind::AveragePool:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string extents(int h, int w, int c) {
  return std::to_string(h) + "x" + std::to_string(w) + "x" + std::to_string(c);
}

const char* kernel_name(LayerKind kind) {
  constexpr std::array kNames = {
      "gemm",           "depthwise_conv", "conv2d",          "inverted_residual",   "stem_block", "pointwise_pool",
      "squeeze_excite", "max_pooling",    "average_pooling", "global_average_pool", "add",        "multiply/equal",
      "multiply/gate",  "scale_shift",    "unary",           "local_response_norm", "softmax"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string to_string(const LayerShape& shape) {
  const bool convolves = shape.kind <= LayerKind::Head;
  std::string text;
  if (shape.kind == LayerKind::Gemm) {
    text = "m" + std::to_string(shape.h * shape.w) + "_n" + std::to_string(shape.c_out) + "_k" +
           std::to_string(shape.c_in);
  } else {
    text = extents(shape.h, shape.w, shape.c_in);
    if (shape.hidden != 0 && (shape.expand || shape.kind != LayerKind::Block))
      text += "_by" + std::to_string(shape.hidden);
    if (shape.c_out != shape.c_in || shape.kind == LayerKind::Conv2d || shape.kind == LayerKind::Block) {
      text += "_to" + std::to_string(shape.c_out);
    }
    if (has_window(shape.kind)) text += window_text(shape);
  }
  if (shape.residual) text += "_residual";
  text += suffix_of(shape.activation);
  if (convolves && !shape.bias) text += "_nobias";
  if (shape.last) text += "_last";
  return text;
}

std::string to_string(const std::vector<LayerUse>& uses) {
  std::string text;
  for (const LayerUse& use : uses) text += (text.empty() ? "" : " ") + use.network + "*" + std::to_string(use.count);
  return text;
}

std::int64_t flops_of(const LayerShape& s) {
  constexpr std::int64_t kTaps = 9;  // of the depthwise part of fused layers
  const std::int64_t in = std::int64_t{s.h} * s.w;
  const std::int64_t out = std::int64_t{s.out_h} * s.out_w;
  switch (s.kind) {
    case LayerKind::Gemm:
      return 2 * in * s.c_in * s.c_out;
    case LayerKind::DepthwiseConv:
    case LayerKind::Conv2d:
      return 2 * out * s.c_out * (s.c_in / s.groups) * s.vertical.size * s.horizontal.size;
    case LayerKind::Block:
      return 2 * ((s.expand ? in * s.c_in * s.hidden : 0) + out * s.hidden * (kTaps + s.c_out));
    case LayerKind::Stem:
      return 2 * out * s.hidden * (kTaps * s.c_in + kTaps + s.c_out);
    case LayerKind::Head:
      return 2 * in * s.c_in * s.c_out;
    case LayerKind::SqueezeExcite:
      return 4 * std::int64_t{s.c_in} * s.hidden + 2 * in * s.c_in;
    default:
      return 0;
  }
}

}  // namespace mobicuda::bench
