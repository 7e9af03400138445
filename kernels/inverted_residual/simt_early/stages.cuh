// The stages of an early inverted residual block in exact float: kernel.cuh has their
// order.
#pragma once

#include "kernels/common/packet.cuh"
#include "kernels/inverted_residual/simt_early/arguments.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_simt_early {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

using inverted_simt_cluster::Product;
using inverted_simt_cluster::thread;

/// A tile of the output; its patch of the input starts at (iy, ix), which may lie outside.
struct Place {
  int n;
  int oy, ox;
  int iy, ix;
};

template <class S>
__device__ __forceinline__ Place locate(const Arguments& a, std::uint32_t tile) {
  std::uint32_t column;
  std::uint32_t row;
  Place place;
  place.n = static_cast<int>(a.tiles_y.divide(a.tiles_x.divide(tile, column), row));
  place.oy = static_cast<int>(row) * S::kConfig.rows;
  place.ox = static_cast<int>(column) * S::kConfig.columns;
  place.iy = place.oy * S::kConfig.stride - a.pad_top;
  place.ix = place.ox * S::kConfig.stride - a.pad_left;
  return place;
}

/// Pixel `number` of the patch, row by row.
template <class S>
__device__ __forceinline__ bool inside_picture(const Arguments& a, const Place& place, int number) {
  const int row = number / S::kPatchW;
  const int column = number % S::kPatchW;
  return number < S::kPixels && static_cast<unsigned>(place.iy + row) < static_cast<unsigned>(a.h) &&
         static_cast<unsigned>(place.ix + column) < static_cast<unsigned>(a.w);
}

/// Begins to copy what every thread reads of the weights to shared memory.
template <class S>
__device__ __forceinline__ void copy_constants(const float* slice, float* shared) {
  const std::uint32_t to = ptx::shared_address(shared + S::kSharedConstantsAt);
#pragma unroll 1
  for (int at = thread() * 4; at < S::kConstants; at += S::kConfig.threads * 4) {
    ptx::copy_async_cg_or_zero(to + at * 4, reinterpret_cast<const char*>(slice + S::kConstantsAt + at), true);
  }
}

/// The thread's share of copying the patch: (pixel, c_in), zeros outside the image.
template <class S>
class Patch {
 public:
  /// Finds the places.
  __device__ __forceinline__ void aim(const Arguments& a, const Place& place) {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int pixel = (thread() + i * S::kConfig.threads) / kQuads;
      const int row = place.iy + pixel / S::kPatchW;
      const int column = place.ix + pixel % S::kPatchW;
      from_[i] = inside_picture<S>(a, place, pixel) ? row * a.w + column : kOutside;
      ptx::pin(from_[i]);
    }
  }

  /// Begins to copy from `x`, the place's image.
  __device__ __forceinline__ void start(const float* x, float* patch) const {
    const std::uint32_t to = ptx::shared_address(patch);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int chunk = thread() + i * S::kConfig.threads;
      const int c = chunk % kQuads * 4;
      if (chunk >= S::kPixels * kQuads) break;
      const bool inside = from_[i] != kOutside;
      const float* const from = inside ? x + (from_[i] * S::kConfig.c_in + c) : x;
      ptx::copy_async_cg_or_zero(to + (chunk / kQuads * S::kPatchStride + c) * 4, reinterpret_cast<const char*>(from),
                                 inside);
    }
  }

 private:
  static constexpr int kQuads = S::kConfig.c_in / 4;
  static constexpr int kChunks = ceil_div(S::kPixels * kQuads, S::kConfig.threads);
  static constexpr int kOutside = -1;

  int from_[kChunks];
};

/// A unit's share of expand: some hidden channels of some pixels.
template <class S>
class Expand {
 public:
  /// `slice`: the block's weights.
  __device__ __forceinline__ void load(const float* slice) {
    product_.template load_strided<S::kPixelLanes * 4>(slice + thread() % S::kPixelLanes * 4);
#pragma unroll
    for (int j = 0; j < kOwn; ++j) bias_[j] = ptx::load_global_nc<float>(slice + S::kExpandBiasAt + channel() + j);
  }

  /// Finds which of the unit's pixels are inside the image.
  __device__ __forceinline__ void aim(const Arguments& a, const Place& place) {
    inside_ = 0;
#pragma unroll 1
    for (int i = 0; i < S::kExpandPixels; ++i) {
      const bool inside = inside_picture<S>(a, place, group() + i * S::kExpandGroups);
      inside_ |= (inside ? 1U : 0U) << static_cast<unsigned>(i);
    }
    ptx::pin(inside_);
  }

  /// hidden = clip(expand patch + bias), (row, column, channel); zeros outside the image.
  __device__ __forceinline__ void run(const Arguments& a, const float* patch, float* hidden) const {
    constexpr int kLast = S::kExpandPixels % kStep;
    if (kIdleWarps && thread() >= kWarpThreads) return;
    const float* from = patch + group() * S::kPatchStride + lane() * 4;
    float* to = hidden + group() * S::kHidden + channel();
    std::uint32_t inside = inside_;
#pragma unroll 1
    for (int i = kLast; i < S::kExpandPixels; i += kStep) {
      pixels<kStep>(a.expand_clip, from, inside, to);
      from += kStep * kFromNext;
      to += kStep * kToNext;
      inside >>= static_cast<unsigned>(kStep);
    }
    if constexpr (kLast > 0) pixels<kLast>(a.expand_clip, from, inside, to);
  }

 private:
  static constexpr int kChannels = S::kConfig.expand_channels;
  static constexpr int kOwn = S::kExpandOwn;
  static constexpr int kThreads = S::kPixelLanes * S::kExpandGroups;  // that have something to do
  static constexpr int kWarpThreads = round_up(kThreads, kWarp);      // of warps that have
  static constexpr bool kIdleWarps = idle_warps_count(kWarpThreads, S::kConfig.threads);
  static constexpr int kFromNext = S::kExpandGroups * S::kPatchStride;
  static constexpr int kToNext = S::kExpandGroups * S::kHidden;

  __device__ __forceinline__ static int lane() { return thread() % kExpandLanes; }
  /// The first of the channels that the lane has in the end.
  __device__ __forceinline__ static int channel() { return thread() % S::kPixelLanes * kOwn; }
  /// Units past the last group repeat the first one, and store nothing.
  __device__ __forceinline__ static int group() { return thread() / S::kPixelLanes % S::kExpandGroups; }
  __device__ __forceinline__ static bool lives() { return thread() < kThreads; }

  template <int kCount>
  __device__ __forceinline__ void pixels(Clip clip, const float* from, std::uint32_t inside, float* to) const {
    float sums[kCount][kChannels];
#pragma unroll
    for (auto& pixel : sums) {
#pragma unroll
      for (int j = 0; j < kChannels; ++j) pixel[j] = j < kOwn ? bias_[j] : 0;
    }
#pragma unroll
    for (int k = 0; k < S::kExpandK; k += 4) {
#pragma unroll
      for (int s = 0; s < kCount; ++s) {
        const auto values = kernels::load<4>(from + s * kFromNext + k * kExpandLanes);
#pragma unroll
        for (int e = 0; e < 4; ++e) product_.add(k + e, values.item[e], sums[s]);
      }
    }
#pragma unroll
    for (int s = 0; s < kCount; ++s) {
      // Bits, not a choice: that would be a branch, behind which the clip's bounds are loaded anew for each value.
      const auto here =
          static_cast<std::uint32_t>(static_cast<std::int32_t>(inside << static_cast<unsigned>(31 - s)) >> 31);
      constexpr int kRun = kOwn % kQuad == 0 ? kQuad : 2;
#pragma unroll
      for (int j = 0; j < kOwn; j += kRun) {
        Packet<float, kRun> values;
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
          float sum = sums[s][j + e];
          sum += __shfl_xor_sync(~0U, sums[s][kOwn + j + e], 1);
          values.item[e] = __uint_as_float(__float_as_uint(apply(clip, sum)) & here);
        }
        if (lives()) store(to + s * kToNext + j, values);
      }
    }
  }

  Product<kChannels, S::kExpandK, kExpandLanes> product_;
  float bias_[kOwn];
  std::uint32_t inside_;
};

/// A unit's share of project: some output channels of some pixels, over the block's hidden channels.
template <class S>
class Project {
 public:
  /// `barrier`: its address in shared memory.
  __device__ __forceinline__ Project(int rank, std::uint32_t barrier) : to_(barrier), arrived_(barrier) {
    to_ += (S::kPartialAt + rank * S::kSums + first_pixel() * S::kOwned + channel() % S::kOwned) * 4;
    if constexpr (S::kConfig.blocks > 1) {
      const int owner = (kWhole ? channel() : min(channel(), S::kConfig.c_out - 1)) / S::kOwned;
      to_ = ptx::map_to_rank(to_, owner);
      arrived_ = ptx::map_to_rank(arrived_, owner);
    }
    ptx::pin(arrived_);
    ptx::pin(to_);
  }

  /// `slice`: the block's weights.
  __device__ __forceinline__ void load(const float* slice) { product_.load(slice + S::kProjectAt, column(), lane()); }

  /// Multiplies what the block filtered and hands the sums to the blocks that own the output channels.
  __device__ __forceinline__ void run(const float* filtered) const {
    constexpr int kLast = S::kProjectPixels % kStep;
    if (kIdleWarps && thread() >= kWarpThreads) return;
    const bool lives = unit() < S::kProjectUnits && hands_on() && (kWhole || channel() < S::kConfig.c_out);
    const float* from = filtered + first_pixel() * S::kHidden;
    std::uint32_t to = to_;
#pragma unroll 1
    for (int i = kLast; i < S::kProjectPixels; i += kStep) {
      pixels<kStep>(from, lives, to);
      from += kStep * S::kHidden;
      to += kStep * (S::kOwned * 4);
    }
    if constexpr (kLast > 0) pixels<kLast>(from, lives, to);
  }

 private:
  static constexpr int kLanes = S::kConfig.project_lanes;
  static constexpr int kChannels = S::kConfig.project_channels;
  static constexpr int kK = S::kProjectK;
  static constexpr int kTurns = kLanes * kSpread;                                  // lanes of the units that take turns
  static constexpr int kWarpThreads = round_up(S::kProjectUnits * kLanes, kWarp);  // of warps that have something to do
  static constexpr bool kIdleWarps = idle_warps_count(kWarpThreads, S::kConfig.threads);
  static constexpr bool kWhole = S::kProjectColumns * kChannels == S::kConfig.c_out;  // all channels of all units

  __device__ __forceinline__ static int lane() { return thread() % kTurns / kSpread; }
  __device__ __forceinline__ static int unit() { return thread() / kTurns * kSpread + thread() % kSpread; }
  /// Which of the unit's channels the lane has the sum of in the end; neighbours may have the same.
  __device__ __forceinline__ static int own_channel() { return lane() / (kLanes / kChannels); }
  /// Whether the lane is the one to hand it on.
  __device__ __forceinline__ static bool hands_on() { return lane() % (kLanes / kChannels) == 0; }
  __device__ __forceinline__ static int column() { return unit() % S::kProjectColumns; }
  __device__ __forceinline__ static int channel() { return column() * kChannels + own_channel(); }
  /// Units past the last group repeat the first one, and hand nothing on.
  __device__ __forceinline__ static int first_pixel() {
    return unit() / S::kProjectColumns % S::kProjectGroups * S::kProjectPixels;
  }

  template <int kCount>
  __device__ __forceinline__ void pixels(const float* from, bool lives, std::uint32_t to) const {
    float sums[kCount][kChannels] = {};
    product_.add_all(from, S::kHidden, lane(), sums);
    float own[kCount];
#pragma unroll
    for (int s = 0; s < kCount; ++s) own[s] = product_.sum(sums[s]);
    if (!lives) return;
#pragma unroll
    for (int s = 0; s < kCount; ++s) {
      if constexpr (S::kConfig.blocks > 1) {
        ptx::send(to + s * (S::kOwned * 4), own[s], arrived_);
      } else {
        ptx::store_shared(to + s * (S::kOwned * 4), __float_as_uint(own[s]));
      }
    }
  }

  Product<kChannels, kK, kLanes, kSpread> product_;
  // In the block that owns the lane's output channel.
  std::uint32_t to_;
  std::uint32_t arrived_;
};

/// Output channels that the block finishes; some blocks may have fewer than others, or none.
template <class S>
__device__ __forceinline__ int owned_by(int rank) {
  return S::kAlike ? S::kOwned : min(max(S::kConfig.c_out - rank * S::kOwned, 0), S::kOwned);
}

/// A thread finishes pairs of outputs: pixels of the tile in two of the channels that the block owns.
template <class S>
class Finish {
 public:
  /// Finds the places.
  __device__ __forceinline__ Finish(const Arguments& a, const Place& place, int rank) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int item = thread() + i * S::kConfig.threads;
      const int pixel = item / kPairs;
      channel_[i] = rank * S::kOwned + item % kPairs * 2;
      const int tile_y = pixel / S::kConfig.columns;
      const int tile_x = pixel % S::kConfig.columns;
      const int oy = place.oy + tile_y;
      const int ox = place.ox + tile_x;
      const bool inside = item < S::kOutPixels * kPairs && (S::kAlike || channel_[i] < S::kConfig.c_out) &&
                          oy < a.out_h && ox < a.out_w;
      to_[i] = inside ? (oy * a.out_w + ox) * S::kConfig.c_out + channel_[i] : kOutside;
      // y has x's shape where it is added, so the pixel lies pad_top rows and pad_left columns into the patch.
      patch_[i] = ((tile_y + a.pad_top) * S::kPatchW + tile_x + a.pad_left) * S::kPatchStride + channel_[i];
    }
  }

  /// Adds what the blocks of the cluster found, bias and residual, and stores to `y`, the place's image.
  __device__ __forceinline__ void run(const Arguments& a, const float* shared, float* y) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (to_[i] == kOutside) continue;
      const float* const partial = shared + S::kPartialAt + (thread() + i * S::kConfig.threads) * 2;
      auto sums = kernels::load<2>(partial);
#pragma unroll
      for (int block = 1; block < S::kConfig.blocks; ++block) {
        const auto more = kernels::load<2>(partial + block * S::kSums);
        sums.item[0] += more.item[0];
        sums.item[1] += more.item[1];
      }
      const auto bias = kernels::load<2>(shared + S::kSharedBiasAt + channel_[i]);
      Packet<float, 2> residual{};
      if constexpr (S::kConfig.stride == 1 && S::kConfig.c_in == S::kConfig.c_out) {
        if (a.residual) residual = kernels::load<2>(shared + S::kPatchAt + patch_[i]);
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        sums.item[e] = apply(a.project_clip, sums.item[e] + bias.item[e] + residual.item[e]);
      }
      store(y + to_[i], sums);
    }
  }

 private:
  static constexpr int kPairs = S::kOwned / 2;  // of a pixel
  static constexpr int kItems = ceil_div(S::kOutPixels * kPairs, S::kConfig.threads);
  static constexpr int kOutside = -1;

  int to_[kItems];
  int channel_[kItems];
  int patch_[kItems];
};

#endif

}  // namespace mobicuda::kernels::inverted_simt_early
