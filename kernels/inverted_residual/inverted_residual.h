#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/common/device_traits.h"
#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

// A MobileNetV2 block in one launch, NHWC, half or float:
//   e = activation(expand x + bias)        1x1, c_in -> c_hidden; without `expand`: e = x
//   d = activation(depthwise 3x3 e + bias) pixels of e outside the image count as zero
//   y = clip(project d + bias [+ x])       1x1, c_hidden -> c_out
// Both activations are clips, or both HardSwish, which kernels compiled for it run, in half.
// e and d are rounded to the element type, as they are between three kernels. Sums are float's, unless the tile says
// half_sums. The factors of split products are sums of two halves (docs/numerics.md, "Split products").

/// Families, each for a range of shapes and batches and with a packing of its own; the README.md in its folder says
/// more.
enum class InvertedResidualVariant : std::uint16_t {
  // inverted_residual_tile: stride, output tile (rows x columns), hidden channels at once, most output channels;
  // Plain: without expand.
  PlainTile14x14C32N16,
  PlainTile7x14C32N16,
  PlainTile8x14C32N16,
  S1Tile14x14C48N32,
  S1Tile14x14C64N32,
  S1Tile14x14C64N64,
  S1Tile14x14C64N96,
  S1Tile7x7C64N64,
  S1Tile4x7C144N32,
  S1Tile2x4C192N32,
  S1Tile2x2C192N64,
  S2Tile7x14C48N32,
  S2Tile7x7C48N64,
  S2Tile4x7C96N32,
  S2Tile2x4C144N32,
  S2Tile2x2C192N64,
  // inverted_residual_small: stride, output tile, hidden channels, output channels; Warp: a slice for each.
  SmallS2Tile4x8C96N24,
  SmallS2Tile4x8C96N24Slice48,
  SmallS2Tile8x8C96N24,
  SmallS1Tile4x8C144N24,
  SmallS1Tile4x8C144N24Warp,
  SmallS1Tile8x8C144N24,
  SmallS2Tile2x4C144N32,
  SmallS2Tile4x4C144N32,
  SmallS2Tile4x8C144N32,
  SmallS1Tile2x4C192N32,
  SmallS1Tile4x4C192N32,
  SmallS1Tile4x8C192N32,
  SmallS2Tile2x2C192N64,
  SmallS2Tile2x4C192N64,
  SmallS2Tile4x4C192N64,
  // inverted_residual_cluster: blocks of a cluster, input channels, output channels.
  Cluster4K64N64,
  Cluster4K64N96,
  Cluster2K64N96,
  Cluster6K96N96,
  Cluster4K96N160,
  Cluster6K96N160,
  Cluster6K160N160,
  Cluster8K160N320,
  // inverted_residual_strip: stride, output rows of a warp, hidden channels, output channels; Plain: without expand.
  StripPlainRows2C16N16,
  StripPlainRows7C16N16,
  StripS2Rows2C64N24,
  StripS2Rows2C96N24,
  StripS2Rows2C96N24Warps8,
  StripS1Rows2C72N24,
  StripS1Rows2C144N24,
  StripS1Rows3C144N24,
  StripS1Rows4C144N24,
  StripS2Rows2C144N32,
  StripS1Rows2C192N32,
  StripS2Rows1C192N64,
  // inverted_residual_image: blocks of a cluster, input channels, output channels.
  Image1K64N64,
  Image2K64N64,
  Image4K64N64,
  Image8K64N64,
  Image1K64N96,
  Image2K64N96,
  Image4K64N96,
  Image8K64N96,
  Image1K96N96,
  Image2K96N96,
  Image4K96N96,
  Image1K96N160,
  Image2K96N160,
  // The same, with tiles of 6 rows instead of 8, or two warps instead of four.
  Image4Rows6K64N64,
  Image4Rows6K64N96,
  Image4Rows6K96N96,
  Image2Warps2K96N160,
  // The same, of 28x28 and 56x56 images, of which a block has 16 rows, or 8.
  Image2Side28Rows8K32N32,
  Image2Side28K32N32,
  Image1Side56K24N24,
  Image1Side28K32N32,
  Image1Side28K32N64,
  // inverted_residual_image7: images of a block, whether two warpgroups share one, blocks of a cluster, parts of the
  // output channels, output channels.
  Image7P1Cluster8N160,
  Image7P1Cluster6N160,
  Image7P1Cluster4N160,
  Image7P1HalvesCluster3N160,
  Image7P1HalvesCluster2N160,
  Image7P2Cluster2N160,
  Image7P2Cluster1N160,
  Image7P1Cluster8N320,
  Image7P1Cluster5N320,
  Image7P1Cluster4N320,
  Image7P1Cluster3N320,
  Image7P1Cluster2N320,
  Image7P1Cluster1N320,
  Image7P2Cluster1N320,
  Image7P1Cluster6Cut2N320,
  Image7P1HalvesCluster2Cut2N320,
  // inverted_residual_simt, float: stride, output tile, hidden channels at once, output channels; K: input channels.
  SimtPlainTile14x14C32N16,
  SimtPlainTile7x14C32N16,
  SimtS1Tile14x14C16N24,
  SimtS1Tile14x14C48N24,
  SimtS1Tile7x7C48N24,
  SimtS1Tile4x7C144N24,
  SimtS1Tile14x14C16N32,
  SimtS1Tile7x7C48N32,
  SimtS1Tile7x7C96N32,
  SimtS1Tile2x4C192N32,
  SimtS1Tile14x14C16N64,
  SimtS1Tile14x14C16K64N96,
  SimtS1Tile14x14C16N96,
  SimtS2Tile7x8C16N24,
  SimtS2Tile4x7C96N24,
  SimtS2Tile7x7C16N32,
  SimtS2Tile7x7C48N32,
  SimtS2Tile2x4C144N32,
  SimtS2Tile7x7C16N64,
  SimtS2Tile7x7C48N64,
  SimtS2Tile2x7C96N64,
  SimtS2Tile2x2C192N64,
  // inverted_residual_simt_cluster, float: blocks of a cluster, input channels, output channels.
  SimtCluster8K64N64,
  SimtCluster8K64N96,
  SimtCluster8K96N96,
  SimtCluster8K96N160,
  SimtCluster8K160N160,
  SimtCluster8K160N320,
  // inverted_residual_simt_early, float: blocks of a cluster, stride, output tile, hidden channels, output channels;
  // units
  // of 8 channels instead of 4.
  SimtEarly2S1Tile7x7C144N24,
  SimtEarly2S1Tile7x7C144N24Units8,
  SimtEarly2S2Tile2x7C144N32,
  SimtEarly4S1Tile4x7C192N32,
  SimtEarly2S2Tile2x2C192N64,
  // inverted_residual_split, split products: stride, output tile, hidden channels at once, output channels; W: warps.
  SplitS2Tile7x8C32N24,
  SplitS2Tile7x8C32W8N24,
  SplitS2Tile7x8C16N24,
  SplitS1Tile14x14C16N24,
  SplitS1Tile14x14C16W4N24,
  SplitS1Tile7x14C16N24,
  SplitS2Tile7x7C16N32,
  SplitS2Tile7x7C48N32,
  SplitS2Tile4x7C48N32,
  SplitS1Tile14x14C16N32,
  SplitS1Tile14x14C32N32,
  SplitS1Tile14x14C64N32,
  SplitS1Tile7x14C16N32,
  SplitS1Tile7x7C96N32,
  SplitS2Tile7x7C32N64,
  SplitS2Tile7x7C32W8N64,
  SplitS2Tile2x7C96N64,
  // inverted_residual_split_cluster, split products: blocks of a cluster, input channels, output channels.
  SplitCluster2K24N32,
  SplitCluster2K32N32,
  SplitCluster2K32N64,
  SplitCluster3K64N64,
  SplitCluster3K64N96,
  SplitCluster3K96N96,
  SplitCluster6K96N96,
  SplitCluster4K96N160,
  SplitCluster5K96N160,
  SplitCluster8K160N160,
  SplitCluster15K160N320,
  // What a family makes for a shape: rules name these, inverted_residual_specialised() gives the variants.
  SpecialisedSmall,
  SpecialisedCluster,
  SpecialisedStrip,
  SpecialisedImage,
  SpecialisedImage7,
  SpecialisedSimtCluster,
  SpecialisedSimt,
  SpecialisedSimtEarly,
  SpecialisedSplit,
  SpecialisedSplitCluster,
  // Values from here on are specialised variants, by the order in which the process met them.
  FirstSpecialised = 0x400,
};

struct InvertedResidualParams {
  Elem elem = Elem::F16;
  int n = 0, h = 0, w = 0;
  int c_in = 0, c_hidden = 0, c_out = 0;
  int out_h = 0, out_w = 0;
  int kernel = 3;  ///< rows and columns of a depthwise window; variants run 3
  int stride = 1;
  int pad_top = 0, pad_left = 0;   ///< bottom and right padding follow from out_h and out_w
  bool expand = true;              ///< without it c_hidden == c_in
  bool residual = false;           ///< adds x to y, which has its shape
  bool split = false;              ///< the 1x1 convolutions may be split products: whatever the input, neither |x| nor
                                   ///< |d| is above kLargestSplit (split_gemm.h); float only
  Activation expand_activation{};  ///< no upper bound is 65504 in some families: docs/numerics.md
  Activation depthwise_activation{};
  Clip project_clip{};
};

/// What a variant cuts the output into, for choosing one: a launch has n * ceil(out_h / rows) * ceil(out_w / columns)
/// tiles, of which as many are under way at once as the GPU holds blocks.
struct InvertedResidualTile {
  int stride;
  int rows, columns;
  int hidden;  ///< channels at once
  int c_out;   ///< the most
  int threads;
  bool expand;
  bool half_sums = false;  ///< depthwise adds in half: docs/numerics.md
};

/// The variants that are compiled into the library.
std::span<const InvertedResidualVariant> inverted_residual_variants();
std::string_view name(InvertedResidualVariant variant);
/// Of a variant that is compiled into the library.
InvertedResidualTile inverted_residual_tile(InvertedResidualVariant variant);
/// Whether the variant runs these parameters on that GPU with the device code loaded there, shared memory and clusters
/// included. Host-only.
/// At least: sm_80, padding of at most 2.
bool supports(InvertedResidualVariant variant, const InvertedResidualParams& params, const DeviceTraits& gpu);

/// What a family (SpecialisedSmall, ...) can be compiled to for these parameters, the variant that its model expects
/// to be the fastest first; none where the family does not run them, or no code can be compiled for the GPU.
std::vector<InvertedResidualVariant> inverted_residual_specialised(InvertedResidualVariant family,
                                                                   const InvertedResidualParams& params,
                                                                   const DeviceTraits& gpu);

/// Float weights and biases on the host; null biases are zeros. Without expand, expand and expand_bias are ignored.
struct InvertedResidualWeights {
  const float* expand = nullptr;  ///< (c_hidden, c_in)
  const float* expand_bias = nullptr;
  const float* depthwise = nullptr;  ///< (c_hidden, 1, 3, 3)
  const float* depthwise_bias = nullptr;
  const float* project = nullptr;  ///< (c_out, c_hidden)
  const float* project_bias = nullptr;
  // Of split products only: no |x| and no |d| is above them.
  float x_bound = 0.0F;
  float filtered_bound = 0.0F;
};

/// Packed weights, biases among them, depend on the variant's family, channels and `expand`, not on the batch. The
/// variant supports the parameters.
std::size_t inverted_residual_packed_bytes(InvertedResidualVariant variant, const InvertedResidualParams& params);
/// `packed` has inverted_residual_packed_bytes(). Host memory, host-only.
void inverted_residual_pack(InvertedResidualVariant variant, const InvertedResidualParams& params,
                            const InvertedResidualWeights& weights, void* packed);

/// Pointers 16-byte aligned; y overlaps no input. The same variant gives the same bits every time, and the same for a
/// image in any batch. Returns cudaErrorInvalidValue where !supports(), cudaErrorInvalidDeviceFunction where a
/// specialised variant has no code yet (KernelTable::provide). n == 0 is legal and does nothing. Safe from
/// several threads.
cudaError_t inverted_residual(InvertedResidualVariant variant, const InvertedResidualParams& params, const void* x,
                              const void* packed, void* y, const Launch& where);

/// All that a planner asks of it.
const KernelTable<InvertedResidualParams, InvertedResidualVariant>& kernel_of(const InvertedResidualParams&);

}  // namespace mobicuda::kernels
