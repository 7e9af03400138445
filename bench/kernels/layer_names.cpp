// What shapes are called.
#include "layer_shapes.h"

namespace mobicuda::bench {
namespace {

const char* suffix_of(LayerActivation activation) {
  switch (activation) {
    case LayerActivation::None:
      return "";
    case LayerActivation::Relu:
      return "_relu";
    case LayerActivation::Relu6:
      return "_relu6";
    case LayerActivation::Clip:
      return "_clip";
    case LayerActivation::Sigmoid:
      return "_sigmoid";
    case LayerActivation::Silu:
      return "_silu";
    case LayerActivation::HardSwish:
      return "_hard_swish";
    case LayerActivation::Tanh:
      return "_tanh";
    case LayerActivation::LeakyRelu:
      return "_leaky_relu";
    case LayerActivation::Elu:
      return "_elu";
  }
  return "";
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
  return text;
}

/// Of input, output and what lies between.
std::string size_text(const LayerShape& shape, const LayerTraits& traits) {
  std::string text = extents(shape.h, shape.w, shape.c_in);
  if (shape.hidden != 0 && (shape.expand || shape.hidden != shape.c_in)) text += "_by" + std::to_string(shape.hidden);
  const bool mixes = traits.window && traits.products;  // each channel of the output reads several, or all
  if (shape.c_out != shape.c_in || mixes) text += "_to" + std::to_string(shape.c_out);
  if (traits.window) text += window_text(shape);
  if (shape.groups != 1 && mixes) text += "_g" + std::to_string(shape.groups);
  return text;
}

}  // namespace

std::string extents(int h, int w, int c) {
  return std::to_string(h) + "x" + std::to_string(w) + "x" + std::to_string(c);
}

std::string to_string(const LayerShape& shape) {
  const LayerTraits& traits = LayerKind::named(shape.kind).traits();
  std::string text = traits.size == nullptr ? size_text(shape, traits) : traits.size(shape);
  if (shape.residual) text += "_residual";
  text += suffix_of(shape.activation);
  if (traits.bias && !shape.bias) text += "_nobias";
  if (shape.last) text += "_last";
  return text;
}

std::string to_string(const std::vector<LayerUse>& uses) {
  std::string text;
  for (const LayerUse& use : uses) text += (text.empty() ? "" : " ") + use.network + "*" + std::to_string(use.count);
  return text;
}

}  // namespace mobicuda::bench
