#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/common/device_traits.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

// Y[m, n] = act(sum_k X[m, k] * W[n, k] + bias[n] + residual[m, n]), all floats, row-major; rows of X and Y may lie
// apart. Each factor is the sum of two halves, 22 bits, and a product three of halves on tensor cores
// (docs/numerics.md, "Split products"). The method is Ootomo's and Yokota's (arXiv 2203.03341) but for the scaling.

/// One tile configuration, spelt rows x columns x slice of k; K2..K8: that many groups of warps share a tile's sum over
/// k. Tile: mma.sync, sm_80+. Wgmma: sm_90a.
enum class SplitGemmVariant : std::uint8_t {
  Tile128x96x32,
  Tile128x64x32,
  Tile128x32x32,
  Tile64x64x32,
  Tile64x32x32,
  Tile32x32x64K2,
  Tile32x32x128K4,
  Tile16x32x256K8,
  Wgmma192x96x64,
  Wgmma128x160x64,
  Wgmma128x96x64,
  Wgmma128x64x32,
  Wgmma128x32x32,
  Wgmma64x64x64,
  Wgmma64x32x64,
  Wgmma64x96x64K2,
  Wgmma64x64x64K3,
  Wgmma64x32x64K4,
  Wgmma64x32x64K2,
};

struct SplitGemmParams {
  int m = 0, n = 0, k = 0;  ///< k a multiple of 4
  bool in_range = false;    ///< |x| is at most kLargestSplit, whatever the input; nothing runs where it may not be
  bool bias = false;
  bool residual = false;
  Activation activation{};
  int x_pitch = 0;  ///< elements from a row to the next, a multiple of 4; 0: rows are dense
  int y_pitch = 0;
};

/// What a half holds.
inline constexpr float kLargestSplit = 65504.0F;

std::span<const SplitGemmVariant> split_gemm_variants();
std::string_view name(SplitGemmVariant variant);
/// Whether the variant runs these parameters on that GPU with the device code loaded there. Host-only.
bool supports(SplitGemmVariant variant, const SplitGemmParams& params, const DeviceTraits& gpu);

/// The same for all variants.
std::size_t split_gemm_packed_bytes(int n, int k);
/// `weight` is (n, k) row-major; no |x| is above `x_bound`, which is at most kLargestSplit. Host memory, host-only.
void split_gemm_pack(int n, int k, float x_bound, const float* weight, void* packed);

/// bias (n) or null, residual or null, as params say. Pointers 16-byte aligned (packed: 256). residual may be y; no
/// other tensors may overlap y. The same variant gives the same bits every time. Returns cudaErrorInvalidValue where
/// !supports(). m == 0 is legal and does nothing. Safe from several threads.
cudaError_t split_gemm(SplitGemmVariant variant, const SplitGemmParams& params, const float* x, const void* packed,
                       const float* bias, const float* residual, float* y, const Launch& where);

/// All that a planner asks of it.
const KernelTable<SplitGemmParams, SplitGemmVariant>& kernel_of(const SplitGemmParams&);

}  // namespace mobicuda::kernels
