#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include <mobicuda/types.h>

#include "cudnn/handles.h"

namespace mobicuda::cudnn {

/// y = act(conv(x, w) + bias + residual) for a whole batch: all that the choice of a kernel depends on.
/// A Gemm is a 1x1 convolution of 1x1 images.
struct ConvProblem {
  Precision precision = Precision::Fp32;
  Layout layout = Layout::NHWC;
  std::int64_t n = 1, c = 1, h = 1, w = 1;
  std::int64_t k = 1, kh = 1, kw = 1;  ///< output channels, window
  std::array<std::int64_t, 2> strides{1, 1};
  std::array<std::int64_t, 2> dilations{1, 1};
  Padding pads;
  std::int64_t groups = 1;
  bool bias = false;
  bool residual = false;
  bool float_output = false;  ///< y and bias in F32 although x and w are F16; without a residual
  std::int64_t y_pitch = 0;   ///< NHWC: from pixel to pixel of y, a part of a wider tensor; 0 where y is packed
  Activation activation;

  std::int64_t out_h() const { return (h + pads.top + pads.bottom - dilations[0] * (kh - 1) - 1) / strides[0] + 1; }
  std::int64_t out_w() const { return (w + pads.left + pads.right - dilations[1] * (kw - 1) - 1) / strides[1] + 1; }
  DType element() const {
    if (precision == Precision::Fp64) return DType::F64;
    return precision == Precision::Fp16 ? DType::F16 : DType::F32;
  }
  DType output_element() const { return float_output ? DType::F32 : element(); }
  std::int64_t x_bytes() const { return n * c * h * w * size_of(element()); }
  std::int64_t w_bytes() const { return k * (c / groups) * kh * kw * size_of(element()); }
  std::int64_t bias_bytes() const { return k * size_of(output_element()); }
  std::int64_t y_bytes() const { return n * k * out_h() * out_w() * size_of(output_element()); }
  /// From y's first element to the end of the tensor that it is a part of.
  std::int64_t y_span_bytes() const { return y_pitch == 0 ? y_bytes() : y_bytes() / k * y_pitch; }
  bool symmetric_pads() const { return pads.top == pads.bottom && pads.left == pads.right; }
  bool is_depthwise() const { return groups == c && groups == k; }
  bool is_pointwise() const {
    return kh == 1 && kw == 1 && strides == std::array<std::int64_t, 2>{1, 1} && !pads.any() && groups == 1;
  }

  /// Milliseconds that an H100 needs at the least, by its data sheet: tells what a search can still gain.
  double ideal_milliseconds() const {
    constexpr double kBytes = 3.35e9;  // a millisecond
    const double flops = precision == Precision::Fp16 ? 9.9e11 : precision == Precision::Tf32 ? 4.9e11 : 6.7e10;
    const auto bytes = static_cast<double>(x_bytes() + w_bytes() + y_bytes() * (residual ? 2 : 1));
    const std::int64_t group_channels = c / groups;
    const auto products = static_cast<double>(n * k * out_h() * out_w() * group_channels * kh * kw);
    return std::max(bytes / kBytes, 2.0 * products / flops);
  }
  /// True when launching takes so much longer than the work that all kernels are nearly alike.
  bool launch_bound() const {
    constexpr double kTiny = 3e-5;
    return ideal_milliseconds() < kTiny;
  }

  friend bool operator==(const ConvProblem&, const ConvProblem&) = default;
};

/// Device addresses of one convolution; bias and residual are null where the problem has none.
struct ConvArguments {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
};

/// What a kernel does beyond the convolution itself; the rest of the layer needs an elementwise step.
struct Fused {
  bool bias = false;
  bool residual = false;
  bool activation = false;
};

/// One way to run a convolution: an algorithm or engine of a library with all its settings fixed.
class ConvKernel {
 public:
  virtual ~ConvKernel() = default;
  ConvKernel(const ConvKernel&) = delete;
  ConvKernel& operator=(const ConvKernel&) = delete;

  /// Enqueues on the handles' stream. Sessions that share the kernel call it one after the other:
  /// CudaNetwork::take_turn.
  virtual cudaError_t enqueue(const Handles& handles, const ConvArguments& arguments) const = 0;

  const std::string& name() const noexcept { return name_; }
  std::int64_t workspace_bytes() const noexcept { return workspace_bytes_; }
  Fused fused() const noexcept { return fused_; }
  /// True when only a trial can tell whether the kernel's arithmetic is exact enough.
  bool needs_probe() const noexcept { return needs_probe_; }

 protected:
  ConvKernel() = default;
  void describe(std::string name, std::int64_t workspace_bytes, Fused fused, bool needs_probe = false) {
    name_ = std::move(name);
    workspace_bytes_ = workspace_bytes;
    fused_ = fused;
    needs_probe_ = needs_probe;
  }

 private:
  std::string name_;
  std::int64_t workspace_bytes_ = 0;
  Fused fused_;
  bool needs_probe_ = false;
};

/// Scratch that a kernel may ask for at most.
inline constexpr std::int64_t kMaxWorkspaceBytes = std::int64_t{256} << 20U;

}  // namespace mobicuda::cudnn
