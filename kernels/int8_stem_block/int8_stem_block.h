#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/common/device_traits.h"
#include "kernels/common/int8_layer.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"
#include "kernels/common/quantization.h"

namespace mobicuda::kernels {

// The beginning of a quantised MobileNetV2 in one launch, each step with its own quantisation:
//   q = quantize x                     of the network's floats, 3 channels
//   s = 3x3, stride 2, of q            3 -> c_stem; pixels outside the image are q's zero point
//   d = depthwise 3x3, stride 1, of s  pixels outside the image are s's zero point
//   y = 1x1 of d                       c_stem -> c_out, NHWC, a pixel's channels rounded up to 16 bytes
// The convolutions are those of int8_conv2d, quantize is that of streaming/quantize.h.

/// The network's floats, NCHW; or q, made by quantize: pixels of four bytes, three of which are channels.
enum class Int8StemInput : std::uint8_t { NchwFloat, Words };

enum class Int8StemBlockVariant : std::uint8_t {
  // Output tile (rows x columns), most channels of s and of y; warps of a block where another variant has fewer.
  Tile4x28K32N16,
  Tile14x28K32N16,
  Tile14x28K32N16Warps8,
  Tile16x28K32N16,
  Tile4x28K64N32,
  Tile16x28K64N32,
};

struct Int8StemBlockParams {
  Int8StemInput input = Int8StemInput::NchwFloat;
  int n = 0, h = 0, w = 0;
  int c_stem = 0, c_out = 0;
  int stem_h = 0, stem_w = 0;  ///< of s; bottom and right padding follow from these and from out_h and out_w
  int out_h = 0, out_w = 0;
  int stem_pad_top = 0, stem_pad_left = 0;
  int depthwise_pad_top = 0, depthwise_pad_left = 0;
  float x_scale = 1.0F;  ///< of q
  ByteRange x{};         ///< q's, which contains its zero point; of Words that of all bytes
  ByteRange stem_result{};
  ByteRange depthwise_result{};
  ByteRange result{};
};

std::span<const Int8StemBlockVariant> int8_stem_block_variants();
std::string_view name(Int8StemBlockVariant variant);
/// Whether the variant runs these parameters on that GPU with the device code loaded there: sm_80, padding of at most
/// 2 before and behind, c_stem of at most the variant's, c_out the variant's once both are rounded up to 16. Host-only.
bool supports(Int8StemBlockVariant variant, const Int8StemBlockParams& params, const DeviceTraits& gpu);

/// stem (c_stem, 3, 3, 3), depthwise (c_stem, 1, 3, 3), project (c_out, c_stem, 1, 1).
struct Int8StemBlockLayers {
  Int8Layer stem, depthwise, project;
};

std::size_t int8_stem_block_packed_bytes(Int8StemBlockVariant variant, const Int8StemBlockParams& params);
/// All constants, and what follows from them and the quantisations of params. Host-only.
void int8_stem_block_pack(Int8StemBlockVariant variant, const Int8StemBlockParams& params,
                          const Int8StemBlockLayers& layers, void* packed);

/// Pointers 16-byte aligned (packed: 256); y overlaps nothing. The bytes of y behind the last channel are written as
/// well. Every variant gives the bits of quantize and the three convolutions. Returns cudaErrorInvalidValue where
/// !supports(). n == 0 is legal and does nothing. Safe from several threads.
cudaError_t int8_stem_block(Int8StemBlockVariant variant, const Int8StemBlockParams& params, const void* x,
                            const void* packed, void* y, const Launch& where);

/// All that a planner asks of it. Weights: packed.
const KernelTable<Int8StemBlockParams, Int8StemBlockVariant>& kernel_of(const Int8StemBlockParams&);

}  // namespace mobicuda::kernels
