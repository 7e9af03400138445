#include "choose/kernels.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum SplitGemmVariant;

// A matrix product seen as tiles.
struct ProductShape {
  int m, n, k;
  int multiprocessors;

  // Tiles of rows x columns for each SM.
  double waves(int rows, int columns) const {
    return static_cast<double>(ceil_div(m, rows)) * ceil_div(n, columns) / multiprocessors;
  }
  // Computed columns for each column that is wanted.
  double padding(int columns) const { return static_cast<double>(round_up(n, columns)) / n; }
};

struct BlockShape {
  int images;
  int pixels;  // of an image, where the block is expanded
  int c_hidden;
  bool expand;

  // Few pixels for the hidden channels, as B8 to B17 of MobileNetV2.
  bool late() const { return expand && pixels <= 2 * c_hidden; }
};

using ProductRow = Row<ProductShape, SplitGemmVariant>;

// clang-format off
constexpr ProductRow kPays[] = {
    {MOBICUDA_WHEN(s.m > 8), {}, "three products of halves on tensor cores take less time than one of floats"},
};

constexpr ProductRow kRows[] = {
    {MOBICUDA_WHEN(s.n <= 32 && s.waves(128, 32) >= 1.5), {Tile128x32x32}, "X is most of the traffic, no padded columns"},
    {MOBICUDA_WHEN(s.waves(128, 96) >= 1.5 && s.padding(96) < s.padding(64)), {Tile128x96x32}, "no padded columns"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(128, 64) >= 1.5), {Tile128x64x32}, "the most products for a byte of shared memory"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(64, 64) >= 1), {Tile64x64x32}, "one wave of larger tiles"},
    {MOBICUDA_WHEN(s.waves(64, 32) >= 0.9), {Tile64x32x32}, "one wave of small tiles"},
    {MOBICUDA_WHEN(s.waves(32, 32) >= 0.9 && s.k <= 256), {Tile32x32x64K2}, "few dependent steps"},
    {MOBICUDA_WHEN(s.waves(32, 32) >= 0.4), {Tile32x32x128K4}, "few tiles: four groups of warps share a sum"},
    {MOBICUDA_ALWAYS, {Tile16x32x256K8}, "the fewest tiles: eight groups of warps share a sum"},
};

constexpr Row<BlockShape, SplitGemmVariant> kBlocks[] = {
    {MOBICUDA_WHEN(s.late() && s.images > 4), {}, "split products: three launches are faster"},
};
// clang-format on

ProductShape shape_of(const SplitGemmParams& params, const DeviceTraits& gpu) {
  return {params.m, params.n, params.k, gpu.multiprocessors};
}

}  // namespace

Preferences<SplitGemmVariant> preferences(const SplitGemmParams& params, const DeviceTraits& gpu) {
  Preferences<SplitGemmVariant> found;
  append(kRows, shape_of(params, gpu), found);
  return found;
}

std::string_view why_fused(const SplitGemmParams& params, const DeviceTraits& gpu) {
  return first_why(kPays, shape_of(params, gpu), [](SplitGemmVariant) { return true; });
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
  return {text_of("split_gemm, where it pays", kPays), text_of("split_gemm", kRows),
          text_of("split_gemm, blocks that are three launches", kBlocks)};
}

}  // namespace mobicuda
