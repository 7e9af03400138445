#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/common/device_traits.h"
#include "kernels/common/int8_layer.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"
#include "kernels/common/quantization.h"

namespace mobicuda::kernels {

// A MobileNetV2 block of bytes in one launch, NHWC; each convolution is that of int8_conv2d, with its own quantisation:
//   e = expand x                       1x1, c_in -> c_hidden
//   d = depthwise 3x3 e                pixels outside the image are e's zero point
//   y = project d [then a sum with x]  1x1, c_hidden -> c_out
// A pixel of x and y has its channels rounded up to 16 bytes. Variants know their channels, multiples of 8, at compile
// time; sizes are any.

enum class Int8InvertedResidualVariant : std::uint16_t {
  // Stride, output tile (rows x columns), input, hidden and output channels; warps of a block where another variant has
  // fewer, blocks of a cluster.
  S2Tile4x8K16C96N24,
  S2Tile7x8K16C96N24,
  S2Tile8x14K16C96N24,
  S2Tile8x14K16C96N24Warps12,
  S1Tile4x8K24C144N24,
  S1Tile8x16K24C144N24,
  S1Tile14x14K24C144N24,
  S1Tile14x14K24C144N24Warps4,
  S1Tile14x14K24C144N24Warps8,
  S1Tile14x14K24C144N24Warps10,
  S2Tile2x7K24C144N32,
  S2Tile2x7K24C144N32Warps15,
  S2Tile4x7K24C144N32,
  S2Tile4x14K24C144N32,
  S2Tile14x14K24C144N32,
  S1Tile4x8K32C192N32,
  S1Tile7x14K32C192N32,
  S1Tile14x14K32C192N32,
  S1Tile14x14K32C192N32Warps6,
  S1Tile14x14K32C192N32Warps16,
  S1Tile2x7K32C192N32Cluster2,
  S2Tile2x7K32C192N64,
  S2Tile4x7K32C192N64,
  S2Tile4x14K32C192N64,
  S2Tile7x14K32C192N64,
  S2Tile14x14K32C192N64,
  S2Tile2x4K32C192N64Cluster2,
  S2Tile2x7K32C192N64Cluster2,
  S1Tile14x14K64C384N64,
  S1Tile14x14K64C384N64Warps6,
  S1Tile14x14K64C384N64Warps8,
  S1Tile2x7K64C384N64Cluster2,
  S1Tile2x14K64C384N64Cluster2,
  S1Tile7x14K64C384N64Cluster2,
  S1Tile14x14K64C384N64Cluster2,
  S1Tile2x7K64C384N64Cluster4,
  S1Tile14x14K64C384N96,
  S1Tile7x7K64C384N96Cluster2,
  S1Tile7x14K64C384N96Cluster2,
  S1Tile14x14K64C384N96Cluster2,
  S1Tile2x7K64C384N96Cluster4,
  S1Tile2x14K64C384N96Cluster4,
  S1Tile7x14K96C576N96,
  S1Tile14x14K96C576N96,
  S1Tile7x7K96C576N96Cluster2,
  S1Tile7x14K96C576N96Cluster2,
  S1Tile2x14K96C576N96Cluster4,
  S1Tile2x7K96C576N96Cluster6,
  S2Tile7x7K96C576N160,
  S2Tile7x7K96C576N160Warps12,
  S2Tile4x7K96C576N160Cluster2,
  S2Tile7x7K96C576N160Cluster2,
  S2Tile2x7K96C576N160Cluster3,
  S2Tile1x7K96C576N160Cluster6,
  S1Tile7x7K160C960N160,
  S1Tile4x7K160C960N160Cluster2,
  S1Tile7x7K160C960N160Cluster2,
  S1Tile2x7K160C960N160Cluster6,
  S1Tile4x7K160C960N160Cluster6,
  S1Tile7x7K160C960N160Cluster6,
  S1Tile2x7K160C960N160Cluster8,
  S1Tile7x7K160C960N320,
  S1Tile7x7K160C960N320Warps12,
  S1Tile4x7K160C960N320Cluster2,
  S1Tile4x7K160C960N320Cluster6,
  S1Tile7x7K160C960N320Cluster6,
  S1Tile1x7K160C960N320Cluster8,
  // Stands for those that are compiled for a shape, in rules; runs nothing.
  Specialised,
  // Values from here on are specialised variants, by the order in which the process met them.
  FirstSpecialised = 0x400,
};

struct Int8InvertedResidualParams {
  int n = 0, h = 0, w = 0;
  int c_in = 0, c_hidden = 0, c_out = 0;
  int out_h = 0, out_w = 0;
  int stride = 1;
  int pad_top = 0, pad_left = 0;  ///< bottom and right padding follow from out_h and out_w
  int x_zero = 0;
  ByteRange expand_result{};
  ByteRange depthwise_result{};
  ByteRange result{};     ///< of y, or of the bytes that x is added to
  bool residual = false;  ///< y = sum(result, x)
  ByteSum sum{};
};

/// Those that are compiled into the library.
std::span<const Int8InvertedResidualVariant> int8_inverted_residual_variants();
std::string_view name(Int8InvertedResidualVariant variant);
/// Whether the variant runs these parameters on that GPU with the device code loaded there. Host-only.
bool supports(Int8InvertedResidualVariant variant, const Int8InvertedResidualParams& params, const DeviceTraits& gpu);

/// At most six that can be compiled for these parameters, the one expected to be the fastest first; none where no code
/// can be compiled for the GPU.
std::vector<Int8InvertedResidualVariant> int8_inverted_residual_specialised(const Int8InvertedResidualParams& params,
                                                                            const DeviceTraits& gpu);

/// How long a variant that supports the parameters is expected to take, beside others. Host-only.
double int8_inverted_residual_expected_cycles(Int8InvertedResidualVariant variant,
                                              const Int8InvertedResidualParams& params, const DeviceTraits& gpu);

struct Int8BlockLayers {
  Int8Layer expand, depthwise, project;
};

std::size_t int8_inverted_residual_packed_bytes(Int8InvertedResidualVariant variant,
                                                const Int8InvertedResidualParams& params);
/// All constants, in the order of the variant's configuration. Host-only.
void int8_inverted_residual_pack(Int8InvertedResidualVariant variant, const Int8InvertedResidualParams& params,
                                 const Int8BlockLayers& layers, void* packed);

/// Pointers 16-byte aligned (packed: 256); y overlaps nothing. Every variant gives the bits of the three convolutions.
/// Returns cudaErrorInvalidValue where !supports(), cudaErrorInvalidDeviceFunction where a specialised variant has no
/// code yet (KernelTable::provide). n == 0 is legal and does nothing. Safe from several threads.
cudaError_t int8_inverted_residual(Int8InvertedResidualVariant variant, const Int8InvertedResidualParams& params,
                                   const void* x, const void* packed, void* y, const Launch& where);

/// All that a planner asks of it. Weights: packed.
const KernelTable<Int8InvertedResidualParams, Int8InvertedResidualVariant>& kernel_of(
    const Int8InvertedResidualParams&);

}  // namespace mobicuda::kernels
