#pragma once

#include "kernels/conv2d/simt/kernel.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mma.cuh"

namespace mobicuda::kernels::convolution {

using ptx::as_int::lane;
using ptx::as_int::warp;

// The sums of kernel.cuh's kernel on tensor cores, for double: mma.sync m16n8k8, which rounds as fma does. A warp
// owns (kBm / kWarpsM) x (kBn / kWarpsN) outputs; of eight neighbouring k thread t of a quad takes 2t and 2t + 1.

template <class S>
class DmmaSums;

template <int kBm_, int kBn_, int kBk_, int kWarpsM_, int kWarpsN_, int kWarpsK_, int kStages_, int kMinBlocks_>
struct Dmma {
  static constexpr int kBm = kBm_;
  static constexpr int kBn = kBn_;
  static constexpr int kBk = kBk_;
  static constexpr int kWarpsM = kWarpsM_;
  static constexpr int kWarpsN = kWarpsN_;
  static constexpr int kSplitK = kWarpsK_;
  static constexpr int kStages = kStages_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN * kWarpsK_;
  // Two rows of pixels that eight threads read are half a line of banks apart, four rows of weights that sixteen
  // threads read a quarter.
  template <class T>
  using Shape = GatheredShape<Dmma, T, 8, 2>;
  template <class T>
  using Sums = DmmaSums<Dmma>;
};

template <class S>
class DmmaSums {
 public:
  static constexpr int kRun = 2;

  __device__ __forceinline__ void add(const double* x, const double* w) {
    using Shape = typename S::template Shape<double>;
    constexpr int kSteps = S::kBk / 8 / S::kSplitK;
    const double* const x_rows = x + row(0, 0) * Shape::kXPitch;
    const double* const w_column = w + warp_n() * kWarpN + lane() / 4;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int k = (group() * kSteps + step) * 8 + lane() % 4 * 2;
      Packet<double, 2> a[2 * kFragmentsM];
      Packet<double, 2> b[kFragmentsN];
#pragma unroll
      for (int i = 0; i < 2 * kFragmentsM; ++i) a[i] = load<2>(x_rows + i * 8 * Shape::kXPitch + k);
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j) {
        b[j] = {w_column[k * Shape::kWPitch + j * 8], w_column[(k + 1) * Shape::kWPitch + j * 8]};
      }
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) {
          ptx::mma_f64_16x8x8(sums_[i][j][0], sums_[i][j][1], a[2 * i].item, a[2 * i + 1].item, b[j].item);
        }
      }
    }
  }

  template <class Visit>
  __device__ __forceinline__ void for_each_run(const Visit& visit) {
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          visit((i * kFragmentsN + j) * 2 + half, row(i, half), column(j), sums_[i][j][half]);
        }
      }
    }
  }

  __device__ __forceinline__ static int group() { return warp() / (S::kWarpsM * S::kWarpsN); }

 private:
  static constexpr int kWarpM = S::kBm / S::kWarpsM;
  static constexpr int kWarpN = S::kBn / S::kWarpsN;
  static constexpr int kFragmentsM = kWarpM / 16;
  static constexpr int kFragmentsN = kWarpN / 8;
  static_assert(kWarpM % 16 == 0 && kWarpN % 8 == 0 && S::kBk % (8 * S::kSplitK) == 0);

  __device__ __forceinline__ static int warp_n() { return warp() / S::kWarpsM % S::kWarpsN; }
  __device__ __forceinline__ static int row(int i, int half) {
    return warp() % S::kWarpsM * kWarpM + i * 16 + half * 8 + lane() / 4;
  }
  __device__ __forceinline__ static int column(int j) { return warp_n() * kWarpN + j * 8 + lane() % 4 * 2; }

  double sums_[kFragmentsM][kFragmentsN][2][2] = {};  // (.., .., half of the rows, columns)
};

}  // namespace mobicuda::kernels::convolution
