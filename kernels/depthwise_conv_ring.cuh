#pragma once

#include "conv_vector.cuh"
#include "depthwise_conv_arguments.cuh"
#include "gemm_pipeline.cuh"

namespace mobicuda::kernels::depthwise {

// 3x3, dilation 1, half, for maps so large that memory bounds the time. Warp -> kRingRows x kRingColumns outputs of 32
// channels; a lane has one column of 8 of them. The warp walks down its input rows through a ring of its own in shared
// memory, which asynchronous copies fill some rows ahead: what is under way costs no registers and does not depend on
// how many warps there are. No warp waits for another. A row is added to up to three rows of outputs, of which a lane
// keeps the sums.

inline constexpr int kRingRows = 14;
inline constexpr int kRingColumns = 8;
inline constexpr int kRingVector = 8;  ///< channels of a lane
inline constexpr int kRingLanes = 4;   ///< of a pixel
inline constexpr int kRingChannels = kRingVector * kRingLanes;
inline constexpr int kRingPixelBytes = 2 * kRingChannels;
inline constexpr int kRingWarps = 2;
inline constexpr int kRingThreads = 32 * kRingWarps;
inline constexpr int kRingBlocks = 7;  ///< blocks that a multiprocessor must be able to hold

/// A step adds kStride input rows and completes one row of outputs, but for the first steps.
template <int kStride>
struct RingShape {
  static constexpr int kInColumns = (kRingColumns - 1) * kStride + 3;
  static constexpr int kRowBytes = kInColumns * kRingPixelBytes;
  static constexpr int kStepBytes = kStride * kRowBytes;
  static constexpr int kDepth = 8 / kStride;           ///< steps in the ring, a power of two
  static constexpr int kFirst = kStride == 1 ? 2 : 1;  ///< the step that completes the first row of outputs
  static constexpr int kChunks = kStepBytes / 16;
  static constexpr int kCopies = (kChunks + 31) / 32;  ///< of a lane and a step
  static constexpr int kEven = (kInColumns + 1) / 2;

  /// Where a pixel of a row lies: even ones first with stride 2, so that neighbouring lanes read neighbours.
  static __device__ __forceinline__ int place(int column) {
    return kStride == 1 ? column : column % 2 * kEven + column / 2;
  }
};

/// The chunks that a lane copies for each step, relative to the step's first row.
template <int kStride>
class RingCopies {
 public:
  using Shape = RingShape<kStride>;

  __device__ __forceinline__ RingCopies(const Arguments& a, int ix0, unsigned row_bytes, unsigned pixel_bytes) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < Shape::kCopies; ++i) {
      const int pixel = (lane + i * 32) / kRingLanes;
      const int row = pixel / Shape::kInColumns;
      const int column = pixel - row * Shape::kInColumns;
      from_[i] = row * row_bytes + column * pixel_bytes + lane % kRingLanes * 16U;
      to_[i] = (row * Shape::kInColumns + Shape::place(column)) * kRingPixelBytes + lane % kRingLanes * 16;
      if (static_cast<unsigned>(ix0 + column) < static_cast<unsigned>(a.w)) inside_ |= 1U << i;
    }
  }

  /// `first`: bytes from the picture's first to the step's first row, `iy` that row, `bottom` the row behind the last.
  __device__ __forceinline__ void enqueue(const char* picture, unsigned first, int iy, unsigned bottom,
                                          unsigned char* step) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < Shape::kCopies; ++i) {
      const int chunk = lane + i * 32;
      if (chunk >= Shape::kChunks) break;
      const int row = chunk >= Shape::kInColumns * kRingLanes ? 1 : 0;
      const bool inside = (inside_ & 1U << i) != 0 && static_cast<unsigned>(iy + row) < bottom;
      gemm_detail::copy_chunk(step + to_[i], picture + (inside ? first + from_[i] : 0U), inside);
    }
  }

 private:
  unsigned from_[Shape::kCopies];
  int to_[Shape::kCopies];
  unsigned inside_ = 0;  ///< columns
};

__device__ __forceinline__ void add_products(const float (&values)[kRingVector], const float (&factor)[kRingVector],
                                             float (&sums)[kRingVector]) {
#pragma unroll
  for (int v = 0; v < kRingVector; ++v) sums[v] = fmaf(values[v], factor[v], sums[v]);
}

/// A lane's sums, of the row of outputs that the next step completes and, with stride 1, of the one below it.
template <int kStride>
struct RingSums {
  float next[kRingVector];
  float below[kRingVector];
};

/// Adds a step's rows; `done` becomes the row of outputs that is complete. `pixel`: the lane's first of the step.
template <int kStride>
__device__ __forceinline__ void add_step(const unsigned char* pixel, const float (&weights)[9][kRingVector],
                                         const float (&offset)[kRingVector], RingSums<kStride>& sums,
                                         float (&done)[kRingVector]) {
  using Shape = RingShape<kStride>;
  const auto get = [&](int row, int kx, float(&values)[kRingVector]) {
    const int place = kStride == 1 ? kx : kx % 2 * Shape::kEven + kx / 2;
    unpack<__half>(*reinterpret_cast<const uint4*>(pixel + row * Shape::kRowBytes + place * kRingPixelBytes), values);
  };
  float values[kRingVector];
  float fresh[kRingVector];
#pragma unroll
  for (int v = 0; v < kRingVector; ++v) {
    done[v] = sums.next[v];
    sums.next[v] = sums.below[v];
    fresh[v] = offset[v];
  }
#pragma unroll
  for (int kx = 0; kx < 3; ++kx) {
    get(0, kx, values);
    add_products(values, weights[6 + kx], done);
    if constexpr (kStride == 1) add_products(values, weights[3 + kx], sums.next);
    add_products(values, weights[kx], fresh);
  }
  if constexpr (kStride == 2) {
#pragma unroll
    for (int kx = 0; kx < 3; ++kx) {
      get(1, kx, values);
      add_products(values, weights[3 + kx], fresh);
    }
  }
#pragma unroll
  for (int v = 0; v < kRingVector; ++v) (kStride == 1 ? sums.below : sums.next)[v] = fresh[v];
}

template <int kStride>
__global__ void __launch_bounds__(kRingThreads, kRingBlocks)
    ring_kernel(const Arguments a, const __half* x, const __half* __restrict__ weight, const float* __restrict__ bias,
                __half* y) {
  using Shape = RingShape<kStride>;
  __shared__ __align__(128) unsigned char shared[kRingWarps][Shape::kDepth][Shape::kStepBytes];
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::uint32_t index = blockIdx.x * kRingWarps + threadIdx.x / 32;
  const bool active = index < a.grid.items;
  const Item item = decode(a.grid, active ? index : 0U);
  const int c = static_cast<int>(item.vector) * kRingChannels + lane % kRingLanes * kRingVector;

  float weights[9][kRingVector];
#pragma unroll
  for (int tap = 0; tap < 9; ++tap)
    load_constants<__half>(weight + static_cast<std::size_t>(tap) * a.c + c, weights[tap]);
  float offset[kRingVector] = {};
  if (bias != nullptr) load_constants<float>(bias + c, offset);
  const int oy0 = static_cast<int>(item.tile_y) * kRingRows;
  const int ox0 = static_cast<int>(item.tile_x) * kRingColumns;
  const int rows = min(kRingRows, a.out_h - oy0);
  const int iy0 = oy0 * kStride - a.pad_top;
  const int ix0 = ox0 * kStride - a.pad_left;
  const auto bottom = static_cast<unsigned>(max(0, min(a.h, iy0 + (rows - 1) * kStride + 3)));
  const unsigned pixel_bytes = static_cast<unsigned>(a.c) * sizeof(__half);
  const unsigned row_bytes = static_cast<unsigned>(a.w) * pixel_bytes;
  const char* const picture = reinterpret_cast<const char*>(x + static_cast<std::size_t>(item.n) * a.h * a.w * a.c);
  unsigned first = iy0 * row_bytes + ix0 * pixel_bytes + item.vector * kRingPixelBytes;
  const int ox = ox0 + lane / kRingLanes;
  const std::size_t out_row = static_cast<std::size_t>(a.out_w) * a.c;
  __half* target =
      y + (static_cast<std::size_t>(item.n) * a.out_h + oy0) * out_row + static_cast<std::size_t>(ox) * a.c + c;
  const RingCopies<kStride> copies(a, ix0, row_bytes, pixel_bytes);
  wait_for_predecessor();
  if (!active) return;

  const int steps = rows + Shape::kFirst;
  int iy = iy0;  // of the next step to be copied
  const auto enqueue = [&](int step) {
    if (step < steps) copies.enqueue(picture, first, iy, bottom, shared[warp][step % Shape::kDepth]);
    gemm_detail::close_group();
    first += kStride * row_bytes;
    iy += kStride;
  };
#pragma unroll
  for (int step = 0; step < Shape::kDepth - 1; ++step) enqueue(step);

  RingSums<kStride> sums{};
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    gemm_detail::wait_groups<Shape::kDepth - 2>();
    __syncwarp();  // the rows are there, and all lanes have read those before them
    enqueue(step + Shape::kDepth - 1);
    float done[kRingVector];
    add_step<kStride>(shared[warp][step % Shape::kDepth] + lane * 16, weights, offset, sums, done);
    if (step < Shape::kFirst) continue;
    apply(a.activation, done);
    if (ox < a.out_w) *reinterpret_cast<uint4*>(target) = pack<__half, uint4>(done);
    target += out_row;
  }
}

}  // namespace mobicuda::kernels::depthwise
