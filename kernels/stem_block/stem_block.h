#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/common/device_traits.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

// The beginning of MobileNetV2 in one launch: a network's first convolution and the block without expansion after it.
//   s = clip(3x3, stride 2, of the input + bias) 3 -> c_stem
//   d = clip(depthwise 3x3 of s + bias)
//   y = clip(1x1 of d + bias)                    c_stem -> c_out, NHWC
// Pixels outside an image count as zero. In half the input, s, d and y are rounded to half and sums are float's; in
// exact float all is float; products and sums are FFMA, or of s double's.

/// The network's own input: NCHW in float, or NHWC in bytes, of which x * scale + shift in float is taken, for each
/// channel, before padding.
enum class StemInput : std::uint8_t { NchwFloat, NhwcUint8 };

/// RowsN: a warp computes N rows of the output, of 14 columns up to Rows2; else N at most, of 28 columns, and all warps
/// of an image about as many. Few rows are for few images. The same bits for all. These are in half.
/// SimtRxC and DmmaRxC: in exact float, a block of threads computes R rows and C columns of the output; Dmma sums s in
/// double on tensor cores.
/// kernels/stem_block/README.md says which to use.
enum class StemBlockVariant : std::uint8_t {
  Rows1,
  Rows2,
  Rows4,
  Rows7,
  Rows14,
  Rows28,
  Rows56,
  Simt7x14,
  Simt14x14,
  Dmma7x14,
  Dmma14x14
};

struct StemBlockParams {
  Elem elem = Elem::F16;  ///< of the weights' products and of y: F16 or F32
  StemInput input = StemInput::NchwFloat;
  int n = 0, h = 0, w = 0;
  int c_stem = 0, c_out = 0;
  int stem_h = 0, stem_w = 0;  ///< of s; bottom and right padding follow from these and from out_h and out_w
  int out_h = 0, out_w = 0;
  int stem_pad_top = 0, stem_pad_left = 0;
  int depthwise_pad_top = 0, depthwise_pad_left = 0;
  Clip stem_clip{};
  Clip depthwise_clip{};
  Clip project_clip{};
  float scale[3] = {1.0F, 1.0F, 1.0F};  ///< of NhwcUint8
  float shift[3] = {0.0F, 0.0F, 0.0F};
};

std::span<const StemBlockVariant> stem_block_variants();
std::string_view name(StemBlockVariant variant);
/// Output rows of a warp, at most; of a block of threads, in exact float.
int stem_block_rows(StemBlockVariant variant);
/// Rows of each warp where an image is cut into as few as possible of at most `most` rows.
constexpr int stem_block_even_rows(int out_h, int most) { return ceil_div(out_h, ceil_div(out_h, most)); }
/// Whether the variant runs these parameters on that GPU with the device code loaded there: padding of at most 2 on
/// each side; in half sm_80, c_stem of at most 48, c_out of at most 24 and a multiple of 4; in exact float sm_90, c_out
/// of 8, 16 or 24 and c_stem of at most twice as many. Host-only.
bool supports(StemBlockVariant variant, const StemBlockParams& params, const DeviceTraits& gpu);

/// Float weights and biases on the host; null biases are zeros.
struct StemBlockWeights {
  const float* stem = nullptr;  ///< (c_stem, 3, 3, 3)
  const float* stem_bias = nullptr;
  const float* depthwise = nullptr;  ///< (c_stem, 1, 3, 3)
  const float* depthwise_bias = nullptr;
  const float* project = nullptr;  ///< (c_out, c_stem)
  const float* project_bias = nullptr;
};

/// Packed weights, biases among them, are the same for all variants of an element. The variant supports the parameters.
std::size_t stem_block_packed_bytes(StemBlockVariant variant, const StemBlockParams& params);
/// `packed` has stem_block_packed_bytes(). Host memory, host-only.
void stem_block_pack(StemBlockVariant variant, const StemBlockParams& params, const StemBlockWeights& weights,
                     void* packed);

/// Pointers 16-byte aligned, x to its element; y overlaps no input. Bytes are read by the aligned word of 4 that holds
/// them: the rest of the first and the last one must be readable, but may be anything. The same bits every time, and
/// for an image in any batch. Returns cudaErrorInvalidValue where !supports(). n == 0 is legal and does nothing. Safe
/// from several threads.
cudaError_t stem_block(StemBlockVariant variant, const StemBlockParams& params, const void* x, const void* packed,
                       void* y, const Launch& where);

/// All that a planner asks of it.
const KernelTable<StemBlockParams, StemBlockVariant>& kernel_of(const StemBlockParams&);

}  // namespace mobicuda::kernels
