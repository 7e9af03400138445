// Inverted residual blocks in exact float: variants, limits, packing, launch. The kernel:
// kernel.cuh. Its stages: stages.cuh.

#include <algorithm>
#include <limits>

#include "kernels/common/spread_blocks.h"
#include "kernels/common/variant_table.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/simt/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using inverted_host::bias_at;
using inverted_simt::Arguments;
using inverted_simt::Config;
using inverted_simt::expand_floats;
using inverted_simt::front_floats;
using inverted_simt::kTaps;
using inverted_simt::kUnit;
using inverted_simt::Shape;
using Variant = InvertedResidualVariant;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

int units(const InvertedResidualParams& p) { return p.c_hidden / kUnit; }

std::size_t packed_bytes(const InvertedResidualParams& p) {
  return static_cast<std::size_t>(p.c_out + units(p) * front_floats(p.expand, p.c_in) + p.c_hidden * p.c_out) *
         sizeof(float);
}

void pack_front(const InvertedResidualParams& p, const InvertedResidualWeights& w, int unit, float* to) {
  float* const depthwise = to + expand_floats(p.expand, p.c_in);
  for (int c = 0; c < kUnit; ++c) {
    const int hidden = unit * kUnit + c;
    for (int k = 0; p.expand && k < p.c_in; ++k) to[k * kUnit + c] = w.expand[hidden * p.c_in + k];
    if (p.expand) to[p.c_in * kUnit + c] = bias_at(w.expand_bias, hidden);
    for (int tap = 0; tap < kTaps; ++tap) depthwise[tap * kUnit + c] = w.depthwise[hidden * kTaps + tap];
    depthwise[kTaps * kUnit + c] = bias_at(w.depthwise_bias, hidden);
  }
}

void pack(const InvertedResidualParams& p, const InvertedResidualWeights& w, void* packed) {
  auto* to = static_cast<float*>(packed);
  for (int c = 0; c < p.c_out; ++c) *to++ = bias_at(w.project_bias, c);
  for (int unit = 0; unit < units(p); ++unit, to += front_floats(p.expand, p.c_in)) pack_front(p, w, unit, to);
  for (int hidden = 0; hidden < p.c_hidden; ++hidden) {
    for (int c = 0; c < p.c_out; ++c) *to++ = w.project[c * p.c_hidden + hidden];
  }
}

template <Config kConfig>
std::int64_t tiles(const InvertedResidualParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, kConfig.tile_h) * ceil_div(p.out_w, kConfig.tile_w);
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  using S = Shape<kConfig>;
  Arguments a{};
  inverted_host::set_extents(a, p);
  a.c_hidden = p.c_hidden;
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, kConfig.tile_w)));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, kConfig.tile_h)));
  a.expand_clip = p.expand_clip;
  a.depthwise_clip = p.depthwise_clip;
  a.project_clip = p.project_clip;
  const auto kernel = inverted_simt::fused_kernel<S>;
  const auto blocks = static_cast<unsigned>(tiles<kConfig>(p));
  std::size_t bytes = S::kSharedBytes;
  const cudaError_t status = spread_blocks(kernel, blocks, S::kThreads, 1, bytes);
  if (status != cudaSuccess) return status;
  return launch(kernel, dim3(blocks), dim3(S::kThreads), bytes, where, a, static_cast<const float*>(x),
                static_cast<const float*>(packed), static_cast<float*>(y));
}

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;
  return gpu.code >= kOldest && p.elem == Elem::F32 && p.c_in == kConfig.c_in && p.c_out == kConfig.c_out &&
         (kConfig.one_chunk ? p.c_hidden == kConfig.chunk : p.c_hidden % kConfig.chunk == 0) &&
         tiles<kConfig>(p) <= kMaxInt && Shape<kConfig>::kSharedBytes <= gpu.shared_bytes_per_block;
}

template <Config kConfig>
constexpr InvertedResidualTile kTile{kConfig.stride, kConfig.tile_h,           kConfig.tile_w, kConfig.chunk,
                                     kConfig.c_out,  Shape<kConfig>::kThreads, kConfig.expand};

template <Config kConfig, bool kBuilt = true>
constexpr InvertedResidualEntry entry(Variant variant, std::string_view name) {
  InvertedResidualEntry made{variant, name, kTile<kConfig>, nullptr, packed_bytes, pack, nullptr};
  if constexpr (kBuilt) {
    made.supports = supports_config<kConfig>;
    made.launch = launch_config<kConfig>;
  }
  return made;
}

// clang-format off
constexpr InvertedResidualEntry kEntries[] = {
    //       expand stride tile   c_in,out chunk, one  warps rows strip    project  warps    in_place pads  blocks
    entry<Config{false, 1, 14, 14, 32, 16,  32, true,   4,   0,   7, 2, 4,  7, 4,    4, 1,  1, true,   0, 16, 4}>(Variant::SimtPlainTile14x14C32N16, "simt_plain_14x14_c32_n16"),
    entry<Config{false, 1,  7, 14, 32, 16,  32, true,   8,   0,   7, 1, 2,  7, 4,    2, 1,  4, false,  0, 16, 2}>(Variant::SimtPlainTile7x14C32N16, "simt_plain_7x14_c32_n16"),
    entry<Config{true,  1, 14, 14, 24, 24,  16, false,  4,   4,   7, 2, 2,  7, 6,    4, 1,  1, true,   0, 16, 3}>(Variant::SimtS1Tile14x14C16N24, "simt_s1_14x14_c16_n24"),
    entry<Config{true,  1, 14, 14, 24, 24,  48, false,  6,   4,   7, 2, 4,  5, 6,    5, 1,  1, true,   0, 16, 2}, kAllVariants>(Variant::SimtS1Tile14x14C48N24, "simt_s1_14x14_c48_n24"),
    entry<Config{true,  1,  7,  7, 24, 24,  48, false,  6,   3,   7, 1, 2,  7, 6,    1, 1,  6, false,  0,  0, 2}>(Variant::SimtS1Tile7x7C48N24, "simt_s1_7x7_c48_n24"),
    entry<Config{true,  1,  4,  7, 24, 24, 144, true,   9,   4,   1, 7, 2,  4, 6,    1, 1,  9, false,  8, 24, 1}>(Variant::SimtS1Tile4x7C144N24, "simt_s1_4x7_c144_n24"),
    entry<Config{true,  1, 14, 14, 32, 32,  16, false,  4,   4,   7, 2, 2,  7, 8,    4, 1,  1, true,   0, 16, 3}>(Variant::SimtS1Tile14x14C16N32, "simt_s1_14x14_c16_n32"),
    entry<Config{true,  1,  7,  7, 32, 32,  48, false,  6,   3,   7, 1, 2,  7, 8,    1, 1,  6, false,  0,  0, 2}>(Variant::SimtS1Tile7x7C48N32, "simt_s1_7x7_c48_n32"),
    entry<Config{true,  1,  7,  7, 32, 32,  96, false, 12,   3,   7, 1, 2,  7, 8,    1, 1, 12, false, 16,  8, 1}>(Variant::SimtS1Tile7x7C96N32, "simt_s1_7x7_c96_n32"),
    entry<Config{true,  1,  2,  4, 32, 32, 192, true,  12,   2,   1, 4, 1,  1, 8,    1, 1, 12, false,  8,  0, 1}>(Variant::SimtS1Tile2x4C192N32, "simt_s1_2x4_c192_n32"),
    entry<Config{true,  1, 14, 14, 64, 64,  16, false,  8,   2,   7, 2, 1,  7, 8,    4, 2,  1, true,   0, 16, 2}>(Variant::SimtS1Tile14x14C16N64, "simt_s1_14x14_c16_n64"),
    entry<Config{true,  1, 14, 14, 64, 96,  16, false, 12,   2,   7, 2, 1,  7, 8,    4, 3,  1, true,   0, 16, 1}>(Variant::SimtS1Tile14x14C16K64N96, "simt_s1_14x14_c16_k64_n96"),
    entry<Config{true,  1, 14, 14, 96, 96,  16, false, 12,   2,   7, 2, 1,  7, 8,    4, 3,  1, true,   0, 16, 1}>(Variant::SimtS1Tile14x14C16N96, "simt_s1_14x14_c16_n96"),
    entry<Config{true,  2,  7,  8, 16, 24,  16, false,  4,   4,   1, 8, 1,  4, 6,    2, 1,  2, true,   0,  8, 4}>(Variant::SimtS2Tile7x8C16N24, "simt_s2_7x8_c16_n24"),
    entry<Config{true,  2,  4,  7, 16, 24,  96, true,  12,   5,   1, 7, 1,  4, 6,    1, 1, 12, false,  8,  0, 1}>(Variant::SimtS2Tile4x7C96N24, "simt_s2_4x7_c96_n24"),
    entry<Config{true,  2,  7,  7, 24, 32,  16, false,  4,   4,   1, 7, 1,  2, 8,    4, 1,  1, true,   0,  8, 4}>(Variant::SimtS2Tile7x7C16N32, "simt_s2_7x7_c16_n32"),
    entry<Config{true,  2,  7,  7, 24, 32,  48, false, 12,   4,   1, 7, 1,  7, 8,    1, 1, 12, false,  0,  8, 1}>(Variant::SimtS2Tile7x7C48N32, "simt_s2_7x7_c48_n32"),
    entry<Config{true,  2,  2,  4, 24, 32, 144, true,   9,   3,   1, 4, 1,  1, 8,    1, 1,  9, false,  8,  0, 1}>(Variant::SimtS2Tile2x4C144N32, "simt_s2_2x4_c144_n32"),
    entry<Config{true,  2,  7,  7, 32, 64,  16, false,  4,   4,   1, 7, 1,  7, 8,    1, 2,  2, true,   0,  8, 3}>(Variant::SimtS2Tile7x7C16N64, "simt_s2_7x7_c16_n64"),
    entry<Config{true,  2,  7,  7, 32, 64,  48, false, 12,   4,   1, 7, 1,  7, 8,    1, 2,  6, false,  0,  8, 1}>(Variant::SimtS2Tile7x7C48N64, "simt_s2_7x7_c48_n64"),
    entry<Config{true,  2,  2,  7, 32, 64,  96, false, 12,   3,   1, 7, 1,  2, 8,    1, 2,  6, false,  8,  0, 1}>(Variant::SimtS2Tile2x7C96N64, "simt_s2_2x7_c96_n64"),
    entry<Config{true,  2,  2,  2, 32, 64, 192, true,  12,   2,   1, 2, 1,  1, 8,    1, 2,  6, false,  8,  0, 1}>(Variant::SimtS2Tile2x2C192N64, "simt_s2_2x2_c192_n64"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_simt_entries() { return kEntries; }

}  // namespace mobicuda::kernels
