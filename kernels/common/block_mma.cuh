// A tile of a half product, Y = X * W^T, by the mma.sync of a block's warps: m16n8k16, half inputs, float accumulators.
// sm_80 and newer.
// A warp owns (bm / warps_m) x (bn / warps_n) outputs. Its columns are dealt to the instruction's columns so that each
// thread ends up with 8 (or 4) neighbouring outputs of a row, which it stores at once: see w_row().
#pragma once

#include "kernels/common/slices.cuh"
#include "kernels/common/swizzle.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma.cuh"

namespace mobicuda::kernels {

/// kConfig has bm, bn, bk and warps_m, warps_n, warps_k: groups of warps that split each slice of bk along k.
template <auto kConfig>
struct BlockMma {
  using Value = __half;
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kBk = kConfig.bk;
  static constexpr int kSplitK = kConfig.warps_k;
  static constexpr int kThreads = 32 * kConfig.warps_m * kConfig.warps_n * kConfig.warps_k;
  static constexpr int kRowBytes = kBk * 2;
  static constexpr int kXPeriod = 8;  // of chunk_offset()

  static constexpr int kWarpM = kBm / kConfig.warps_m;
  static constexpr int kWarpN = kBn / kConfig.warps_n;
  static constexpr int kFragmentsM = kWarpM / 16;
  static constexpr int kFragmentsN = kWarpN / 8;
  static constexpr int kGroup = kFragmentsN % 4 == 0 ? 4 : 2;  // fragments whose columns are dealt out together
  static constexpr int kGroups = kFragmentsN / kGroup;
  static constexpr int kRun = 2 * kGroup;      // neighbouring outputs of a thread
  static constexpr int kWPeriod = 8 * kGroup;  // of w_row() and chunk_offset()
  static constexpr int kStepsK = kBk / 16 / kSplitK;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kBk % (16 * kSplitK) == 0);
  static_assert((kBk & (kBk - 1)) == 0, "the swizzle needs a power of two");

  /// Where chunk `chunk` of a row lies in a slice: exchanged within the row so that 8 neighbouring rows of one chunk,
  /// which an ldmatrix reads, lie in different banks.
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

  class Accumulators {
   public:
    __device__ __forceinline__ Accumulators() { clear(); }

    __device__ __forceinline__ void clear() {
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) {
#pragma unroll
          for (float& sum : sum_[i][j]) sum = 0.0F;
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
            ptx::mma_16x8x16(sum_[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
          }
        }
      }
    }

    /// Into (kSplitK, kBm, kBn).
    __device__ __forceinline__ void store_partial(float* partial) const {
      partial += warp_k() * kBm * kBn;
      visit_runs(
          [&](int row, int column, const Packet<float, kRun>& sums) { store(partial + row * kBn + column, sums); });
    }

    /// Calls visit(row, column, sums) for the thread's runs of kRun neighbours, rows and columns of the block's tile.
    template <class Visit>
    __device__ __forceinline__ void visit_runs(const Visit& visit) const {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) visit(row(run), column(run), gather(run));
    }

   protected:
    static constexpr int kRuns = kFragmentsM * 2 * kGroups;

    __device__ __forceinline__ static int lane() { return ptx::as_int::lane(); }
    __device__ __forceinline__ static int warp() { return ptx::as_int::warp(); }
    __device__ __forceinline__ static int warp_m() { return warp() % kConfig.warps_m; }
    __device__ __forceinline__ static int warp_n() { return warp() / kConfig.warps_m % kConfig.warps_n; }
    __device__ __forceinline__ static int warp_k() { return warp() / (kConfig.warps_m * kConfig.warps_n); }

    // Of a run, within the block's tile. Runs are numbered (fragment of rows, group, upper or lower half).
    __device__ __forceinline__ static int row(int run) {
      return warp_m() * kWarpM + run / (2 * kGroups) * 16 + run % 2 * 8 + lane() / 4;
    }
    __device__ __forceinline__ static int column(int run) {
      return warp_n() * kWarpN + run / 2 % kGroups * (8 * kGroup) + lane() % 4 * kRun;
    }

    __device__ __forceinline__ Packet<float, kRun> gather(int run) const {
      Packet<float, kRun> values;
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        values.item[e] = sum_[run / (2 * kGroups)][run / 2 % kGroups * kGroup + e / 2][run % 2 * 2 + e % 2];
      }
      return values;
    }

   private:
    float sum_[kFragmentsM][kFragmentsN][4];
  };
};

}  // namespace mobicuda::kernels
