#pragma once

#include <cstdint>
#include <vector>

#include <mobicuda/types.h>

namespace mobicuda::cpu {

/// A longer k is summed in parts, so that a panel's weights for one stay in a cache while all rows pass; the sums wait
/// in y.
inline constexpr std::int64_t kLongestSum = 1024;

/// act(x * w^T + bias + residual) for `rows` rows of x and the panels first_panel..last_panel of w. A row of x is
/// `taps` runs of `channels` values, which lie where x says: the pixels under a window, or one run. Each output is
/// summed over k = taps * channels in ascending order whatever the tiling, so that results do not depend on how rows
/// are cut.
struct GemmTask {
  const float* const* x = nullptr;  ///< run `tap` of row `row` begins at x[tap * x_rows + row] + x_offset
  std::int64_t x_rows = 0, x_offset = 0;
  std::int64_t taps = 1, channels = 0;
  const float* packed = nullptr;    ///< gemm_pack()ed for `panel`
  const float* bias = nullptr;      ///< n values filled up to whole panels
  const float* residual = nullptr;  ///< may be null; row stride y_stride; no part of y
  float* y = nullptr;               ///< holds partial sums until the last run
  std::int64_t y_stride = 0;
  std::int64_t rows = 0, n = 0;
  std::int64_t panel = 0;  ///< gemm_panel(n)
  std::int64_t first_panel = 0, last_panel = 0;
  float lo = 0.0F, hi = 0.0F;
};

/// One output row of a depthwise convolution, NHWC.
struct DepthwiseTask {
  const float* x = nullptr;         ///< the image
  const float* packed = nullptr;    ///< (kernel_h, kernel_w, c)
  const float* bias = nullptr;      ///< c values
  const float* residual = nullptr;  ///< the output row's, may be null
  float* y = nullptr;               ///< the output row
  std::int64_t h = 0, w = 0, c = 0, out_w = 0, oy = 0;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t pad_top = 0, pad_left = 0;
  float lo = 0.0F, hi = 0.0F;
};

/// The largest value of a window, or their sum over `divisor`, for each channel of a pixel. NHWC. NaN wins over
/// numbers.
struct PoolTask {
  const float* x = nullptr;  ///< the first pixel of the window
  std::int64_t row_stride = 0, column_stride = 0;
  std::int64_t rows = 0, columns = 0;  ///< of the window, as far as it lies in the image; may be 0
  std::int64_t c = 0;
  bool largest = false;
  float divisor = 1.0F;
  float* y = nullptr;
};

/// y[i] = act(a[i]), act(a[i] + b[i]), act(a[i] * b[i]) or act(a[i] * b[i] + c[i]) for i below n; y may be a. An
/// element's bits do not depend on what stands beside it.
struct ElementTask {
  const float* a = nullptr;
  const float* b = nullptr;  ///< may be null: the first form
  const float* c = nullptr;  ///< may be null
  bool multiply = false;     ///< of a and b alone: the third form instead of the second
  bool repeat = false;       ///< b[0] and c[0] stand for all
  float* y = nullptr;
  std::int64_t n = 0;
  Activation activation;  ///< is_vectorised()
};

/// Whether ElementTask has the activation: not Tanh and Elu, for which the C library's functions are exact enough.
constexpr bool is_vectorised(ActivationKind kind) {
  return kind != ActivationKind::Tanh && kind != ActivationKind::Elu;
}

/// The inner loops for one instruction set.
struct Fp32Kernels {
  const char* name;
  std::int64_t least_panel, widest_panel;  ///< outputs in a panel of packed weights
  void (*gemm)(const GemmTask& task);
  void (*depthwise_conv)(const DepthwiseTask& task);
  void (*pool)(const PoolTask& task);
  void (*elements)(const ElementTask& task);

  /// Outputs in a panel of n in all: few, as those of a group, take narrower vectors.
  std::int64_t gemm_panel(std::int64_t n) const noexcept {
    std::int64_t panel = least_panel;
    while (panel < n && panel < widest_panel) panel *= 2;
    return panel;
  }
};

// The sets are reached through the two functions at the end, which ask the processor first.
const Fp32Kernels& fp32_kernels_generic();
#ifdef MOBICUDA_CPU_X86
const Fp32Kernels& fp32_kernels_avx2();    ///< needs AVX2 and FMA
const Fp32Kernels& fp32_kernels_avx512();  ///< needs AVX-512 F, DQ, BW and VL
#endif

/// All that this processor runs, the widest last.
std::vector<const Fp32Kernels*> supported_fp32_kernels();
/// The widest that this processor runs.
const Fp32Kernels& fp32_kernels();

}  // namespace mobicuda::cpu
