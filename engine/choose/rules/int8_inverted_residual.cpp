#include <algorithm>
#include <cmath>

#include "choose/kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum Int8InvertedResidualVariant;

struct Int8BlockShape {
  const Int8InvertedResidualParams& params;
  int multiprocessors;
  bool wgmma;
  bool made;  // kernels are compiled for the block

  // Tiles of rows x columns for each SM.
  double waves(int rows, int columns) const {
    return static_cast<double>(params.n) * ceil_div(params.out_h, rows) * ceil_div(params.out_w, columns) /
           multiprocessors;
  }

  // In which all tiles run, `resident` blocks on each SM at once.
  double rounds(int rows, int columns, int resident) const { return std::ceil(waves(rows, columns) / resident); }

  // Whether one launch takes less than three, whose 1x1 convolutions are wgmma's: up to so many outputs for each SM, as
  // images of 7x7, the fewer the more products there are for a pixel. Always of large images, whose hidden tensors are
  // large too, unless there are very many products.
  bool products_pay() const {
    constexpr double kPixels = 49;
    constexpr double kMostImages = 0.2;
    constexpr double kProducts = 369e3;
    constexpr int kLarge = 196;
    constexpr double kMostOfLarge = 300e3;
    const double images = static_cast<double>(params.n) * params.out_h * params.out_w / kPixels / multiprocessors;
    const double products = static_cast<double>(params.c_hidden) * (params.c_in + params.c_out);
    return images <= kMostImages * std::pow(kProducts / products, 3) ||
           (params.h * params.w >= kLarge && products <= kMostOfLarge);
  }
};

using Int8BlockRow = Row<Int8BlockShape, Int8InvertedResidualVariant>;

// clang-format off
constexpr Int8BlockRow kPays[] = {
    {MOBICUDA_WHEN(s.made && (!s.wgmma || s.products_pay())), {Specialised},
     "one launch instead of three; by wgmma many products take less in three"},
    {MOBICUDA_WHEN(!s.made),
     {S2Tile8x14K16C96N24, S1Tile14x14K24C144N24, S2Tile14x14K24C144N32, S1Tile14x14K32C192N32, S2Tile7x14K32C192N64, S1Tile14x14K64C384N64},
     "one launch instead of three"},
    {MOBICUDA_WHEN(!s.made), {S2Tile4x14K24C144N32, S1Tile14x14K64C384N96, S1Tile14x14K96C576N96, S2Tile7x7K96C576N160}, "one launch instead of three"},
    {MOBICUDA_WHEN(!s.made && (!s.wgmma || s.waves(7, 7) <= 0.9)), {S1Tile7x7K160C960N160, S1Tile7x7K160C960N320},
     "one launch instead of three; by wgmma many images take less in three"},
};
constexpr Int8BlockRow kRows[] = {
    {MOBICUDA_WHEN(s.made), {Specialised}, "compiled for this shape"},
    {MOBICUDA_WHEN(s.waves(4, 8) <= 1), {S2Tile4x8K16C96N24}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(7, 8) <= 1.5), {S2Tile7x8K16C96N24}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(8, 14) <= 2.25), {S2Tile8x14K16C96N24Warps12}, "small tiles keep the GPU busy"},
    {MOBICUDA_ALWAYS, {S2Tile8x14K16C96N24}, "large tiles expand fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(4, 8) <= 1.5), {S1Tile4x8K24C144N24}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(8, 16) <= 1), {S1Tile8x16K24C144N24}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(14, 14) <= 1), {S1Tile14x14K24C144N24Warps10}, "many warps keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(14, 14) <= 2), {S1Tile14x14K24C144N24Warps8}, "many warps keep the GPU busy"},
    {MOBICUDA_WHEN(1.45 * s.rounds(14, 14, 4) <= s.rounds(14, 14, 3)), {S1Tile14x14K24C144N24}, "fewer rounds of more blocks"},
    {MOBICUDA_ALWAYS, {S1Tile14x14K24C144N24Warps4}, "large tiles expand fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 0.5), {S2Tile2x7K24C144N32Warps15}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 1), {S2Tile2x7K24C144N32}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(4, 7) <= 1.3), {S2Tile4x7K24C144N32}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(4, 14) <= 6), {S2Tile4x14K24C144N32}, "small tiles keep the GPU busy"},
    {MOBICUDA_ALWAYS, {S2Tile14x14K24C144N32, S2Tile4x14K24C144N32}, "large tiles expand fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 1), {S1Tile2x7K32C192N32Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(4, 8) <= 2.25), {S1Tile4x8K32C192N32}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(7, 14) <= 1), {S1Tile7x14K32C192N32}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(14, 14) <= 1), {S1Tile14x14K32C192N32Warps16}, "many warps keep the GPU busy"},
    {MOBICUDA_WHEN(1.7 * s.rounds(14, 14, 4) <= s.rounds(14, 14, 2)), {S1Tile14x14K32C192N32}, "fewer rounds of more blocks"},
    {MOBICUDA_ALWAYS, {S1Tile14x14K32C192N32Warps6, S1Tile14x14K32C192N32}, "large tiles expand fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(2, 4) <= 0.5), {S2Tile2x4K32C192N64Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 0.5), {S2Tile2x7K32C192N64Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 1), {S2Tile2x7K32C192N64}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(4, 7) <= 1.4), {S2Tile4x7K32C192N64}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(4, 14) <= 3.1 * s.rounds(14, 14, 1)), {S2Tile4x14K32C192N64}, "small tiles keep the GPU busy"},
    {MOBICUDA_ALWAYS, {S2Tile14x14K32C192N64, S2Tile7x14K32C192N64}, "large tiles expand fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 0.25), {S1Tile2x7K64C384N64Cluster4}, "four SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 0.8), {S1Tile2x7K64C384N64Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(2, 14) <= 1), {S1Tile2x14K64C384N64Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 14) <= 0.5), {S1Tile7x14K64C384N64Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(14, 14) <= 0.5), {S1Tile14x14K64C384N64Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.rounds(14, 14, 1) < 1.8 * s.rounds(14, 14, 2)), {S1Tile14x14K64C384N64Warps8}, "many warps keep the GPU busy"},
    {MOBICUDA_ALWAYS, {S1Tile14x14K64C384N64Warps6, S1Tile14x14K64C384N64}, "large tiles expand fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 0.35), {S1Tile2x7K64C384N96Cluster4}, "four SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(2, 14) <= 0.5), {S1Tile2x14K64C384N96Cluster4}, "four SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.5), {S1Tile7x7K64C384N96Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 14) <= 0.5), {S1Tile7x14K64C384N96Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(14, 14) <= 0.5), {S1Tile14x14K64C384N96Cluster2}, "two SMs share a tile"},
    {MOBICUDA_ALWAYS, {S1Tile14x14K64C384N96}, "large tiles expand fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 0.25), {S1Tile2x7K96C576N96Cluster6}, "six SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(2, 14) <= 0.5), {S1Tile2x14K96C576N96Cluster4}, "four SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.5), {S1Tile7x7K96C576N96Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 14) <= 0.5), {S1Tile7x14K96C576N96Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 14) <= 1), {S1Tile7x14K96C576N96}, "small tiles keep the GPU busy"},
    {MOBICUDA_ALWAYS, {S1Tile14x14K96C576N96}, "large tiles expand fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(1, 7) <= 0.25), {S2Tile1x7K96C576N160Cluster6}, "six SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 0.55), {S2Tile2x7K96C576N160Cluster3}, "three SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(4, 7) <= 0.5), {S2Tile4x7K96C576N160Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.5), {S2Tile7x7K96C576N160Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 1), {S2Tile7x7K96C576N160Warps12}, "small tiles keep the GPU busy"},
    {MOBICUDA_ALWAYS, {S2Tile7x7K96C576N160}, "large tiles expand fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 0.1), {S1Tile2x7K160C960N160Cluster8}, "eight SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 0.2), {S1Tile2x7K160C960N160Cluster6}, "six SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(4, 7) <= 0.125), {S1Tile4x7K160C960N160Cluster6}, "six SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.125), {S1Tile7x7K160C960N160Cluster6}, "six SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(4, 7) <= 0.5), {S1Tile4x7K160C960N160Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.5), {S1Tile7x7K160C960N160Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(4, 7) <= 1.5), {S1Tile4x7K160C960N160Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 1.5), {S1Tile7x7K160C960N160Cluster2}, "two SMs share a tile"},
    {MOBICUDA_ALWAYS, {S1Tile7x7K160C960N160}, "large tiles expand fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(1, 7) <= 0.125), {S1Tile1x7K160C960N320Cluster8}, "eight SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(4, 7) <= 0.125), {S1Tile4x7K160C960N320Cluster6}, "six SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.125), {S1Tile7x7K160C960N320Cluster6}, "six SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(4, 7) <= 1), {S1Tile4x7K160C960N320Cluster2}, "two SMs share a tile"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 1), {S1Tile7x7K160C960N320Warps12}, "small tiles keep the GPU busy"},
    {MOBICUDA_ALWAYS, {S1Tile7x7K160C960N320}, "large tiles expand fewer pixels twice"},
};
// clang-format on

// Whether a block runs in a kernel compiled for it: where the library has none, or one whose tiles, of sevens, do not
// divide the image and take much longer by the model that ranks configurations.
bool is_made(const Int8InvertedResidualParams& params, const DeviceTraits& gpu, const Int8BlockShape& without) {
  constexpr double kSure = 0.8;  // of the library's time: less is beyond the model's error
  if (!gpu.compiles) return false;
  Preferences<Int8InvertedResidualVariant> own;
  append(kRows, without, own);
  const auto runs = [&](const auto& preferred) { return supports(preferred.variant, params, gpu); };
  const auto best = std::ranges::find_if(own, runs);
  const bool sevens = params.out_h % 7 == 0 && params.out_w % 7 == 0;
  if (best != own.end() && sevens) return false;
  const auto made = int8_inverted_residual_specialised(params, gpu);
  if (made.empty() || best == own.end()) return !made.empty();
  const auto expected = [&](Int8InvertedResidualVariant variant) {
    return int8_inverted_residual_expected_cycles(variant, params, gpu);
  };
  return expected(made.front()) <= kSure * expected(best->variant);
}

Int8BlockShape shape_of(const Int8InvertedResidualParams& params, const DeviceTraits& gpu) {
  Int8BlockShape shape{params, gpu.multiprocessors, gpu.wgmma_code, false};
  shape.made = is_made(params, gpu, shape);
  return shape;
}

}  // namespace

Preferences<Int8InvertedResidualVariant> preferences(const Int8InvertedResidualParams& params,
                                                     const DeviceTraits& gpu) {
  Preferences<Int8InvertedResidualVariant> found;
  append(kRows, shape_of(params, gpu), found);
  for (auto& preferred : found) {
    if (preferred.variant == Specialised) preferred.variant = int8_inverted_residual_specialised(params, gpu).front();
  }
  return found;
}

std::string_view why_fused(const Int8InvertedResidualParams& params, const DeviceTraits& gpu) {
  return first_why(kPays, shape_of(params, gpu), [&](Int8InvertedResidualVariant variant) {
    return variant == Specialised || supports(variant, params, gpu);
  });
}

FusedOption fused_option(const Int8InvertedResidualParams&) { return {"int8_block"}; }

std::vector<LayerApart> layers_apart(const Int8InvertedResidualParams& block) {
  Int8Conv2dParams expand;
  expand.n = block.n;
  expand.h = expand.out_h = block.h;
  expand.w = expand.out_w = block.w;
  expand.c_in = block.c_in;
  expand.c_out = block.c_hidden;
  Int8DepthwiseConvParams depthwise;
  depthwise.n = block.n;
  depthwise.h = block.h;
  depthwise.w = block.w;
  depthwise.c = block.c_hidden;
  depthwise.out_h = block.out_h;
  depthwise.out_w = block.out_w;
  depthwise.stride_h = depthwise.stride_w = block.stride;
  depthwise.pad_top = block.pad_top;
  depthwise.pad_left = block.pad_left;
  Int8Conv2dParams project;
  project.n = block.n;
  project.h = project.out_h = block.out_h;
  project.w = project.out_w = block.out_w;
  project.c_in = block.c_hidden;
  project.c_out = block.c_out;
  project.result = block.result;
  project.residual = block.residual;
  project.sum = block.sum;
  return {expand, depthwise, project};
}

std::vector<RuleText> rule_texts(const Int8InvertedResidualParams&) {
  return {text_of("int8_inverted_residual, where one launch pays", kPays), text_of("int8_inverted_residual", kRows)};
}

}  // namespace mobicuda
