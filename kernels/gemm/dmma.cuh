// The tile of double on tensor cores: mma.sync m16n8k8 of double, which rounds as fma does. sm_90 and newer, any shape.
// A warp owns (bm / warps_m) x (bn / warps_n) outputs. Of eight neighbouring k thread t of a quad takes 2t and 2t + 1,
// 16 bytes of a row of X or W: the instruction does not care which k it is given, as long as both factors agree.
#pragma once

#include "kernels/common/product_pipeline.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mma.cuh"

namespace mobicuda::kernels::products {

using ptx::as_int::lane;
using ptx::as_int::warp;

template <MmaConfig kConfig>
struct DmmaTile {
  using Value = double;
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kBk = kConfig.bk;
  static constexpr int kSplitK = kConfig.warps_k;
  static constexpr int kStages = kConfig.stages;
  static constexpr bool kResident = kConfig.resident;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr int kThreads = 32 * kConfig.warps_m * kConfig.warps_n * kConfig.warps_k;
  static constexpr bool kAnyShape = true;
  static constexpr bool kPlainApart = false;
  static constexpr int kRowBytes = kBk * 8;
  static constexpr int kXPeriod = 2;  // of chunk_offset()
  static constexpr int kWPeriod = 2;

  static constexpr int kWarpM = kBm / kConfig.warps_m;
  static constexpr int kWarpN = kBn / kConfig.warps_n;
  static constexpr int kFragmentsM = kWarpM / 16;
  static constexpr int kFragmentsN = kWarpN / 8;
  static constexpr int kRun = 2;  // neighbouring outputs of a thread
  static constexpr int kStepsK = kBk / 8 / kSplitK;
  static_assert(kWarpM % 16 == 0 && kWarpN % 8 == 0 && kBk % (8 * kSplitK) == 0 && kRowBytes % 128 == 0);

  /// Rows are whole lines of 32 banks; of two neighbouring ones, which eight threads read at once, the second has its
  /// half lines exchanged.
  __device__ __forceinline__ static int chunk_offset(int row, int chunk) {
    return row * kRowBytes + (chunk ^ row % 2 * 4) * kChunkBytes;
  }

  __device__ __forceinline__ static int w_row(int n) { return n; }

  class Sums {
   public:
    __device__ __forceinline__ Sums() { clear(); }

    __device__ __forceinline__ void clear() {
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) {
#pragma unroll
          for (auto& half : sum_[i][j]) half[0] = half[1] = 0.0;
        }
      }
    }

    __device__ __forceinline__ void add(const unsigned char* x, const unsigned char* w) {
      const int x_row = warp_m() * kWarpM + lane() / 4;
      const int w_row = warp_n() * kWarpN + lane() / 4;
#pragma unroll
      for (int step = 0; step < kStepsK; ++step) {
        const int chunk = (warp_k() * kStepsK + step) * 4 + lane() % 4;
        const unsigned char* const x_chunk = x + chunk_offset(x_row, chunk);
        const unsigned char* const w_chunk = w + chunk_offset(w_row, chunk);
        Packet<double, 2> a[2 * kFragmentsM];
        Packet<double, 2> b[kFragmentsN];
#pragma unroll
        for (int i = 0; i < 2 * kFragmentsM; ++i) a[i] = load_pair(x_chunk + i * 8 * kRowBytes);
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) b[j] = load_pair(w_chunk + j * 8 * kRowBytes);
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
          for (int j = 0; j < kFragmentsN; ++j)
            ptx::mma_f64_16x8x8(sum_[i][j][0], sum_[i][j][1], a[2 * i].item, a[2 * i + 1].item, b[j].item);
        }
      }
    }

    __device__ __forceinline__ void finish(const ProductArgs& args, int m0, int n0, const float* bias) const {
      for_each_run([&](int i, int half, int j) {
        const int m = m0 + row(i, half);
        const int n = column(j);
        Packet<double, kRun> residual{};
        if (args.residual != nullptr) residual = load_residual<double, kRun>(args, m, n0 + n);
        double value[kRun] = {sum_[i][j][half][0], sum_[i][j][half][1]};
        finish_run<double, kRun>(args, m, n0 + n, value, bias + n, residual);
      });
    }

    /// Into (kSplitK, kBm, kBn).
    __device__ __forceinline__ void store_partial(double* partial) const {
      partial += warp_k() * kBm * kBn;
      for_each_run([&](int i, int half, int j) {
        const Packet<double, kRun> values{sum_[i][j][half][0], sum_[i][j][half][1]};
        store(partial + row(i, half) * kBn + column(j), values);
      });
    }

   private:
    __device__ __forceinline__ static int warp_m() { return warp() % kConfig.warps_m; }
    __device__ __forceinline__ static int warp_n() { return warp() / kConfig.warps_m % kConfig.warps_n; }
    __device__ __forceinline__ static int warp_k() { return warp() / (kConfig.warps_m * kConfig.warps_n); }
    // Of an output, within the block's tile.
    __device__ __forceinline__ static int row(int i, int half) {
      return warp_m() * kWarpM + i * 16 + half * 8 + lane() / 4;
    }
    __device__ __forceinline__ static int column(int j) { return warp_n() * kWarpN + j * 8 + lane() % 4 * 2; }

    __device__ __forceinline__ static Packet<double, 2> load_pair(const unsigned char* from) {
      return load<2>(reinterpret_cast<const double*>(from));
    }

    template <class Visit>
    __device__ __forceinline__ static void for_each_run(const Visit& visit) {
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int j = 0; j < kFragmentsN; ++j) visit(i, half, j);
        }
      }
    }

    double sum_[kFragmentsM][kFragmentsN][2][2];  // (.., .., half of the rows, columns)
  };
};

}  // namespace mobicuda::kernels::products
