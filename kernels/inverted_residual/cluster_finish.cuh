// The end of an inverted residual block in a cluster: a block adds what all blocks have of its output channels.
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/inverted_residual/cluster_place.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// What a lane finishes: a pair of neighbouring output channels in two pixels.
template <class S>
class Finish {
  using Element = typename S::Element;

 public:
  /// `fragment` may be past the last one.
  __device__ __forceinline__ Finish(const Geometry& a, int fragment, const unsigned char* packed, std::uint32_t shared)
      : lives_(fragment < S::kFragmentsM &&
               (kConfig.c_out % 16 == 0 || fragment * 16 + lane() / 4 * 2 < kConfig.c_out)),
        partial_(shared + S::kPartialAt + warp() * (S::kSlots * kFragmentBytes) + lane() * 16) {
    const int channel = fragment * 16 + lane() / 4 * 2;
    if (lives_) {
      bias_ = ptx::load_global_nc<float2>(packed + S::kBiasAt + channel * 4);
      if constexpr (kScaled) scale_ = ptx::load_global_nc<float2>(packed + S::kScaleAt + channel * 4);
    }
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
  __device__ __forceinline__ void aim(const Geometry& a, const Place& place) {
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
  __device__ __forceinline__ void start(const Geometry& a, const Element* x) {
#pragma unroll
    for (int pixel = 0; pixel < 2; ++pixel) {
      residual_[pixel] = {};
      if (a.residual && inside_[pixel] != 0) {
        residual_[pixel] = ptx::load_global<Pair>(x + at_ + static_cast<std::size_t>(offset_[pixel]));
      }
    }
  }

  __device__ __forceinline__ void run(const typename S::Arguments& a, int buffer, Element* y) const {
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
      const float2 value{apply(a.project_clip, biased(sums[pixel].x, scale_.x, bias_.x) + added.x),
                         apply(a.project_clip, biased(sums[pixel].y, scale_.y, bias_.y) + added.y)};
      if (inside_[pixel] != 0) put_pair(y + at_ + static_cast<std::size_t>(offset_[pixel]), value);
    }
  }

 private:
  using Pair = std::conditional_t<std::is_same_v<Element, float>, uint2, std::uint32_t>;
  static constexpr auto kConfig = S::kConfig;
  static constexpr bool kScaled = S::kHalves == 2;  // factors of two halves are scaled

  __device__ __forceinline__ static float biased(float sum, float scale, float bias) {
    return kScaled ? fmaf(sum, scale, bias) : sum + bias;
  }
  __device__ __forceinline__ static float2 floats(std::uint32_t pair) { return inverted_cluster::floats(pair); }
  __device__ __forceinline__ static float2 floats(uint2 pair) {
    return {__uint_as_float(pair.x), __uint_as_float(pair.y)};
  }
  __device__ __forceinline__ static void put_pair(__half* to, float2 pair) {
    *reinterpret_cast<__half2*>(to) = __floats2half2_rn(pair.x, pair.y);
  }
  __device__ __forceinline__ static void put_pair(float* to, float2 pair) { *reinterpret_cast<float2*>(to) = pair; }

  bool lives_;
  std::uint32_t partial_;
  float2 bias_{}, scale_{};
  int y_[2], x_[2];
  int offset_[2];
  int inside_[2];
  std::size_t at_;
  Pair residual_[2];
};

#endif

}  // namespace mobicuda::kernels::inverted_cluster
