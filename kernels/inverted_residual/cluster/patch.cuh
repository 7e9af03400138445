// A tile's patch of the input: where it lies, what of it is inside the picture, and its way to shared memory.
#pragma once

#include "kernels/inverted_residual/cluster/arguments.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

using ptx::as_int::lane;
using ptx::as_int::warp;

/// A tile of the output; its patch of the input starts at (iy, ix), which may lie outside the image.
struct Place {
  int n;
  int oy, ox;
  int iy, ix;
};

template <Config kConfig>
__device__ __forceinline__ Place locate(const Arguments& a, std::uint32_t tile) {
  std::uint32_t column;
  std::uint32_t row;
  Place place;
  place.n = static_cast<int>(a.tiles_y.divide(a.tiles_x.divide(tile, column), row));
  place.oy = static_cast<int>(row) * Shape<kConfig>::kRows;
  place.ox = static_cast<int>(column) * kConfig.columns;
  place.iy = place.oy * kConfig.stride - a.pad_top;
  place.ix = place.ox * kConfig.stride - a.pad_left;
  return place;
}

/// Number j of row `row` of the patch: its column, mirrored where the row is odd.
template <Config kConfig>
__device__ __forceinline__ int patch_column(int row, int j) {
  return row % 2 == 0 ? j : Shape<kConfig>::kPatchW - 1 - j;
}

template <Config kConfig>
__device__ __forceinline__ bool inside_picture(const Arguments& a, const Place& place, int row, int j) {
  using S = Shape<kConfig>;
  return row < S::kPatchH && j < S::kPatchW && static_cast<unsigned>(place.iy + row) < static_cast<unsigned>(a.h) &&
         static_cast<unsigned>(place.ix + patch_column<kConfig>(row, j)) < static_cast<unsigned>(a.w);
}

/// Pairs of pixels of row lane % 4 of the patch: ones where they are inside the image.
template <Config kConfig>
struct Masks {
  __device__ __forceinline__ void set(const Arguments& a, const Place& place) {
#pragma unroll
    for (int t = 0; t < Shape<kConfig>::kPatches; ++t) {
      words[t] = (inside_picture<kConfig>(a, place, lane() % 4, 2 * t) ? 0xffffU : 0U) |
                 (inside_picture<kConfig>(a, place, lane() % 4, 2 * t + 1) ? 0xffff0000U : 0U);
      ptx::pin(words[t]);
    }
  }

  std::uint32_t words[Shape<kConfig>::kPatches];
};

/// The patch of a tile in shared memory: pixel 8 * t + 2 * row + e is number 2 * t + e of its row.
template <Config kConfig>
class Patch {
 public:
  /// `shared`: of the block.
  __device__ __forceinline__ explicit Patch(std::uint32_t shared)
      : operands_(shared + S::kPatchAt + lane() / 4 * S::kPixelBytes + lane() % 4 * 16) {
    ptx::pin(operands_);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * S::kThreads;
      to_[i] = shared + S::kPatchAt + item / kVectors * S::kPixelBytes + item % kVectors * 16;
      ptx::pin(to_[i]);
    }
  }

  /// Finds the addresses of a tile.
  __device__ __forceinline__ void aim(const Arguments& a, const Place& place, const __half* x) {
    const auto* const picture = reinterpret_cast<const char*>(x) + static_cast<std::size_t>(place.n) *
                                                                       static_cast<std::size_t>(a.h * a.w) *
                                                                       static_cast<std::size_t>(kConfig.c_in * 2);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * S::kThreads;
      const int pixel = item / kVectors;
      const bool channels = kChannelVectors == kVectors || item % kVectors < kChannelVectors;
      const int row = pixel / 2 % 4;
      const int j = pixel / kColumns * 2 + pixel % 2;
      present_[i] = inside_picture<kConfig>(a, place, row, j) && channels;
      ptx::pin(present_[i]);
      const int at = (place.iy + row) * a.w + place.ix + patch_column<kConfig>(row, j);
      from_[i] = picture + (present_[i] != 0 ? at * (kConfig.c_in * 2) : 0) + item % kVectors * 16;
      ptx::pin(from_[i]);
    }
  }

  /// Begins to copy. No thread may still read the last tile's patch.
  __device__ __forceinline__ void start() const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (kItems % S::kThreads == 0 || static_cast<int>(threadIdx.x) + i * S::kThreads < kItems) {
        ptx::copy_async_cg_or_zero(to_[i], from_[i], present_[i] != 0);
      }
    }
  }

  /// A lane's operands of expand: mma t, two steps of k.
  __device__ __forceinline__ uint4 operands(int t, int block) const {
    return ptx::load_shared<uint4>(operands_ + t * (kColumns * S::kPixelBytes) + block * (kDirectBlockK * 2));
  }

 private:
  using S = Shape<kConfig>;
  static constexpr int kChannelVectors = kConfig.c_in / 8;
  static constexpr int kVectors = S::kBlocksK * kDirectBlockK / 8;  // with zeros
  static constexpr int kItems = S::kPixels * kVectors;
  static constexpr int kCopies = ceil_div(kItems, S::kThreads);

  std::uint32_t operands_;
  std::uint32_t to_[kCopies];
  const char* from_[kCopies];
  int present_[kCopies];
};

#endif

}  // namespace mobicuda::kernels::inverted_cluster
