#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/common/device_traits.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

// hidden[n, iy, ix, c] = activation_e(sum_i x[n, iy, ix, i] * w_e[c, i] + bias_e[c]), rounded to elem
// y[n, oy, ox, c] = activation_d(sum_{ky, kx} hidden[n, oy * stride + ky - pad_top, ox * stride + kx - pad_left, c]
//                                       * w_d[ky, kx, c] + bias_d[c])
// NHWC; hidden pixels outside the image count as zero. Sums in float. The first two layers of an inverted residual
// block in one launch: the hidden tensor never leaves the multiprocessor.

/// A block computes a slice of SliceN hidden channels over a band of output rows; BandsN: the image is cut into that
/// many bands. Strip7: a thread walks down up to 7 output rows, stride 1 only; the others are for few images or stride
/// 2. kernels/expand_depthwise/README.md says which to use when.
enum class ExpandDepthwiseVariant : std::uint8_t {
  Slice8Bands1,
  Slice8Bands2,
  Slice8Bands4,
  Slice16Bands1,
  Slice16Bands2,
  Slice16Bands4,
  Slice16Bands8,
  Slice16Bands16,
  Slice16Strip7Bands1,
  Slice16Strip7Bands2,
  Slice16Strip7Bands4,
  Slice16Strip7Bands8,
  Slice32Bands1,
  Slice32Bands2,
  Slice32Bands4,
  Slice32Bands8,
  Slice32Strip7Bands1,
  Slice32Strip7Bands2,
  Slice32Strip7Bands4,
};

struct ExpandDepthwiseParams {
  Elem elem = Elem::F16;  ///< of x, both packed weights, hidden and y; only F16 is supported
  int n = 0, h = 0, w = 0;
  int c_in = 0;  ///< channels of x
  int c = 0;     ///< hidden channels, which are y's
  int out_h = 0, out_w = 0;
  int kernel = 3;                 ///< rows and columns of a window, 3 or 5
  int stride = 1;                 ///< 1 or 2, in both directions
  int pad_top = 0, pad_left = 0;  ///< bottom and right padding follow from out_h and out_w
  bool expand_bias = false;
  bool depthwise_bias = false;
  Activation expand_activation{};  ///< both are clips, or both HardSwish or Silu
  Activation depthwise_activation{};
};

std::span<const ExpandDepthwiseVariant> expand_depthwise_variants();
std::string_view name(ExpandDepthwiseVariant variant);
/// What one block computes: `channels` hidden channels of ceil(out_h / bands) output rows.
struct ExpandDepthwiseTile {
  int channels;
  int bands;
};
ExpandDepthwiseTile tile(ExpandDepthwiseVariant variant);
/// Whether the variant runs these parameters on that GPU with the device code loaded there, shared memory and clusters
/// included. Host-only.
bool supports(ExpandDepthwiseVariant variant, const ExpandDepthwiseParams& params, const DeviceTraits& gpu);

/// Weights are packed as for the separate layers: packed_expand by gemm_pack(elem, c, c_in), packed_depthwise by
/// depthwise_conv_pack(elem, c, kernel, kernel). Biases (c) in float or null, as params say. Pointers 16-byte aligned;
/// y overlaps no input. Returns cudaErrorInvalidValue where !supports(). n == 0 is legal and does nothing. A variant
/// gives a image the same bits in every batch. Safe from several threads.
cudaError_t expand_depthwise(ExpandDepthwiseVariant variant, const ExpandDepthwiseParams& params, const void* x,
                             const void* packed_expand, const float* expand_bias, const void* packed_depthwise,
                             const float* depthwise_bias, void* y, const Launch& where);

/// All that a planner asks of it.
const KernelTable<ExpandDepthwiseParams, ExpandDepthwiseVariant>& kernel_of(const ExpandDepthwiseParams&);

}  // namespace mobicuda::kernels
