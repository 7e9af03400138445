#pragma once

#include <cstdint>
#include <vector>

#include <mobicuda/graph.h>

#include "baselines/cpu/fp32_layers.h"
#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {

inline constexpr std::int64_t kWinogradNumbers = 16;  ///< of a tile, and of a filter's transform

/// A filter of 3x3 is one part, one of 5x5 four, side by side: of 3x3, 3x2, 2x3 and 2x2, whose outputs add up. Where a
/// part begins in the filter:
struct WinogradPart {
  std::int64_t row = 0, column = 0;
};
inline constexpr WinogradPart kWinogradParts[] = {{3, 0}, {0, 0}, {0, 3}, {3, 3}};
/// The parts of a square filter that have number 0 to 15 of a transform: of two rows or columns the last is zero.
constexpr Range winograd_parts(std::int64_t kernel, std::int64_t number) {
  if (kernel == 3) return {1, 2};
  const bool last_row = number / 4 == 3;
  const bool last_column = number % 4 == 3;
  return {last_row ? 1 : 0, last_column ? 2 : last_row ? 3 : 4};
}
/// Products for a channel of a tile and an output.
constexpr std::int64_t winograd_products(std::int64_t kernel) {
  std::int64_t products = 0;
  for (std::int64_t number = 0; number < kWinogradNumbers; ++number) {
    const Range parts = winograd_parts(kernel, number);
    products += parts.last - parts.first;
  }
  return products;
}

/// What Winograd's filtering may be chosen by: nothing else, so that an output's bits depend on the layer alone.
struct WinogradShape {
  std::int64_t out_h = 0, out_w = 0;
  std::int64_t channels = 0, outputs = 0;  ///< of a group
  std::int64_t kernel = 3;                 ///< or 5

  std::int64_t parts() const noexcept { return kernel == 3 ? 1 : std::ssize(kWinogradParts); }
  std::int64_t tile_rows() const noexcept { return ceil_div(out_h, 2); }
  std::int64_t tile_columns() const noexcept { return ceil_div(out_w, 2); }
  std::int64_t tiles() const noexcept { return tile_rows() * tile_columns(); }
};

/// Whether the filtering is faster than the convolution itself: docs/cpu_engine.md.
bool winograd_is_faster(const WinogradShape& shape);
/// Whether a convolution, not a depthwise one, is computed so: 3x3 or 5x5 at stride 1 without dilation, as `view`
/// allows.
bool takes_winograd(const Conv2d& op, const NodeView& view);

/// G g G^T of each part g of the filters of a group, weight (outputs, channels, kernel, kernel), worked out in double
/// and rounded once: for each number a matrix (outputs, its parts * channels), gemm_pack()ed in panels of `panel`. G
/// has the rows (1 0 0), (1/2 1/2 1/2), (1/2 -1/2 1/2), (0 0 1).
void winograd_pack(std::int64_t outputs, std::int64_t channels, std::int64_t kernel, std::int64_t panel,
                   const float* weight, float* packed);

/// A convolution by Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, arXiv 1509.09308): 2 x 2 outputs are a
/// tile, for which 16 products of transformed inputs and filters do instead of 36, 49 instead of 100 where filters have
/// 5x5. What comes out as no finite number, and so may stand for a finite one, is computed again as Product does.
class Winograd {
 public:
  Winograd(const Conv2d& op, const NodeView& view);

  static const char* kernel() noexcept { return "winograd"; }
  std::int64_t weight_bytes() const noexcept;
  /// Of a thread.
  std::int64_t scratch_bytes() const;
  /// All rows of a run, cut into blocks of tiles for the threads.
  void run(const StepContext& context, const Product::Tensors& tensors) const;

 private:
  // Tiles side by side in a row of tiles, numbered through all images.
  struct TileRun {
    std::int64_t first, count;
    std::int64_t image, row, column;  // of the first one, in tiles
  };
  // A thread's scratch memory.
  struct Scratch {
    const float** rows;  // of v
    float* zeros;
    float* v;
    float* m;
    float* sums;     // of rows that are computed again
    float* product;  // Product's
  };

  void place_scratch();
  Scratch scratch_at(float* memory) const;
  std::int64_t v_stride() const noexcept;
  std::int64_t m_stride() const noexcept;
  std::int64_t m_columns() const noexcept;
  template <class Visit>
  void for_runs(Range tiles, const Visit& visit) const;
  void transform(Range tiles, std::int64_t group, const float* x, const Scratch& scratch) const;
  void multiply(std::int64_t tiles, std::int64_t group, Range panels, const Scratch& scratch) const;
  void finish(Range tiles, std::int64_t group, Range panels, const Product::Tensors& tensors,
              const Scratch& scratch) const;
  void replace(const TileRun& run, const WinogradOutputTask& task, std::int64_t group, Range panels, const float* x,
               const Scratch& scratch) const;

  Product direct_;  // bias, and weights for what is computed again
  const Fp32Kernels* kernels_;
  Activation activation_;
  WinogradShape shape_;
  std::int64_t h_, w_, c_;  // of x
  std::int64_t pad_top_, pad_left_;
  std::int64_t block_tiles_, block_panels_;
  std::int64_t zeros_, v_, m_, sums_, product_;  // where a thread's scratch memory has them, in floats
  std::vector<PackedWeights> weights_;           // of each group
};

}  // namespace mobicuda::cpu
