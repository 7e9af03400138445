// For the functions of a KernelTable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

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
  explicit ShapeText(std::string_view kernel);

  ShapeText& with(std::string_view what, int value);
  ShapeText& with(std::string_view what, const Clip& clip);
  ShapeText& with(std::string_view what, const Activation& activation);

  /// Of a convolution.
  template <class Params>
  ShapeText& with_window(const Params& p) {
    with("kernel_h", p.kernel_h).with("kernel_w", p.kernel_w).with("stride_h", p.stride_h).with("stride_w", p.stride_w);
    with("dilation_h", p.dilation_h).with("dilation_w", p.dilation_w);
    return with("pad_top", p.pad_top).with("pad_left", p.pad_left);
  }

  std::string take();

 private:
  ShapeText& add(std::string_view what, const std::string& value);

  std::string text_;
};

}  // namespace mobicuda::kernels::table
