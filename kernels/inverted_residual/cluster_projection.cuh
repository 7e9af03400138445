// Project of an inverted residual block in a cluster, and the way of its partial sums to the blocks that add them.
#pragma once

#include "kernels/inverted_residual/cluster_place.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/pin.cuh"

namespace mobicuda::kernels::inverted_cluster {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// Factors of `kHalves` halves: the upper one, and the lower one.
template <class S>
class Projection {
 public:
  /// `shared`: of the block.
  __device__ __forceinline__ Projection(const unsigned char* packed, int rank, std::uint32_t shared)
      : shared_(shared),
        filtered_(shared + S::kFilteredAt + first_k() * (kHalves * kColumns * 32) + lane() * 8),
        partial_(shared + S::kPartialAt + (rank * kConfig.groups_k + group_k()) * kFragmentBytes + lane() * 16),
        live_units_(S::kUnits % S::kBlockUnits == 0 ? S::kBlockUnits
                                                    : min(S::kBlockUnits, S::kUnits - rank * S::kBlockUnits)) {
    ptx::pin(filtered_);
    ptx::pin(partial_);
    const unsigned char* const fragments =
        packed +
        (S::kProjectOffset + (group_m() * S::kUnits + rank * S::kBlockUnits + first_k()) * (kHalves * kFragmentBytes) +
         lane() * 16);
#pragma unroll
    for (int m = 0; m < S::kWarpM; ++m) {
#pragma unroll
      for (int k = 0; k < S::kWarpK; ++k) {
        if constexpr (!S::kStaged) {
          if (!lives(m, k)) continue;
        }
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          const unsigned char* const from =
              fragments + ((m * kConfig.groups_m * S::kUnits + k) * kHalves + half) * kFragmentBytes;
          if constexpr (S::kStaged) {
            const bool present = lives(m, k);
            ptx::copy_async_cg_or_zero(staged(shared, m, k, half), present ? from : packed, present);
          } else {
            weights_[m][k][half] = ptx::load_global_nc<uint4>(from);
          }
        }
      }
    }
  }

  /// Multiplies the block's results of depthwise and hands the sums to the blocks that own them.
  __device__ __forceinline__ void run(int buffer, std::uint32_t arrived) const {
    if (!takes_part()) return;
    if constexpr (S::kStaged) ptx::copy_async_wait_all();
    std::uint32_t pixels[S::kWarpK][kHalves][2];
#pragma unroll
    for (int k = 0; k < S::kWarpK; ++k) {
      // Past the block's last unit weights are zero, or none.
      const int unit = first_k() + k < S::kBlockUnits ? k : 0;
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const uint2 words =
            ptx::load_shared<uint2>(filtered_ + buffer * S::kFilteredBytes + (unit * kHalves + half) * (kColumns * 32));
        pixels[k][half][0] = words.x;
        pixels[k][half][1] = words.y;
      }
    }
    float sums[S::kWarpM][kChains][kProducts][4] = {};
#pragma unroll
    for (int k = 0; k < S::kWarpK; ++k) {
#pragma unroll
      for (int m = 0; m < S::kWarpM; ++m) {
        const uint4 upper = weight(m, k, 0);
        if constexpr (kHalves == 1) {
          add(sums[m][k % kChains][0], upper, pixels[k][0]);
        } else {
          auto& of = sums[m][k % kChains];
          add(of[1], weight(m, k, 1), pixels[k][0]);
          add(of[2], upper, pixels[k][1]);
          add(of[0], upper, pixels[k][0]);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < S::kWarpM; ++m) {
      if (fragment(m) >= S::kFragmentsM) break;
      auto& sum = sums[m][0][0];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (kChains == 2) sum[i] += sums[m][1][0][i];
        if constexpr (kProducts == 3) {
          float lower = sums[m][0][1][i] + sums[m][0][2][i];
          if constexpr (kChains == 2) lower += sums[m][1][1][i] + sums[m][1][2][i];
          sum[i] += lower;
        }
      }
      const float4 values{sum[0], sum[1], sum[2], sum[3]};
      const std::uint32_t to =
          partial_ + buffer * S::kPartialBytes + fragment(m) / kConfig.blocks * (S::kSlots * kFragmentBytes);
      ptx::send(to, values, arrived, fragment(m) % kConfig.blocks);
    }
  }

 private:
  static constexpr auto kConfig = S::kConfig;
  static constexpr int kHalves = S::kHalves;
  // Sums that do not wait for each other: of every other k; of upper halves, and of a lower one of the weights or
  // pixels.
  static constexpr int kChains = S::kWarpM == 1 && S::kWarpK > 2 ? 2 : 1;
  static constexpr int kProducts = kHalves == 2 ? 3 : 1;
  static_assert(kHalves == 1 || S::kWarpK <= kMostSplitUnits);

  __device__ __forceinline__ static void add(float (&sum)[4], const uint4& w, const std::uint32_t (&pixels)[2]) {
    const std::uint32_t rows[4] = {w.x, w.y, w.z, w.w};
    ptx::mma_16x8x16(sum, rows, pixels[0], pixels[1]);
  }

  /// Where a lane keeps a fragment of its own.
  __device__ __forceinline__ static std::uint32_t staged(std::uint32_t shared, int m, int k, int half) {
    const int fragment = ((warp() * S::kWarpM + m) * S::kWarpK + k) * kHalves + half;
    return shared + S::kStagedAt + fragment * kFragmentBytes + lane() * 16;
  }
  __device__ __forceinline__ uint4 weight(int m, int k, int half) const {
    if constexpr (S::kStaged) {
      return ptx::load_shared<uint4>(staged(shared_, m, k, half));
    } else {
      return weights_[m][k][half];
    }
  }

  __device__ __forceinline__ static int group_m() { return warp() % kConfig.groups_m; }
  __device__ __forceinline__ static int group_k() { return warp() / kConfig.groups_m; }
  __device__ __forceinline__ static int first_k() { return group_k() * S::kWarpK; }
  __device__ __forceinline__ static int fragment(int m) { return group_m() + m * kConfig.groups_m; }
  // What is known at compile time costs no instruction, of which there are many before the first load.
  static constexpr bool kAllUnits = S::kUnits % S::kBlockUnits == 0 && kConfig.groups_k * S::kWarpK == S::kBlockUnits;
  __device__ __forceinline__ static bool takes_part() {
    return kConfig.warps == kConfig.groups_m * kConfig.groups_k || group_k() < kConfig.groups_k;
  }
  __device__ __forceinline__ bool lives(int m, int k) const {
    return takes_part() && ((m + 1) * kConfig.groups_m <= S::kFragmentsM || fragment(m) < S::kFragmentsM) &&
           (kAllUnits || first_k() + k < live_units_);
  }

  std::uint32_t shared_;
  std::uint32_t filtered_;
  std::uint32_t partial_;
  int live_units_;
  uint4 weights_[S::kStaged ? 1 : S::kWarpM][S::kWarpK][kHalves]{};
};

#endif

}  // namespace mobicuda::kernels::inverted_cluster
