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
  const float* next = nullptr;      ///< may be null; a panel that is read after these, to be asked for meanwhile
  const float* bias = nullptr;      ///< n values filled up to whole panels; null: zeros
  const float* residual = nullptr;  ///< may be null; row stride y_stride; no part of y
  float* y = nullptr;               ///< holds partial sums until the last run
  std::int64_t y_stride = 0;
  std::int64_t rows = 0, n = 0;
  std::int64_t panel = 0;  ///< gemm_panel(n)
  std::int64_t first_panel = 0, last_panel = 0;
  bool unsigned_zeros = false;  ///< a sum that is zero has no sign, before the residual
  float lo = 0.0F, hi = 0.0F;
};

/// Output rows of a depthwise convolution, NHWC.
struct DepthwiseTask {
  const float* x = nullptr;         ///< row i of the image begins at x + i % ring * w * c
  std::int64_t ring = 1;            ///< rows that x has room for: h, or as many as the windows read at least
  const float* packed = nullptr;    ///< (kernel_h, kernel_w, c)
  const float* bias = nullptr;      ///< c values
  const float* zeros = nullptr;     ///< c of them, for pixels outside
  const float* residual = nullptr;  ///< the output rows', may be null
  float* y = nullptr;               ///< the output rows, one after the other
  std::int64_t h = 0, w = 0, c = 0, out_w = 0;
  std::int64_t oy = 0, rows = 1;  ///< the first output row, and how many
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t pad_top = 0, pad_left = 0;
  float lo = 0.0F, hi = 0.0F;
};

/// Input transform of Winograd's F(2x2, 3x3) for tiles side by side: v = B^T d B of the 4 x 4 pixels d under each,
/// whose neighbours begin two columns on. B^T has the rows (1 0 -1 0), (0 1 1 0), (0 -1 1 0), (0 1 0 -1).
struct WinogradInputTask {
  const float* lines[4] = {};      ///< rows of the image, null outside
  const float* zeros = nullptr;    ///< `channels` of them, for pixels outside
  std::int64_t w = 0, stride = 0;  ///< pixels of a row, and from one to the next
  std::int64_t left = 0;           ///< the first tile's first column; may be outside
  std::int64_t tiles = 0, channels = 0;
  float* v = nullptr;  ///< number i, j of tile t: `channels` from v[(4 i + j) v_stride + t channels] on
  std::int64_t v_stride = 0;
};

/// Output transform of Winograd's F(2x2, 3x3) for tiles side by side: act(A^T m A + residual), 2 x 2 pixels for each.
/// A^T has the rows (1 1 1 0), (0 1 -1 -1); sums are (m0 + m1) + m2 and (m1 - m2) - m3, down columns first.
struct WinogradOutputTask {
  const float* m = nullptr;  ///< number i, j of tile t: n of them from m[(4 i + j) m_stride + t m_tile] on
  std::int64_t m_stride = 0, m_tile = 0;
  const float* residual = nullptr;          ///< may be null; strides of y
  float* y = nullptr;                       ///< the first tile's first pixel
  std::int64_t row_stride = 0, stride = 0;  ///< from a row of pixels and from a pixel to the next
  std::int64_t rows = 0, columns = 0;       ///< pixels there are: rows 1 or 2, columns at least 2 tiles - 1
  std::int64_t tiles = 0, n = 0;
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

/// What an ElementTask computes of its sum or product.
enum class ElementFunction : std::uint8_t {
  Act,       ///< its activation
  Gelu,      ///< UnaryKind::Gelu, of the first form alone
  GeluTanh,  ///< UnaryKind::GeluTanh, of the first form alone
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
  ElementFunction function = ElementFunction::Act;
};

/// Whether ElementTask has the activation: not Elu, for which the C library's expm1 is.
constexpr bool is_vectorised(ActivationKind kind) { return kind != ActivationKind::Elu; }

/// The inner loops for one instruction set.
struct Fp32Kernels {
  const char* name;
  std::int64_t least_panel, widest_panel;  ///< outputs in a panel of packed weights
  void (*gemm)(const GemmTask& task);
  /// The same bits for finite weights and unsigned zeros, without the products of x's zeros where it has many.
  void (*gemm_nonzero)(const GemmTask& task);
  void (*depthwise_conv)(const DepthwiseTask& task);
  void (*pool)(const PoolTask& task);
  void (*elements)(const ElementTask& task);
  void (*winograd_input)(const WinogradInputTask& task);
  bool (*winograd_output)(const WinogradOutputTask& task);  ///< whether all sums are finite, before residual and act

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
const Fp32Kernels& fp32_kernels_avx2();  ///< needs AVX2 and FMA
/// Needs AVX-512 F, DQ, BW and VL. The bits are the same with `halves`: for processors that compute a register as two
/// halves.
const Fp32Kernels& fp32_kernels_avx512(bool halves);
#endif

/// All that this processor runs, the fastest last.
std::vector<const Fp32Kernels*> supported_fp32_kernels();
/// The fastest that this processor runs.
const Fp32Kernels& fp32_kernels();

}  // namespace mobicuda::cpu
