// A tile's patch of the input, and its way to shared memory.
#pragma once

#include "kernels/inverted_residual/cluster_place.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// The patch of a tile in shared memory: pixel 8 * t + 2 * row + e is number 2 * t + e of its row.
template <class S>
class Patch {
 public:
  /// `shared`: of the block.
  __device__ __forceinline__ Patch(std::uint32_t shared, const unsigned char* /*packed*/)
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
  __device__ __forceinline__ void aim(const Geometry& a, const Place& place, const __half* x) {
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
      present_[i] = inside_picture<S>(a, place, row, j) && channels;
      ptx::pin(present_[i]);
      const int at = (place.iy + row) * a.w + place.ix + patch_column<S>(row, j);
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

  /// Waits for what this thread copies.
  __device__ __forceinline__ void land() const { ptx::copy_async_wait_all(); }

  /// A lane's operands of expand: mma t, two steps of k.
  __device__ __forceinline__ uint4 operands(int t, int block) const {
    return ptx::load_shared<uint4>(operands_ + t * (kColumns * S::kPixelBytes) + block * (kDirectBlockK * 2));
  }

 private:
  static constexpr auto kConfig = S::kConfig;
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
