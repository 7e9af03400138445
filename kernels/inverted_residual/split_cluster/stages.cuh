// The patch, expand and depthwise of an inverted residual block in a cluster, floats, whose 1x1 convolutions are split
// products: cluster_run.cuh has the stages' order.
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/common/split_halves.cuh"
#include "kernels/inverted_residual/cluster_depthwise.cuh"
#include "kernels/inverted_residual/split_cluster/arguments.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_split_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

using inverted_cluster::inside_picture;
using inverted_cluster::Masks;
using inverted_cluster::patch_column;
using inverted_cluster::Place;
using ptx::as_int::lane;

/// A lane's operands: two steps of k.
struct Operands {
  uint4 hi, lo;
};

/// The patch of a tile in shared memory, as inverted_cluster::Patch has it, a pixel's upper halves before its lower
/// ones.
template <class S>
class Patch {
 public:
  /// `shared`: of the block.
  __device__ __forceinline__ Patch(std::uint32_t shared, const unsigned char* packed)
      : operands_(shared + S::kPatchAt + lane() / 4 * S::kPixelBytes + lane() % 4 * 16),
        scale_(ptx::load_global_nc<float>(packed + kXFactorAt)) {
    ptx::pin(operands_);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * S::kThreads;
      to_[i] = shared + S::kPatchAt + item / kVectors * S::kPixelBytes + item % kVectors * 16;
      ptx::pin(to_[i]);
    }
  }

  /// Finds the addresses of a tile.
  __device__ __forceinline__ void aim(const Arguments& a, const Place& place, const float* x) {
    const float* const picture = x + static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.h * a.w) *
                                         static_cast<std::size_t>(kConfig.c_in);
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
      from_[i] = picture + (present_[i] != 0 ? at * kConfig.c_in + item % kVectors * 8 : 0);
      ptx::pin(from_[i]);
    }
  }

  /// Begins to load.
  __device__ __forceinline__ void start() {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        values_[i][half] = {};
        if (present_[i] != 0) values_[i][half] = ptx::load_global<uint4>(from_[i] + half * 4);
      }
    }
  }

  /// Waits for what this thread loads, and splits it. No thread may still read the last tile's patch.
  __device__ __forceinline__ void land() const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (kItems % S::kThreads != 0 && static_cast<int>(threadIdx.x) + i * S::kThreads >= kItems) continue;
      std::uint32_t hi[4];
      std::uint32_t lo[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4& v = values_[i][half];
        const Halves first = split(__uint_as_float(v.x) * scale_, __uint_as_float(v.y) * scale_);
        const Halves second = split(__uint_as_float(v.z) * scale_, __uint_as_float(v.w) * scale_);
        hi[half * 2] = first.hi;
        hi[half * 2 + 1] = second.hi;
        lo[half * 2] = first.lo;
        lo[half * 2 + 1] = second.lo;
      }
      ptx::store_shared(to_[i], hi);
      ptx::store_shared(to_[i] + kLower, lo);
    }
  }

  /// A lane's operands of expand: mma t, two steps of k.
  __device__ __forceinline__ Operands operands(int t, int block) const {
    const std::uint32_t from = operands_ + t * (kColumns * S::kPixelBytes) + block * (kDirectBlockK * 2);
    return {ptx::load_shared<uint4>(from), ptx::load_shared<uint4>(from + kLower)};
  }

 private:
  static constexpr auto kConfig = S::kConfig;
  static constexpr int kChannelVectors = kConfig.c_in / 8;
  static constexpr int kVectors = S::kBlocksK * kDirectBlockK / 8;  // with zeros
  static constexpr int kItems = S::kPixels * kVectors;
  static constexpr int kCopies = ceil_div(kItems, S::kThreads);
  static constexpr int kLower = S::kBlocksK * kDirectBlockK * 2;  // bytes from a pixel's upper halves to its lower ones

  std::uint32_t operands_;
  std::uint32_t to_[kCopies];
  const float* from_[kCopies];
  int present_[kCopies];
  uint4 values_[kCopies][2];
  float scale_;
};

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
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        weights_[k][half] = ptx::load_global_nc<uint4>(fragments + (k * kHalves + half) * kFragmentBytes);
      }
    }
    const unsigned char* const pairs = unit + S::kBlocksK * 2 * kHalves * kFragmentBytes;
    const int pair = lane() / 4;
    bias_ = ptx::load_global_nc<float4>(pairs + pair * 16);
    scale_ = ptx::load_global_nc<float2>(pairs + inverted_cluster::kUnitBiasBytes + pair * 8);
    const unsigned char* const taps = pairs + inverted_cluster::kUnitBiasBytes + kUnitScaleBytes + pair * 32;
#pragma unroll
    for (int i = 0; i < inverted_cluster::kWindows<S>; ++i) {
      const unsigned char* const row = taps + inverted_cluster::window_row<S>(i) * (8 * 32);
      loaded_taps_[i] = ptx::load_global_nc<float4>(row);
      last_taps_[i] = ptx::load_global_nc<float2>(row + 16);
    }
    filtered_scale_ = ptx::load_global_nc<float>(packed + kFilteredFactorAt);
  }

  /// Puts the taps in the order of the lane's pixels, and scales the clip; waits for them.
  __device__ __forceinline__ void arrange(const Arguments& a) {
    const bool mirrored = lane() % 2 == 1;
#pragma unroll
    for (int i = 0; i < inverted_cluster::kWindows<S>; ++i) {
      const float4& words = loaded_taps_[i];
      const float2 first{words.x, words.y};
      taps_[i][0] = mirrored ? last_taps_[i] : first;
      taps_[i][1] = {words.z, words.w};
      taps_[i][2] = mirrored ? first : last_taps_[i];
    }
    depthwise_clip_ = {a.depthwise_clip.lo * filtered_scale_, a.depthwise_clip.hi * filtered_scale_};
  }

  __device__ __forceinline__ void begin(float (&sums)[S::kPatches][4]) const {
#pragma unroll
    for (auto& sum : sums) {
#pragma unroll
      for (float& element : sum) element = 0.0F;
    }
  }

  __device__ __forceinline__ void expand(const Patch<S>& patch, float (&sums)[S::kPatches][4]) const {
#pragma unroll
    for (int first = 0; first < S::kBlocksK; first += kSlice) {
      // By the halves of weights and pixels: sums that do not wait for each other.
      float upper[S::kPatches][4] = {};
      float lower_weights[S::kPatches][4] = {};
      float lower_pixels[S::kPatches][4] = {};
#pragma unroll
      for (int block = first; block < first + kSlice; ++block) {
        if (block >= S::kBlocksK) break;
        std::uint32_t pixels[S::kPatches][2][kHalves][2];
#pragma unroll
        for (int t = 0; t < S::kPatches; ++t) {
          const auto [hi, lo] = patch.operands(t, block);
          const std::uint32_t words[2][kHalves][2] = {{{hi.x, hi.y}, {lo.x, lo.y}}, {{hi.z, hi.w}, {lo.z, lo.w}}};
          memcpy(pixels[t], words, sizeof words);
        }
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          const auto& weights = weights_[block * 2 + step];
#pragma unroll
          for (int t = 0; t < S::kPatches; ++t) add(lower_weights[t], weights[1], pixels[t][step][0]);
#pragma unroll
          for (int t = 0; t < S::kPatches; ++t) add(upper[t], weights[0], pixels[t][step][0]);
#pragma unroll
          for (int t = 0; t < S::kPatches; ++t) add(lower_pixels[t], weights[0], pixels[t][step][1]);
        }
      }
#pragma unroll
      for (int t = 0; t < S::kPatches; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float slice = upper[t][i] + (lower_weights[t][i] + lower_pixels[t][i]);
          sums[t][i] = first == 0 ? slice : sums[t][i] + slice;
        }
      }
    }
  }

  /// Clips, filters and splits. `to`: the unit's results in shared memory, upper halves (column, pair of channels),
  /// then lower ones.
  __device__ __forceinline__ void depthwise(const Arguments& a, const float (&sums)[S::kPatches][4],
                                            const Masks<S>& masks, std::uint32_t to) const {
    float2 pixels[S::kPatches * 2];  // of the lane's row: both channels
#pragma unroll
    for (int t = 0; t < S::kPatches; ++t) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const bool inside = (masks.words[t] >> (16 * i) & 1U) != 0;
        pixels[2 * t + i].x = inside ? apply(a.expand_clip, fmaf(sums[t][i], scale_.x, bias_.x)) : 0.0F;
        pixels[2 * t + i].y = inside ? apply(a.expand_clip, fmaf(sums[t][2 + i], scale_.y, bias_.y)) : 0.0F;
      }
    }
    inverted_cluster::filter_rows<S>(pixels, taps_, [&](float2 sum, int column) {
      const Halves halves = split(apply(depthwise_clip_, sum.x + bias_.z), apply(depthwise_clip_, sum.y + bias_.w));
      const std::uint32_t at = to + column * 32 + lane() / 4 * 4;
      ptx::store_shared(at, halves.hi);
      ptx::store_shared(at + kColumns * 32, halves.lo);
    });
  }

 private:
  // Blocks of k whose products are one sum: as many channels as kMostSplitUnits have.
  static constexpr int kSlice = inverted_cluster::kMostSplitUnits * kUnit / kDirectBlockK;

  __device__ __forceinline__ static void add(float (&sum)[4], const uint4& w, const std::uint32_t (&pixels)[2]) {
    const std::uint32_t rows[4] = {w.x, w.y, w.z, w.w};
    ptx::mma_16x8x16(sum, rows, pixels[0], pixels[1]);
  }

  uint4 weights_[S::kBlocksK * 2][kHalves];
  float4 bias_;
  float2 scale_;
  float4 loaded_taps_[inverted_cluster::kWindows<S>];
  float2 last_taps_[inverted_cluster::kWindows<S>];
  float2 taps_[inverted_cluster::kWindows<S>][3];
  float filtered_scale_;
  Clip depthwise_clip_;
};

#endif

}  // namespace mobicuda::kernels::inverted_split_cluster
