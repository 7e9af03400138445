#pragma once

#include <span>
#include <string_view>

#include "launch.h"

namespace mobicuda::kernels {

// Y[m, n] = clip(sum_k X[m, k] * W[n, k] + bias[n] + residual[m, n])
// X, residual, Y row-major and dense. A pointwise convolution in NHWC is this with m = pictures * height * width.

/// One tile configuration; the list of all of them is gemm_variants().
enum class GemmVariant : std::uint8_t;

struct GemmParams {
  Elem elem = Elem::F32;    ///< of X, the packed W and the residual
  Elem output = Elem::F32;  ///< of Y: F32, or the same as elem
  int m = 0, n = 0, k = 0;
  bool bias = false;
  bool residual = false;
  Clip clip{};
};

std::span<const GemmVariant> gemm_variants();
std::string_view name(GemmVariant variant);
/// Whether the variant runs these parameters on a GPU of that compute capability (major * 10 + minor). Host-only.
bool supports(GemmVariant variant, const GemmParams& params, int compute_capability);

/// Packed weights depend on elem, n and k only, so that the variant may differ from batch to batch.
std::size_t gemm_packed_bytes(Elem elem, int n, int k);
/// `weight` is (n, k) row-major; `packed` has gemm_packed_bytes(). Host memory, host-only.
void gemm_pack(Elem elem, int n, int k, const float* weight, void* packed);

/// bias (n) in float or null, residual or null, as params say. Pointers 16-byte aligned (packed: 256).
/// Returns cudaErrorInvalidValue where !supports(). m == 0 is legal and does nothing.
cudaError_t gemm(GemmVariant variant, const GemmParams& params, const void* x, const void* packed, const float* bias,
                 const void* residual, void* y, const Launch& where);

}  // namespace mobicuda::kernels
