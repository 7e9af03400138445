#include <algorithm>
#include <cmath>
#include <optional>

#include "choose/kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum InvertedResidualVariant;

// A block's output seen as tiles.
struct BlockShape {
  const InvertedResidualParams& params;
  int multiprocessors;
  bool half;
  bool expand;
  int n;
  int c_hidden;
  bool split;        // products may be split
  bool precompiled;  // some variant of the library runs the block, without splitting products

  // Tiles of rows x columns for each SM.
  double waves(int rows, int columns) const {
    const double tiles = static_cast<double>(params.n) * ceil_div(params.out_h, rows) * ceil_div(params.out_w, columns);
    return tiles / multiprocessors;
  }

  // Expected time of strips of so many rows, of eight warps on each SM, in those of one row.
  double strip_time(int rows) const {
    constexpr int kColumns = 14;
    constexpr int kWarps = 8;
    constexpr double kRound[] = {0, 0, 2.2, 3, 4.05};  // by rows
    const double strips =
        static_cast<double>(params.n) * ceil_div(params.out_h, rows) * ceil_div(params.out_w, kColumns);
    return kRound[rows] * std::ceil(strips / kWarps / multiprocessors);
  }

  // Many strips, of which nothing takes less time than those of so many rows.
  bool long_strips(int rows) const {
    constexpr int kRows[] = {2, 3, 4};
    return waves(8, 8) > 6.5 &&
           std::ranges::all_of(kRows, [&](int other) { return strip_time(rows) <= strip_time(other); });
  }

  // Whether the output has at most so many tiles of the variant, on 132 SMs; as many for each SM elsewhere.
  bool few_tiles(InvertedResidualVariant variant, int most) const {
    const InvertedResidualTile tile = inverted_residual_tile(variant);
    return waves(tile.rows, tile.columns) <= most / kMeasuredMultiprocessors;
  }

  // The same of bands of seven rows of 14 columns.
  bool few_bands(int most) const { return waves(7, 14) <= most / kMeasuredMultiprocessors; }

  // Whether the batch has at most so many images, on 132 SMs.
  bool few_images(int most) const { return n <= most * multiprocessors / kMeasuredMultiprocessors; }

  // Up to so many images, a cluster of blocks computes late blocks faster than two kernels do: 4, and 6 where the
  // images become 7x7.
  bool cluster_pays() const { return n <= (params.stride == 2 ? 6 : 4); }

  // An output of at least 100 pixels at stride 1, of which tiles of 14x14 compute nine tenths: whole images of it
  // occupy an SM for long.
  bool large_images() const {
    constexpr int kSide = 14;
    const int tiles = ceil_div(params.out_h, kSide) * ceil_div(params.out_w, kSide);
    const int pixels = params.out_h * params.out_w;
    return params.stride == 1 && pixels >= 100 && pixels * 10.0 >= 9.0 * tiles * kSide * kSide;
  }

  // Blocks with a hidden tensor twice as wide as what goes in and comes out, or wider. Of others, as two pointwise
  // layers of MobileNet V1 and what is between them, no family has been measured for any channels.
  bool widens() const { return half && expand && c_hidden >= 2 * std::max(params.c_in, params.c_out); }

  // Blocks with a hidden tensor of few channels, no fewer than go in and come out.
  bool stays_narrow() const {
    constexpr int kNarrow = 64;
    return half && expand && c_hidden <= kNarrow && c_hidden >= std::max(params.c_in, params.c_out);
  }

  // Blocks with few pixels for their hidden channels, as B8 to B17 of MobileNetV2.
  bool late() const { return widens() && params.h * params.w <= 2 * c_hidden; }

  // Blocks with more pixels than that, which the families for large images run.
  bool early() const { return (widens() || stays_narrow()) && !late(); }

  // Many images that are a tile of the 14x14 kernels each: 16 columns with what lies beside them. Of few hidden
  // channels also larger ones, which are several.
  bool images_are_tiles() const {
    constexpr int kLeast = 9;
    constexpr int kMost = 16;
    constexpr int kLargest = 20;
    constexpr int kNarrow = 96;
    const int most = c_hidden <= kNarrow ? kLargest : kMost;
    return widens() && params.w >= kLeast && params.w <= most && params.h <= most && 2 * params.n >= multiprocessors;
  }

  // Many images of which the 14x14 kernels take two side by side, of few enough channels for their registers.
  bool pairs_are_tiles() const {
    constexpr int kMost = 8;
    constexpr int kMostChannels = 96;
    return late() && params.stride == 1 && params.w <= kMost && !images_share_tiles() && params.c_in <= kMostChannels &&
           2 * params.n >= multiprocessors;
  }

  // Few small tiles of a hidden tensor that is narrow enough for them, late or not.
  bool few_narrow_tiles() const {
    constexpr int kNarrow = 288;
    return (widens() || stays_narrow()) && c_hidden <= kNarrow && waves(4, 8) <= 1;
  }

  // Enough small tiles of a wide hidden tensor, each of which reads all weights, to keep the SMs busy with that; too
  // few for strips.
  bool some_wide_tiles() const {
    constexpr int kWide = 240;
    constexpr int kLess = 192;
    const double least = c_hidden >= kWide ? 0.4 : 1;
    return widens() && !late() && c_hidden >= kLess && waves(4, 8) > least && waves(4, 8) <= 2;
  }

  // Few large images of a hidden tensor of 192 channels: more small tiles than an SM takes at once, and strips that
  // fill little more than two or three rounds.
  bool few_large_images() const {
    constexpr int kHidden = 192;
    constexpr int kLarge = 28;
    return early() && params.stride == 1 && c_hidden == kHidden && params.w > kLarge && waves(8, 8) > 2 &&
           waves(8, 8) <= 3.5;
  }

  // Few images whose late block has so many hidden channels, and a stride of 2, that a launch for expansion and
  // depthwise, which takes more SMs, and one for the projection take less.
  bool two_launches_pay() const {
    constexpr int kHidden = 576;
    constexpr int kMost = 8;
    return late() && params.stride == 2 && c_hidden > kHidden && few_images(kMost);
  }

  // Whether several images fill a tile of the kernels for 7x7 images.
  bool images_share_tiles() const {
    constexpr int kUnits = 32;  // of a tile: two rows of a column
    return 2 * ceil_div(params.out_h, 2) * params.out_w <= kUnits;
  }

  // Whether the general tiles would be the smallest ones, which read each weight once for four pixels.
  bool smallest_tiles() const { return half && expand && waves(2, 4) < 0.7; }

  // Blocks in exact float that kernels made for their shape run better than the library's, if these run them at all:
  // whose tiles, of sevens, leave a rest.
  bool made_float() const {
    const bool sevens = params.out_h % 7 == 0 && params.out_w % 7 == 0;
    return !half && c_hidden >= std::max(params.c_in, params.c_out) && !(precompiled && sevens);
  }

  // Of these: few pixels for their hidden channels, as B8 to B17 of MobileNetV2; small: in one tile or a few.
  bool late_float() const { return made_float() && expand && params.h * params.w <= 2 * c_hidden; }
  bool small_late_float() const {
    constexpr int kSmall = 256;  // pixels
    return late_float() && params.h * params.w <= kSmall;
  }
  bool early_float() const { return made_float() && expand && !late_float(); }

  // At most so many multiply-adds of the two 1x1 convolutions, on 132 SMs.
  bool few_products(double most) const {
    const double inside = static_cast<double>(params.h) * params.w * params.c_in;
    const double outside = static_cast<double>(params.out_h) * params.out_w * params.c_out;
    return static_cast<double>(n) * c_hidden * (inside + outside) <= most * multiprocessors / kMeasuredMultiprocessors;
  }

  // Of these: hidden tensors of few enough channels for tiles of every size.
  bool narrow_float() const {
    constexpr int kNarrow = 288;
    return made_float() && c_hidden <= kNarrow;
  }

  // Of these: more channels, and enough images, of which nine tenths of the SMs have one in every round.
  bool wide_float_fills() const {
    constexpr int kLarge = 100;  // pixels of an image
    constexpr int kMostChannels = 136;
    constexpr int kMostChannelsOfSmall = 96;
    const bool large = params.out_h * params.out_w >= kLarge;
    const double rounds = large ? waves(14, 14) : waves(params.out_h, params.out_w);
    return made_float() && expand && params.c_in <= (large ? kMostChannels : kMostChannelsOfSmall) && rounds >= 0.9 &&
           rounds / std::ceil(rounds) >= 0.9;
  }

  // Blocks whose products may be split, of few enough products, tiles of clusters, and weights, which every tile reads;
  // of fewer hidden channels a cluster has too little to share.
  bool clusters_split() const {
    constexpr double kMostProducts = 50e6;
    constexpr double kMostWeights = 500e3;  // of width 1.4 these blocks took 1 us more in the network, not in chains
    constexpr int kLeastHidden = 144;
    constexpr int kLeastPixels = 16;  // of all images' outputs: smaller maps leave most of a tile empty
    constexpr int kWide = 192;
    const int most_tiles = params.stride == 1 && c_hidden < kWide ? 2 : 3;  // for each SM
    const double weights = static_cast<double>(c_hidden) * (params.c_in + params.c_out);
    return split && few_products(kMostProducts) && waves(params.stride == 1 ? 2 : 1, 4) <= most_tiles &&
           weights <= kMostWeights && c_hidden >= kLeastHidden && n * params.out_h * params.out_w >= kLeastPixels;
  }

  // Whether nine tenths of the SMs have an image to compute in every round.
  bool images_fill() const {
    const double images = waves(14, 14);
    return images >= 0.9 && images / std::ceil(images) >= 0.9;
  }
};

using BlockRow = Row<BlockShape, InvertedResidualVariant>;

// clang-format off

// Kernels made for a shape in exact float.
constexpr BlockRow kMadeFloat[] = {
    {MOBICUDA_WHEN(s.small_late_float() && s.few_products(50e6)), {SpecialisedSimtCluster}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.late_float() && s.few_products(50e6)), {SpecialisedSimtEarly, SpecialisedSimtCluster}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.early_float() && s.few_products(60e6)), {SpecialisedSimtEarly}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.narrow_float()), {SpecialisedSimt}, "a narrow hidden tensor stays on the SM"},
    {MOBICUDA_WHEN(s.wide_float_fills()), {SpecialisedSimt}, "images for every SM"},
};

// Split products, where they are allowed.
constexpr BlockRow kSplit[] = {
    {MOBICUDA_WHEN(s.clusters_split() && s.n == 1), {SplitCluster6K96N96, SplitCluster4K96N160}, "split products: one image, one launch a block"},
    {MOBICUDA_WHEN(s.clusters_split()),
     {SplitCluster2K24N32, SplitCluster2K32N32, SplitCluster2K32N64, SplitCluster3K64N64, SplitCluster3K64N96},
     "split products: few images, one launch a block"},
    {MOBICUDA_WHEN(s.clusters_split()),
     {SplitCluster3K96N96, SplitCluster5K96N160, SplitCluster8K160N160, SplitCluster15K160N320, SpecialisedSplitCluster},
     "split products: few images, one launch a block"},
    {MOBICUDA_WHEN(s.split && s.waves(14, 14) >= 5), {SplitS1Tile14x14C16W4N24}, "split products: large tiles, three on an SM"},
    {MOBICUDA_WHEN(s.split && s.waves(14, 14) >= 0.9 && s.waves(14, 14) <= 1), {SplitS1Tile14x14C64N32}, "split products: a large tile for each SM"},
    {MOBICUDA_WHEN(s.split && s.waves(14, 14) >= 0.9), {SplitS1Tile14x14C16N24, SplitS1Tile14x14C16N32}, "split products: large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.split && s.waves(7, 14) >= 0.9), {SplitS1Tile7x14C16N24, SplitS1Tile7x14C16N32}, "split products: half as large tiles"},
    {MOBICUDA_WHEN(s.split && s.waves(7, 8) >= 0.8), {SplitS2Tile7x8C32N24}, "split products: medium tiles fill the GPU"},
    {MOBICUDA_WHEN(s.split && s.waves(7, 7) >= 2.9), {SplitS2Tile7x7C32N64}, "split products: medium tiles, three on an SM"},
    {MOBICUDA_WHEN(s.split && s.waves(7, 7) >= 1.2), {SplitS2Tile7x7C16N32}, "split products: medium tiles, several on an SM"},
    {MOBICUDA_WHEN(s.split && s.waves(7, 7) >= 0.9), {SplitS2Tile7x7C48N32}, "split products: medium tiles of more warps"},
    {MOBICUDA_WHEN(s.split && s.waves(7, 7) >= 0.45), {SplitS2Tile7x7C32W8N64}, "split products: medium tiles of more warps"},
    {MOBICUDA_WHEN(s.split && s.waves(7, 7) >= 0.4), {SplitS1Tile7x7C96N32}, "split products: medium tiles of more warps"},
    {MOBICUDA_WHEN(s.split && s.waves(4, 7) >= 0.8), {SplitS2Tile4x7C48N32}, "split products: small tiles"},
    {MOBICUDA_WHEN(s.split && s.waves(2, 7) >= 0.4), {SplitS2Tile2x7C96N64}, "split products: small tiles"},
    {MOBICUDA_WHEN(s.split && s.early_float() && !s.few_products(60e6)), {SpecialisedSplit}, "split products: a narrow hidden tensor stays on the SM"},
};

// Few images in exact float.
constexpr BlockRow kFewFloat[] = {
    {MOBICUDA_WHEN(s.few_tiles(SimtCluster8K64N64, 56)), {SimtCluster8K64N64}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.few_tiles(SimtCluster8K64N96, 56)), {SimtCluster8K64N96}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.few_tiles(SimtCluster8K96N96, 14)), {SimtCluster8K96N96}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.few_tiles(SimtCluster8K96N160, 14)), {SimtCluster8K96N160}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.few_tiles(SimtCluster8K160N160, 14)), {SimtCluster8K160N160}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.few_tiles(SimtCluster8K160N320, 14)), {SimtCluster8K160N320}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.few_tiles(SimtEarly2S1Tile7x7C144N24Units8, 64)), {SimtEarly2S1Tile7x7C144N24Units8}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.few_tiles(SimtEarly2S1Tile7x7C144N24, 128)), {SimtEarly2S1Tile7x7C144N24}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.few_tiles(SimtEarly2S2Tile2x7C144N32, 112)), {SimtEarly2S2Tile2x7C144N32}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.few_tiles(SimtEarly4S1Tile4x7C192N32, 112)), {SimtEarly4S1Tile4x7C192N32}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.few_tiles(SimtEarly2S2Tile2x2C192N64, 196)), {SimtEarly2S2Tile2x2C192N64}, "few images, one launch a block"},
};

// Why one launch pays.
constexpr BlockRow kPays[] = {
    {MOBICUDA_WHEN(s.n >= 5),
     {Image1K64N64, Image1K64N96, Image1K96N96, Image7P1Cluster8N160, Image7P1Cluster8N320},
     "whole images stay on the SM"},
    {MOBICUDA_WHEN(s.n >= 7), {Image1K96N160}, "whole images stay on the SM"},
    {MOBICUDA_WHEN(s.late() && s.n >= 7 && !s.two_launches_pay()), {SpecialisedImage7, SpecialisedImage},
     "whole images stay on the SM"},
};
constexpr BlockRow kPaysByShape[] = {
    {MOBICUDA_ALWAYS, {StripPlainRows2C16N16}, "a narrow hidden tensor stays on the SM"},
    {MOBICUDA_WHEN(s.half && !s.expand && s.waves(14, 14) <= 1), {}, "few pixels, one launch"},
    {MOBICUDA_WHEN(s.half && !s.expand && s.waves(14, 14) >= 8), {}, "many pixels, less traffic"},
    {MOBICUDA_WHEN(s.half && s.expand && s.c_hidden <= 192),
     {SmallS1Tile4x8C144N24, SmallS1Tile2x4C192N32, SmallS2Tile4x8C96N24Slice48, SmallS2Tile2x4C144N32, SmallS2Tile2x2C192N64},
     "a narrow hidden tensor stays on the SM"},
    {MOBICUDA_WHEN(s.half && s.expand && s.c_hidden <= 192),
     {StripS1Rows2C72N24, StripS2Rows2C64N24, StripS2Rows1C192N64}, "a narrow hidden tensor stays on the SM"},
    {MOBICUDA_WHEN(s.early()), {SpecialisedSmall, SpecialisedStrip}, "a narrow hidden tensor stays on the SM"},
    {MOBICUDA_WHEN(s.few_narrow_tiles()), {SpecialisedSmall}, "a narrow hidden tensor stays on the SM"},
    {MOBICUDA_WHEN((s.expand || !s.half) && s.c_hidden <= 192 && !s.smallest_tiles()), {},
     "a narrow hidden tensor stays on the SM"},
    {MOBICUDA_WHEN(s.half && s.expand && s.cluster_pays()),
     {Cluster4K64N64, Cluster2K64N96, Cluster4K64N96, Cluster6K96N96}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.half && s.expand && s.cluster_pays()),
     {Cluster4K96N160, Cluster6K96N160, Cluster6K160N160, Cluster8K160N320}, "few images, one launch a block"},
    {MOBICUDA_WHEN(s.widens() && s.cluster_pays() && s.waves(2, 4) <= 0.5), {SpecialisedCluster},
     "few images, one launch a block"},
    {MOBICUDA_WHEN(s.half && s.expand && s.large_images() && s.images_fill()), {}, "whole images stay on the SM"},
    {MOBICUDA_WHEN(!s.half && s.large_images() && s.waves(14, 14) >= 1.5), {}, "whole images stay on the SM"},
};

// Few images: the families made for them. Many: tiles that fill the GPU once, the largest first.
constexpr BlockRow kHalf[] = {
    {MOBICUDA_WHEN(s.images_are_tiles() && s.c_hidden <= 192), {SpecialisedImage}, "a whole image for each SM"},
    {MOBICUDA_WHEN(s.pairs_are_tiles()), {SpecialisedImage}, "two images side by side in a tile"},
    {MOBICUDA_WHEN(s.waves(14, 14) > 0.25 && s.waves(14, 14) <= 0.4), {Image2Side28Rows8K32N32}, "a tile of 8 rows for each half of an SM, in clusters of two"},
    {MOBICUDA_WHEN(s.waves(14, 14) > 0.4 && s.waves(14, 14) <= 0.5), {Image2Side28K32N32}, "a quarter of an image for each cluster of two"},
    {MOBICUDA_WHEN(s.waves(14, 14) > 0.6 && s.waves(14, 14) <= 1), {Image1Side28K32N32}, "a quarter of an image for each SM"},
    {MOBICUDA_WHEN(s.waves(14, 14) > 0.7 && s.waves(14, 14) <= 1), {Image1Side56K24N24}, "a sixteenth of an image for each SM"},
    {MOBICUDA_WHEN(s.waves(7, 7) > 0.7 && s.waves(7, 7) <= 1), {Image1Side28K32N64}, "a quarter of an image for each SM"},
    {MOBICUDA_WHEN(s.few_large_images()), {SpecialisedImage}, "tiles of whole rows fill the GPU"},
    {MOBICUDA_WHEN(s.long_strips(3)), {StripS1Rows3C144N24}, "long strips fill the GPU's rounds best"},
    {MOBICUDA_WHEN(s.long_strips(4)), {StripS1Rows4C144N24}, "long strips fill the GPU's rounds best"},
    {MOBICUDA_WHEN(s.waves(8, 8) > 8 && s.waves(8, 8) <= 10), {StripS2Rows2C96N24Warps8}, "strips of one block an SM fill the rounds"},
    {MOBICUDA_WHEN(s.waves(8, 8) > 4.4), {StripS2Rows2C96N24}, "long strips"},
    {MOBICUDA_WHEN(s.waves(8, 8) > 2.85), {StripS2Rows2C144N32, StripS1Rows2C192N32}, "long strips"},
    {MOBICUDA_WHEN(s.waves(8, 8) > 2.5), {StripS1Rows2C144N24}, "strips"},
    {MOBICUDA_WHEN(s.waves(8, 8) > 1.4), {StripS2Rows1C192N64}, "strips"},
    {MOBICUDA_WHEN(s.waves(8, 8) > 8), {StripPlainRows7C16N16}, "long strips"},
    {MOBICUDA_ALWAYS, {StripPlainRows2C16N16, StripS2Rows2C64N24, StripS1Rows2C72N24}, "strips"},
    {MOBICUDA_ALWAYS, {SmallS2Tile4x8C96N24Slice48}, "small tiles"},
    {MOBICUDA_WHEN(s.waves(4, 8) > 4), {SmallS1Tile8x8C144N24}, "small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(4, 8) > 1 && s.waves(4, 8) <= 2), {SmallS1Tile4x8C144N24Warp}, "small tiles, two on an SM"},
    {MOBICUDA_WHEN(s.waves(4, 8) > 1.5), {SmallS1Tile4x8C192N32}, "small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(2, 4) > 2), {SmallS2Tile4x4C144N32}, "small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(2, 4) > 1), {SmallS1Tile4x4C192N32}, "small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(2, 2) > 4), {SmallS2Tile4x4C192N64}, "small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(2, 2) > 0.5), {SmallS2Tile2x4C192N64}, "small tiles fill the GPU"},
    {MOBICUDA_ALWAYS, {SmallS1Tile4x8C144N24, SmallS2Tile2x4C144N32, SmallS1Tile2x4C192N32, SmallS2Tile2x2C192N64},
     "few images: the smallest tiles"},
    {MOBICUDA_WHEN(s.n <= 2), {Cluster4K64N96, Cluster4K96N160}, "few images: clusters of blocks"},
    {MOBICUDA_WHEN(s.n > 4 && s.few_bands(14)), {Image8K64N64, Image8K64N96},
     "clusters of eight, all at once on the GPU"},
    {MOBICUDA_WHEN(s.n > 4 && s.few_bands(20)), {Image4Rows6K64N64, Image4Rows6K64N96},
     "clusters of four for tiles of six rows, all at once on the GPU"},
    {MOBICUDA_WHEN(s.n >= 4 && s.few_bands(20)), {Image4Rows6K96N96},
     "clusters of four for tiles of six rows, all at once on the GPU"},
    {MOBICUDA_WHEN(s.n > 5 && s.few_bands(10)), {Image2Warps2K96N160},
     "clusters of two for half as large tiles, all at once on the GPU"},
    {MOBICUDA_WHEN(s.n > 4 && s.few_bands(30)),
     {Image4K64N64, Image4K64N96, Image4K96N96}, "clusters of four, all at once on the GPU"},
    {MOBICUDA_WHEN(s.cluster_pays()),
     {Cluster4K64N64, Cluster2K64N96, Cluster6K96N96, Cluster6K96N160, Cluster6K160N160, Cluster8K160N320},
     "few images: clusters of blocks"},
    {MOBICUDA_WHEN(s.some_wide_tiles()), {SpecialisedImage}, "tiles of whole rows read the weights less often"},
    {MOBICUDA_WHEN(s.few_narrow_tiles()), {SpecialisedSmall}, "small tiles of a narrow hidden tensor"},
    {MOBICUDA_WHEN(s.widens() && s.cluster_pays() && s.waves(2, 4) <= 0.5), {SpecialisedCluster}, "few images: clusters of blocks"},
    {MOBICUDA_WHEN(s.waves(7, 14) <= 1.7), {Image2K64N64, Image2K64N96, Image2K96N96}, "clusters of two"},
    {MOBICUDA_WHEN(s.waves(4, 7) <= 1), {Image2K96N160}, "clusters of two"},
    {MOBICUDA_ALWAYS, {Image1K64N64, Image1K64N96, Image1K96N96, Image1K96N160}, "a whole image for each SM"},
    {MOBICUDA_WHEN(s.early() && s.waves(4, 8) <= 2), {SpecialisedSmall}, "small tiles"},
    {MOBICUDA_WHEN(s.early()), {SpecialisedStrip}, "strips"},
    {MOBICUDA_WHEN(s.stays_narrow()), {SpecialisedSmall}, "small tiles of a hidden tensor that strips do not run"},
    {MOBICUDA_WHEN(s.late() && s.images_share_tiles()), {SpecialisedImage7}, "several images share a tile"},
    {MOBICUDA_WHEN(s.few_images(8)), {Image7P1Cluster6Cut2N320}, "7x7 images: all clusters at once on the GPU"},
    {MOBICUDA_WHEN(s.few_images(12)), {Image7P1Cluster8N160, Image7P1Cluster8N320}, "7x7 images: all clusters at once on the GPU"},
    {MOBICUDA_WHEN(s.few_images(16)), {Image7P1Cluster6N160, Image7P1Cluster5N320}, "7x7 images: all clusters at once on the GPU"},
    {MOBICUDA_WHEN(s.few_images(20)), {Image7P1Cluster4N160, Image7P1Cluster5N320}, "7x7 images: all clusters at once on the GPU"},
    {MOBICUDA_WHEN(s.few_images(24)), {Image7P1Cluster4N160, Image7P1Cluster4N320}, "7x7 images: all clusters at once on the GPU"},
    {MOBICUDA_WHEN(s.few_images(33)), {Image7P1HalvesCluster2Cut2N320}, "7x7 images: all clusters at once on the GPU"},
    {MOBICUDA_WHEN(s.few_images(36)), {Image7P1HalvesCluster3N160, Image7P1Cluster3N320}, "7x7 images: all clusters at once on the GPU"},
    {MOBICUDA_WHEN(s.few_images(64)), {Image7P1HalvesCluster2N160, Image7P1Cluster2N320}, "7x7 images: all clusters at once on the GPU"},
    {MOBICUDA_WHEN(s.few_images(128)), {Image7P2Cluster2N160, Image7P1Cluster1N320}, "7x7 images: all clusters at once on the GPU"},
    {MOBICUDA_ALWAYS, {Image7P2Cluster1N160, Image7P2Cluster1N320}, "7x7 images: two for each SM"},
    {MOBICUDA_WHEN(s.late()), {SpecialisedImage7, SpecialisedImage}, "whole images stay on the SM"},
    {MOBICUDA_WHEN(s.waves(14, 14) >= 1.5), {PlainTile14x14C32N16}, "large tiles fill the GPU"},
    {MOBICUDA_ALWAYS, {PlainTile7x14C32N16}, "half as large tiles"},
    {MOBICUDA_WHEN(s.waves(14, 14) >= 2), {S1Tile14x14C48N32}, "large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(14, 14) >= 0.9), {S1Tile14x14C64N32, S1Tile14x14C64N64, S1Tile14x14C64N96}, "large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(7, 14) >= 1.5), {S2Tile7x14C48N32}, "large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(7, 7) >= 0.9), {S1Tile7x7C64N64, S2Tile7x7C48N64}, "medium tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(4, 7) >= 0.8), {S1Tile4x7C144N32, S2Tile4x7C96N32}, "small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(2, 4) >= 0.7), {S1Tile2x4C192N32, S2Tile2x4C144N32}, "small tiles fill the GPU"},
    {MOBICUDA_ALWAYS, {S1Tile2x2C192N64, S2Tile2x2C192N64, S1Tile7x7C64N64, S2Tile7x7C48N64}, "the smallest tiles"},
};

constexpr BlockRow kFloat[] = {
    {MOBICUDA_WHEN(s.waves(14, 14) >= 0.8), {SimtPlainTile14x14C32N16, SimtS1Tile14x14C16N24}, "large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(14, 14) >= 0.9), {SimtS1Tile14x14C16N32}, "large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(14, 14) >= 1.5), {SimtS1Tile14x14C16N64, SimtS1Tile14x14C16K64N96, SimtS1Tile14x14C16N96},
     "large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(7, 7) >= 1.5), {SimtS1Tile7x7C48N32, SimtS2Tile7x8C16N24, SimtS2Tile7x7C16N32, SimtS2Tile7x7C16N64},
     "medium tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(7, 7) >= 0.8),
     {SimtS1Tile7x7C48N24, SimtS1Tile7x7C96N32, SimtS2Tile7x8C16N24, SimtS2Tile7x7C48N32, SimtS2Tile7x7C48N64},
     "medium tiles, of more hidden channels at once"},
    {MOBICUDA_WHEN(s.waves(2, 7) >= 0.8), {SimtS2Tile2x7C96N64}, "small tiles fill the GPU"},
    {MOBICUDA_ALWAYS,
     {SimtPlainTile7x14C32N16, SimtS1Tile4x7C144N24, SimtS1Tile2x4C192N32, SimtS2Tile4x7C96N24, SimtS2Tile2x4C144N32,
      SimtS2Tile2x2C192N64}, "the smallest tiles"},
};
// clang-format on

// The first variant that a family makes for the shape; nothing where `variant` does not stand for one that does.
std::optional<InvertedResidualVariant> specialised_of(InvertedResidualVariant variant,
                                                      const InvertedResidualParams& params, const DeviceTraits& gpu) {
  const auto made = inverted_residual_specialised(variant, params, gpu);
  if (made.empty()) return std::nullopt;
  return made.front();
}

BlockShape shape_of(const InvertedResidualParams& params, const DeviceTraits& gpu) {
  const auto variants = inverted_residual_variants();
  InvertedResidualParams exact = params;
  exact.split = false;
  const bool precompiled = std::any_of(variants.begin(), variants.end(),
                                       [&](InvertedResidualVariant variant) { return supports(variant, exact, gpu); });
  return {params,       gpu.multiprocessors, params.elem == Elem::F16, params.expand, params.n, params.c_hidden,
          params.split, precompiled};
}

}  // namespace

Preferences<InvertedResidualVariant> preferences(const InvertedResidualParams& params, const DeviceTraits& gpu) {
  const BlockShape shape = shape_of(params, gpu);
  Preferences<InvertedResidualVariant> found;
  append(kHalf, shape, found);
  append(kSplit, shape, found);
  append(kMadeFloat, shape, found);
  append(kFewFloat, shape, found);
  append(kFloat, shape, found);
  for (auto& preferred : found) {
    if (const auto made = specialised_of(preferred.variant, params, gpu)) preferred.variant = *made;
  }
  return found;
}

std::string_view why_fused(const InvertedResidualParams& params, const DeviceTraits& gpu) {
  const BlockShape shape = shape_of(params, gpu);
  const auto runs = [&](InvertedResidualVariant variant) {
    return supports(variant, params, gpu) || specialised_of(variant, params, gpu);
  };
  if (const std::string_view why = first_why(kPays, shape, runs); !why.empty()) return why;
  if (const std::string_view why = first_why(kSplit, shape, runs); !why.empty()) return why;
  if (const std::string_view why = first_why(kMadeFloat, shape, runs); !why.empty()) return why;
  if (const std::string_view why = first_why(kFewFloat, shape, runs); !why.empty()) return why;
  return first_why(kPaysByShape, shape, runs);
}

std::vector<RuleText> rule_texts(const InvertedResidualParams&) {
  RuleText pays = text_of("inverted_residual, where one launch pays", kPays);
  for (const RuleText& more :
       {text_of("", kSplit), text_of("", kMadeFloat), text_of("", kFewFloat), text_of("", kPaysByShape)}) {
    pays.lines.insert(pays.lines.end(), more.lines.begin(), more.lines.end());
  }
  RuleText exact = text_of("inverted_residual, exact float", kMadeFloat);
  for (const RuleText& more : {text_of("", kFewFloat), text_of("", kFloat)}) {
    exact.lines.insert(exact.lines.end(), more.lines.begin(), more.lines.end());
  }
  return {pays, text_of("inverted_residual, fp16", kHalf), text_of("inverted_residual, split products", kSplit), exact};
}

}  // namespace mobicuda
