// What the files of graph/ops/ share: checks of inputs and attributes, and texts.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "graph/ops.h"
#include "graph/verify.h"

namespace mobicuda {

// ---- checks

[[noreturn]] inline void reject(const std::string& attribute, const std::string& message) {
  throw Error(ErrorCode::invalid_model, attribute, message);
}

/// An input that is no optional one; `what` is its name in ONNX.
inline const TensorDesc& required(const Inputs& inputs, std::size_t position, const char* what) {
  if (inputs[position] == nullptr) reject(std::string("input '") + what + "'", "is missing");
  return *inputs[position];
}

/// An input of rank 4.
inline const TensorDesc& image(const Inputs& inputs, std::size_t position) {
  const TensorDesc& desc = required(inputs, position, "x");
  if (desc.shape.rank() != 4) {
    reject("input 'x'", "must have rank 4 (N, C, H, W), got " + to_string(desc.shape));
  }
  if (desc.shape.elements() == 0) reject("input 'x'", "has no elements: " + to_string(desc.shape));
  return desc;
}

inline void require_shape(const TensorDesc& desc, const char* what, const Shape& expected) {
  if (desc.shape != expected) {
    reject(std::string("input '") + what + "'",
           "must have shape " + to_string(expected) + ", got " + to_string(desc.shape));
  }
}

inline std::string attribute_place(const char* attribute) { return std::string("attribute '") + attribute + "'"; }

inline void require_positive(std::int64_t value, const char* attribute) {
  if (value <= 0) reject(attribute_place(attribute), "must be > 0, got " + std::to_string(value));
}

/// What follows adds and multiplies such numbers, and extents.
inline void require_window_limit(std::int64_t value, const char* attribute) {
  if (value <= kMaxWindow) return;
  throw Error(ErrorCode::unsupported, attribute_place(attribute),
              "must be <= " + std::to_string(kMaxWindow) + ", got " + std::to_string(value),
              "kernel, stride, dilation and padding have that limit: make the window and the picture smaller");
}

inline void require_window(std::span<const std::int64_t> values, const char* attribute) {
  for (const std::int64_t value : values) {
    require_positive(value, attribute);
    require_window_limit(value, attribute);
  }
}

inline void require_padding(const Padding& pads) {
  for (const std::int64_t pad : {pads.top, pads.left, pads.bottom, pads.right}) {
    if (pad < 0) reject(attribute_place("pads"), "must be >= 0, got " + std::to_string(pad));
    require_window_limit(pad, "pads");
  }
}

/// x's type and quantisation in another shape and layout.
inline TensorDesc moved(const TensorDesc& x, const Shape& shape, Layout layout) {
  return {x.dtype, shape, layout, x.quantization};
}

/// An output that is not too large.
inline TensorDesc checked(TensorDesc desc) {
  require_elements(desc.shape, "output");
  return desc;
}

/// Extent of a window's output along one axis, before any ceil_mode.
inline std::int64_t window_extent(std::int64_t extent, std::int64_t window, std::int64_t stride, std::int64_t before,
                                  std::int64_t after, const char* axis) {
  const std::int64_t room = extent + before + after - window;
  if (room < 0) {
    reject("attribute 'kernel_shape'", "a window of " + std::to_string(window) + " does not fit the padded " + axis +
                                           " of " + std::to_string(extent + before + after));
  }
  return room / stride + 1;
}

inline void require_finite_alpha(float alpha) {
  if (!std::isfinite(alpha)) reject("attribute 'alpha'", "must be finite, got " + std::to_string(alpha));
}

// ---- text

/// "int8 (scale 0.5, zero point -3)"; "float32".
inline std::string quantization_text(const TensorDesc& desc) {
  std::ostringstream text;
  text << to_string(desc.dtype);
  if (is_quantized(desc.dtype)) {
    text << " (scale " << desc.quantization.scale << ", zero point " << desc.quantization.zero_point << ')';
  }
  return text.str();
}

inline std::string pads_text(const Padding& pads) {
  std::ostringstream text;
  text << pads.top << ',' << pads.left << ',' << pads.bottom << ',' << pads.right;
  return text.str();
}

inline std::string dilations_text(const std::array<std::int64_t, 2>& dilations) {
  if (dilations == std::array<std::int64_t, 2>{1, 1}) return "";
  return " dilation=" + std::to_string(dilations[0]) + ',' + std::to_string(dilations[1]);
}

inline std::string activation_text(const Activation& activation) {
  return activation.is_none() ? "" : " act=" + to_string(activation);
}

}  // namespace mobicuda
