#include <algorithm>

#include "choose/kernels.h"
#include "choose/pointwise_layer.h"
#include "choose/rules/conv2d_products.h"
#include "kernels/streaming/pooling.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum Conv2dVariant;

struct Conv2dShape {
  const Conv2dParams& params;
  int multiprocessors;
  bool half;
  int c_out;
  int group_out;       // output channels of a group
  double large_tiles;  // of 16x16 pixels, for each SM
  int last_columns;    // of the last tile of 64 columns; 0: it is full

  // Tiles of pixels x channels for each SM, of the convolution as a matrix product.
  double waves(int rows, int columns) const {
    return static_cast<double>(ceil_div(params.n * params.out_h * params.out_w, rows)) * ceil_div(group_out, columns) *
           params.groups / multiprocessors;
  }
  // The same of the tiles that a maximum over 2x2 has behind it.
  double pooled_waves() const { return waves(256, group_out <= 64 ? 64 : 128); }
};

using Conv2dRow = Row<Conv2dShape, Conv2dVariant>;

// Beyond 48 output channels tensor cores win over the stems' FMA.
// clang-format off
constexpr Conv2dRow kSpecial[] = {
    {MOBICUDA_ALWAYS, {Stem3x3Split}, "a first layer of few images, split among warps"},
    {MOBICUDA_WHEN((!s.half || s.c_out <= 48) && s.large_tiles >= 2), {Stem3x3P8C8}, "a first layer of many pixels"},
    {MOBICUDA_WHEN(!s.half || s.c_out <= 48), {Stem3x3P2C4}, "a first layer"},
    {MOBICUDA_ALWAYS, {Grouped3x3Tma, Grouped3x3}, "narrow groups on tensor cores"},
    {MOBICUDA_WHEN(s.c_out > 64 && s.c_out <= 96 && s.large_tiles >= 0.4), {First96}, "a first layer on tensor cores, by 96 channels"},
    {MOBICUDA_WHEN(s.last_columns > 0 && s.last_columns <= 32), {First32}, "a first layer on tensor cores, by 32 channels"},
    {MOBICUDA_WHEN(!(s.last_columns > 0 && s.last_columns <= 32)), {First64}, "a first layer on tensor cores, by 64 channels"},
    {MOBICUDA_ALWAYS, {First32}, "a first layer whose weights leave room for 32 channels only"},
};
constexpr std::string_view kByTime = "a matrix product: the shortest expected time";

// In float or double, as a matrix product of gathered pixels: most of a tile's columns would be idle below 16 outputs.
constexpr Conv2dRow kGathered[] = {
    {MOBICUDA_WHEN(s.group_out > 64 && s.waves(128, 128) >= 2), {Simt128x128x16}, "gathered pixels: the largest tiles fill the GPU"},
    {MOBICUDA_WHEN(s.group_out > 32 && s.waves(128, 64) >= 2), {Simt128x64x16}, "gathered pixels: large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.group_out > 32 && s.waves(64, 64) >= 1.5), {Simt64x64x16}, "gathered pixels: medium tiles fill the GPU"},
    {MOBICUDA_WHEN(s.group_out >= 16 && s.waves(32, 32) >= 0.9), {Simt32x32x32K4}, "gathered pixels: small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.group_out >= 16), {Simt16x32x64K8}, "gathered pixels: few tiles, shared by groups of threads"},
};
// With a maximum over 2x2 behind it.
constexpr Conv2dRow kPools[] = {
    {MOBICUDA_WHEN(s.pooled_waves() >= 0.7), {}, "many pixels: the convolution's own output is not written, nor read again"},
};
// With a second pointwise convolution in the same sum.
constexpr Conv2dRow kSums[] = {
    {MOBICUDA_ALWAYS, {}, "one sum: the first convolution's output is not written, nor read again"},
};
constexpr Conv2dRow kGeneral[] = {
    {MOBICUDA_ALWAYS, {Stem3x3P2C4}, "a first layer"},
    {MOBICUDA_ALWAYS, {Direct4x4, Direct}, "any shape"},
};
// clang-format on

}  // namespace

namespace {

Conv2dShape shape_of(const Conv2dParams& params, const DeviceTraits& gpu) {
  constexpr int kColumns = 64;
  const double large_tiles = static_cast<double>(params.n) * ceil_div(params.out_h, 16) * ceil_div(params.out_w, 16);
  return {params,
          gpu.multiprocessors,
          params.elem == Elem::F16,
          params.c_out,
          params.c_out / std::max(params.groups, 1),
          large_tiles / gpu.multiprocessors,
          params.c_out % kColumns};
}

std::vector<LayerApart> pool_apart(const Conv2dParams& pooled) {
  Conv2dParams convolution = pooled;
  convolution.max_pool = false;
  convolution.y_pitch = 0;
  PoolingParams pool;
  pool.elem = pooled.elem;
  pool.n = pooled.n;
  pool.h = pooled.out_h;
  pool.w = pooled.out_w;
  pool.c = pooled.c_out;
  pool.out_h = pooled.out_h / 2;
  pool.out_w = pooled.out_w / 2;
  pool.kernel_h = pool.kernel_w = pool.stride_h = pool.stride_w = 2;
  return {convolution, timed(pool)};
}

std::vector<LayerApart> sum_apart(const Conv2dParams& sum) {
  Conv2dParams first = pointwise_layer({sum.elem, sum.n, sum.h, sum.w}, sum.c_in, sum.c_out);
  first.bias = sum.bias;
  first.residual = true;
  first.activation = sum.activation;
  return {second_alone(sum), first};
}

}  // namespace

Preferences<Conv2dVariant> preferences(const Conv2dParams& params, const DeviceTraits& gpu) {
  const Conv2dShape shape = shape_of(params, gpu);
  Preferences<Conv2dVariant> found;
  if (!params.max_pool && params.second.c_in == 0) append(kSpecial, shape, found);
  for (const Conv2dVariant variant : products_by_time(params, gpu)) found.push_back({variant, kByTime});
  if (params.max_pool || params.second.c_in != 0) return found;
  append(kGathered, shape, found);
  append(kGeneral, shape, found);
  return found;
}

std::string_view why_fused(const Conv2dParams& params, const DeviceTraits& gpu) {
  const auto any = [](Conv2dVariant) { return true; };
  if (params.second.c_in != 0) return first_why(kSums, shape_of(params, gpu), any);
  return first_why(kPools, shape_of(params, gpu), any);
}

FusedOption fused_option(const Conv2dParams& params) {
  return {params.second.c_in != 0 ? std::string_view("projection") : std::string_view("pool")};
}

std::vector<LayerApart> layers_apart(const Conv2dParams& fused) {
  return fused.second.c_in != 0 ? sum_apart(fused) : pool_apart(fused);
}

std::vector<RuleText> rule_texts(const Conv2dParams&) {
  RuleText all = text_of("conv2d", kSpecial);
  all.lines.push_back({std::string(kAlways), "those of the table of times", std::string(kByTime)});
  for (const RuleText& more : {text_of("", kGathered), text_of("", kGeneral)}) {
    all.lines.insert(all.lines.end(), more.lines.begin(), more.lines.end());
  }
  return {text_of("conv2d, where one launch for a maximum over 2x2 behind it pays", kPools),
          text_of("conv2d, where one sum with another pointwise convolution pays", kSums), all};
}

}  // namespace mobicuda
