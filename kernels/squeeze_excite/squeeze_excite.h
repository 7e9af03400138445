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
// y[p, c] = x[p, c] * g[c], NHWC. All in float but x, y and the weights.

/// So many blocks for each image, in a cluster: slices of its channels or bands of its pixels. sm_90+.
enum class SqueezeExciteVariant : std::uint8_t { Slices1, Slices2, Slices4, Slices8, Bands2, Bands4, Bands8 };

struct SqueezeExciteParams {
  Elem elem = Elem::F32;  ///< of x, the weights and y; not F64
  int n = 0;
  int pixels = 0;  ///< of an image
  int c = 0;       ///< a multiple of 8
  int squeezed = 0;
  Activation squeeze_activation{};
  Activation gate_activation{};
};

/// reduce (squeezed, c), expand (c, squeezed); biases may be null.
struct SqueezeExciteWeights {
  const float* reduce;
  const float* reduce_bias;
  const float* expand;
  const float* expand_bias;
};

std::span<const SqueezeExciteVariant> squeeze_excite_variants();
std::string_view name(SqueezeExciteVariant variant);
/// Whether the variant runs these parameters on that GPU with the device code loaded there, shared memory and clusters
/// included. Host-only.
bool supports(SqueezeExciteVariant variant, const SqueezeExciteParams& params, const DeviceTraits& gpu);

/// Bytes of x up to which a rank is a small block, of which an SM holds several.
std::int64_t squeeze_excite_small_bytes();

std::size_t squeeze_excite_packed_bytes(SqueezeExciteVariant variant, const SqueezeExciteParams& params);
/// Host memory, host-only.
void squeeze_excite_pack(SqueezeExciteVariant variant, const SqueezeExciteParams& params,
                         const SqueezeExciteWeights& weights, void* packed);

/// Pointers 16-byte aligned; y does not overlap x. Returns cudaErrorInvalidValue where !supports(). n == 0 is legal
/// and does nothing. Safe from several threads.
cudaError_t squeeze_excite(SqueezeExciteVariant variant, const SqueezeExciteParams& params, const void* x,
                           const void* packed, void* y, const Launch& where);

/// All that a planner asks of it.
const KernelTable<SqueezeExciteParams, SqueezeExciteVariant>& kernel_of(const SqueezeExciteParams&);

}  // namespace mobicuda::kernels
