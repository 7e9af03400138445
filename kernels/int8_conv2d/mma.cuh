// A tile of a product of bytes, Y = X * W^T, by the mma.sync of a block's warps: m16n8k32, s8 inputs, exact s32 sums.
// Fragments and their order are those of a half product, a pair of bytes for each half (common/block_mma.cuh). sm_80
// and newer.
#pragma once

#include "kernels/common/packet.cuh"
#include "kernels/common/swizzle.cuh"
#include "kernels/ptx/int8.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"

namespace mobicuda::kernels::int8_conv {

struct MmaConfig {
  int bm, bn, bk;  ///< bk in bytes
  int warps_m, warps_n, warps_k;
  int stages;
  bool resident;   ///< W's whole strip stays in shared memory, loaded before wait_for_predecessor()
  int min_blocks;  ///< per multiprocessor, for the register budget
};

template <MmaConfig kConfig>
struct MmaTile {
  using Value = std::int8_t;
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kBk = kConfig.bk;
  static constexpr int kSplitK = kConfig.warps_k;
  static constexpr int kThreads = 32 * kConfig.warps_m * kConfig.warps_n * kConfig.warps_k;
  static constexpr int kRowBytes = kBk;
  static constexpr int kStages = kConfig.stages;
  static constexpr bool kResident = kConfig.resident;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr int kXPeriod = 8;  // of chunk_offset()

  static constexpr int kWarpM = kBm / kConfig.warps_m;
  static constexpr int kWarpN = kBn / kConfig.warps_n;
  static constexpr int kFragmentsM = kWarpM / 16;
  static constexpr int kFragmentsN = kWarpN / 8;
  static constexpr int kGroup = kFragmentsN % 4 == 0 ? 4 : 2;  // fragments whose columns are dealt out together
  static constexpr int kGroups = kFragmentsN / kGroup;
  static constexpr int kRun = 2 * kGroup;      // neighbouring outputs of a thread
  static constexpr int kWPeriod = 8 * kGroup;  // of w_row() and chunk_offset()
  static constexpr int kStepsK = kBk / 32 / kSplitK;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kBk % (32 * kSplitK) == 0);
  static_assert((kBk & (kBk - 1)) == 0, "the swizzle needs a power of two");

  __device__ __forceinline__ static int chunk_offset(int row, int chunk) {
    return swizzled_offset<kRowBytes>(row, chunk);
  }

  /// Column n = (group, t, fragment, e) of the strip lies in row (group, fragment, t, e) of its slice: thread t of a
  /// quad receives columns 2t + e of each fragment, hence kRun neighbours of n.
  __device__ __forceinline__ static int w_row(int n) {
    constexpr unsigned kSpan = 8 * kGroup;
    const unsigned in_group = static_cast<unsigned>(n) % kSpan;
    return n + static_cast<int>(in_group % kRun / 2 * 8 + in_group / kRun * 2 + in_group % 2 - in_group);
  }

  class Sums {
   public:
    __device__ __forceinline__ Sums() { clear(); }

    __device__ __forceinline__ void clear() {
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) {
#pragma unroll
          for (std::int32_t& sum : sum_[i][j]) sum = 0;
        }
      }
    }

    __device__ __forceinline__ void add(const unsigned char* x, const unsigned char* w) {
      const int x_row = warp_m() * kWarpM + lane() % 16;
      const int w_row = warp_n() * kWarpN + lane() % 8 + lane() / 16 * 8;
#pragma unroll
      for (int step = 0; step < kStepsK; ++step) {
        const int chunk = (warp_k() * kStepsK + step) * 2;
        const unsigned char* const x_chunk = x + chunk_offset(x_row, chunk + lane() / 16);
        const unsigned char* const w_chunk = w + chunk_offset(w_row, chunk + lane() / 8 % 2);
        std::uint32_t a[kFragmentsM][4];
        std::uint32_t b[kFragmentsN / 2][4];  // {b0, b1} of two fragments
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i) ptx::ldmatrix_x4(a[i], x_chunk + i * 16 * kRowBytes);
#pragma unroll
        for (int j = 0; j < kFragmentsN / 2; ++j) ptx::ldmatrix_x4(b[j], w_chunk + j * 16 * kRowBytes);
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
          for (int j = 0; j < kFragmentsN; ++j) {
            ptx::mma_s8_16x8x32(sum_[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
          }
        }
      }
    }

    /// Calls visit(row, column, sums) for the thread's runs of kRun neighbours, rows and columns of the block's tile.
    template <class Visit>
    __device__ __forceinline__ void visit_runs(const Visit& visit) const {
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            std::int32_t run[kRun];
#pragma unroll
            for (int e = 0; e < kRun; ++e) run[e] = sum_[i][group * kGroup + e / 2][half * 2 + e % 2];
            visit(warp_m() * kWarpM + i * 16 + half * 8 + lane() / 4,
                  warp_n() * kWarpN + group * (8 * kGroup) + lane() % 4 * kRun, run);
          }
        }
      }
    }

    /// Into (kSplitK, kBm, kBn).
    __device__ __forceinline__ void store_partial(std::int32_t* partial) const {
      partial += warp_k() * kBm * kBn;
      visit_runs([&](int row, int column, const std::int32_t(&run)[kRun]) {
        Packet<std::int32_t, kRun> packet;
#pragma unroll
        for (int e = 0; e < kRun; ++e) packet.item[e] = run[e];
        store(partial + row * kBn + column, packet);
      });
    }

   private:
    __device__ __forceinline__ static int lane() { return ptx::as_int::lane(); }
    __device__ __forceinline__ static int warp() { return ptx::as_int::warp(); }
    __device__ __forceinline__ static int warp_m() { return warp() % kConfig.warps_m; }
    __device__ __forceinline__ static int warp_n() { return warp() / kConfig.warps_m % kConfig.warps_n; }
    __device__ __forceinline__ static int warp_k() { return warp() / (kConfig.warps_m * kConfig.warps_n); }

    std::int32_t sum_[kFragmentsM][kFragmentsN][4];
  };
};

}  // namespace mobicuda::kernels::int8_conv
