#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/common/device_traits.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

// y[n, oy, ox, c] = act(bias[c] + sum_{ky, kx} x[n, oy * stride_h + ky * dilation_h - pad_top,
//                                                ox * stride_w + kx * dilation_w - pad_left, c] * w[ky, kx, c])
// NHWC; pixels outside the image count as zero. Products and sums are float's, for F64 double's.

/// Direct runs everything. The strips run 3x3 or 5x5 (Window5) windows of dilation 1 with stride 1 or 2; StripRxQ is
/// the output a thread computes (rows x columns), the suffix the bytes of channels in one access; B4 is half's only.
/// Tiles and rings are half's as well, of 8, 16, ... channels; a warp computes RxQ, W4: of a block of 2 x 2 warps.
/// kernels/depthwise_conv/README.md says which to use when.
enum class DepthwiseConvVariant : std::uint8_t {
  Direct,
  Strip1x1B8,
  Strip1x1B16,
  Strip2x2B8,
  Strip2x2B16,
  Strip4x2B16,
  Strip4x4B8,
  Strip7x1B16,
  Strip7x2B8,
  Strip7x2B16,
  Window5Strip1x1B8,
  Window5Strip2x2B8,
  Window5Strip2x2B16,
  Window5Strip4x2B8,
  Window5Strip4x2B16,
  Window5Strip4x4B8,
  Window5Strip7x2B8,
  Window5Strip7x4B8,
  Window5Strip4x2B4,
  Window5Strip4x4B4,
  Window5Strip7x2B4,
  Window5Strip7x4B4,
  Window5Tile7x7,
  Window5Tile7x7W4,
  Window5Tile4x7,
  Window5Ring14x7,
};

struct DepthwiseConvParams {
  Elem elem = Elem::F32;  ///< of x, the packed w and y
  int n = 0, h = 0, w = 0, c = 0;
  int out_h = 0, out_w = 0;
  int kernel_h = 3, kernel_w = 3;
  int stride_h = 1, stride_w = 1;
  int dilation_h = 1, dilation_w = 1;
  int pad_top = 0, pad_left = 0;  ///< bottom and right padding follow from out_h and out_w
  bool bias = false;
  Activation activation{};
};

std::span<const DepthwiseConvVariant> depthwise_conv_variants();
std::string_view name(DepthwiseConvVariant variant);
/// Whether the variant runs these parameters on that GPU with the device code loaded there, shared memory and clusters
/// included. Host-only.
bool supports(DepthwiseConvVariant variant, const DepthwiseConvParams& params, const DeviceTraits& gpu);

/// What one thread computes: rows x columns outputs of `channels` channels.
struct DepthwiseConvTile {
  int rows = 1;
  int columns = 1;
  int channels = 1;
};
DepthwiseConvTile tile(DepthwiseConvVariant variant, Elem elem);

std::size_t depthwise_conv_packed_bytes(Elem elem, int c, int kernel_h, int kernel_w);
/// `weight` is (c, 1, kernel_h, kernel_w); packed is (kernel_h, kernel_w, c). Host-only.
void depthwise_conv_pack(Elem elem, int c, int kernel_h, int kernel_w, const float* weight, void* packed);

/// bias (c) in float or null, as params say. Pointers 16-byte aligned; y overlaps no input. Returns
/// cudaErrorInvalidValue where !supports(). n == 0 is legal and does nothing. Safe from several threads.
cudaError_t depthwise_conv(DepthwiseConvVariant variant, const DepthwiseConvParams& params, const void* x,
                           const void* packed, const float* bias, void* y, const Launch& where);

/// All that a planner asks of it.
const KernelTable<DepthwiseConvParams, DepthwiseConvVariant>& kernel_of(const DepthwiseConvParams&);

}  // namespace mobicuda::kernels
