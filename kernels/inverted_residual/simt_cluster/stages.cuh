// The stages of an inverted residual block in exact float in a cluster: kernel.cuh has
// their order.
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/inverted_residual/simt_cluster/arguments.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_simt_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ __forceinline__ int unit() { return thread() / kLanes; }
__device__ __forceinline__ int lane() { return thread() % kLanes; }

/// Which of a unit's `channels` the lane has the sum of in the end; of 4 channels two lanes have the same.
template <int kChannels>
__device__ __forceinline__ int own_channel() {
  return kChannels == 8 ? lane() : lane() / 2;
}

/// Whether the lane is the one to hand on the sum of its channel.
template <int kChannels>
__device__ __forceinline__ bool hands_on() {
  return kChannels == 8 || lane() % 2 == 0;
}

/// A tile of the output; the columns of its patch of the input that are inside the image begin at `ix`, number `lead`
/// of the patch. iy may lie outside.
struct Place {
  int n;
  int oy, ox;
  int iy, ix;
  int lead;
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
  const int first = place.ox * S::kConfig.stride - a.pad_left;
  place.ix = max(first, 0);
  place.lead = place.ix - first;
  return place;
}

/// Pixel `number` of those that expand computes, row by row.
template <class S>
__device__ __forceinline__ bool inside_picture(const Arguments& a, const Place& place, int number) {
  const int row = number / S::kConfig.patch_columns;
  const int column = number % S::kConfig.patch_columns;
  return number < S::kPixels && static_cast<unsigned>(place.iy + row) < static_cast<unsigned>(a.h) &&
         place.ix + column < a.w;
}

/// The thread's share of copying the patch: (pixel, c_in), zeros outside the image.
template <class S>
class Patch {
 public:
  /// Finds the addresses.
  __device__ __forceinline__ void aim(const Arguments& a, const Place& place, const float* x) {
    const float* const picture = x + static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.h * a.w) * kC;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int chunk = thread() + i * S::kThreads;
      const int pixel = chunk / (kC / 4);
      const int row = place.iy + pixel / S::kConfig.patch_columns;
      const int column = place.ix + pixel % S::kConfig.patch_columns;
      inside_[i] = inside_picture<S>(a, place, pixel) ? 1 : 0;
      ptx::pin(inside_[i]);
      from_[i] = inside_[i] != 0 ? picture + (row * a.w + column) * kC + chunk % (kC / 4) * 4 : x;
    }
  }

  /// Begins to copy.
  __device__ __forceinline__ void start(float* patch) const {
    const std::uint32_t to = ptx::shared_address(patch);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int chunk = thread() + i * S::kThreads;
      if (chunk >= S::kPixels * (kC / 4)) break;
      ptx::copy_async_cg_or_zero(to + chunk * 16, reinterpret_cast<const char*>(from_[i]), inside_[i] != 0);
    }
  }

 private:
  static constexpr int kC = S::kConfig.c_in;
  static constexpr int kChunks = ceil_div(S::kPixels * (kC / 4), S::kThreads);

  const float* from_[kChunks];
  int inside_[kChunks];
};

template <class S>
__device__ __forceinline__ void fill_with_zeros(float* hidden) {
  for (int i = thread(); i < S::kHiddenFloats; i += S::kThreads) hidden[i] = 0.0F;
}

/// A unit's share of expand: some hidden channels of some pixels, row by row.
template <class S>
class Expand {
 public:
  /// `slice`: the block's weights.
  __device__ __forceinline__ void load(const float* slice) {
    product_.load(slice, column(), lane());
    bias_ = ptx::load_global_nc<float>(slice + S::kExpandFloats + (kTaps + 1) * S::kHidden + channel());
  }

  /// Finds which of the unit's pixels are inside the image.
  __device__ __forceinline__ void aim(const Arguments& a, const Place& place) {
    inside_ = 0;
    if (unit() >= S::kExpandUnits || !hands_on<kChannels>()) return;
#pragma unroll
    for (int i = 0; i < S::kExpandPixels; ++i) {
      const int number = first_pixel() + i;
      const bool inside =
          inside_picture<S>(a, place, number) && place.lead + number % S::kConfig.patch_columns < S::kPatchW;
      inside_ |= (inside ? 1U : 0U) << static_cast<unsigned>(i);
    }
    ptx::pin(inside_);
  }

  /// hidden = clip(expand patch + bias), (row, column, channel); pixels outside the image stay zero.
  __device__ __forceinline__ void run(const Arguments& a, const Place& place, const float* patch, float* hidden) const {
    if (thread() / 32 * (32 / kLanes) >= S::kExpandUnits) return;
    const float* from = patch + first_pixel() * S::kConfig.c_in;
    int column = first_pixel() % S::kConfig.patch_columns;
    float* to =
        hidden + channel() + (first_pixel() / S::kConfig.patch_columns * S::kPatchW + place.lead + column) * S::kHidden;
    std::uint32_t inside = inside_;
#pragma unroll 1
    for (int i = 0; i < S::kExpandPixels; i += S::kExpandStep, from += S::kExpandStep * S::kConfig.c_in) {
      float sums[S::kExpandStep][kChannels];
      add(from, sums);
#pragma unroll
      for (int s = 0; s < S::kExpandStep; ++s) {
        const float value = apply(a.expand_clip, product_.sum(sums[s]));
        if ((inside & 1U) != 0) *to = value;
        inside >>= 1U;
        to += S::kHidden;
        if (++column == S::kConfig.patch_columns) {
          column = 0;
          to += (S::kPatchW - S::kConfig.patch_columns) * S::kHidden;
        }
      }
    }
  }

 private:
  static constexpr int kChannels = S::kConfig.expand_channels;

  __device__ __forceinline__ static int column() { return unit() % S::kExpandColumns; }
  __device__ __forceinline__ static int channel() { return column() * kChannels + own_channel<kChannels>(); }
  /// Units past the last one, in a warp that has others, repeat a group that is there.
  __device__ __forceinline__ static int first_pixel() {
    return unit() / S::kExpandColumns % S::kConfig.expand_groups * S::kExpandPixels;
  }

  __device__ __forceinline__ void add(const float* from, float (&sums)[S::kExpandStep][kChannels]) const {
#pragma unroll
    for (auto& pixel : sums) {
      pixel[0] = hands_on<kChannels>() ? bias_ : 0;  // a channel's sum begins with the bias in one lane
#pragma unroll
      for (int j = 1; j < kChannels; ++j) pixel[j] = 0;
    }
    product_.add_all(from, S::kConfig.c_in, lane(), sums);
  }

  Product<kChannels, S::kExpandK, kLanes> product_;
  float bias_;
  std::uint32_t inside_;
};

/// A unit's share of project: some output channels of some pixels, over the block's hidden channels.
template <class S>
class Project {
 public:
  __device__ __forceinline__ Project(int rank, std::uint32_t arrived) {
    const int channel = column() * kChannels + own_channel<kChannels>();
    const int owner = channel / S::kOwned;
    const int place = S::kPartialAt + rank * S::kSums + first_pixel() * S::kOwned + channel % S::kOwned;
    to_ = ptx::map_to_rank(arrived + place * 4, owner);
    arrived_ = ptx::map_to_rank(arrived, owner);
    ptx::pin(to_);
    ptx::pin(arrived_);
  }

  /// `slice`: the block's weights.
  __device__ __forceinline__ void load(const float* slice) { product_.load(slice + S::kProjectAt, column(), lane()); }

  /// Multiplies what the block filtered and hands the sums to the blocks that own the output channels.
  __device__ __forceinline__ void run(const float* filtered) const {
    if (thread() / 32 * (32 / kLanes) >= S::kProjectUnits) return;
    const bool lives = unit() < S::kProjectUnits && hands_on<kChannels>();
    const int pixels = lives ? min(S::kProjectPixels, S::kOutPixels - first_pixel()) : 0;
    const float* from = filtered + first_pixel() * S::kHidden;
    std::uint32_t to = to_;
#pragma unroll 1
    for (int i = 0; i < S::kProjectPixels; i += S::kProjectStep) {
      float sums[S::kProjectStep][kChannels] = {};
      product_.add_all(from, S::kHidden, lane(), sums);
#pragma unroll
      for (int s = 0; s < S::kProjectStep; ++s) {
        const float sum = product_.sum(sums[s]);
        if (i + s < pixels) ptx::send(to + s * (S::kOwned * 4), sum, arrived_);
      }
      from += S::kProjectStep * S::kHidden;
      to += S::kProjectStep * (S::kOwned * 4);
    }
  }

 private:
  static constexpr int kChannels = S::kConfig.project_channels;

  __device__ __forceinline__ static int column() { return unit() % S::kProjectColumns; }
  __device__ __forceinline__ static int first_pixel() {
    return unit() / S::kProjectColumns % S::kConfig.project_groups * S::kProjectPixels;
  }

  Product<kChannels, S::kProjectK, kLanes> product_;
  // In the block that owns the lane's output channel.
  std::uint32_t to_;
  std::uint32_t arrived_;
};

/// A thread finishes one output: a pixel of the tile in one of the channels that the block owns.
template <class S>
class Finish {
 public:
  __device__ __forceinline__ Finish(const Arguments& a, const Place& place, int rank, const float* packed) {
    const int pixel = thread() / S::kOwned;
    const int channel = rank * S::kOwned + thread() % S::kOwned;
    const bool exists = channel < S::kConfig.c_out;
    const int oy = place.oy + pixel / S::kConfig.columns;
    const int ox = place.ox + pixel % S::kConfig.columns;
    inside_ = thread() < S::kSums && exists && oy < a.out_h && ox < a.out_w ? 1 : 0;
    ptx::pin(inside_);
    const std::size_t pixels = static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.out_h * a.out_w) +
                               static_cast<std::size_t>(oy * a.out_w + ox);
    at_ = pixels * S::kConfig.c_out + static_cast<std::size_t>(channel);
    bias_ = exists ? ptx::load_global_nc<float>(packed + channel) : 0;
  }

  /// Loads what is added to the sums.
  __device__ __forceinline__ void start(const Arguments& a, const float* x) {
    if (a.residual && inside_ != 0) residual_ = ptx::load_global<float>(x + at_);
  }

  __device__ __forceinline__ void run(const Arguments& a, std::uint32_t arrived, const float* partial, float* y) const {
    // All wait: no block may end while others write to it.
    ptx::mbarrier_wait(arrived, 0);
    if (inside_ == 0) return;
    float sum = partial[thread()];
#pragma unroll
    for (int block = 1; block < S::kConfig.blocks; ++block) sum += partial[block * S::kSums + thread()];
    sum += bias_;
    if (a.residual) sum += residual_;
    y[at_] = apply(a.project_clip, sum);
  }

 private:
  int inside_;
  std::size_t at_;
  float bias_;
  float residual_ = 0;
};

#endif

}  // namespace mobicuda::kernels::inverted_simt_cluster
