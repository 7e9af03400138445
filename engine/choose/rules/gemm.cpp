#include <algorithm>

#include "choose/rules/conv2d_products.h"
#include "choose/rules/preferences.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum GemmVariant;

// A matrix product seen as tiles.
struct GemmShape {
  int m, n, k;
  int multiprocessors;
  bool by_96;  // takes_96_columns()

  // Tiles of rows x columns for each SM.
  double waves(int rows, int columns) const {
    return static_cast<double>(ceil_div(m, rows)) * ceil_div(n, columns) / multiprocessors;
  }
  // Computed columns for each column that is wanted.
  double padding(int columns) const { return static_cast<double>(round_up(n, columns)) / n; }
};

using GemmRow = Row<GemmShape, GemmVariant>;

// clang-format off
constexpr GemmRow kHalf[] = {
    {MOBICUDA_WHEN(s.m <= 4), {Gemv}, "few rows: each weight is read once"},
    {MOBICUDA_WHEN(s.n <= 16 && s.waves(256, 16) >= 2), {Mma256x16x32}, "tiles as narrow as the output"},
    {MOBICUDA_WHEN(s.n <= 32 && s.waves(128, 32) >= 1.5), {Mma128x32x64}, "tiles as narrow as the output"},
    {MOBICUDA_WHEN(s.k <= 32 && !s.by_96 && s.waves(64, 32) >= 3), {Mma64x32x32}, "a short sum: many small tiles"},
    {MOBICUDA_WHEN(s.by_96), {Mma128x96x32}, "columns that fill tiles of 96"},
    {MOBICUDA_WHEN(s.n >= 128 && s.padding(128) <= 1.25 && s.waves(128, 128) >= (s.k >= 128 ? 1.5 : 4)),
     {Mma128x128x64}, "the largest tiles fill the GPU"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(128, 64) >= 1.5), {Mma128x64x64}, "large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.k <= 32 && s.waves(64, 32) >= 0.9), {Mma64x32x32}, "a short sum: small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.k >= 640 && s.waves(64, 32) >= 0.45 && s.waves(64, 32) <= 1), {Mma64x32x256K4},
     "a long sum, shared by four groups of threads"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(64, 64) >= 1), {Mma64x64x64}, "medium tiles fill the GPU"},
    {MOBICUDA_WHEN(s.k >= 384 && s.n <= 160 && s.waves(64, 32) >= 0.9 && s.waves(64, 32) < 1.6), {Mma32x32x64K2},
     "a long sum, shared by two groups of threads"},
    {MOBICUDA_WHEN(s.waves(64, 32) >= 0.9 && s.k > 64), {Mma64x32x64K2}, "small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(64, 32) >= 0.9), {Mma64x32x32}, "small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(32, 32) >= 0.9), {Mma32x32x64K2}, "smaller tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(16, 32) >= 0.75 && !(s.k >= 1024 && s.waves(16, 32) <= 1)), {Mma16x32x128K4},
     "few tiles, shared by four groups of threads"},
    {MOBICUDA_ALWAYS, {Mma16x16x256K8}, "few tiles, shared by eight groups of threads"},
    {MOBICUDA_WHEN(s.waves(64, 64) >= 1), {Simt64x64x16}, "rows that do not start on 16 bytes"},
    {MOBICUDA_WHEN(s.waves(32, 32) >= 0.9), {Simt32x32x32K4}, "rows that do not start on 16 bytes"},
    {MOBICUDA_WHEN(s.waves(16, 32) >= 0.75), {Simt16x32x64K8}, "rows that do not start on 16 bytes"},
    {MOBICUDA_ALWAYS, {Simt16x16x128K16}, "rows that do not start on 16 bytes"},
};

constexpr GemmRow kFloat[] = {
    {MOBICUDA_WHEN(s.m <= 8), {Gemv}, "few rows: each weight is read once"},
    {MOBICUDA_WHEN(s.n <= 16 && s.waves(256, 16) >= 2), {Simt256x16x16}, "tiles as narrow as the output"},
    {MOBICUDA_WHEN(s.n <= 32 && s.waves(128, 32) >= 2), {Simt128x32x16}, "tiles as narrow as the output"},
    {MOBICUDA_WHEN(s.waves(128, 128) >= 2 && s.padding(128) <= std::min(1.2, s.padding(64))), {Simt128x128x16},
     "the largest tiles fill the GPU"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(128, 64) >= 2 && s.padding(64) <= 1.2 * s.padding(32)), {Simt128x64x16},
     "large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(128, 32) >= 3), {Simt128x32x16}, "narrow tiles, less padding"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(64, 64) >= 1.5), {Simt64x64x16}, "medium tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(32, 32) >= 0.9), {Simt32x32x32K4}, "small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(16, 32) >= 0.75), {Simt16x32x64K8}, "few tiles, shared by eight groups of threads"},
    {MOBICUDA_ALWAYS, {Simt16x16x128K16, Simt32x32x32K4, Simt64x64x16}, "few tiles, shared by many groups of threads"},
};

constexpr GemmRow kDouble[] = {
    {MOBICUDA_WHEN(s.m <= 8), {Gemv}, "few rows: each weight is read once"},
    {MOBICUDA_WHEN(s.n > 32 && s.waves(64, 64) >= 1.5), {Simt64x64x16}, "large tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(32, 32) >= 0.9), {Simt32x32x32K4}, "small tiles fill the GPU"},
    {MOBICUDA_WHEN(s.waves(16, 32) >= 0.75), {Simt16x32x64K8}, "few tiles, shared by eight groups of threads"},
    {MOBICUDA_ALWAYS, {Simt16x16x128K16}, "few tiles, shared by many groups of threads"},
};
// clang-format on

}  // namespace

Preferences<GemmVariant> preferences(const GemmParams& params, const DeviceTraits& gpu) {
  const GemmShape shape{params.m, params.n, params.k, gpu.multiprocessors,
                        takes_96_columns(params.m, params.n, params.k, gpu.multiprocessors)};
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
