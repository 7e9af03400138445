// The tile of a product of floats by wgmma, with X in registers and W in shared memory: otherwise as mma.cuh. sm_90a.
// Groups of four warps have 64 rows each; several with the same rows share the sum over k.
#pragma once

#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/split_gemm/operands.cuh"

namespace mobicuda::kernels::split_gemm_detail {

struct WgmmaConfig {
  int bm, bn, bk;
  int products;  ///< that the columns are multiplied in, one after the other
  int groups_k;  ///< groups of warps that share a sum
  int stages;
  int min_blocks;  ///< per multiprocessor, for the register budget
};

template <WgmmaConfig kConfig>
struct SplitWgmmaTile {
  using Value = float;
  static constexpr int kRowsOfGroup = 64;
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kBk = kConfig.bk;
  static constexpr int kGroupsM = kBm / kRowsOfGroup;
  static constexpr int kSplitK = kConfig.groups_k;
  static constexpr int kThreads = 128 * kGroupsM * kSplitK;
  static constexpr int kStages = kConfig.stages;
  static constexpr bool kResident = false;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr bool kAnyShape = false;
  static constexpr bool kPlainApart = false;
  static constexpr bool kAsyncOperands = true;
  static constexpr int kRowBytes = kBk * 4;
  static constexpr int kXPeriod = 2;  // of chunk_offset()
  static constexpr int kRun = 4;      // neighbouring outputs of a lane

  static constexpr int kProducts = kConfig.products;
  static constexpr int kColumns = kBn / kProducts;  // of a product
  static constexpr int kSteps = kBk / kStepK / kSplitK;
  static_assert(kBm % kRowsOfGroup == 0 && kColumns % 16 == 0 && kBn % kProducts == 0 && kBn <= kWidestTile);
  static_assert(kBk % (2 * kStepK * kSplitK) == 0 && kStages >= 2);

  __device__ __forceinline__ static int chunk_offset(int row, int chunk) { return x_offset<kRowBytes>(row, chunk); }

  __device__ __forceinline__ static void fill_w(unsigned char* slice, const ProductArgs& args, int n0, int k_slice) {
    fill_weights<SplitWgmmaTile>(slice, args, n0, k_slice);
  }

  class Sums {
   public:
    __device__ __forceinline__ Sums() { clear(); }

    /// Reads the factors, which do not depend on the predecessor.
    __device__ __forceinline__ void begin(const ProductArgs& args, int n0) { factors_.load(args, n0); }

    __device__ __forceinline__ void clear() {
#pragma unroll
      for (auto& product : sum_) {
#pragma unroll
        for (float& sum : product) sum = 0.0F;
      }
    }

    __device__ __forceinline__ void add(const unsigned char* x, const unsigned char* w) {
      const int x_row = group_m() * kRowsOfGroup + warp() % 4 * 16 + lane() / 4;
      XFragment a[kSteps];
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        a[step].template load<8 * kRowBytes>(x + chunk_offset(x_row, (group_k() * kSteps + step) * 4 + lane() % 4),
                                             factors_.x);
      }
      const std::uint64_t words = ptx::wgmma_operand(ptx::shared_address(w) + group_k() * kSteps * kStepBytes);
#pragma unroll
      for (int product = 0; product < kProducts; ++product) {
        float part[kColumns / 2] = {};
        ptx::wgmma_fence();
        const auto multiply = [&](int step, const std::uint32_t(&from)[4], int lower) {
          ptx::start_wgmma(
              part, from[0], from[1], from[2], from[3],
              words + ((step * 2 + lower) * (kBn / 8 * kPartBytes) + product * (kColumns / 8 * kPartBytes)) / 16);
        };
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          multiply(step, a[step].lo, 0);
          multiply(step, a[step].hi, 1);
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step) multiply(step, a[step].hi, 0);
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
        ptx::pin_accumulators(part);
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) sum_[product][i] += part[i];
      }
    }

    __device__ __forceinline__ void finish(const ProductArgs& args, int m0, int n0, const float* bias) const {
#pragma unroll
      for (int product = 0; product < kProducts; ++product) {
#pragma unroll
        for (int j = 0; j < kColumns / 8; j += 2) {
          Packet<float, kRun> residual[2] = {};
          if (args.residual != nullptr) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              residual[half] = products::load_residual<float, kRun>(args, m0 + row(half), n0 + column(product, j));
            }
          }
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            Packet<float, kRun> sums = gather(product, j, half);
            products::finish_run<float, kRun>(args, m0 + row(half), n0 + column(product, j), sums.item,
                                              bias + column(product, j), residual[half]);
          }
        }
      }
    }

    /// Into (kSplitK, kBm, kBn).
    __device__ __forceinline__ void store_partial(float* partial) const {
      partial += group_k() * kBm * kBn;
#pragma unroll
      for (int product = 0; product < kProducts; ++product) {
#pragma unroll
        for (int j = 0; j < kColumns / 8; j += 2) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            store(partial + row(half) * kBn + column(product, j), gather(product, j, half));
          }
        }
      }
    }

   private:
    static constexpr int kStepBytes = 2 * (kBn / 8) * kPartBytes;

    __device__ __forceinline__ static int lane() { return ptx::as_int::lane(); }
    __device__ __forceinline__ static int warp() { return ptx::as_int::warp(); }
    __device__ __forceinline__ static int group_m() { return warp() / 4 % kGroupsM; }
    __device__ __forceinline__ static int group_k() { return warp() / 4 / kGroupsM; }

    // Of a run, within the block's tile.
    __device__ __forceinline__ static int row(int half) {
      return group_m() * kRowsOfGroup + warp() % 4 * 16 + half * 8 + lane() / 4;
    }
    __device__ __forceinline__ static int column(int product, int j) {
      return product * kColumns + j * 8 + lane() % 4 * kRun;
    }

    // Without the factors.
    __device__ __forceinline__ Packet<float, kRun> gather(int product, int j, int half) const {
      const auto undo = kernels::load<kRun>(factors_.undo + column(product, j));
      Packet<float, kRun> values;
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        values.item[e] = sum_[product][(j + e / 2) * 4 + half * 2 + e % 2] * undo.item[e];
      }
      return values;
    }

    float sum_[kProducts][kColumns / 2];
    Factors factors_;
  };
};

}  // namespace mobicuda::kernels::split_gemm_detail
