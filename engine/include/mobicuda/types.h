#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include <mobicuda/export.h>

namespace mobicuda {

enum class DType : std::uint8_t { F32, F16, F64, I32, I64, I8, U8, Bool };

MOBICUDA_API std::string_view to_string(DType dtype) noexcept;
MOBICUDA_API std::int64_t size_of(DType dtype) noexcept;  ///< bytes of one element

/// Order in memory of a 4-D activation whose logical shape is always (N, C, H, W).
enum class Layout : std::uint8_t { NCHW, NHWC };

MOBICUDA_API std::string_view to_string(Layout layout) noexcept;

/// Arithmetic of an engine. Fp32 is exact IEEE single precision (never TF32).
/// Fp16 stores activations and weights in half precision and accumulates in Fp32.
/// Fp32Split stores floats, and takes each factor of a pointwise convolution or Gemm as the sum of two halves, 22 bits:
/// three products on tensor cores instead of one of Fp32 (docs/numerics.md). Layers whose input may be beyond a half's
/// range are computed as in Fp32. The custom engine has it.
enum class Precision : std::uint8_t { Fp32, Tf32, Fp16, Fp64, Fp32Split };

MOBICUDA_API std::string_view to_string(Precision precision) noexcept;  ///< "fp32", "tf32", "fp32_split", ...

/// A tensor's extents: rank 0 to 8, every extent >= 0, element count representable as int64.
class MOBICUDA_API Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;

  Shape() = default;
  /// Throws Error(invalid_argument) on a rank over 8, a negative extent or an overflowing product.
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  std::size_t rank() const noexcept { return rank_; }
  /// 0 where the shape has no such axis. Throws Error(invalid_argument) from axis 8 on.
  std::int64_t operator[](std::size_t axis) const {
    if (axis >= kMaxRank) refuse_axis(axis);
    return dims_[axis];
  }
  std::span<const std::int64_t> dims() const noexcept { return {dims_.data(), rank_}; }
  /// Product of the extents; 1 for rank 0. Cannot overflow: checked at construction.
  std::int64_t elements() const noexcept { return elements_; }

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  [[noreturn]] static void refuse_axis(std::size_t axis);

  std::array<std::int64_t, kMaxRank> dims_{};
  std::size_t rank_ = 0;
  std::int64_t elements_ = 1;
};

MOBICUDA_API std::string to_string(const Shape& shape);  ///< "1x3x224x224"; "scalar" for rank 0

/// Product of two non-negative numbers. Throws Error(invalid_argument) on overflow.
MOBICUDA_API std::int64_t checked_multiply(std::int64_t a, std::int64_t b);

/// How integers q stand for real numbers: scale * (q - zero_point).
struct Quantization {
  float scale = 1.0F;           ///< finite, > 0
  std::int32_t zero_point = 0;  ///< a number of the type

  friend bool operator==(const Quantization&, const Quantization&) = default;
};

/// Type, shape and memory order of a tensor; no data.
struct TensorDesc {
  DType dtype = DType::F32;
  Shape shape;
  Layout layout = Layout::NCHW;  ///< only meaningful for rank 4
  Quantization quantization{};   ///< only meaningful for activations of type I8 and U8

  friend bool operator==(const TensorDesc&, const TensorDesc&) = default;
};

/// Whether activations of that type are integers that stand for real numbers: I8 and U8.
constexpr bool is_quantized(DType dtype) noexcept { return dtype == DType::I8 || dtype == DType::U8; }

/// The integers from `low` to `high`, both included.
struct IntegerRange {
  std::int32_t low = 0;
  std::int32_t high = 0;

  friend bool operator==(const IntegerRange&, const IntegerRange&) = default;
};

/// All numbers of a quantised type.
constexpr IntegerRange range_of(DType dtype) noexcept {
  return dtype == DType::U8 ? IntegerRange{0, 255} : IntegerRange{-128, 127};
}

/// Most that a window's kernel, stride, dilation or padding may be along an axis, in pixels: a graph has no more, and
/// the importer and the plan reader admit no more unless told otherwise. Sums and products of them cannot overflow.
inline constexpr std::int64_t kMaxWindow = 65536;

/// Most elements of a value for one image: kernels index them with int.
inline constexpr std::int64_t kMaxElements = 2147483647;

/// Zero (or value) padding around an image, in pixels.
struct Padding {
  std::int64_t top = 0, left = 0, bottom = 0, right = 0;

  bool any() const noexcept { return top != 0 || left != 0 || bottom != 0 || right != 0; }
  friend bool operator==(const Padding&, const Padding&) = default;
};

enum class ActivationKind : std::uint8_t { Clip, Sigmoid, Silu, HardSwish, Tanh, LeakyRelu, Elu };

/// What an operation applies to its result. NaN propagates.
/// Clip: min(max(x, lo), hi): none is (-inf, inf), ReLU (0, inf), ReLU6 (0, 6). Where lo > hi the result is hi, as
/// ONNX's Clip says. Sigmoid: 1 / (1 + exp(-x)). Silu: x * sigmoid(x). HardSwish: x * clip(x / 6 + 1/2, 0, 1). Where x
/// < 0, LeakyRelu: alpha * x, and Elu: alpha * (exp(x) - 1); elsewhere x.
struct Activation {
  float lo = -std::numeric_limits<float>::infinity();  ///< of Clip; unbounded for the others
  float hi = std::numeric_limits<float>::infinity();
  ActivationKind kind = ActivationKind::Clip;
  float alpha = 0.0F;  ///< of LeakyRelu and Elu, finite

  static constexpr Activation none() { return {}; }
  static constexpr Activation relu() { return {0.0F, std::numeric_limits<float>::infinity()}; }
  static constexpr Activation relu6() { return {0.0F, 6.0F}; }
  static constexpr Activation of(ActivationKind kind, float alpha = 0.0F) {
    Activation activation;
    activation.kind = kind;
    activation.alpha = alpha;
    return activation;
  }
  bool is_clip() const noexcept { return kind == ActivationKind::Clip; }
  bool is_none() const noexcept { return *this == none(); }
  friend bool operator==(const Activation&, const Activation&) = default;
};

MOBICUDA_API std::string to_string(const Activation& activation);  ///< "none", "relu6", "clip(-1,1)", "silu"

}  // namespace mobicuda
