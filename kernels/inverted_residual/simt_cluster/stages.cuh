// The stages of an inverted residual block in exact float in a cluster: kernel.cuh has
// their order.
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/inverted_residual/cluster/memory.cuh"
#include "kernels/inverted_residual/simt_cluster/arguments.cuh"

namespace mobicuda::kernels::inverted_simt_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

using inverted_cluster::load_float;
using inverted_cluster::load_floats_2;
using inverted_cluster::load_floats_4;
using inverted_cluster::settle;

__device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
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

/// A tile of the output; the columns of its patch of the input that are inside the picture begin at `ix`, number `lead`
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

/// The thread's share of copying the patch: (pixel, c_in), zeros outside the picture.
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
      settle(inside_[i]);
      from_[i] = inside_[i] != 0 ? picture + (row * a.w + column) * kC + chunk % (kC / 4) * 4 : x;
    }
  }

  /// Begins to copy.
  __device__ __forceinline__ void start(float* patch) const {
    const std::uint32_t to = inverted_cluster::shared_address(patch);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int chunk = thread() + i * S::kThreads;
      if (chunk >= S::kPixels * (kC / 4)) break;
      inverted_cluster::copy_chunk(to + chunk * 16, reinterpret_cast<const char*>(from_[i]), inside_[i] != 0);
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

/// A unit's share of a 1x1 convolution: kChannels output channels, in each lane kK of the input channels. The unit's
/// lanes are kSpread apart.
template <int kChannels, int kK, int kUnitLanes = kLanes, int kSpread = 1>
class Product {
 public:
  /// Weights of the group `column` of output channels, where they lie as pack_product() puts them.
  __device__ __forceinline__ void load(const float* weights, int column, int lane) {
    load_strided<kUnitLanes * 4>(weights + column * (kChannels * kK * kUnitLanes) + lane * 4);
  }

  /// Weights of the lane, 16 bytes every kStride floats.
  template <int kStride>
  __device__ __forceinline__ void load_strided(const float* from) {
#pragma unroll
    for (int i = 0; i < kChannels * kK / 4; ++i) {
      const float4 four = load_floats_4(from + i * kStride);
      weights_[i * 4] = four.x;
      weights_[i * 4 + 1] = four.y;
      weights_[i * 4 + 2] = four.z;
      weights_[i * 4 + 3] = four.w;
    }
  }

  /// Adds the products of the lane's input channel number k.
  __device__ __forceinline__ void add(int k, float value, float (&sums)[kChannels]) const {
#pragma unroll
    for (int j = 0; j < kChannels; ++j) sums[j] = fmaf(value, weights_[k * kChannels + j], sums[j]);
  }

  /// The unit's sum of the lane's own channel. Number j of a lane's sums is of channel j ^ its own: what a lane keeps
  /// has the same index in all lanes.
  __device__ __forceinline__ static float sum(float (&sums)[kChannels]) {
    int with = kUnitLanes / 2;
#pragma unroll
    for (int half = kChannels / 2; half > 0; half /= 2, with /= 2) {
#pragma unroll
      for (int i = 0; i < half; ++i) sums[i] += __shfl_xor_sync(~0U, sums[i + half], with * kSpread);
    }
    for (; with > 0; with /= 2) sums[0] += __shfl_xor_sync(~0U, sums[0], with * kSpread);
    return sums[0];
  }

 private:
  float weights_[kChannels * kK];
};

/// A unit's share of expand: some hidden channels of some pixels, row by row.
template <class S>
class Expand {
 public:
  /// `slice`: the block's weights.
  __device__ __forceinline__ void load(const float* slice) {
    product_.load(slice, column(), lane());
    bias_ = load_float(slice + S::kExpandFloats + (kTaps + 1) * S::kHidden + channel());
  }

  /// Finds which of the unit's pixels are inside the picture.
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
    settle(inside_);
  }

  /// hidden = clip(expand patch + bias), (row, column, channel); pixels outside the picture stay zero.
  __device__ __forceinline__ void run(const Arguments& a, const Place& place, const float* patch, float* hidden) const {
    if (thread() / 32 * (32 / kLanes) >= S::kExpandUnits) return;
    const float* from = patch + first_pixel() * S::kConfig.c_in + lane() * 4;
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
#pragma unroll
    for (int k = 0; k < S::kExpandK; k += 4) {
      float4 values[S::kExpandStep];
#pragma unroll
      for (int s = 0; s < S::kExpandStep; ++s) {
        values[s] = *reinterpret_cast<const float4*>(from + s * S::kConfig.c_in + k * kLanes);
      }
#pragma unroll
      for (int s = 0; s < S::kExpandStep; ++s) {
        product_.add(k, values[s].x, sums[s]);
        product_.add(k + 1, values[s].y, sums[s]);
        product_.add(k + 2, values[s].z, sums[s]);
        product_.add(k + 3, values[s].w, sums[s]);
      }
    }
  }

  Product<kChannels, S::kExpandK> product_;
  float bias_;
  std::uint32_t inside_;
};

/// A thread's pair of hidden channels.
template <class S>
class Depthwise {
 public:
  __device__ __forceinline__ void load(const float* weights) {
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) taps_[tap] = load_floats_2(weights + tap * S::kHidden + channel());
    bias_ = load_floats_2(weights + kTaps * S::kHidden + channel());
  }

  /// The same from shared memory.
  __device__ __forceinline__ void load_shared(const float* weights) {
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) taps_[tap] = read_2(weights + tap * S::kHidden + channel());
    bias_ = read_2(weights + kTaps * S::kHidden + channel());
  }

  /// filtered = clip(depthwise hidden + bias), (pixel, channel).
  __device__ __forceinline__ void run(const Arguments& a, const float* hidden, float* filtered) const {
    constexpr auto kConfig = S::kConfig;
    constexpr int kColumns = (S::kStripColumns - 1) * kConfig.stride + 3;  // of a strip's patch
    if (thread() >= S::kPairs * S::kStrips) return;
    const int column = thread() / S::kPairs * S::kStripColumns;
    const float* const from = hidden + column * kConfig.stride * S::kHidden + channel();
    float2 sums[kConfig.rows][S::kStripColumns];
#pragma unroll
    for (auto& row : sums) {
#pragma unroll
      for (float2& sum : row) sum = bias_;
    }
#pragma unroll
    for (int y = 0; y < S::kPatchH; ++y) {
      float2 pixels[kColumns];
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        pixels[i] = read_2(from + (y * S::kPatchW + i) * S::kHidden);
      }
#pragma unroll
      for (int row = 0; row < kConfig.rows; ++row) {
        const int ky = y - row * kConfig.stride;
        if (ky < 0 || ky > 2) continue;
#pragma unroll
        for (int i = 0; i < S::kStripColumns; ++i) {
#pragma unroll
          for (int kx = 0; kx < 3; ++kx) {
            const float2 pixel = pixels[i * kConfig.stride + kx];
            sums[row][i].x = fmaf(pixel.x, taps_[ky * 3 + kx].x, sums[row][i].x);
            sums[row][i].y = fmaf(pixel.y, taps_[ky * 3 + kx].y, sums[row][i].y);
          }
        }
      }
    }
#pragma unroll
    for (int row = 0; row < kConfig.rows; ++row) {
#pragma unroll
      for (int i = 0; i < S::kStripColumns; ++i) {
        if (column + i >= kConfig.columns) continue;
        float* const to = filtered + (row * kConfig.columns + column + i) * S::kHidden + channel();
        *reinterpret_cast<float2*>(to) = {apply(a.depthwise_clip, sums[row][i].x),
                                          apply(a.depthwise_clip, sums[row][i].y)};
      }
    }
  }

 private:
  __device__ __forceinline__ static int channel() { return thread() % S::kPairs * 2; }
  __device__ __forceinline__ static float2 read_2(const float* from) { return *reinterpret_cast<const float2*>(from); }

  float2 taps_[kTaps];
  float2 bias_;
};

/// A unit's share of project: some output channels of some pixels, over the block's hidden channels.
template <class S>
class Project {
 public:
  __device__ __forceinline__ Project(int rank, std::uint32_t arrived) {
    const int channel = column() * kChannels + own_channel<kChannels>();
    const int owner = channel / S::kOwned;
    const int place = S::kPartialAt + rank * S::kSums + first_pixel() * S::kOwned + channel % S::kOwned;
    to_ = inverted_cluster::in_block(arrived + place * 4, owner);
    arrived_ = inverted_cluster::in_block(arrived, owner);
    settle(to_);
    settle(arrived_);
  }

  /// `slice`: the block's weights.
  __device__ __forceinline__ void load(const float* slice) { product_.load(slice + S::kProjectAt, column(), lane()); }

  /// Multiplies what the block filtered and hands the sums to the blocks that own the output channels.
  __device__ __forceinline__ void run(const float* filtered) const {
    if (thread() / 32 * (32 / kLanes) >= S::kProjectUnits) return;
    const bool lives = unit() < S::kProjectUnits && hands_on<kChannels>();
    const int pixels = lives ? min(S::kProjectPixels, S::kOutPixels - first_pixel()) : 0;
    const float* from = filtered + first_pixel() * S::kHidden + lane();
    std::uint32_t to = to_;
#pragma unroll 1
    for (int i = 0; i < S::kProjectPixels; ++i, from += S::kHidden, to += S::kOwned * 4) {
      float sums[kChannels] = {};
#pragma unroll
      for (int k = 0; k < S::kProjectK; ++k) product_.add(k, from[k * kLanes], sums);
      const float sum = product_.sum(sums);
      if (i < pixels) inverted_cluster::send(to, sum, arrived_);
    }
  }

 private:
  static constexpr int kChannels = S::kConfig.project_channels;

  __device__ __forceinline__ static int column() { return unit() % S::kProjectColumns; }
  __device__ __forceinline__ static int first_pixel() {
    return unit() / S::kProjectColumns % S::kConfig.project_groups * S::kProjectPixels;
  }

  Product<kChannels, S::kProjectK> product_;
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
    const int oy = place.oy + pixel / S::kConfig.columns;
    const int ox = place.ox + pixel % S::kConfig.columns;
    inside_ = thread() < S::kSums && oy < a.out_h && ox < a.out_w ? 1 : 0;
    settle(inside_);
    const std::size_t pixels = static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.out_h * a.out_w) +
                               static_cast<std::size_t>(oy * a.out_w + ox);
    at_ = pixels * S::kConfig.c_out + static_cast<std::size_t>(channel);
    bias_ = load_float(packed + channel);
  }

  /// Loads what is added to the sums.
  __device__ __forceinline__ void start(const Arguments& a, const float* x) {
    if (a.residual && inside_ != 0) residual_ = inverted_cluster::load_written(x + at_);
  }

  __device__ __forceinline__ void run(const Arguments& a, std::uint32_t arrived, const float* partial, float* y) const {
    // All wait: no block may end while others write to it.
    inverted_cluster::wait(arrived, 0);
    if (inside_ == 0) return;
    float sum = partial[thread()];
#pragma unroll
    for (int block = 1; block < kBlocks; ++block) sum += partial[block * S::kSums + thread()];
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
