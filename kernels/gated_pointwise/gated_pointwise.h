#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/common/device_traits.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

// m[c] = mean over the image's pixels of x[p, c]
// s[j] = act_s(sum_c m[c] * reduce[j, c] + reduce_bias[j])
// g[c] = act_g(sum_j s[j] * expand[c, j] + expand_bias[c])
// y[p, o] = act(sum_c half(x[p, c] * g[c]) * w[o, c] + bias[o] + residual[p, o]), NHWC. x, the weights, residual and y
// are half, all else float.

/// So many blocks for each image, in a cluster: bands of its pixels. sm_90+.
enum class GatedPointwiseVariant : std::uint8_t { Bands1, Bands2, Bands4, Bands8 };

struct GatedPointwiseParams {
  Elem elem = Elem::F16;  ///< of x, the weights, residual and y; F16
  int n = 0;
  int pixels = 0;  ///< of an image
  int c = 0;       ///< a multiple of 8
  int squeezed = 0;
  int out = 0;  ///< channels of y, a multiple of 8
  bool residual = false;
  Activation squeeze_activation{};
  Activation gate_activation{};
  Activation activation{};
};

/// reduce (squeezed, c), expand (c, squeezed); bias is the projection's. Biases may be null.
struct GatedPointwiseWeights {
  const float* reduce;
  const float* reduce_bias;
  const float* expand;
  const float* expand_bias;
  const float* bias;
};

std::span<const GatedPointwiseVariant> gated_pointwise_variants();
std::string_view name(GatedPointwiseVariant variant);
/// Whether the variant runs these parameters on that GPU with the device code loaded there, shared memory and clusters
/// included. Host-only.
bool supports(GatedPointwiseVariant variant, const GatedPointwiseParams& params, const DeviceTraits& gpu);

/// Of all but the projection's weight.
std::size_t gated_pointwise_packed_bytes(GatedPointwiseVariant variant, const GatedPointwiseParams& params);
/// Host memory, host-only.
void gated_pointwise_pack(GatedPointwiseVariant variant, const GatedPointwiseParams& params,
                          const GatedPointwiseWeights& weights, void* packed);

/// Of the projection's weight, (out, c), the same for all variants, so that the variant may differ from batch to batch.
std::size_t gated_pointwise_projection_bytes(int out, int c);
/// Host memory, host-only.
void gated_pointwise_pack_projection(int out, int c, const float* weight, void* packed);

/// residual or null, as params say. Pointers 16-byte aligned; residual may be y, x does not overlap it. Returns
/// cudaErrorInvalidValue where !supports(). n == 0 is legal and does nothing. Safe from several threads.
cudaError_t gated_pointwise(GatedPointwiseVariant variant, const GatedPointwiseParams& params, const void* x,
                            const void* packed, const void* projection, const void* residual, void* y,
                            const Launch& where);

/// All that a planner asks of it.
const KernelTable<GatedPointwiseParams, GatedPointwiseVariant>& kernel_of(const GatedPointwiseParams&);

}  // namespace mobicuda::kernels
