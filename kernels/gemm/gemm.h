#pragma once

#include <span>
#include <string_view>

#include "kernels/common/device_traits.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

// Y[m, n] = act(sum_k X[m, k] * W[n, k] + bias[n] + residual[m, n])
// X, residual, Y row-major; rows of X and Y may lie apart. A pointwise convolution in NHWC is this with m = images *
// height * width.

/// One tile configuration, spelt rows x columns x slice of k; K2..K16: that many groups of threads share a
/// tile's sum over k. Mma: half on tensor cores, sm_80+, k a multiple of 8. Dmma: double
/// on tensor cores, sm_90, any shape. Simt: any shape, exact float; those
/// from 64x64 and 32x32 also half; from 64x64 on also double. Gemv: few rows, k a multiple of 8 (half), 4 (float) or
/// 2 (double). MmaRows: half, sm_90+, whole rows of Y in half of up to 256 columns, a multiple of 8,
/// for k of 16 to 64 in steps of 8, without a residual. kernels/gemm/README.md says which is for which shape.
enum class GemmVariant : std::uint8_t {
  Mma128x128x64,
  Mma128x64x64,
  Mma128x96x32,
  Mma128x32x64,
  Mma256x16x32,
  Mma64x64x64,
  Mma64x32x32,
  Mma64x32x64K2,
  Mma32x32x64K2,
  Mma16x32x128K4,
  Mma16x16x256K8,
  Simt128x128x16,
  Simt128x64x16,
  Simt128x32x16,
  Simt256x16x16,
  Simt64x64x16,
  Simt32x32x32K4,
  Simt16x32x64K8,
  Simt16x16x128K16,
  Gemv,
  Mma64x32x256K4,
  Dmma128x64x16,
  Dmma64x64x16,
  Dmma64x32x16,
  Dmma32x32x32K2,
  Dmma16x32x64K4,
  Dmma16x16x128K8,
  MmaRows,
};

struct GemmParams {
  Elem elem = Elem::F32;    ///< of X, the packed W and the residual
  Elem output = Elem::F32;  ///< of Y: F32, or the same as elem
  int m = 0, n = 0, k = 0;
  bool bias = false;
  bool residual = false;
  Activation activation{};
  int x_pitch = 0;  ///< elements from a row to the next, a multiple of 16 bytes; 0: rows are dense
  int y_pitch = 0;
};

/// What a variant cuts the output into, for choosing one: a launch has ceil(m / bm) * ceil(n / bn) tiles, of which
/// as many are under way at once as the GPU holds blocks.
struct GemmTile {
  int bm, bn, bk;
  int split_k;  ///< groups of threads that share a tile's sum over k
  int threads;
};

std::span<const GemmVariant> gemm_variants();
std::string_view name(GemmVariant variant);
GemmTile gemm_tile(GemmVariant variant);
/// Whether the variant runs these parameters on that GPU with the device code loaded there, shared memory and clusters
/// included. Host-only.
bool supports(GemmVariant variant, const GemmParams& params, const DeviceTraits& gpu);

/// Packed weights depend on elem, n and k only, so that the variant may differ from batch to batch:
/// (n, k rounded up to 8) row-major in elem, zeros from k on.
std::size_t gemm_packed_bytes(Elem elem, int n, int k);
/// `weight` is (n, k) row-major; `packed` has gemm_packed_bytes(). Host memory, host-only.
void gemm_pack(Elem elem, int n, int k, const float* weight, void* packed);

/// bias (n) in float or null, residual or null, as params say. Pointers 16-byte aligned (packed: 256).
/// residual may be y; no other tensors may overlap y. The same variant gives the same bits every time.
/// Returns cudaErrorInvalidValue where !supports(). m == 0 is legal and does nothing.
cudaError_t gemm(GemmVariant variant, const GemmParams& params, const void* x, const void* packed, const float* bias,
                 const void* residual, void* y, const Launch& where);

/// All that a planner asks of it.
const KernelTable<GemmParams, GemmVariant>& kernel_of(const GemmParams&);

}  // namespace mobicuda::kernels
