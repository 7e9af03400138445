#include "choose/kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum Int8InvertedResidualVariant;

struct Int8BlockShape {
  const Int8InvertedResidualParams& params;
  int multiprocessors;

  // Tiles of rows x columns for each SM.
  double waves(int rows, int columns) const {
    return static_cast<double>(params.n) * ceil_div(params.out_h, rows) * ceil_div(params.out_w, columns) /
           multiprocessors;
  }
};

using Int8BlockRow = Row<Int8BlockShape, Int8InvertedResidualVariant>;

// clang-format off
constexpr Int8BlockRow kPays[] = {
    {MOBICUDA_ALWAYS,
     {S2Tile8x14K16C96N24, S1Tile14x14K24C144N24, S2Tile4x14K24C144N32, S1Tile14x14K32C192N32, S2Tile7x14K32C192N64},
     "one launch instead of three"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.5),
     {S1Tile7x7K64C384N64Cluster4, S1Tile7x7K64C384N96Cluster4, S1Tile7x7K96C576N96Cluster6},
     "SMs share quarters of a map"},
    {MOBICUDA_WHEN(s.waves(14, 14) >= 0.4), {S1Tile14x14K64C384N64, S1Tile14x14K64C384N96, S1Tile14x14K96C576N96},
     "a whole map for each SM"},
    {MOBICUDA_WHEN(s.waves(4, 4) <= 0.6), {S2Tile4x4K96C576N160Cluster6}, "SMs share quarters of a map"},
    {MOBICUDA_WHEN(s.waves(7, 7) >= 0.9), {S2Tile7x7K96C576N160}, "a whole map for each SM"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.1), {S1Tile7x7K160C960N160Cluster8, S1Tile7x7K160C960N320Cluster8}, "SMs share a map"},
    {MOBICUDA_WHEN(s.waves(7, 7) >= 1.5), {S1Tile7x7K160C960N320}, "two whole maps for each SM"},
};
constexpr Int8BlockRow kRows[] = {
    {MOBICUDA_WHEN(s.waves(4, 8) <= 3), {S2Tile4x8K16C96N24, S1Tile4x8K24C144N24}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(4, 4) <= 1), {S2Tile4x4K24C144N32, S1Tile4x4K32C192N32}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(2, 7) <= 1), {S2Tile2x7K32C192N64Cluster2}, "SMs share small tiles"},
    {MOBICUDA_WHEN(s.waves(4, 8) <= 1), {S2Tile4x8K24C144N32}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(4, 8) <= 3.5), {S1Tile4x8K32C192N32}, "small tiles keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(7, 14) <= 1), {S2Tile4x8K32C192N64}, "small tiles keep the GPU busy"},
    {MOBICUDA_ALWAYS,
     {S2Tile8x14K16C96N24, S1Tile14x14K24C144N24, S2Tile4x14K24C144N32, S1Tile14x14K32C192N32, S2Tile7x14K32C192N64},
     "large tiles expand fewer pixels twice"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.25),
     {S1Tile7x7K64C384N64Cluster4, S1Tile7x7K64C384N96Cluster4, S1Tile7x7K96C576N96Cluster6},
     "SMs share quarters of a map"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.5),
     {S1Tile7x7K64C384N64Cluster2, S1Tile7x7K64C384N96Cluster2, S1Tile7x7K96C576N96Cluster2},
     "two SMs share a quarter of a map"},
    {MOBICUDA_WHEN(s.waves(14, 14) <= 0.3), {S1Tile7x7K64C384N64, S1Tile7x7K64C384N96, S1Tile7x7K96C576N96},
     "quarters of a map keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(14, 14) <= 1), {S1Tile14x14K64C384N64Warps16}, "an SM has a whole map"},
    {MOBICUDA_ALWAYS, {S1Tile14x14K64C384N64, S1Tile14x14K64C384N96, S1Tile14x14K96C576N96}, "whole maps"},
    {MOBICUDA_WHEN(s.waves(4, 4) <= 0.25), {S2Tile4x4K96C576N160Cluster6}, "SMs share quarters of a map"},
    {MOBICUDA_WHEN(s.waves(4, 4) <= 0.5), {S2Tile4x4K96C576N160Cluster2}, "two SMs share a quarter of a map"},
    {MOBICUDA_WHEN(s.waves(4, 4) <= 1), {S2Tile4x4K96C576N160}, "quarters of a map keep the GPU busy"},
    {MOBICUDA_WHEN(s.waves(4, 7) <= 0.0625), {S1Tile4x7K160C960N160Cluster8, S1Tile4x7K160C960N320Cluster8}, "SMs share halves of a map"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.125), {S1Tile7x7K160C960N160Cluster8, S1Tile7x7K160C960N320Cluster8}, "eight SMs share a map"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 0.25), {S1Tile7x7K160C960N160Cluster4, S1Tile7x7K160C960N320Cluster4}, "four SMs share a map"},
    {MOBICUDA_WHEN(s.waves(7, 7) <= 1),
     {S2Tile7x7K96C576N160Warps12, S1Tile7x7K160C960N160Warps12, S1Tile7x7K160C960N320Warps12},
     "an SM has a whole map"},
    {MOBICUDA_ALWAYS, {S2Tile7x7K96C576N160, S1Tile7x7K160C960N160, S1Tile7x7K160C960N320}, "whole maps"},
};
// clang-format on

}  // namespace

Preferences<Int8InvertedResidualVariant> preferences(const Int8InvertedResidualParams& params,
                                                     const DeviceTraits& gpu) {
  const Int8BlockShape shape{params, gpu.multiprocessors};
  Preferences<Int8InvertedResidualVariant> found;
  append(kRows, shape, found);
  return found;
}

std::string_view why_fused(const Int8InvertedResidualParams& params, const DeviceTraits& gpu) {
  return first_why(kPays, Int8BlockShape{params, gpu.multiprocessors},
                   [&](Int8InvertedResidualVariant variant) { return supports(variant, params, gpu); });
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
