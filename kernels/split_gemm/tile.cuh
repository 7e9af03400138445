// The tile of a product of floats by mma.sync m16n8k16 of half: every factor is the sum of two halves, and of the four
// products of halves the smallest is left out. sm_80 and newer.
// A lane has four neighbouring k of a row where the instruction has two times two: X and W agree in the order of k, so
// that a lane reads 16 bytes of either at once. A slice's sums begin at zero and are added to the tile's in float,
// which rounds; the tensor cores' own additions cut off.
#pragma once

#include "kernels/gemm/pipeline.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mma.cuh"

namespace mobicuda::kernels::split_gemm_detail {

using gemm_detail::GemmArgs;
using gemm_detail::MmaConfig;

/// Floats behind the packed words of W: the factor of X, three that are not used, and what undoes both factors for each
/// column, filled up to whole tiles.
inline constexpr int kScalesAt = 4;
inline constexpr int kWidestTile = 128;

/// Pairs of halves of two values: hi + lo is within 2^-22 of the value.
struct Halves {
  std::uint32_t hi, lo;
};

__device__ __forceinline__ std::uint32_t as_word(__half2 pair) {
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

__device__ __forceinline__ Halves split(float a, float b) {
  const __half2 hi = __floats2half2_rn(a, b);
  const float2 rounded = __half22float2(hi);
  return {as_word(hi), as_word(__floats2half2_rn(a - rounded.x, b - rounded.y))};
}

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
  static constexpr int kXPeriod = 2;   // of chunk_offset()
  static constexpr int kWPeriod = 16;  // of w_row()
  static constexpr int kRun = 4;       // neighbouring outputs of a lane

  static constexpr int kWarpM = kBm / kConfig.warps_m;
  static constexpr int kWarpN = kBn / kConfig.warps_n;
  static constexpr int kFragmentsM = kWarpM / 16;
  static constexpr int kFragmentsN = kWarpN / 8;
  static constexpr int kStep = 32;  // of k, between additions in float
  static constexpr int kSteps = kBk / kStep / kSplitK;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kBk % (kStep * kSplitK) == 0 && kBn <= kWidestTile);
  static_assert(kStages >= 2);

  /// Two neighbouring rows' halves of 128 bytes change places, as eight lanes read four chunks of either at once.
  __device__ __forceinline__ static int chunk_offset(int row, int chunk) {
    return row * kRowBytes + (chunk ^ (row % 2 * 4)) * kChunkBytes;
  }

  /// Column n = (span of 16, t, fragment, e) of the strip lies in row (span, fragment, t, e) of its slice: lane t of a
  /// quad receives columns 2t + e of both fragments, hence four neighbours of n.
  __device__ __forceinline__ static int w_row(int n) {
    const int in_span = n % kWPeriod;
    return n - in_span + in_span / 2 % 2 * 8 + in_span / kRun * 2 + in_span % 2;
  }

  class Sums {
   public:
    __device__ __forceinline__ Sums() { clear(); }

    /// Reads the factors, which do not depend on the predecessor.
    __device__ __forceinline__ void begin(const GemmArgs& args, int n0) {
      const float* factors = static_cast<const float*>(args.w) +
                             static_cast<std::size_t>(args.n) * static_cast<std::size_t>(args.k_packed);
      x_scale_ = *factors;
      scales_ = factors + kScalesAt + n0;
    }

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
      const int w_row = warp_n() * kWarpN + lane() / 4;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int chunk = (warp_k() * kSteps + step) * (kStep / 4) + lane() % 4;
        XFragment a[kFragmentsM][2];
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            a[i][half].load(x + chunk_offset(x_row, chunk + half * 4) + i * 16 * kRowBytes, x_scale_);
          }
        }
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) {
          Packet<std::uint32_t, 4> b[2];  // hi of four k, lo of four k
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            b[half] = load_words(w + chunk_offset(w_row, chunk + half * 4) + j * 8 * kRowBytes);
          }
#pragma unroll
          for (int i = 0; i < kFragmentsM; ++i) {
            float part[4] = {};
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              ptx::mma_16x8x16(part, a[i][half].lo, b[half].item[0], b[half].item[1]);
              ptx::mma_16x8x16(part, a[i][half].hi, b[half].item[2], b[half].item[3]);
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              ptx::mma_16x8x16(part, a[i][half].hi, b[half].item[0], b[half].item[1]);
            }
#pragma unroll
            for (int e = 0; e < 4; ++e) sum_[i][j][e] += part[e];
          }
        }
      }
    }

    __device__ __forceinline__ void finish(const GemmArgs& args, int m0, int n0, const float* bias) const {
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int j = 0; j < kFragmentsN; j += 2) {
          Packet<float, kRun> residual[2] = {};
          if (args.residual != nullptr) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              residual[half] = gemm_detail::load_residual<float, kRun>(args, m0 + row(i, half), n0 + column(j));
            }
          }
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            Packet<float, kRun> sums = gather(i, j, half);
            gemm_detail::finish_run<float, kRun>(args, m0 + row(i, half), n0 + column(j), sums.item, bias + column(j),
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
    // 16 rows and k of X.
    struct XFragment {
      std::uint32_t hi[4], lo[4];

      __device__ __forceinline__ void load(const unsigned char* from, float scale) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // of the rows
          const auto x = kernels::load<4>(reinterpret_cast<const float*>(from + half * 8 * kRowBytes));
#pragma unroll
          for (int pair = 0; pair < 2; ++pair) {
            const Halves halves = split(x.item[2 * pair] * scale, x.item[2 * pair + 1] * scale);
            hi[pair * 2 + half] = halves.hi;
            lo[pair * 2 + half] = halves.lo;
          }
        }
      }
    };

    __device__ __forceinline__ static Packet<std::uint32_t, 4> load_words(const unsigned char* from) {
      return kernels::load<4>(reinterpret_cast<const std::uint32_t*>(from));
    }

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
      const auto scales = kernels::load<kRun>(scales_ + column(j));
      Packet<float, kRun> values;
#pragma unroll
      for (int e = 0; e < kRun; ++e) values.item[e] = sum_[i][j + e / 2][half * 2 + e % 2] * scales.item[e];
      return values;
    }

    float sum_[kFragmentsM][kFragmentsN][4];
    float x_scale_;
    const float* scales_;
  };
};

}  // namespace mobicuda::kernels::split_gemm_detail
