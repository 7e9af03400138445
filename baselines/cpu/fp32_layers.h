#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/graph.h>

#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/conv2d.h"
#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {

inline constexpr std::int64_t kFloatBytes = sizeof(float);
inline constexpr std::int64_t kPointerFloats = sizeof(const float*) / kFloatBytes;
inline constexpr std::int64_t kBlocksPerThread = 4;  ///< so that a slow thread holds the others up little
/// Rows for which a product's weights are read once: nearly whole tiles of every instruction set, and two images of
/// 7 x 7.
inline constexpr std::int64_t kMostBlockRows = 102;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Part `index` of `parts` nearly equal ones of 0..items.
constexpr Range part_of(std::int64_t items, std::int64_t index, std::int64_t parts) {
  return {index * items / parts, (index + 1) * items / parts};
}

/// A weight (n, taps * channels) and its bias, packed for a processor's kernels.
struct PackedGemm {
  PackedWeights weight;
  PackedWeights bias;  ///< and behind it whether all weights are finite, 1 or 0
  std::int64_t n = 0;
  std::int64_t taps = 1;
  std::int64_t channels = 0;
  std::int64_t panel = 0;
  std::int64_t panels = 0;

  /// Outputs `first` to first + outputs of a node's weight and bias, which have the same positions in Conv2d and Gemm.
  PackedGemm(const NodeView& view, std::int64_t first, std::int64_t outputs, std::int64_t window, std::int64_t inputs,
             const std::int64_t* order);

  bool is_finite() const noexcept { return bias.data()[panels * panel] != 0.0F; }
  std::int64_t bytes() const noexcept { return weight.bytes() + bias.bytes(); }
};

/// A pointwise or other convolution, or Gemm, as one matrix product: y = act(x * w^T + bias + residual), of which a row
/// is an output pixel of all images, a pixel of the input of a pointwise convolution or a window of it.
class Product {
 public:
  /// Not of a depthwise convolution, for which it would be slow.
  Product(const Conv2d& op, const NodeView& view, ZeroProducts zeros);
  Product(const Gemm& op, const NodeView& view, ZeroProducts zeros);

  std::string kernel() const { return std::string(window_ ? "conv2d" : "gemm") + (leaves_zeros_ ? "_nonzero" : ""); }
  std::int64_t image_rows() const noexcept { return image_rows_; }
  std::int64_t columns() const noexcept { return std::ssize(groups_) * shape().n; }
  /// From a row of y to the next one, and of residual: columns(), or more where y is a part of wider rows.
  std::int64_t stride() const noexcept { return stride_; }
  std::int64_t weight_bytes() const noexcept;
  /// Of a thread: what `scratch` of the functions below points to.
  std::int64_t scratch_bytes() const;

  /// Where a run reads and writes; residual may be null.
  struct Tensors {
    const float* x;
    const float* residual;
    float* y;
  };
  /// All rows of a run, cut into blocks for the threads.
  void run(const StepContext& context, const Tensors& tensors) const;
  /// Some rows, by the calling thread. residual and y begin with the first of them, x with the first image.
  void run_rows(Range rows, const Tensors& tensors, float* scratch) const;
  /// The sums and bias alone of some rows and of some panels of a group, to rows of `sums`, most_rows() at most.
  void sum_rows(std::int64_t group, Range rows, Range panels, const float* x, float* sums, std::int64_t sums_stride,
                float* scratch) const;
  std::int64_t most_rows() const noexcept;
  const PackedGemm& group(std::int64_t i) const { return groups_[static_cast<std::size_t>(i)]; }
  std::int64_t groups() const noexcept { return std::ssize(groups_); }

 private:
  const PackedGemm& shape() const noexcept { return groups_.front(); }
  std::int64_t pointer_elements() const noexcept;
  void point(const float* x, Range rows, float* scratch) const;
  GemmTask task_of(std::int64_t group, std::int64_t rows, Range panels, const float* scratch) const;
  void run_block(std::int64_t group, std::int64_t rows, Range panels, const Tensors& first_row,
                 const float* scratch) const;

  const Fp32Kernels* kernels_;
  Activation activation_;
  bool leaves_zeros_;  // products of x's zeros are left out
  std::int64_t image_rows_ = 1;
  std::int64_t stride_ = 0;
  std::optional<WindowGeometry> window_;  // absent: a row of x is one run, and they lie side by side
  std::vector<PackedGemm> groups_;        // equal but for their weights
};

/// A depthwise convolution.
class Depthwise {
 public:
  /// is_depthwise(), or repeats_channels(): then x's rows are of pixels whose channels are repeated.
  Depthwise(const Conv2d& op, const NodeView& view);

  std::int64_t out_h() const noexcept { return out_h_; }
  std::int64_t row_elements() const noexcept { return shape_.out_w * shape_.c; }  ///< of y and residual
  std::int64_t x_row_elements() const noexcept { return shape_.w * shape_.c; }
  std::int64_t x_rows() const noexcept { return shape_.h; }  ///< of an image
  /// Rows of an image's input that the output rows in `rows` read.
  Range window_of(Range rows) const noexcept;
  /// The most that as many output rows side by side read.
  std::int64_t most_window_rows(std::int64_t rows) const noexcept;
  std::int64_t weight_bytes() const noexcept { return weight_.bytes() + bias_and_zeros_.bytes(); }

  /// Output rows of an image, whose input row i is row i % ring of x, which has room for all that they read; residual
  /// (may be null) and y begin with the first of them.
  void run_rows(Range rows, const float* x, std::int64_t ring, const float* residual, float* y) const;

 private:
  std::int64_t reach() const noexcept;

  const Fp32Kernels* kernels_;
  PackedWeights weight_, bias_and_zeros_;
  DepthwiseTask shape_;
  std::int64_t out_h_ = 1;
  Activation activation_;
};

/// What kernels leave of an activation, none of those that clip, on rows that they have just written.
void activate_block(const Activation& activation, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                    float* y);

/// LayerInfo::kernel of loops for the view's instruction set.
std::string with_isa(const std::string& loops, const NodeView& view);

}  // namespace mobicuda::cpu
