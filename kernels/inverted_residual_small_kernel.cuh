// The small inverted residual kernel: a tile of the output with all its channels in one block of threads.
#pragma once

#include "clip.cuh"
#include "inverted_residual_small_stages.cuh"
#include "packet.cuh"

namespace mobicuda::kernels::inverted_small {

/// Adds up the slices' sums for 4 channels of a pixel.
template <class S>
class Finish {
 public:
  __device__ __forceinline__ explicit Finish(const unsigned char* packed) {
    std::uint32_t words[4] = {};
    if (active()) load_words<4>(packed + quad() * 16, words);
#pragma unroll
    for (int i = 0; i < 4; ++i) bias_[i] = __uint_as_float(words[i]);
  }

  __device__ __forceinline__ void aim(const Arguments& a, const Place& place) {
    const int pixel = static_cast<int>(threadIdx.x) / S::kQuads;
    const int oy = place.oy + pixel / S::kTileW;
    const int ox = place.ox + pixel % S::kTileW;
    inside_ = active() && oy < a.out_h && ox < a.out_w;
    at_ = static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.out_h * a.out_w) * (S::kCOut * 2) +
          static_cast<std::size_t>((oy * a.out_w + ox) * (S::kCOut * 2) + quad() * 8);
  }

  __device__ __forceinline__ void load_residual(const Arguments& a, const unsigned char* x) {
    residual_[0] = residual_[1] = 0;
    if (a.residual && inside_) load_words<2>(x + at_, residual_);
  }

  __device__ __forceinline__ void store(const Arguments& a, const float* partial, unsigned char* y) const {
    if (!inside_) return;
    partial += static_cast<int>(threadIdx.x) / S::kQuads * S::kPartialRow + quad() * 4;
    float4 parts[S::kSlices];
#pragma unroll
    for (int s = 0; s < S::kSlices; ++s) {
      parts[s] = *reinterpret_cast<const float4*>(partial + s * S::kPartialFloats);
    }
    float sum[4] = {bias_[0], bias_[1], bias_[2], bias_[3]};
#pragma unroll
    for (int s = 0; s < S::kSlices; ++s) {
      sum[0] += parts[s].x;
      sum[1] += parts[s].y;
      sum[2] += parts[s].z;
      sum[3] += parts[s].w;
    }
    const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&residual_[0]));
    const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&residual_[1]));
    const float added[4] = {low.x, low.y, high.x, high.y};
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = kernels::apply(a.project_clip, sum[i] + added[i]);
    *reinterpret_cast<uint2*>(y + at_) =
        make_uint2(bits(__floats2half2_rn(sum[0], sum[1])), bits(__floats2half2_rn(sum[2], sum[3])));
  }

 private:
  __device__ __forceinline__ static bool active() { return threadIdx.x < S::kPixels * S::kQuads; }
  __device__ __forceinline__ static int quad() { return static_cast<int>(threadIdx.x) % S::kQuads; }

  float bias_[4];
  std::uint32_t residual_[2];
  std::size_t at_ = 0;
  bool inside_ = false;
};

/// Waits for the warps that share a slice.
template <class S>
__device__ __forceinline__ void synchronize_slice([[maybe_unused]] int slice) {
  if constexpr (S::kParts == 1) {
    __syncwarp();
  } else {
    asm volatile("bar.sync %0, %1;" : : "r"(1 + slice), "n"(S::kParts * 32) : "memory");
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kMinBlocks)
    small_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
  extern __shared__ __align__(16) unsigned char shared[];
  release_successor();
  const int slice = warp() / S::kParts;
  const int part = S::kParts == 1 ? 0 : warp() % S::kParts;
  unsigned char* const hidden = shared + slice * (S::kGroups * S::kGroupBytes);
  auto* partial = reinterpret_cast<float*>(shared + S::kHiddenBytes);

  Weights<S> weights;
  weights.load(packed, slice);
  Finish<S> finish(packed);
  const Depthwise<S> depthwise(static_cast<std::uint32_t>(__cvta_generic_to_shared(hidden)), part);
  Place place = locate<S>(a, blockIdx.x);
  Patch<S> patch;
  patch.aim(a, place, x, part);
  patch.settle();
  finish.aim(a, place);
  wait_for_predecessor();
  patch.load();

  int buffer = 0;
  for (std::uint32_t tile = blockIdx.x; tile < a.tiles;) {
    finish.load_residual(a, x);
    expand(a, patch, weights, hidden, part);
    tile += gridDim.x;
    if (tile < a.tiles) {
      place = locate<S>(a, tile);
      patch.aim(a, place, x, part);
      patch.load();
    }
    synchronize_slice<S>(slice);
    float* const sums = partial + buffer * (S::kPartialBytes / 4);
    filter_and_project(a, weights, depthwise, sums + slice * S::kPartialFloats, part);
    __syncthreads();
    finish.store(a, sums, y);
    finish.aim(a, place);
    buffer ^= 1;  // whoever still reads the sums does so before the next barrier
  }
}

}  // namespace mobicuda::kernels::inverted_small
