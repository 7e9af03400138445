// Pointwise convolution, clip and mean in exact float (FFMA, never TF32), for few images.
//
// A block owns a slice of channels of every gridDim.y-th image. Its warps share the pixels, kStepPixels at a time (a
// step), and each has a ring of steps of its own in shared memory, so that warps do not wait for each other before the
// image's end. Half a warp, a unit, has half of the slice; its lanes share the products of a sum: a lane has the same
// kLaneInputs input channels of every pixel, and the weights for them in registers. The lanes' sums meet by exchanges
// that leave each with the sum of one channel of one pixel. The warps' sums over pixels meet in shared memory and are
// added in the order of the warps.
// Shared memory: rings (warp, step, pixel, c_in; before them, in their place, weights) | two sets of sums (warp,
// channel).
#pragma once

#include "kernels/common/clip.cuh"
#include "kernels/common/packet.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::pooled_simt {

inline constexpr int kWarps = 8;
inline constexpr int kThreads = kWarps * 32;
inline constexpr int kLanes = 16;  // of a unit
inline constexpr int kMaxInputs = 320;
inline constexpr int kLaneInputs = kMaxInputs / kLanes;
inline constexpr int kPixelChunks = kMaxInputs / 4;  // of 16 bytes
inline constexpr int kStepPixels = 2;
inline constexpr int kStepFloats = kStepPixels * kMaxInputs;
inline constexpr int kSteps = 3;  // of a ring
inline constexpr int kRingFloats = kSteps * kStepFloats;
static_assert(kStepPixels * kLanes == 32, "a half of a warp copies a pixel");

template <int kSlice>
struct Shape {
  static constexpr int kChannels = kSlice / (32 / kLanes);   // of a unit
  static constexpr int kSums = kStepPixels * kChannels;      // of a lane
  static constexpr int kMinBlocks = kChannels <= 4 ? 2 : 1;  // as far as registers for the weights allow
  static constexpr int kPartialAt = kWarps * kRingFloats;
  static constexpr int kSharedBytes = (kPartialAt + 2 * kWarps * kSlice) * 4;
  static_assert(kLanes % kSums == 0 && kSlice * kMaxInputs <= kPartialAt && kSlice <= kThreads);
};

struct Arguments {
  int n, pixels, c_in, c;
  int c_in_packed;
  Clip clip;
};

using ptx::as_int::lane;
__device__ __forceinline__ int lane_of_unit() { return lane() % kLanes; }

/// Which of its unit's sums, (pixel of the step, channel), the lane has in the end. Where there are fewer sums than
/// lanes, neighbours have the same one.
template <class S>
__device__ __forceinline__ int own_sum() {
  return lane_of_unit() * S::kSums / kLanes;
}
template <class S>
__device__ __forceinline__ int own_pixel() {
  return own_sum<S>() / S::kChannels;
}
template <class S>
__device__ __forceinline__ int own_channel() {
  return own_sum<S>() % S::kChannels;
}

/// Whether the lane is the first that has its sum.
template <class S>
__device__ __forceinline__ bool is_first_owner() {
  return lane_of_unit() % (kLanes / S::kSums) == 0;
}

/// Of the slice.
template <class S>
__device__ __forceinline__ int channel() {
  return lane() / kLanes * S::kChannels + own_channel<S>();
}

/// Starts to copy the slice's weights, (channel, k) with zeros from c_in on. All threads of the block take part.
template <int kSlice>
__device__ __forceinline__ void copy_weights(const Arguments& a, const float* weights, float* staged) {
  for (int i = static_cast<int>(threadIdx.x); i < kSlice * kPixelChunks; i += kThreads) {
    const int k = i % kPixelChunks * 4;
    const bool inside = k < a.c_in_packed;
    const int at = inside ? i / kPixelChunks * a.c_in_packed + k : 0;
    ptx::copy_async_cg_128_or_zero(reinterpret_cast<unsigned char*>(staged + i * 4), weights + at, inside);
  }
}

/// Copies the warp's steps, one after the other, into its ring. Each half of the warp has a pixel, a lane the same k of
/// it as in the products.
class StepCopies {
 public:
  __device__ __forceinline__ StepCopies(const Arguments& a, const float* x, int warp, const float* ring)
      : first_pixel_(kStepPixels * warp),
        picture_(first_pixel_ < a.pixels ? static_cast<int>(blockIdx.y) : a.n),
        chunks_((a.c_in - lane_of_unit() * 4 + 4 * kLanes - 1) / (4 * kLanes)),
        to_(ptx::shared_address(ring + pixel_of_step() * kMaxInputs + lane_of_unit() * 4)) {
    begin_picture(a, x);
    ptx::pin(from_);
    ptx::pin(picture_);
    ptx::pin(chunks_);
    ptx::pin(to_);
  }

  /// Of the next step, to `at` of the ring (in floats), and closes the group of copies, an empty one after the last
  /// step. The places of absent pixels, and of k from c_in on, are left as they are.
  __device__ __forceinline__ void start(const Arguments& a, const float* x, int at) {
    if (picture_ < a.n) {
      const std::uint32_t to = to_ + at * 4;
      const int chunks = pixel_ + pixel_of_step() < a.pixels ? chunks_ : 0;
#pragma unroll
      for (int i = 0; i < kLaneInputs / 4; ++i) {
        if (i < chunks) ptx::copy_async_cg_128(to + i * (16 * kLanes), from_ + i * (4 * kLanes));
      }
      pixel_ += kWarps * kStepPixels;
      from_ += kWarps * kStepPixels * a.c_in;
      if (pixel_ >= a.pixels) {
        picture_ += static_cast<int>(gridDim.y);
        begin_picture(a, x);
      }
    }
    ptx::copy_async_commit();
  }

 private:
  __device__ __forceinline__ static int pixel_of_step() { return lane() / kLanes; }

  __device__ __forceinline__ void begin_picture(const Arguments& a, const float* x) {
    pixel_ = first_pixel_;
    const std::size_t pixel = static_cast<std::size_t>(picture_) * static_cast<std::size_t>(a.pixels) +
                              static_cast<std::size_t>(pixel_ + pixel_of_step());
    from_ = x + pixel * static_cast<std::size_t>(a.c_in) + lane_of_unit() * 4;
  }

  int first_pixel_, picture_;
  int chunks_;        // of a pixel that are the lane's
  std::uint32_t to_;  // in the first step of the ring
  int pixel_;
  const float* from_;
};

/// Where the copies leave the warp's ring as it is, from c_in on, it is zero.
__device__ __forceinline__ void fill_with_zeros(const Arguments& a, float* ring) {
#pragma unroll 1
  for (int pixel = 0; pixel < kSteps * kStepPixels; ++pixel) {
    for (int k = a.c_in + lane(); k < kMaxInputs; k += 32) ring[pixel * kMaxInputs + k] = 0.0F;
  }
}

/// A lane's share of the products: chunks lane + kLanes * i of k of the unit's channels. Number j of its sums is of
/// pixel and channel j ^ own_sum(): what a lane keeps when it exchanges has the same index in all lanes, and nothing is
/// selected.
template <class S>
class Products {
 public:
  /// `bias`: of the slice, or null.
  __device__ __forceinline__ explicit Products(const float* bias)
      : bias_(bias != nullptr && is_first_owner<S>() ? ptx::load_global_nc<float>(bias + channel<S>()) : 0.0F) {}

  __device__ __forceinline__ void load(const float* staged) {
    staged += lane() / kLanes * S::kChannels * kMaxInputs + lane_of_unit() * 4;
#pragma unroll
    for (int j = 0; j < S::kChannels; ++j) {
      const float* const row = staged + (j ^ own_channel<S>()) * kMaxInputs;
#pragma unroll
      for (int k = 0; k < kLaneInputs; k += 4) {
        const auto four = kernels::load<4>(row + k * kLanes);
#pragma unroll
        for (int e = 0; e < 4; ++e) weights_[(k + e) * S::kChannels + j] = four.item[e];
      }
    }
  }

  /// The unit's own_sum(), bias included, of the step's pixels.
  __device__ __forceinline__ float sum(const float* step) const {
    float sums[S::kSums] = {};
    sums[0] = bias_;  // of own_sum(), in one lane
    const float* const own = step + own_pixel<S>() * kMaxInputs + lane_of_unit() * 4;
    const float* const other = step + (1 - own_pixel<S>()) * kMaxInputs + lane_of_unit() * 4;
#pragma unroll
    for (int k = 0; k < kLaneInputs; k += 4) {
      const auto first = kernels::load<4>(own + k * kLanes);
      const auto second = kernels::load<4>(other + k * kLanes);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int j = 0; j < S::kChannels; ++j) {
          const float weight = weights_[(k + e) * S::kChannels + j];
          sums[j] = fmaf(first.item[e], weight, sums[j]);
          sums[S::kChannels + j] = fmaf(second.item[e], weight, sums[S::kChannels + j]);
        }
      }
    }
    exchange(sums);
    return sums[0];
  }

 private:
  /// Between lanes kWith apart, then between nearer ones.
  template <int kWith = kLanes / 2>
  __device__ __forceinline__ static void exchange(float (&sums)[S::kSums]) {
    constexpr int kHalf = kWith * S::kSums / kLanes;
    if constexpr (kHalf == 0) {
      sums[0] += __shfl_xor_sync(~0U, sums[0], kWith);
    } else {
#pragma unroll
      for (int i = 0; i < kHalf; ++i) sums[i] += __shfl_xor_sync(~0U, sums[i + kHalf], kWith);
    }
    if constexpr (kWith > 1) exchange<kWith / 2>(sums);
  }

  float weights_[kLaneInputs * S::kChannels];  // (k, channel ^ own_channel())
  float bias_;
};

template <int kSlice>
__global__ void __launch_bounds__(kThreads, Shape<kSlice>::kMinBlocks)
    pooled_simt_kernel(const Arguments a, const float* x, const float* weights, const float* bias, float* y) {
  using S = Shape<kSlice>;
  MOBICUDA_DYNAMIC_SHARED(float, 128, shared_floats);
  const int warp = __shfl_sync(~0U, ptx::as_int::warp(), 0);  // so that the compiler knows it is uniform
  float* const ring = shared_floats + warp * kRingFloats;
  float* partial = shared_floats + S::kPartialAt;
  int partial_step = kWarps * kSlice;
  const int c0 = static_cast<int>(blockIdx.x) * kSlice;

  copy_weights<kSlice>(a, weights + static_cast<std::size_t>(c0) * static_cast<std::size_t>(a.c_in_packed),
                       shared_floats);
  ptx::copy_async_commit();
  Products<S> products(bias != nullptr ? bias + c0 : nullptr);
  StepCopies copies(a, x, warp, ring);
  ptx::copy_async_wait<0>();
  __syncthreads();
  products.load(shared_floats);
  __syncthreads();
  fill_with_zeros(a, ring);
  wait_for_predecessor();

#pragma unroll
  for (int i = 0; i < kSteps; ++i) copies.start(a, x, i * kStepFloats);
  int at = 0;  // of the step in the ring
  for (int n = static_cast<int>(blockIdx.y); n < a.n; n += static_cast<int>(gridDim.y)) {
    float total = 0.0F;
#pragma unroll 1
    for (int pixel = kStepPixels * warp; pixel < a.pixels; pixel += kWarps * kStepPixels) {
      float* const step = ring + at;
      ptx::copy_async_wait<kSteps - 1>();
      __syncwarp();
      const float value = apply(a.clip, products.sum(step));
      if (pixel + own_pixel<S>() < a.pixels) total += value;
      __syncwarp();
      copies.start(a, x, at);
      at = at + kStepFloats == kRingFloats ? 0 : at + kStepFloats;
    }
    total += __shfl_xor_sync(~0U, total, kLanes / 2);  // the pixels of a step are halves of a unit apart
    if (is_first_owner<S>() && own_pixel<S>() == 0) partial[warp * kSlice + channel<S>()] = total;
    __syncthreads();
    if (threadIdx.x < kSlice) {
      float sum = 0.0F;
#pragma unroll
      for (int i = 0; i < kWarps; ++i) sum += partial[i * kSlice + static_cast<int>(threadIdx.x)];
      y[static_cast<std::size_t>(n) * static_cast<std::size_t>(a.c) + static_cast<std::size_t>(c0) + threadIdx.x] =
          sum / static_cast<float>(a.pixels);
    }
    partial += partial_step;
    partial_step = -partial_step;
  }
}

}  // namespace mobicuda::kernels::pooled_simt
