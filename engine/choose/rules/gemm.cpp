#include <algorithm>

#include "choose/kernels.h"
#include "choose/rules/conv2d_products.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum GemmVariant;

// A matrix product seen as tiles.
struct GemmShape {
  int m, n, k;
  int multiprocessors;
  bool by_96;       // takes_96_columns()
  bool whole_rows;  // takes_whole_rows()

  // Tiles of rows x columns for each SM.
  double waves(int rows, int columns) const {
    return static_cast<double>(ceil_div(m, rows)) * ceil_div(n, columns) / multiprocessors;
  }
  // Computed columns for each column that is wanted.
  double padding(int columns) const { return static_cast<double>(round_up(n, columns)) / n; }
  // The projections at 7x7: long sums for few columns.
  bool projects_late() const { return k >= 640 && n > 96 && n <= 320; }
  // Too much of k for the fewest tiles of 16x32; of few columns a little more is not.
  bool long_sum() const { return k > 1024 || (k == 1024 && n > 512); }
  // So many tiles for each SM are one at the most, and on `least` of the SMs.
  static bool fills(double tiles, double least) { return tiles > least && tiles <= 1; }
};

using GemmRow = Row<GemmShape, GemmVariant>;

// clang-format off
constexpr GemmRow kHalf[] = {
    {MOBICUDA_WHEN(s.m <= 4), {Gemv}, "W is read once for four rows; bound by W's bytes"},
    {MOBICUDA_WHEN(s.whole_rows), {MmaRows}, "a short sum for many columns: writing Y is nearly all, and goes by whole lines"},
    {MOBICUDA_WHEN(s.n <= 16 && s.waves(256, 16) >= 2), {Mma256x16x32}, "bound by DRAM, W is tiny, no padded columns"},
    {MOBICUDA_WHEN(s.n <= 32 && s.waves(128, 32) >= 1.5), {Mma128x32x64},
     "projections at 56x56 and 28x28: X is most of the traffic, 48 KB of it in flight a block"},
    {MOBICUDA_WHEN(s.k <= 32 && !s.by_96 && s.waves(64, 32) >= 3), {Mma64x32x32},
     "one slice: Y is nearly all of the traffic, many small blocks"},
    {MOBICUDA_WHEN(s.n > 64 && s.n <= 72 && s.k <= 32 && s.waves(128, 32) >= 6), {Mma128x32x64},
     "72 columns: Y is nearly all of the traffic"},
    {MOBICUDA_WHEN(s.by_96), {Mma128x96x32}, "expansions: W stays in shared memory, k in one to five slices, no padded columns"},
    {MOBICUDA_WHEN(s.n >= 128 && s.padding(128) <= 1.25 && s.waves(128, 128) >= (s.k >= 128 ? 1.5 : 4)),
     {Mma128x128x64}, "bound by tensor cores: the most products for a byte of shared memory"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(128, 64) >= 1.5), {Mma128x64x64}, "the same for n = 64, 96, 160"},
    {MOBICUDA_WHEN(s.k <= 32 && s.waves(64, 32) >= 0.9), {Mma64x32x32},
     "112x112 and 56x56 at batch 1: one slice, many small blocks"},
    {MOBICUDA_WHEN(s.k > 960 && s.k <= 1024 && s.n >= 512 && s.waves(16, 32) >= 1.5 && s.waves(16, 32) <= 2),
     {Mma16x32x128K4}, "14x14 at batch 1, 1024 to 512: two blocks for each SM"},
    {MOBICUDA_WHEN(s.k >= 640 && s.waves(64, 32) >= 0.45 && s.waves(64, 32) <= 1), {Mma64x32x256K4},
     "the classifier, narrow layers of 7x7: four slices under way"},
    {MOBICUDA_WHEN(s.k >= 512 && s.n >= 256 && s.waves(64, 32) >= 0.7 && s.waves(64, 32) <= 1), {Mma64x32x256K4},
     "28x28 at batch 1, 512 to 256: all of a long sum under way"},
    {MOBICUDA_WHEN(s.projects_late() && s.fills(s.waves(128, 64), 0.85)), {Mma128x64x64},
     "projections of many channels: one wave of the largest tiles"},
    {MOBICUDA_WHEN(s.projects_late() && s.fills(s.waves(128, 32), 0.55)), {Mma128x32x64},
     "projections of many channels: one wave of tall tiles"},
    {MOBICUDA_WHEN(s.projects_late() && s.fills(s.waves(128, 32) / 2, 0.85)), {Mma128x32x64},
     "projections of many channels: two tall tiles for each SM"},
    {MOBICUDA_WHEN(s.n > 48 && s.n <= 64 && s.k > 64 && s.k <= 192 && s.waves(128, 32) >= 2.5), {Mma128x32x64},
     "projections of 28x28 to 56 and 64 columns: more blocks than 64x64 has"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(64, 64) >= 1), {Mma64x64x64}, "one wave of larger tiles"},
    {MOBICUDA_WHEN(s.k >= 384 && s.n <= 160 && s.waves(64, 32) >= 0.9 && s.waves(64, 32) < 1.6), {Mma32x32x64K2},
     "the narrow projections of 14x14 and 7x7: more blocks than 64x32 has"},
    {MOBICUDA_WHEN(s.waves(64, 32) >= 0.9 && s.k > 64), {Mma64x32x64K2}, "one wave of small tiles, two slices under way"},
    {MOBICUDA_WHEN(s.waves(64, 32) >= 0.9), {Mma64x32x32}, "one wave of small tiles, a short sum"},
    {MOBICUDA_WHEN(s.k > 192 && s.k <= 256 && s.n <= 64 && s.waves(32, 32) >= 0.9), {Mma16x16x256K8},
     "56x56 at batch 1, 256 to 64: all of k under way, in one slice"},
    {MOBICUDA_WHEN(s.m <= 64 && s.n >= 1024 && s.k >= 512 && s.waves(16, 32) >= 1.5 && s.waves(16, 32) <= 2), {Mma16x32x128K4},
     "7x7 at batch 1, 512 to 2048: two blocks for each SM"},
    {MOBICUDA_WHEN(s.waves(32, 32) >= 0.9), {Mma32x32x64K2}, "latency: few dependent steps"},
    {MOBICUDA_WHEN(s.k > 448 && s.k <= 512 && s.n <= 128 && s.waves(16, 32) >= 1.2), {Mma16x16x256K8},
     "28x28 at batch 1, 512 to 128: all of k under way at once"},
    {MOBICUDA_WHEN(s.waves(16, 32) >= 0.75 && !(s.long_sum() && s.waves(16, 32) <= 1)), {Mma16x32x128K4},
     "latency: four groups of threads share a sum"},
    {MOBICUDA_ALWAYS, {Mma16x16x256K8}, "all of k <= 1024 under way at once, 8 warps share it"},
    {MOBICUDA_WHEN(s.waves(64, 64) >= 1), {Simt64x64x16}, "rows that do not start on 16 bytes, or no tensor cores for them"},
    {MOBICUDA_WHEN(s.waves(32, 32) >= 0.9), {Simt32x32x32K4}, "the same, smaller tiles"},
    {MOBICUDA_WHEN(s.waves(16, 32) >= 0.75), {Simt16x32x64K8}, "the same, few tiles"},
    {MOBICUDA_ALWAYS, {Simt16x16x128K16}, "the same, the fewest tiles"},
};

constexpr GemmRow kFloat[] = {
    {MOBICUDA_WHEN(s.m <= 8), {Gemv}, "W is read once for four rows"},
    {MOBICUDA_WHEN(s.n <= 16 && s.waves(256, 16) >= 2), {Simt256x16x16}, "bound by DRAM, no padded columns"},
    {MOBICUDA_WHEN(s.n <= 32 && s.waves(128, 32) >= 2), {Simt128x32x16}, "no padded columns"},
    {MOBICUDA_WHEN(s.waves(128, 128) >= 2 && s.padding(128) <= std::min(1.2, s.padding(64))), {Simt128x128x16},
     "bound by FFMA: 8x8 outputs a thread, 16 FFMA for one shared load"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(128, 64) >= 2 && s.padding(64) <= 1.2 * s.padding(32)), {Simt128x64x16},
     "the same for n = 64, 192, 320, 576, 960"},
    {MOBICUDA_WHEN(s.waves(128, 32) >= 3), {Simt128x32x16}, "n = 96: padded columns cost more than the smaller tile"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(64, 64) >= 1.5), {Simt64x64x16}, "medium tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(32, 32) >= 0.9), {Simt32x32x32K4}, "small tiles fill the GPU, four groups of threads share a sum"},
    {MOBICUDA_WHEN(s.waves(16, 32) >= 0.75), {Simt16x32x64K8}, "few tiles, eight groups of threads share a sum"},
    {MOBICUDA_ALWAYS, {Simt16x16x128K16, Simt32x32x32K4, Simt64x64x16},
     "the fewest tiles; larger ones where k is too large for shared memory"},
};

constexpr GemmRow kDouble[] = {
    {MOBICUDA_WHEN(s.m <= 8), {Gemv}, "W is read once for four rows"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(64, 64) >= 1.5), {Simt64x64x16}, "large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(32, 32) >= 0.9), {Simt32x32x32K4}, "small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(16, 32) >= 0.75), {Simt16x32x64K8}, "few tiles"},
    {MOBICUDA_ALWAYS, {Simt16x16x128K16}, "the fewest tiles"},
};
// clang-format on

}  // namespace

Preferences<GemmVariant> preferences(const GemmParams& params, const DeviceTraits& gpu) {
  const GemmShape shape{params.m,
                        params.n,
                        params.k,
                        gpu.multiprocessors,
                        takes_96_columns(params.m, params.n, params.k, gpu.multiprocessors),
                        takes_whole_rows(params.m, params.n, params.k, gpu.multiprocessors)};
  Preferences<GemmVariant> found;
  switch (params.elem) {
    case Elem::F32:
      append(kFloat, shape, found);
      break;
    case Elem::F16:
      append(kHalf, shape, found);
      break;
    case Elem::F64:
      append(kDouble, shape, found);
      break;
  }
  return found;
}

std::vector<RuleText> rule_texts(const GemmParams&) {
  return {text_of("gemm, fp16", kHalf), text_of("gemm, fp32", kFloat), text_of("gemm, fp64", kDouble)};
}

}  // namespace mobicuda
