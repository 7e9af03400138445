// What the two families share whose clusters compute a tile in exact float, simt_cluster and simt_early: arguments, the
// products of units of lanes, the depthwise convolution between them. A unit is neighbouring lanes that share the sums
// of some output channels of a 1x1 convolution. sm_90 and newer. The namespace is both families'.
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/common/fast_division.cuh"
#include "kernels/common/packet.cuh"
#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels::inverted_simt_cluster {

inline constexpr int kTaps = 9;

/// Where lane number `lane` of a unit of `lanes` lanes finds its input channel number i, of `count`: in runs of 4 side
/// by side as long as there are as many, then of 2 and of 1.
constexpr int lane_input(int lanes, int count, int lane, int i) {
  int first = 0;  // of the channels in runs of `width`
  for (int width = 4;; width /= 2) {
    const int run = first + (i - first) / width * width;
    if (run + width <= count) return run * lanes + lane * width + (i - run);
    first = first + (count - first) / width * width;
  }
}

struct Arguments {
  int h, w, out_h, out_w;
  int pad_top, pad_left;
  FastDivision tiles_x, tiles_y;
  bool residual;
  Clip expand_clip;
  Clip depthwise_clip;
  Clip project_clip;
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }

/// A unit's share of a 1x1 convolution: kChannels output channels, in each lane kK of the input channels. The unit's
/// lanes are kSpread apart.
template <int kChannels, int kK, int kUnitLanes, int kSpread = 1>
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
      const float4 four = ptx::load_global_nc<float4>(from + i * kStride);
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

  /// Adds the products of all input channels of the lane, which lie as lane_input() has them, for kCount pixels,
  /// `stride` floats apart.
  template <int kCount>
  __device__ __forceinline__ void add_all(const float* from, int stride, int lane,
                                          float (&sums)[kCount][kChannels]) const {
    add_runs<4>(from, stride, lane, 0, kK / 4 * 4, sums);
    if constexpr (kK % 4 >= 2) add_runs<2>(from, stride, lane, kK / 4 * 4, kK / 2 * 2, sums);
    if constexpr (kK % 2 != 0) add_runs<1>(from, stride, lane, kK / 2 * 2, kK, sums);
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
  template <int kRun, int kCount>
  __device__ __forceinline__ void add_runs(const float* from, int stride, int lane, int first, int last,
                                           float (&sums)[kCount][kChannels]) const {
#pragma unroll
    for (int k = first; k < last; k += kRun) {
      Packet<float, kRun> values[kCount];
#pragma unroll
      for (int s = 0; s < kCount; ++s) {
        values[s] = kernels::load<kRun>(from + s * stride + k * kUnitLanes + lane * kRun);
      }
#pragma unroll
      for (int s = 0; s < kCount; ++s) {
#pragma unroll
        for (int e = 0; e < kRun; ++e) add(k + e, values[s].item[e], sums[s]);
      }
    }
  }

  float weights_[kChannels * kK];
};

/// A thread's pair of hidden channels.
template <class S>
class Depthwise {
 public:
  __device__ __forceinline__ void load(const float* weights) {
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap)
      taps_[tap] = ptx::load_global_nc<float2>(weights + tap * S::kHidden + channel());
    bias_ = ptx::load_global_nc<float2>(weights + kTaps * S::kHidden + channel());
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

#endif

}  // namespace mobicuda::kernels::inverted_simt_cluster
