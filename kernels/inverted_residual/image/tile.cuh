// Which pixels a block, a warp and a lane have in the image inverted residual kernel.
//
// A tile is the rows of a block, two of each warp, by 16 or 8 columns of one image. All of its pixels are expanded, and
// those finished whose windows are in it. Where tiles meet they overlap by two rows or columns, of which each finishes
// one.
#pragma once

#include "kernels/inverted_residual/image/shape.cuh"
#include "kernels/ptx/lane.cuh"

namespace mobicuda::kernels::inverted_image {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// The place of a tile, the same for all threads of a block. Rows and columns are numbered within the tile.
template <class S>
class Tile {
 public:
  /// `row`, `column`: number of the tile in its image, columns being numbered through all images.
  __device__ __forceinline__ Tile(int row, unsigned column, int images)
      : image_(column / S::kColumnTiles), row_(row), column_(static_cast<int>(column % S::kColumnTiles)) {
    if constexpr (S::kColumnTiles > 1 || S::kHasNeighbours) {
      width_ = image_ < static_cast<unsigned>(images) ? kConfig.w - first_column() : 0;
    }
  }

  __device__ __forceinline__ int row() const { return row_; }
  __device__ __forceinline__ int column() const { return column_; }
  __device__ __forceinline__ std::size_t image() const { return image_; }
  /// Of x.
  __device__ __forceinline__ int first_row() const { return row_ * (S::kRows - kHalo); }
  __device__ __forceinline__ int first_column() const { return column_ * (kConfig.columns - kHalo); }
  __device__ __forceinline__ std::size_t first_pixel() const {
    const std::size_t pixel =
        image_ * (kConfig.h * kConfig.w) + static_cast<std::size_t>(row_ * ((S::kRows - kHalo) * kConfig.w));
    return S::kColumnTiles == 1 ? pixel : pixel + static_cast<std::size_t>(first_column());
  }

  /// Whether it is the image's.
  __device__ __forceinline__ bool has_row(int row) const { return S::kRowsFit || first_row() + row < kConfig.h; }
  __device__ __forceinline__ bool has_column(int column) const { return column < width(); }

  /// Whether the tile finishes it, where the stride is 1.
  __device__ __forceinline__ bool finishes_row(int row) const {
    if constexpr (S::kRowTiles == 2) {
      if (row == (row_ == 0 ? S::kRows - 1 : 0)) return false;
    } else if constexpr (S::kRowTiles > 2) {
      if ((row == 0 && row_ > 0) || (row == S::kRows - 1 && row_ < S::kRowTiles - 1)) return false;
    }
    return has_row(row);
  }
  __device__ __forceinline__ bool finishes_column(int column) const {
    if (S::kColumnTiles > 1 && column == 0 && column_ > 0) return false;
    if (S::kColumnTiles > 1 && column == kConfig.columns - 1 && column_ < S::kColumnTiles - 1) return false;
    return has_column(column);
  }

 private:
  static constexpr Config kConfig = S::kConfig;

  /// Columns from the first one to the image's right side.
  __device__ __forceinline__ int width() const {
    if constexpr (S::kColumnTiles > 1 || S::kHasNeighbours) return width_;
    return kConfig.w;
  }

  std::size_t image_;
  int row_, column_;
  int width_;
};

/// What a lane has of a row: two pixels, 8 apart, of one tile or of two. Every second block of a cluster has them the
/// other way round, so that each finishes first pixels, and those that it sends to such a block are its second ones.
template <class S>
class Columns {
 public:
  /// `row`, `column`: of the tile, or of the pair of tiles.
  __device__ __forceinline__ Columns(int row, unsigned column, int images, int rank)
      : turn_(rank % 2 * 8), first_(row, tile(column, 0), images), second_(row, tile(column, 1), images) {}

  /// Where a lane's address for ldmatrix and stmatrix belongs, without the window's offset.
  __device__ __forceinline__ unsigned slot() const { return ptx::lane() % 16 ^ static_cast<unsigned>(turn_); }

  /// Whether the pixel of the warp's row is the image's. half 0: the first pixel, 1: the second.
  __device__ __forceinline__ bool has(int row, int half) const {
    return tile_of(half).has_column(column(half)) && tile_of(half).has_row(warp_row() + row);
  }
  /// Whether it is finished here, where the stride is 1.
  __device__ __forceinline__ bool finishes_row(int row) const { return first_.finishes_row(warp_row() + row); }
  __device__ __forceinline__ bool finishes_column(int half) const {
    return tile_of(half).finishes_column(column(half));
  }

  /// The tile's first pixel, of all images.
  __device__ __forceinline__ std::size_t first_tile_pixel() const { return first_.first_pixel(); }
  /// From there to the lane's first one, in the warp's first row.
  __device__ __forceinline__ int first_offset() const { return warp_row() * S::kConfig.w + column(0); }
  /// From the first pixel to the second, in pixels.
  __device__ __forceinline__ int second() const {
    if constexpr (S::kHasNeighbours) return static_cast<int>(second_.first_pixel() - first_.first_pixel());
    return 8 - 2 * turn_;
  }

 private:
  __device__ __forceinline__ unsigned tile(unsigned column, unsigned half) const {
    return S::kHasNeighbours ? column * 2 + (static_cast<unsigned>(turn_) / 8 ^ half) : column;
  }
  __device__ __forceinline__ const Tile<S>& tile_of(int half) const { return half == 0 ? first_ : second_; }
  /// Of its tile.
  __device__ __forceinline__ int column(int half) const {
    const int first = static_cast<int>(ptx::lane()) / 4;
    if constexpr (S::kHasNeighbours) return first;
    return half == 0 ? first + turn_ : first + turn_ + 8 - 2 * turn_;
  }
  __device__ __forceinline__ static int warp_row() { return static_cast<int>(ptx::warp()) * kRowsOfWarp; }

  int turn_;
  Tile<S> first_, second_;
};

#endif

}  // namespace mobicuda::kernels::inverted_image
