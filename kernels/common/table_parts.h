// For the functions of a KernelTable.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/common/types.h"

namespace mobicuda::kernels::table {

inline std::int64_t bytes(std::size_t element, auto... factors) {
  return (static_cast<std::int64_t>(element) * ... * static_cast<std::int64_t>(factors));
}

inline std::int64_t bytes(Elem elem, auto... factors) { return bytes(size_of(elem), factors...); }

inline std::int64_t bias_bytes(int channels) { return bytes(sizeof(float), channels); }

inline std::int64_t as_bytes(std::size_t count) { return static_cast<std::int64_t>(count); }

/// The bias among a launch's weights; null where there shall be none.
inline const float* bias(bool wanted, const void* data) { return wanted ? static_cast<const float*>(data) : nullptr; }

/// "gemm m=16 k=32 ...".
class ShapeText {
 public:
  explicit ShapeText(std::string_view kernel) : text_(kernel) {}

  ShapeText& with(std::string_view what, int value) { return add(what, std::to_string(value)); }
  ShapeText& with(std::string_view what, const Clip& clip) { return add(what, text_of(clip)); }
  ShapeText& with(std::string_view what, const Activation& activation) { return add(what, text_of(activation)); }

  /// Of a convolution.
  template <class Params>
  ShapeText& with_window(const Params& p) {
    with("kernel_h", p.kernel_h).with("kernel_w", p.kernel_w).with("stride_h", p.stride_h).with("stride_w", p.stride_w);
    with("dilation_h", p.dilation_h).with("dilation_w", p.dilation_w);
    return with("pad_top", p.pad_top).with("pad_left", p.pad_left);
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string text_of(float value) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return {text.data(), end};
  }
  static std::string text_of(const Clip& clip) { return "[" + text_of(clip.lo) + "," + text_of(clip.hi) + "]"; }
  static std::string text_of(const Activation& activation) {
    if (activation.kind == ActivationKind::Clip) return text_of(Clip{activation.lo, activation.hi});
    return std::to_string(static_cast<int>(activation.kind)) + "[" + text_of(activation.alpha) + "]";
  }

  ShapeText& add(std::string_view what, const std::string& value) {
    text_ += " " + std::string(what) + "=" + value;
    return *this;
  }

  std::string text_;
};

}  // namespace mobicuda::kernels::table
