#include <algorithm>
#include <utility>
#include <vector>

#include "choose/kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum SplitGemmVariant;

struct ProductShape {
  int m;
};

// What a tile takes, in us, fitted to times on an H200 (kernels/split_gemm/README.md).
struct TileTimes {
  SplitGemmVariant variant;
  int rows, columns;
  int blocks;     // that an SM holds
  double launch;  // and the first slice
  double slice;   // 32 of k, of a block alone on its SM
  double others;  // more of that for each other block there
  double tile;    // its end
};

// clang-format off
constexpr TileTimes kTimes[] = {
    {Tile128x96x32,    128,  96, 2, 2.30, 1.090, 0.632, 2.516},
    {Tile128x64x32,    128,  64, 3, 2.06, 1.036, 0.460, 1.360},
    {Tile128x32x32,    128,  32, 4, 1.96, 0.561, 0.473, 0.066},
    {Tile64x64x32,      64,  64, 3, 1.47, 0.571, 0.297, 0.611},
    {Tile64x32x32,      64,  32, 5, 1.38, 0.405, 0.176, 0.343},
    {Tile32x32x64K2,    32,  32, 4, 1.14, 0.205, 0.106, 0.293},
    {Tile32x32x128K4,   32,  32, 2, 0.62, 0.178, 0.162, 0.836},
    {Tile16x32x256K8,   16,  32, 2, 0.42, 0.093, 0.099, 1.120},
    {Wgmma192x96x64,   192,  96, 1, 1.04, 0.752, 0.000, 2.390},
    {Wgmma128x160x64,  128, 160, 1, 0.55, 0.823, 0.000, 2.668},
    {Wgmma128x96x64,   128,  96, 1, 0.66, 0.608, 0.000, 1.784},
    {Wgmma128x64x32,   128,  64, 2, 0.84, 0.672, 0.328, 0.805},
    {Wgmma128x32x32,   128,  32, 2, 0.52, 0.601, 0.227, 0.406},
    {Wgmma64x64x64,     64,  64, 2, 0.62, 0.507, 0.104, 0.563},
    {Wgmma64x32x64,     64,  32, 3, 0.77, 0.448, 0.074, 0.305},
};
// clang-format on

// Expected, in us.
double time_of(const TileTimes& tile, const SplitGemmParams& p, const DeviceTraits& gpu) {
  constexpr int kSlice = 32;
  constexpr double kEndBeside = 0.5;  // of a tile's end, for each other block
  const int row_tiles = ceil_div(p.m, tile.rows);
  const int strips = ceil_div(p.n, tile.columns);
  const int strip_blocks = std::clamp(tile.blocks * gpu.multiprocessors / strips, 1, std::max(1, row_tiles));
  const int rounds = ceil_div(row_tiles, strip_blocks);
  const int beside = ceil_div(strip_blocks * strips, gpu.multiprocessors) - 1;
  const double slices = ceil_div(p.k, kSlice) * (tile.slice + tile.others * beside);
  return tile.launch + rounds * (slices + tile.tile * (1 + kEndBeside * beside));
}

struct BlockShape {
  int images;
  int pixels;  // of an image, where the block is expanded
  int c_hidden;
  bool expand;

  // Few pixels for the hidden channels, as B8 to B17 of MobileNetV2.
  bool late() const { return expand && pixels <= 2 * c_hidden; }
};

// clang-format off
constexpr Row<ProductShape, SplitGemmVariant> kPays[] = {
    {MOBICUDA_WHEN(s.m > 8), {}, "three products of halves on tensor cores take less time than one of floats"},
};

constexpr Row<BlockShape, SplitGemmVariant> kBlocks[] = {
    {MOBICUDA_WHEN(s.late() && s.images > 4), {}, "split products: three launches are faster"},
};
// clang-format on

}  // namespace

Preferences<SplitGemmVariant> preferences(const SplitGemmParams& params, const DeviceTraits& gpu) {
  std::vector<std::pair<double, SplitGemmVariant>> times;
  for (const TileTimes& tile : kTimes) {
    if (supports(tile.variant, params, gpu)) times.emplace_back(time_of(tile, params, gpu), tile.variant);
  }
  std::ranges::sort(times);
  Preferences<SplitGemmVariant> found;
  for (const auto& [time, variant] : times) found.push_back({variant, "the least expected time"});
  return found;
}

std::string_view why_fused(const SplitGemmParams& params, const DeviceTraits&) {
  return first_why(kPays, ProductShape{params.m}, [](SplitGemmVariant) { return true; });
}

std::string_view why_split_layers(const InvertedResidualParams& block, const DeviceTraits&) {
  const BlockShape shape{block.n, block.h * block.w, block.c_hidden, block.expand};
  return first_why(kBlocks, shape, [](SplitGemmVariant) { return true; });
}

FusedOption fused_option(const SplitGemmParams&) { return {"split"}; }

std::vector<LayerApart> layers_apart(const SplitGemmParams& params) {
  GemmParams exact;
  exact.m = params.m;
  exact.n = params.n;
  exact.k = params.k;
  exact.bias = params.bias;
  exact.residual = params.residual;
  exact.activation = params.activation;
  exact.x_pitch = params.x_pitch;
  exact.y_pitch = params.y_pitch;
  return {exact};
}

std::vector<RuleText> rule_texts(const SplitGemmParams&) {
  return {text_of("split_gemm, where it pays", kPays), text_of("split_gemm, blocks that are three launches", kBlocks)};
}

}  // namespace mobicuda
