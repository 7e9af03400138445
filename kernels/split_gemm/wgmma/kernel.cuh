// The product of floats by wgmma, with X in registers and W in shared memory: otherwise as mma.cuh. sm_90a.
// A block owns a strip of columns and walks over row tiles. Slices come into a ring, of X by tensor copies, of W, which
// is packed as it is read, in bulk; groups of four warps own 64 rows each, split them as they read them, and go through
// the ring independently, so that one splits while another multiplies. One thread of the first group has a stage filled
// again while its own products are under way: warps of their own for it would cost the others registers. Shared memory:
// ring of (X | W) | bias | factors | barriers.
#pragma once

#include "kernels/common/hardware_limits.h"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/split_gemm/operands.cuh"

namespace mobicuda::kernels::split_gemm_detail {

struct WgmmaConfig {
  int groups;  ///< of four warps, with 64 rows each
  int columns;
  int products;  ///< that the columns are multiplied in, one after the other
  int slices;    ///< of 32 of k, of a stage
  int stages;
  int min_blocks;    ///< per multiprocessor, for the register budget
  int groups_k = 1;  ///< that many times as many groups, which take turns at the stages and share the sums
};

struct WgmmaArguments {
  CUtensorMap x;  ///< (m, k floats as pairs of halves), boxes of a tile's rows by a slice
  ProductArgs product;
};

template <WgmmaConfig kConfig>
struct WgmmaShape {
  static constexpr WgmmaConfig kOf = kConfig;
  static constexpr int kGroupRows = 64;
  static constexpr int kBm = kConfig.groups * kGroupRows;
  static constexpr int kBn = kConfig.columns;
  static constexpr int kBk = kConfig.slices * kSlice;
  static constexpr int kColumns = kBn / kConfig.products;  // of a product
  using Value = float;
  static constexpr int kSplitK = kConfig.groups_k;
  static constexpr int kReaders = kConfig.groups * 4;  // warps that read a stage
  static constexpr int kThreads = 32 * kReaders * kSplitK;
  static constexpr int kRun = 4;                    // neighbouring outputs of a lane
  static constexpr int kXBytes = kBm * kSlice * 4;  // of a slice
  static constexpr int kWBytes = kBn * kSlice * 4;
  static constexpr int kStageBytes = kConfig.slices * (kXBytes + kWBytes);
  static constexpr int kBias = kConfig.stages * kStageBytes;
  static constexpr int kUndo = kBias + kBn * 4;
  static constexpr int kPartial = kUndo + kBn * 4;
  static constexpr int kBarriers = kPartial + (kSplitK > 1 ? kSplitK * kBm * kBn * 4 : 0);
  static constexpr int kSharedBytes = kBarriers + 2 * kConfig.stages * 8;
  static_assert(kBn % kConfig.products == 0 && kColumns % 16 == 0 && kBn <= kWidestTile && kBm <= 256);
  static_assert(kXBytes % 1024 == 0 && kWBytes % 1024 == 0, "rows of X are swizzled in groups of 1024 bytes");
  static_assert(kConfig.stages > kSplitK, "the first group has stages filled that it itself waits for next");
  static_assert(kSharedBytes <= limits_of(90).shared_bytes_per_block);
};

/// A place in the ring.
template <int kStages>
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

/// Of the stage, those that there are: what lies behind them in shared memory may be anything, NaN too.
template <class Shape>
__device__ __forceinline__ int slices_of(const ProductArgs& args, int k_slice) {
  return min(Shape::kOf.slices, (args.k + kSlice - 1) / kSlice - k_slice * Shape::kOf.slices);
}

/// Has slices copied. One thread's.
template <class Shape>
class RingFiller {
 public:
  __device__ __forceinline__ RingFiller(const WgmmaArguments& a, std::uint32_t ring, std::uint32_t barriers, int steps)
      : a_(a), ring_(ring), full_(barriers), steps_(steps), m_tile_(static_cast<int>(blockIdx.y)) {}

  /// Fills the ring; waits for the predecessor behind the weights.
  __device__ __forceinline__ void begin() {
    const int first = steps_ < Shape::kOf.stages ? steps_ : Shape::kOf.stages;
    for (int step = 0; step < first; ++step) copy_weights(step, step % a_.product.k_slices);
    wait_for_predecessor();
    for (int step = 0; step < first; ++step) copy_x();
  }

  /// Fills again the stages of all steps before this one, each once all have read it.
  __device__ __forceinline__ void follow(int step) {
    while (filled_ < steps_ && filled_ < step + Shape::kOf.stages) {
      ptx::mbarrier_wait(full_ + (Shape::kOf.stages + place_.stage) * 8, place_.parity ^ 1U);
      copy_weights(place_.stage, k_slice_);
      copy_x();
    }
  }

 private:
  /// Announces a stage's bytes, and has its weights copied.
  __device__ __forceinline__ void copy_weights(int stage, int k_slice) const {
    constexpr int kSlicePieces = kSlice / kStepK * 2;  // upper or lower parts of a step
    constexpr int kStagePieces = Shape::kOf.slices * kSlicePieces;
    const Extents extents(a_.product.n, a_.product.k);
    const int column_groups = static_cast<int>(blockIdx.x) * (Shape::kBn / 8);
    const int groups = min(Shape::kBn / 8, extents.groups - column_groups);
    const int first = k_slice * kStagePieces;
    const int slices = slices_of<Shape>(a_.product, k_slice);
    const int pieces = slices * kSlicePieces;
    const std::uint32_t full = full_ + stage * 8;
    ptx::mbarrier_arrive_expect(full, slices * Shape::kXBytes + pieces * groups * kPartBytes);
    const std::uint32_t to = ring_ + stage * Shape::kStageBytes + Shape::kOf.slices * Shape::kXBytes;
    const auto* w = static_cast<const unsigned char*>(a_.product.w);
    for (int i = 0; i < pieces; ++i) {
      const std::size_t from = static_cast<std::size_t>(first + i) * static_cast<std::size_t>(extents.groups) +
                               static_cast<std::size_t>(column_groups);
      ptx::copy_bulk(to + i * (Shape::kBn / 8 * kPartBytes), w + from * kPartBytes, groups * kPartBytes, full);
    }
  }

  /// Of the stage whose weights were copied last, but for the first ones.
  __device__ __forceinline__ void copy_x() {
    const int slices = slices_of<Shape>(a_.product, k_slice_);
    for (int i = 0; i < slices; ++i) {
      ptx::copy_box(ring_ + place_.stage * Shape::kStageBytes + i * Shape::kXBytes, a_.x,
                    (k_slice_ * Shape::kOf.slices + i) * (2 * kSlice), m_tile_ * Shape::kBm, full_ + place_.stage * 8);
    }
    place_.advance();
    ++filled_;
    if (++k_slice_ == a_.product.k_slices) {
      k_slice_ = 0;
      m_tile_ += static_cast<int>(gridDim.y);
    }
  }

  const WgmmaArguments& a_;
  std::uint32_t ring_, full_;
  int steps_;
  int filled_ = 0;
  int m_tile_;
  int k_slice_ = 0;
  RingPlace<Shape::kOf.stages> place_;
};

/// A warp of those that multiply.
template <class Shape>
class Multiplier {
  static constexpr int kSlices = Shape::kOf.slices;
  static constexpr int kProducts = Shape::kOf.products;

 public:
  __device__ __forceinline__ Multiplier(const unsigned char* shared, float x_factor)
      : shared_(shared),
        x_factor_(x_factor),
        w_(ptx::wgmma_operand(ptx::shared_address(shared) + kSlices * Shape::kXBytes)) {}

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& product : sum_) {
#pragma unroll
      for (float& sum : product) sum = 0.0F;
    }
  }

  /// Adds the products of a stage that is full; it is no longer read when this is over. meanwhile() is called while
  /// they are under way.
  template <class Meanwhile>
  __device__ __forceinline__ void add(int stage, int slices, const Meanwhile& meanwhile) {
    const unsigned char* const x = shared_ + stage * Shape::kStageBytes + row(0) * kSliceBytes;
    const std::uint64_t w = w_ + static_cast<unsigned>(stage * (Shape::kStageBytes / 16));
    XFragment a[kSlices][2];
#pragma unroll
    for (int product = 0; product < kProducts; ++product) {
      float part[Shape::kColumns / 2] = {};
#pragma unroll
      for (int slice = 0; slice < kSlices; ++slice) {
        if (slice >= slices) break;
        if (product == 0) {
#pragma unroll
          for (int step = 0; step < 2; ++step) {
            const int chunk = (chunk_of(step, lane() % 4) ^ (lane() / 4)) * kChunkBytes;
            a[slice][step].template load<8 * kSliceBytes>(x + slice * Shape::kXBytes + chunk, x_factor_);
          }
        }
        ptx::wgmma_fence();
        const auto multiply = [&](const std::uint32_t(&from)[4], int step, int lower) {
          const int at = ((slice * 2 + step) * 2 + lower) * (Shape::kBn / 8 * kPartBytes) +
                         product * (Shape::kColumns / 8 * kPartBytes);
          ptx::start_wgmma(part, from[0], from[1], from[2], from[3], w + static_cast<unsigned>(at / 16));
        };
#pragma unroll
        for (int step = 0; step < 2; ++step) multiply(a[slice][step].lo, step, 0);
#pragma unroll
        for (int step = 0; step < 2; ++step) multiply(a[slice][step].hi, step, 1);
#pragma unroll
        for (int step = 0; step < 2; ++step) multiply(a[slice][step].hi, step, 0);
        ptx::wgmma_commit();
      }
      if (product == 0) meanwhile();
      ptx::wgmma_wait<0>();
      ptx::pin_accumulators(part);
#pragma unroll
      for (int i = 0; i < Shape::kColumns / 2; ++i) sum_[product][i] += part[i];
    }
  }

  /// Into (kSplitK, kBm, kBn), without the factors.
  __device__ __forceinline__ void store_partial(float* partial) const {
    const auto* const undo = reinterpret_cast<const float*>(shared_ + Shape::kUndo);
    partial += group_k() * Shape::kBm * Shape::kBn;
#pragma unroll
    for (int product = 0; product < kProducts; ++product) {
#pragma unroll
      for (int j = 0; j < Shape::kColumns / 8; j += 2) {
        const int column = product * Shape::kColumns + j * 8 + lane() % 4 * Shape::kRun;
        const auto factors = kernels::load<Shape::kRun>(undo + column);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Packet<float, Shape::kRun> run;
#pragma unroll
          for (int e = 0; e < Shape::kRun; ++e) {
            run.item[e] = sum_[product][(j + e / 2) * 4 + half * 2 + e % 2] * factors.item[e];
          }
          store(partial + row(half) * Shape::kBn + column, run);
        }
      }
    }
  }

  __device__ __forceinline__ static int group_k() { return ptx::as_int::warp() / Shape::kReaders; }

  __device__ __forceinline__ void finish(const ProductArgs& args, int m0, int n0) const {
    const auto* const bias = reinterpret_cast<const float*>(shared_ + Shape::kBias);
    const auto* const undo = reinterpret_cast<const float*>(shared_ + Shape::kUndo);
#pragma unroll
    for (int product = 0; product < kProducts; ++product) {
#pragma unroll
      for (int j = 0; j < Shape::kColumns / 8; j += 2) {
        const int column = product * Shape::kColumns + j * 8 + lane() % 4 * Shape::kRun;
        Packet<float, Shape::kRun> residual[2] = {};
        if (args.residual != nullptr) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            residual[half] = products::load_residual<float, Shape::kRun>(args, m0 + row(half), n0 + column);
          }
        }
        const auto factors = kernels::load<Shape::kRun>(undo + column);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float values[Shape::kRun];
#pragma unroll
          for (int e = 0; e < Shape::kRun; ++e) {
            values[e] = sum_[product][(j + e / 2) * 4 + half * 2 + e % 2] * factors.item[e];
          }
          products::finish_run<float, Shape::kRun>(args, m0 + row(half), n0 + column, values, bias + column,
                                                   residual[half]);
        }
      }
    }
  }

 private:
  static constexpr int kSliceBytes = kSlice * 4;  // of a row

  __device__ __forceinline__ static int lane() { return ptx::as_int::lane(); }
  // Of the block's tile, the first of the lane's or the one 8 behind it.
  __device__ __forceinline__ static int row(int half) {
    return ptx::as_int::warp() % Shape::kReaders * 16 + half * 8 + lane() / 4;
  }

  const unsigned char* shared_;
  float x_factor_;
  std::uint64_t w_;  ///< of the first stage
  float sum_[kProducts][Shape::kColumns / 2];
};

/// kPlain: as in product_kernel().
template <class Shape, bool kPlain>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kOf.min_blocks)
    split_wgmma_kernel(const __grid_constant__ WgmmaArguments a) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  ProductArgs args = a.product;
  if constexpr (kPlain) {
    args.y_pitch = args.n;
    args.activation.kind = ActivationKind::Clip;
  }
  const int n0 = static_cast<int>(blockIdx.x) * Shape::kBn;
  const int tiles = args.whole_rounds + (static_cast<int>(blockIdx.y) < args.last_round ? 1 : 0);
  const std::uint32_t barriers = ptx::shared_address(shared) + Shape::kBarriers;
  const std::uint32_t empty = barriers + Shape::kOf.stages * 8;
  Factors factors;
  factors.load(args, n0);
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kBn; i += Shape::kThreads) {
    const bool has_bias = args.bias != nullptr && n0 + i < args.n;
    reinterpret_cast<float*>(shared + Shape::kBias)[i] = has_bias ? args.bias[n0 + i] : 0.0F;
    reinterpret_cast<float*>(shared + Shape::kUndo)[i] = factors.undo[i];
  }
  RingFiller<Shape> filler(a, ptx::shared_address(shared), barriers, tiles * args.k_slices);
  const bool fills = threadIdx.x == 0;
  if (fills) {
    ptx::prefetch_tensor_map(a.x);
    for (int i = 0; i < Shape::kOf.stages; ++i) {
      ptx::mbarrier_init(barriers + i * 8, 1);
      ptx::mbarrier_init(empty + i * 8, Shape::kReaders);
    }
    ptx::fence_mbarrier_init();
    filler.begin();
  } else {
    wait_for_predecessor();
  }
  __syncthreads();

  Multiplier<Shape> multiplier(shared, factors.x);
  [[maybe_unused]] products::SplitTile<Shape> split;
  RingPlace<Shape::kOf.stages> place;
  int m_tile = static_cast<int>(blockIdx.y);
  int step = 0;
  for (int tile = 0; tile < tiles; ++tile, m_tile += static_cast<int>(gridDim.y)) {
    if constexpr (Shape::kSplitK > 1) split.begin(args, m_tile * Shape::kBm, n0);
    multiplier.clear();
    for (int k_slice = 0; k_slice < args.k_slices; ++k_slice, ++step, place.advance()) {
      if (Shape::kSplitK > 1 && k_slice % Shape::kSplitK != multiplier.group_k()) continue;
      ptx::mbarrier_wait(barriers + place.stage * 8, place.parity);
      multiplier.add(place.stage, slices_of<Shape>(args, k_slice), [&] {
        if (fills) filler.follow(step);
        __syncwarp();
      });
      if (ptx::as_int::lane() == 0) ptx::mbarrier_arrive(empty + place.stage * 8);
    }
    if constexpr (Shape::kSplitK > 1) {
      auto* const partial = reinterpret_cast<float*>(shared + Shape::kPartial);
      split.finish(args, multiplier, m_tile * Shape::kBm, n0, partial, reinterpret_cast<float*>(shared + Shape::kBias));
      __syncthreads();  // before the next tile's sums
    } else {
      multiplier.finish(args, m_tile * Shape::kBm, n0);
    }
  }
}

}  // namespace mobicuda::kernels::split_gemm_detail
