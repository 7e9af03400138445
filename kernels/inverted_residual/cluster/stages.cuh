// Expand and depthwise of an inverted residual block in a cluster, half: cluster_run.cuh has the stages' order.
#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/inverted_residual/cluster/arguments.cuh"
#include "kernels/inverted_residual/cluster/patch.cuh"
#include "kernels/inverted_residual/cluster_depthwise.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"

namespace mobicuda::kernels::inverted_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// One unit's expand and depthwise weights.
template <class S>
class Unit {
 public:
  /// Begins to load the one with that number.
  __device__ __forceinline__ void load(const unsigned char* packed, int number) {
    const unsigned char* const unit = packed + S::kHeadBytes + number * S::kUnitBytes;
    const unsigned char* const fragments = unit + lane() * 16;
#pragma unroll
    for (int k = 0; k < S::kBlocksK * 2; ++k) {
      weights_[k] = ptx::load_global_nc<uint4>(fragments + k * kFragmentBytes);
    }
    const unsigned char* const biases = unit + S::kBlocksK * 2 * kFragmentBytes + lane() / 4 * 16;
    bias_ = ptx::load_global_nc<float4>(biases);
    const unsigned char* const taps = biases + kUnitBiasBytes;
#pragma unroll
    for (int i = 0; i < kWindows<S>; ++i) {
      loaded_taps_[i] = ptx::load_global_nc<uint4>(taps + window_row<S>(i) * 128);
    }
  }

  /// Makes floats of the taps; waits for them.
  __device__ __forceinline__ void arrange(const Arguments& /*a*/) {
    const bool mirrored = lane() % 2 == 1;
#pragma unroll
    for (int i = 0; i < kWindows<S>; ++i) {
      const uint4& words = loaded_taps_[i];
      taps_[i][0] = floats(mirrored ? words.z : words.x);
      taps_[i][1] = floats(words.y);
      taps_[i][2] = floats(mirrored ? words.x : words.z);
    }
  }

  /// Begins the sums of expand for all of the patch.
  __device__ __forceinline__ void begin(float (&sums)[S::kPatches][4]) const {
#pragma unroll
    for (auto& sum : sums) {
      sum[0] = sum[1] = bias_.x;
      sum[2] = sum[3] = bias_.y;
    }
  }

  __device__ __forceinline__ void expand(const Patch<S>& patch, float (&sums)[S::kPatches][4]) const {
#pragma unroll
    for (int block = 0; block < S::kBlocksK; ++block) {
      const uint4& first = weights_[block * 2];
      const uint4& second = weights_[block * 2 + 1];
      const std::uint32_t rows[2][4] = {{first.x, first.y, first.z, first.w}, {second.x, second.y, second.z, second.w}};
#pragma unroll
      for (int t = 0; t < S::kPatches; ++t) {
        const uint4 pixels = patch.operands(t, block);
        ptx::mma_16x8x16(sums[t], rows[0], pixels.x, pixels.y);
        ptx::mma_16x8x16(sums[t], rows[1], pixels.z, pixels.w);
      }
    }
  }

  /// Clips and filters. `to`: the unit's results in shared memory, (column, pair of channels).
  __device__ __forceinline__ void depthwise(const Arguments& a, const float (&sums)[S::kPatches][4],
                                            const Masks<S>& masks, std::uint32_t to) const {
    float2 pixels[S::kPatches * 2];  // of the lane's row: both channels
#pragma unroll
    for (int t = 0; t < S::kPatches; ++t) {
      const float2 first = floats(ptx::bits(activated(a.expand_clip, sums[t][0], sums[t][1])) & masks.words[t]);
      const float2 second = floats(ptx::bits(activated(a.expand_clip, sums[t][2], sums[t][3])) & masks.words[t]);
      pixels[2 * t] = {first.x, second.x};
      pixels[2 * t + 1] = {first.y, second.y};
    }
    filter_rows<S>(pixels, taps_, [&](float2 sum, int column) { put(a, sum, to + column * 32); });
  }

 private:
  static constexpr auto kConfig = S::kConfig;

  __device__ __forceinline__ void put(const Arguments& a, float2 sum, std::uint32_t to) const {
    ptx::store_shared(to + lane() / 4 * 4, ptx::bits(activated(a.depthwise_clip, sum.x + bias_.z, sum.y + bias_.w)));
  }

  __device__ __forceinline__ static __half2 activated(HalfClip clip, float first, float second) {
    if constexpr (kConfig.hard_swish == 1) {
      return __floats2half2_rn(hard_swish(first), hard_swish(second));
    } else {
      return apply(clip, __floats2half2_rn(first, second));
    }
  }

  uint4 weights_[S::kBlocksK * 2];
  float4 bias_;
  uint4 loaded_taps_[kWindows<S>];
  float2 taps_[kWindows<S>][3];
};

#endif

}  // namespace mobicuda::kernels::inverted_cluster
