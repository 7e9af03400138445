// The stages of an inverted residual block in a cluster: kernel.cuh has their order.
#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/inverted_residual/cluster/patch.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ __forceinline__ float2 floats(std::uint32_t word) {
  __half2 halves;
  memcpy(&halves, &word, sizeof halves);
  return __half22float2(halves);
}

/// One unit's expand and depthwise weights.
template <Config kConfig>
class Unit {
 public:
  /// Begins to load.
  __device__ __forceinline__ void load(const unsigned char* unit) {
    const unsigned char* const fragments = unit + lane() * 16;
#pragma unroll
    for (int k = 0; k < S::kBlocksK * 2; ++k) {
      weights_[k] = ptx::load_global_nc<uint4>(fragments + k * kFragmentBytes);
    }
    const unsigned char* const biases = unit + S::kBlocksK * 2 * kFragmentBytes + lane() / 4 * 16;
    bias_ = ptx::load_global_nc<float4>(biases);
    const unsigned char* const taps = biases + kUnitBiasBytes;
    const int row = lane() % 4;
    if constexpr (kConfig.stride == 1) {
      // Row 0, 1 | 2, 3 of the patch is row 0, 1 | 1, 2 of the window of an output in row 0 | 1, and row 1 | 2 is row
      // 0 | 2 of that of one in the other row.
      loaded_taps_[0] = ptx::load_global_nc<uint4>(taps + (row + 1) / 2 * 128);
      loaded_taps_[1] = ptx::load_global_nc<uint4>(taps + (row == 2 ? 2 : 0) * 128);
    } else {
      loaded_taps_[0] = ptx::load_global_nc<uint4>(taps + min(row, 2) * 128);
    }
  }

  /// Makes floats of the taps; waits for them.
  __device__ __forceinline__ void arrange() {
    const bool mirrored = lane() % 2 == 1;
#pragma unroll
    for (int i = 0; i < kWindows; ++i) {
      const uint4& words = loaded_taps_[i];
      taps_[i][0] = floats(mirrored ? words.z : words.x);
      taps_[i][1] = floats(words.y);
      taps_[i][2] = floats(mirrored ? words.x : words.z);
    }
  }

  /// Begins the sums of expand for all of the patch.
  __device__ __forceinline__ void begin(float (&sums)[Shape<kConfig>::kPatches][4]) const {
#pragma unroll
    for (auto& sum : sums) {
      sum[0] = sum[1] = bias_.x;
      sum[2] = sum[3] = bias_.y;
    }
  }

  __device__ __forceinline__ void expand(const Patch<kConfig>& patch,
                                         float (&sums)[Shape<kConfig>::kPatches][4]) const {
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
  __device__ __forceinline__ void depthwise(const Arguments& a, const float (&sums)[Shape<kConfig>::kPatches][4],
                                            const Masks<kConfig>& masks, std::uint32_t to) const {
    constexpr int kOut = kConfig.columns;
    float2 pixels[S::kPatches * 2];  // of the lane's row: both channels
#pragma unroll
    for (int t = 0; t < S::kPatches; ++t) {
      const float2 first = floats(ptx::bits(activated(a.expand_clip, sums[t][0], sums[t][1])) & masks.words[t]);
      const float2 second = floats(ptx::bits(activated(a.expand_clip, sums[t][2], sums[t][3])) & masks.words[t]);
      pixels[2 * t] = {first.x, second.x};
      pixels[2 * t + 1] = {first.y, second.y};
    }
    float2 kept[kOut];
    filter(kept, pixels, taps_[0]);
    const int row = lane() % 4;
    if constexpr (kConfig.stride == 1) {
      float2 sent[kOut];
      filter(sent, pixels, taps_[1]);
      const bool inner = row == 1 || row == 2;  // the other output row's lanes have no part of these
#pragma unroll
      for (int i = 0; i < kOut; ++i) {
        const float2 received = {__shfl_xor_sync(~0U, sent[i].x, 2), __shfl_xor_sync(~0U, sent[i].y, 2)};
        if (!inner) kept[i] = sum(kept[i], received);
      }
    }
#pragma unroll
    for (int i = 0; i < kOut / 2; ++i) kept[i] = sum(kept[i], exchanged(kept[kOut - 1 - i], 1));
    if constexpr (kConfig.stride == 2) {
#pragma unroll
      for (int i = 0; i < kOut / 2; ++i) kept[i] = sum(kept[i], exchanged(kept[i], 2));
#pragma unroll
      for (int i = 0; i < kOut / 4; ++i) put(a, row < 2 ? kept[2 * i] : kept[2 * i + 1], to + (row + 4 * i) * 32);
    } else {
#pragma unroll
      for (int i = 0; i < kOut / 2; ++i) put(a, kept[i], to + (row + 4 * i) * 32);
    }
  }

 private:
  using S = Shape<kConfig>;

  __device__ __forceinline__ static void filter(float2 (&sums)[kConfig.columns],
                                                const float2 (&pixels)[S::kPatches * 2], const float2 (&taps)[3]) {
#pragma unroll
    for (int i = 0; i < kConfig.columns; ++i) {
      sums[i] = {pixels[i * kConfig.stride].x * taps[0].x, pixels[i * kConfig.stride].y * taps[0].y};
#pragma unroll
      for (int kx = 1; kx < 3; ++kx) {
        sums[i].x = fmaf(pixels[i * kConfig.stride + kx].x, taps[kx].x, sums[i].x);
        sums[i].y = fmaf(pixels[i * kConfig.stride + kx].y, taps[kx].y, sums[i].y);
      }
    }
  }

  __device__ __forceinline__ static float2 sum(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
  __device__ __forceinline__ static float2 exchanged(float2 value, int with) {
    return {__shfl_xor_sync(~0U, value.x, with), __shfl_xor_sync(~0U, value.y, with)};
  }

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

  static constexpr int kWindows = kConfig.stride == 1 ? 2 : 1;  // that a row of the patch is part of

  uint4 weights_[S::kBlocksK * 2];
  float4 bias_;
  uint4 loaded_taps_[kWindows];
  float2 taps_[kWindows][3];
};

template <Config kConfig>
class Projection {
 public:
  /// `shared`: of the block.
  __device__ __forceinline__ Projection(const unsigned char* packed, int rank, std::uint32_t shared)
      : filtered_(shared + S::kFilteredAt + first_k() * (kColumns * 32) + lane() * 8),
        partial_(shared + S::kPartialAt + (rank * kConfig.groups_k + group_k()) * kFragmentBytes + lane() * 16),
        live_units_(S::kUnits % S::kBlockUnits == 0 ? S::kBlockUnits
                                                    : min(S::kBlockUnits, S::kUnits - rank * S::kBlockUnits)) {
    ptx::pin(filtered_);
    ptx::pin(partial_);
    const unsigned char* const fragments =
        packed + (S::kProjectOffset + (group_m() * S::kUnits + rank * S::kBlockUnits + first_k()) * kFragmentBytes +
                  lane() * 16);
#pragma unroll
    for (int m = 0; m < S::kWarpM; ++m) {
#pragma unroll
      for (int k = 0; k < S::kWarpK; ++k) {
        if (!lives(m, k)) continue;
        weights_[m][k] =
            ptx::load_global_nc<uint4>(fragments + (m * kConfig.groups_m * S::kUnits + k) * kFragmentBytes);
      }
    }
  }

  /// Multiplies the block's results of depthwise and hands the sums to the blocks that own them.
  __device__ __forceinline__ void run(int buffer, std::uint32_t arrived) const {
    if (!takes_part()) return;
    std::uint32_t pixels[S::kWarpK][2];
#pragma unroll
    for (int k = 0; k < S::kWarpK; ++k) {
      // Past the block's last unit weights are zero, or none.
      const int unit = first_k() + k < S::kBlockUnits ? k : 0;
      const uint2 words = ptx::load_shared<uint2>(filtered_ + buffer * S::kFilteredBytes + unit * (kColumns * 32));
      pixels[k][0] = words.x;
      pixels[k][1] = words.y;
    }
    constexpr int kChains = S::kWarpM == 1 && S::kWarpK > 2 ? 2 : 1;
    float sums[S::kWarpM][kChains][4] = {};
#pragma unroll
    for (int k = 0; k < S::kWarpK; ++k) {
#pragma unroll
      for (int m = 0; m < S::kWarpM; ++m) {
        const uint4& w = weights_[m][k];
        const std::uint32_t rows[4] = {w.x, w.y, w.z, w.w};
        ptx::mma_16x8x16(sums[m][k % kChains], rows, pixels[k][0], pixels[k][1]);
      }
    }
#pragma unroll
    for (int m = 0; m < S::kWarpM; ++m) {
      if (fragment(m) >= S::kFragmentsM) break;
      if constexpr (kChains == 2) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][0][i] += sums[m][1][i];
      }
      const auto& sum = sums[m][0];
      const float4 values{sum[0], sum[1], sum[2], sum[3]};
      const std::uint32_t to =
          partial_ + buffer * S::kPartialBytes + fragment(m) / kConfig.blocks * (S::kSlots * kFragmentBytes);
      ptx::send(to, values, arrived, fragment(m) % kConfig.blocks);
    }
  }

 private:
  using S = Shape<kConfig>;

  __device__ __forceinline__ static int group_m() { return warp() % kConfig.groups_m; }
  __device__ __forceinline__ static int group_k() { return warp() / kConfig.groups_m; }
  __device__ __forceinline__ static int first_k() { return group_k() * S::kWarpK; }
  __device__ __forceinline__ static int fragment(int m) { return group_m() + m * kConfig.groups_m; }
  // What is known at compile time costs no instruction, of which there are many before the first load.
  static constexpr bool kAllUnits = S::kUnits % S::kBlockUnits == 0 && kConfig.groups_k * S::kWarpK == S::kBlockUnits;
  __device__ __forceinline__ static bool takes_part() {
    return kConfig.warps == kConfig.groups_m * kConfig.groups_k || group_k() < kConfig.groups_k;
  }
  __device__ __forceinline__ bool lives(int m, int k) const {
    return takes_part() && ((m + 1) * kConfig.groups_m <= S::kFragmentsM || fragment(m) < S::kFragmentsM) &&
           (kAllUnits || first_k() + k < live_units_);
  }

  std::uint32_t filtered_;
  std::uint32_t partial_;
  int live_units_;
  uint4 weights_[S::kWarpM][S::kWarpK]{};
};

/// What a lane finishes: a pair of neighbouring output channels in two pixels.
template <Config kConfig>
class Finish {
 public:
  /// `fragment` may be past the last one.
  __device__ __forceinline__ Finish(const Arguments& a, int fragment, const unsigned char* packed, std::uint32_t shared)
      : lives_(fragment < S::kFragmentsM &&
               (kConfig.c_out % 16 == 0 || fragment * 16 + lane() / 4 * 2 < kConfig.c_out)),
        partial_(shared + S::kPartialAt + warp() * (S::kSlots * kFragmentBytes) + lane() * 16) {
    const int channel = fragment * 16 + lane() / 4 * 2;
    if (lives_) bias_ = ptx::load_global_nc<float2>(reinterpret_cast<const float*>(packed + channel * 4));
#pragma unroll
    for (int pixel = 0; pixel < 2; ++pixel) {
      // As Unit::depthwise() deals pixels to columns.
      const int column = lane() % 4 * 2 + pixel;
      const int row = column % 4;
      const int i = kConfig.stride == 1 ? column / 4 : column / 4 * 2 + row / 2;
      y_[pixel] = kConfig.stride == 1 ? row / 2 : 0;
      x_[pixel] = row % 2 == 0 ? i : kConfig.columns - 1 - i;
      offset_[pixel] = (y_[pixel] * a.out_w + x_[pixel]) * kConfig.c_out + channel;
    }
  }

  /// Finds the addresses of a tile.
  __device__ __forceinline__ void aim(const Arguments& a, const Place& place) {
    at_ = static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.out_h * a.out_w) *
              static_cast<std::size_t>(kConfig.c_out) +
          static_cast<std::size_t>((place.oy * a.out_w + place.ox) * kConfig.c_out);
#pragma unroll
    for (int pixel = 0; pixel < 2; ++pixel) {
      inside_[pixel] = lives_ && lane() % 4 * 2 + pixel < S::kRows * kConfig.columns &&
                       place.oy + y_[pixel] < a.out_h && place.ox + x_[pixel] < a.out_w;
      ptx::pin(inside_[pixel]);
    }
  }

  /// Loads what is added to the sums.
  __device__ __forceinline__ void start(const Arguments& a, const __half* x) {
#pragma unroll
    for (int pixel = 0; pixel < 2; ++pixel) {
      residual_[pixel] = 0;
      if (a.residual && inside_[pixel] != 0) {
        residual_[pixel] = ptx::load_global<std::uint32_t>(x + at_ + static_cast<std::size_t>(offset_[pixel]));
      }
    }
  }

  __device__ __forceinline__ void run(const Arguments& a, int buffer, __half* y) const {
    const std::uint32_t from = partial_ + buffer * S::kPartialBytes;
    float4 sum = ptx::load_shared<float4>(from);
#pragma unroll
    for (int slot = 1; slot < S::kSlots; ++slot) {
      const float4 part = ptx::load_shared<float4>(from + slot * kFragmentBytes);
      sum.x += part.x;
      sum.y += part.y;
      sum.z += part.z;
      sum.w += part.w;
    }
    const float2 sums[2] = {{sum.x, sum.z}, {sum.y, sum.w}};
#pragma unroll
    for (int pixel = 0; pixel < 2; ++pixel) {
      const float2 added = a.residual ? floats(residual_[pixel]) : float2{};
      const __half2 value = __floats2half2_rn(apply(a.project_clip, sums[pixel].x + bias_.x + added.x),
                                              apply(a.project_clip, sums[pixel].y + bias_.y + added.y));
      if (inside_[pixel] != 0) {
        *reinterpret_cast<__half2*>(y + at_ + static_cast<std::size_t>(offset_[pixel])) = value;
      }
    }
  }

 private:
  using S = Shape<kConfig>;

  bool lives_;
  std::uint32_t partial_;
  float2 bias_{};
  int y_[2], x_[2];
  int offset_[2];
  int inside_[2];
  std::size_t at_;
  std::uint32_t residual_[2];
};
#endif

}  // namespace mobicuda::kernels::inverted_cluster
