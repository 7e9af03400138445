// The tile of a product of floats by mma.sync m16n8k16 of half: every factor is the sum of two halves, and of the four
// products of halves the smallest is left out. sm_80 and newer.
// A slice's sums begin at zero and are added to the tile's in float, which rounds; the tensor cores' own additions cut
// off.
#pragma once

#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/split_gemm/operands.cuh"

namespace mobicuda::kernels::split_gemm_detail {

using products::MmaConfig;

template <MmaConfig kConfig>
struct SplitMmaTile {
  using Value = float;
  static constexpr int kBm = kConfig.bm;
  static constexpr int kBn = kConfig.bn;
  static constexpr int kBk = kConfig.bk;
  static constexpr int kSplitK = kConfig.warps_k;
  static constexpr int kThreads = 32 * kConfig.warps_m * kConfig.warps_n * kConfig.warps_k;
  static constexpr int kStages = kConfig.stages;
  static constexpr bool kResident = kConfig.resident;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr bool kAnyShape = false;
  static constexpr bool kPlainApart = false;
  static constexpr int kRowBytes = kBk * 4;
  static constexpr int kXPeriod = 2;  // of chunk_offset()
  static constexpr int kRun = 4;      // neighbouring outputs of a lane

  static constexpr int kWarpM = kBm / kConfig.warps_m;
  static constexpr int kWarpN = kBn / kConfig.warps_n;
  static constexpr int kFragmentsM = kWarpM / 16;
  static constexpr int kFragmentsN = kWarpN / 8;
  static constexpr int kTogether = 2;  // fragments of columns whose products take turns
  static constexpr int kStep = 32;     // of k, between additions in float
  static constexpr int kSteps = kBk / kStep / kSplitK;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kBk % (kStep * kSplitK) == 0 && kBn <= kWidestTile);
  static_assert(kStages >= 2);

  __device__ __forceinline__ static int chunk_offset(int row, int chunk) { return x_offset<kRowBytes>(row, chunk); }

  __device__ __forceinline__ static void fill_w(unsigned char* slice, const ProductArgs& args, int n0, int k_slice) {
    fill_weights<SplitMmaTile>(slice, args, n0, k_slice);
  }

  class Sums {
   public:
    __device__ __forceinline__ Sums() { clear(); }

    /// Reads the factors, which do not depend on the predecessor.
    __device__ __forceinline__ void begin(const ProductArgs& args, int n0) { factors_.load(args, n0); }

    __device__ __forceinline__ void clear() {
#pragma unroll
      for (auto& row : sum_) {
#pragma unroll
        for (auto& fragment : row) {
#pragma unroll
          for (float& sum : fragment) sum = 0.0F;
        }
      }
    }

    __device__ __forceinline__ void add(const unsigned char* x, const unsigned char* w) {
      const int x_row = warp_m() * kWarpM + lane() / 4;
      // Of the four 8x8 matrices of a fragment: upper parts of the first and the second 8 of k, lower parts of both.
      const unsigned char* const w_row = w + lane() / 16 * (kBn / 8 * kPartBytes) +
                                         warp_n() * (kWarpN / 8) * kPartBytes + lane() / 8 % 2 * kMatrixBytes +
                                         lane() % 8 * 16;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int first = (warp_k() * kSteps + step) * (kStep / kStepK);
        XFragment a[kFragmentsM][2];
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            a[i][half].template load<8 * kRowBytes>(
                x + chunk_offset(x_row, (first + half) * 4 + lane() % 4) + i * 16 * kRowBytes, factors_.x);
          }
        }
#pragma unroll
        for (int j = 0; j < kFragmentsN; j += kTogether) {
          std::uint32_t b[kTogether][2][4];  // b0 and b1 of the upper parts, of the lower ones
#pragma unroll
          for (int jj = 0; jj < kTogether; ++jj) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              ptx::ldmatrix_x4(b[jj][half], w_row + ((first + half) * 2 * (kBn / 8) + j + jj) * kPartBytes);
            }
          }
          float part[kFragmentsM][kTogether][4] = {};
          const auto multiply = [&](int half, bool x_lower, bool w_lower) {
#pragma unroll
            for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
              for (int jj = 0; jj < kTogether; ++jj) {
                const std::uint32_t(&words)[4] = b[jj][half];
                ptx::mma_16x8x16(part[i][jj], x_lower ? a[i][half].lo : a[i][half].hi, words[w_lower ? 2 : 0],
                                 words[w_lower ? 3 : 1]);
              }
            }
          };
          multiply(0, true, false);
          multiply(1, true, false);
          multiply(0, false, true);
          multiply(1, false, true);
          multiply(0, false, false);
          multiply(1, false, false);
#pragma unroll
          for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
            for (int jj = 0; jj < kTogether; ++jj) {
#pragma unroll
              for (int e = 0; e < 4; ++e) sum_[i][j + jj][e] += part[i][jj][e];
            }
          }
        }
      }
    }

    __device__ __forceinline__ void finish(const ProductArgs& args, int m0, int n0, const float* bias) const {
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int j = 0; j < kFragmentsN; j += 2) {
          Packet<float, kRun> residual[2] = {};
          if (args.residual != nullptr) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              residual[half] = products::load_residual<float, kRun>(args, m0 + row(i, half), n0 + column(j));
            }
          }
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            Packet<float, kRun> sums = gather(i, j, half);
            products::finish_run<float, kRun>(args, m0 + row(i, half), n0 + column(j), sums.item, bias + column(j),
                                              residual[half]);
          }
        }
      }
    }

    /// Into (kSplitK, kBm, kBn).
    __device__ __forceinline__ void store_partial(float* partial) const {
      partial += warp_k() * kBm * kBn;
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int j = 0; j < kFragmentsN; j += 2) {
#pragma unroll
          for (int half = 0; half < 2; ++half) store(partial + row(i, half) * kBn + column(j), gather(i, j, half));
        }
      }
    }

   private:
    __device__ __forceinline__ static int lane() { return ptx::as_int::lane(); }
    __device__ __forceinline__ static int warp() { return ptx::as_int::warp(); }
    __device__ __forceinline__ static int warp_m() { return warp() % kConfig.warps_m; }
    __device__ __forceinline__ static int warp_n() { return warp() / kConfig.warps_m % kConfig.warps_n; }
    __device__ __forceinline__ static int warp_k() { return warp() / (kConfig.warps_m * kConfig.warps_n); }

    // Of a run, within the block's tile.
    __device__ __forceinline__ static int row(int i, int half) {
      return warp_m() * kWarpM + i * 16 + half * 8 + lane() / 4;
    }
    __device__ __forceinline__ static int column(int j) { return warp_n() * kWarpN + j * 8 + lane() % 4 * kRun; }

    // Without the factors.
    __device__ __forceinline__ Packet<float, kRun> gather(int i, int j, int half) const {
      const auto undo = kernels::load<kRun>(factors_.undo + column(j));
      Packet<float, kRun> values;
#pragma unroll
      for (int e = 0; e < kRun; ++e) values.item[e] = sum_[i][j + e / 2][half * 2 + e % 2] * undo.item[e];
      return values;
    }

    float sum_[kFragmentsM][kFragmentsN][4];
    Factors factors_;
  };
};

}  // namespace mobicuda::kernels::split_gemm_detail
