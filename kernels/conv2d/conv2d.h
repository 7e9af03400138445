#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/common/device_traits.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

// General convolution, any kernel, stride, dilation, padding and group count, with a maximum over 2x2 behind it or not;
// y is NHWC. y = act(conv(x, w) + bias + residual), or act(conv(x, w) + conv(x2, w2) + bias) of two pointwise
// convolutions in one sum; pixels outside the image count as zero. Products and sums are
// float's, for F64 double's; an input in float or in bytes is not rounded to elem, but by the First variants.

/// Direct runs everything but bytes; Direct4x4 (4 pixels x 4 channels a thread) where a group has a multiple of 4
/// outputs. Stem3x3 is for a network's first layer: 3x3, stride 1 or 2, dilation 1, one group, c_in <= 4, c_out a
/// multiple of 8 up to 64, no residual, not F64; 2x4 and 8x8 are the pixels x channels of a thread.
/// kernels/conv2d/README.md says which to use. Simt, spelt pixels x channels x slice of k, is a matrix product of
/// gathered pixels, groups of a multiple of 4 outputs; K4, K8: that many groups of threads share a tile's sum. 128x128
/// is for float only, 128x64 not for half; Dmma for double. Mma and Wgmma are matrix products for half on tensor cores,
/// groups of a multiple of 8 inputs (and of outputs, where there are several); C4: of another multiple of 4 inputs;
/// S2..S8: that many blocks share a tile's sum; Tile: residual and y by tensor copies, c_out a multiple of 8;
/// Persistent: y leaves while its block begins another tile, no residual; Pair: so, by two blocks for the same pixels;
/// Pooled: max_pool, and only that; Window, Patch: reads x once for all taps. A second convolution is taken by Mma but
/// C4, and by Wgmma but Pooled, Window and Patch. Grouped: half, groups of 4 to 32
/// channels; Tma: by tensor copies, sm_90 and newer. First: half, a network's first layer, by so many channels.
/// Stem3x3Split: half, a first layer of three channels in float, stride 2, to 16 or 32, on tensor cores without
/// rounding the input to half.
enum class Conv2dVariant : std::uint8_t {
  Direct,
  Direct4x4,
  Stem3x3P2C4,
  Stem3x3P8C8,
  Simt128x128x16,
  Simt128x64x16,
  Simt64x64x16,
  Simt32x32x32K4,
  Simt16x32x64K8,
  Dmma128x64x16,
  Dmma64x64x16,
  Dmma32x32x32K2,
  Dmma16x32x64K4,
  Mma128x128x64,
  Mma128x64x64,
  Mma128x32x64,
  Mma64x64x64,
  Mma64x64x64S2,
  Mma64x64x64S4,
  Mma64x64x64S8,
  Mma64x32x64,
  Mma64x32x64S2,
  Mma64x32x64S4,
  Mma32x32x64,
  Mma32x32x64S4,
  Mma64x64x64C4,
  Mma64x32x64C4,
  Mma32x32x64C4,
  Wgmma128x64x64,
  Wgmma128x128x64,
  Wgmma256x64x64,
  Wgmma256x128x64,
  Wgmma128x256x64,
  Wgmma64x64x64Tile,
  Wgmma128x64x64Tile,
  Wgmma128x128x64Tile,
  Wgmma192x128x64Tile,
  Wgmma256x128x64Tile,
  Wgmma64x64x64S2,
  Wgmma128x64x64S2,
  Wgmma128x128x64S4,
  Wgmma128x128x64Persistent,
  Wgmma256x64x64Persistent,
  Wgmma192x128x64Persistent,
  Wgmma256x128x64Persistent,
  Wgmma128x256x64Persistent,
  Wgmma256x128x64PersistentPair,
  Wgmma256x64x64Pooled,
  Wgmma256x128x64Pooled,
  Wgmma64x64x64Window,
  Wgmma64x64x64WindowS2,
  Wgmma64x64x64WindowS4,
  Wgmma64x64x64WindowS8,
  Wgmma128x64x64Window,
  Wgmma128x128x64Window,
  Wgmma256x64x64Window,
  Wgmma128x128x64WindowS2,
  Wgmma224x64x64Patch8,
  Wgmma224x64x64Patch16,
  Wgmma224x64x64Patch8Pooled,
  Wgmma224x64x64Patch16Pooled,
  Grouped3x3,
  Grouped3x3Tma,
  First32,
  First64,
  First96,
  Stem3x3Split,
};

/// What a matrix product cuts the output into; zeros for other variants.
struct Conv2dTile {
  int bm, bn, bk;           ///< pixels, channels, slice of the sum
  int split_k;              ///< blocks that share a tile's sum
  bool whole_taps = false;  ///< a slice is of one tap
  int pair = 1;             ///< blocks with tiles of the same pixels, which they copy once
  bool window = false;      ///< its pixels' window is read once for all taps; padding counts as pixels
  /// Its pixels lie in a patch, whose input is read once for all taps; 0: they lie in a line.
  int patch_rows = 0, patch_columns = 0;
};

/// How much a launch of a matrix product has to do, for choosing one.
struct Conv2dWork {
  std::int64_t blocks;
  std::int64_t slices;  ///< of a block
  double pixels;        ///< that a block reads for a slice
};

struct Conv2dParams {
  Elem elem = Elem::F32;  ///< of the packed w, the residual and y
  /// Layout and type of x: NHWC in elem, or the network's own input, NCHW or NHWC in float, or NHWC in bytes, of which
  /// x * scale + shift in float is taken, before padding.
  enum class Input : std::uint8_t { NhwcElem, NchwFloat, NhwcFloat, NhwcUint8 } input = Input::NhwcElem;
  int n = 0, h = 0, w = 0, c_in = 0, c_out = 0;
  int out_h = 0, out_w = 0;
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int dilation_h = 1, dilation_w = 1;
  int pad_top = 0, pad_left = 0;  ///< bottom and right padding follow from out_h and out_w
  int groups = 1;
  bool bias = false;
  bool residual = false;
  int y_pitch = 0;  ///< elements from a pixel of y to the next, 0: c_out; only tensor cores on half take another
  /// y has the largest of each 2x2 outputs instead, (n, out_h / 2, out_w / 2, c_out); the last row or column of an odd
  /// number is left out. NaN is the largest. Stride 1, no residual.
  bool max_pool = false;
  /// A second pointwise convolution in the same sum: of x2 (n, h, w, c_in) in half, of whose pixels it takes one in
  /// stride_h x stride_w; c_in 0: none. The first one is pointwise too, stride 1, without residual or max_pool.
  struct Second {
    int c_in = 0, h = 0, w = 0;
    int stride_h = 1, stride_w = 1;
  } second{};
  Activation activation{};
  float scale[4] = {1.0F, 1.0F, 1.0F, 1.0F};  ///< of the channels of NhwcUint8
  float shift[4] = {0.0F, 0.0F, 0.0F, 0.0F};
};

/// Of parameters that have a second convolution: that one by itself, without bias and activation.
Conv2dParams second_alone(const Conv2dParams& params);

std::span<const Conv2dVariant> conv2d_variants();
std::string_view name(Conv2dVariant variant);
Conv2dTile conv2d_tile(Conv2dVariant variant);
/// Whether it multiplies halves on tensor cores.
bool on_tensor_cores(Conv2dVariant variant);
/// Of a matrix product that supports the parameters.
Conv2dWork conv2d_work(Conv2dVariant variant, const Conv2dParams& params);
/// Whether the variant runs these parameters on that GPU with the device code loaded there, shared memory and clusters
/// included. Host-only.
bool supports(Conv2dVariant variant, const Conv2dParams& params, const DeviceTraits& gpu);

/// Depends on elem, c_in / groups, c_out, the kernel's size and second.c_in only.
std::size_t conv2d_packed_bytes(const Conv2dParams& params);
/// `weight` is (c_out, c_in / groups, kernel_h, kernel_w); packed is (kernel_h, kernel_w, c_in / groups, c_out rounded
/// up to 8 with zeros), the same for all variants. Behind it are the second convolution's, which this leaves alone:
/// packed as those of second_alone(). Host-only.
void conv2d_pack(const Conv2dParams& params, const float* weight, void* packed);

/// bias (c_out) in float or null, residual (like y) or null, as params say; of parameters that have a second
/// convolution x2 stands in the residual's place. Pointers 16-byte aligned, x in float at
/// least 4, in bytes at least 1; y overlaps no input but may be the residual, unless y_pitch spreads its pixels.
/// Returns cudaErrorInvalidValue where !supports() and where what params announce is null, whatever n; else n == 0 is
/// legal and does nothing. Safe from several threads.
cudaError_t conv2d(Conv2dVariant variant, const Conv2dParams& params, const void* x, const void* packed,
                   const float* bias, const void* residual, void* y, const Launch& where);

/// All that a planner asks of it.
const KernelTable<Conv2dParams, Conv2dVariant>& kernel_of(const Conv2dParams&);

}  // namespace mobicuda::kernels
