// Inverted residual blocks in exact float: variants, limits, packing, launch. The kernel:
// kernel.cuh. Its stages: stages.cuh.

#include <limits>

#include "kernels/common/spread_blocks.h"
#include "kernels/common/variant_table.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/simt/host.h"
#include "kernels/inverted_residual/simt/kernel.cuh"

namespace mobicuda::kernels {
namespace inverted_simt {
namespace {

using inverted_host::bias_at;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

std::int64_t tiles(const Config& config, const InvertedResidualParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, config.tile_h) * ceil_div(p.out_w, config.tile_w);
}

void pack_front(const Config& config, const Sizes& s, const InvertedResidualWeights& w, int unit, float* to) {
  float* const depthwise = to + s.expand_floats;
  for (int c = 0; c < s.unit; ++c) {
    const int hidden = unit * s.unit + c;
    for (int k = 0; expands(config) && k < config.c_in; ++k) {
      to[k * s.unit + c] = w.expand[hidden * config.c_in + k];
    }
    if (expands(config)) to[config.c_in * s.unit + c] = bias_at(w.expand_bias, hidden);
    for (int tap = 0; tap < kTaps; ++tap) depthwise[tap * s.unit + c] = w.depthwise[hidden * kTaps + tap];
    depthwise[kTaps * s.unit + c] = bias_at(w.depthwise_bias, hidden);
  }
}

}  // namespace

bool supports(const Config& config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return gpu.code >= kOldestCode && config.stride == p.stride && expands(config) == p.expand &&
         inverted_host::channels_fit(p, config, Elem::F32) && (p.expand || !p.residual) &&
         tiles(config, p) <= kMaxInt && shared_bytes(config) <= gpu.shared_bytes_per_block;
}

std::size_t packed_bytes(const Config& config) {
  const Sizes s = sizes_of(config);
  return static_cast<std::size_t>(config.c_out + config.c_hidden / s.unit * s.unit_floats +
                                  config.c_hidden * s.project_columns) *
         sizeof(float);
}

void pack(const Config& config, const InvertedResidualWeights& w, void* packed) {
  const Sizes s = sizes_of(config);
  auto* to = static_cast<float*>(packed);
  for (int c = 0; c < config.c_out; ++c) *to++ = bias_at(w.project_bias, c);
  for (int unit = 0; unit < config.c_hidden / s.unit; ++unit, to += s.unit_floats) pack_front(config, s, w, unit, to);
  for (int hidden = 0; hidden < config.c_hidden; ++hidden) {
    for (int c = 0; c < s.project_columns; ++c) {
      *to++ = c < config.c_out ? w.project[c * config.c_hidden + hidden] : 0.0F;
    }
  }
}

std::string kernel_expression(const Config& config) {
  return inverted_host::expression("mobicuda::kernels::inverted_simt::", "fused_kernel", config);
}

cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& p, const void* x,
                   const void* packed, void* y, const Launch& where) {
  Arguments a{};
  inverted_host::set_extents(a, p);
  a.c_hidden = p.c_hidden;
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, config.tile_w)));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, config.tile_h)));
  a.expand_clip = inverted_host::clip_of(p.expand_activation);
  a.depthwise_clip = inverted_host::clip_of(p.depthwise_activation);
  a.project_clip = p.project_clip;
  const auto blocks = static_cast<unsigned>(tiles(config, p));
  const auto threads = static_cast<unsigned>(sizes_of(config).threads);
  std::size_t bytes = shared_bytes(config);
  const cudaError_t status = spread_blocks(kernel, blocks, threads, 1, bytes);
  if (status != cudaSuccess) return status;
  return kernels::launch(kernel, dim3(blocks), dim3(threads), bytes, where, a, static_cast<const float*>(x),
                         static_cast<const float*>(packed), static_cast<float*>(y));
}

}  // namespace inverted_simt

namespace {

using inverted_simt::Config;
using inverted_simt::Shape;
using Variant = InvertedResidualVariant;

/// The configuration with the block's hidden channels: kernels with several chunks have the number of them as an
/// argument.
template <Config kConfig>
Config with_hidden(const InvertedResidualParams& p) {
  Config config = kConfig;
  if (!Shape<kConfig>::kOneChunk && p.c_hidden > config.chunk && p.c_hidden % config.chunk == 0) {
    config.c_hidden = p.c_hidden;
  }
  return config;
}

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return inverted_simt::supports(with_hidden<kConfig>(p), p, gpu);
}

template <Config kConfig>
std::size_t packed_bytes_of(const InvertedResidualParams& p) {
  return inverted_simt::packed_bytes(with_hidden<kConfig>(p));
}

template <Config kConfig>
void pack(const InvertedResidualParams& p, const InvertedResidualWeights& weights, void* packed) {
  inverted_simt::pack(with_hidden<kConfig>(p), weights, packed);
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  return inverted_simt::launch(kConfig, inverted_simt::fused_kernel<Shape<kConfig>>, p, x, packed, y, where);
}

template <Config kConfig>
constexpr InvertedResidualTile kTile{kConfig.stride, kConfig.tile_h,           kConfig.tile_w,         kConfig.chunk,
                                     kConfig.c_out,  Shape<kConfig>::kThreads, Shape<kConfig>::kExpand};

template <Config kConfig, bool kBuilt = true>
constexpr InvertedResidualEntry entry(Variant variant, std::string_view name) {
  InvertedResidualEntry made{variant, name, kTile<kConfig>, nullptr, packed_bytes_of<kConfig>, pack<kConfig>, nullptr};
  if constexpr (kBuilt) {
    made.supports = supports_config<kConfig>;
    made.launch = launch_config<kConfig>;
  }
  return made;
}

// clang-format off
constexpr InvertedResidualEntry kEntries[] = {
    //     stride tile  c_in,hidden,out chunk warps rows strip   project  warps in_place pads  blocks
    entry<Config{1, 14, 14, 32,  32, 16,  32,   4, 0,   7, 2, 4,  7, 4,    4,  1,   1,     0, 16, 4}>(Variant::SimtPlainTile14x14C32N16, "simt_plain_14x14_c32_n16"),
    entry<Config{1,  7, 14, 32,  32, 16,  32,   8, 0,   7, 1, 2,  7, 4,    2,  4,   0,     0, 16, 2}>(Variant::SimtPlainTile7x14C32N16, "simt_plain_7x14_c32_n16"),
    entry<Config{1, 14, 14, 24, 144, 24,  16,   4, 4,   7, 2, 2,  7, 6,    4,  1,   1,     0, 16, 3}>(Variant::SimtS1Tile14x14C16N24, "simt_s1_14x14_c16_n24"),
    entry<Config{1, 14, 14, 24, 144, 24,  48,   6, 4,   7, 2, 4,  5, 6,    5,  1,   1,     0, 16, 2}, kAllVariants>(Variant::SimtS1Tile14x14C48N24, "simt_s1_14x14_c48_n24"),
    entry<Config{1,  7,  7, 24, 144, 24,  48,   6, 3,   7, 1, 2,  7, 6,    1,  6,   0,     0,  0, 2}>(Variant::SimtS1Tile7x7C48N24, "simt_s1_7x7_c48_n24"),
    entry<Config{1,  4,  7, 24, 144, 24, 144,   9, 4,   1, 7, 2,  4, 6,    1,  9,   0,     8, 24, 1}>(Variant::SimtS1Tile4x7C144N24, "simt_s1_4x7_c144_n24"),
    entry<Config{1, 14, 14, 32, 192, 32,  16,   4, 4,   7, 2, 2,  7, 8,    4,  1,   1,     0, 16, 3}>(Variant::SimtS1Tile14x14C16N32, "simt_s1_14x14_c16_n32"),
    entry<Config{1,  7,  7, 32, 192, 32,  48,   6, 3,   7, 1, 2,  7, 8,    1,  6,   0,     0,  0, 2}>(Variant::SimtS1Tile7x7C48N32, "simt_s1_7x7_c48_n32"),
    entry<Config{1,  7,  7, 32, 192, 32,  96,  12, 3,   7, 1, 2,  7, 8,    1, 12,   0,    16,  8, 1}>(Variant::SimtS1Tile7x7C96N32, "simt_s1_7x7_c96_n32"),
    entry<Config{1,  2,  4, 32, 192, 32, 192,  12, 2,   1, 4, 1,  1, 8,    1, 12,   0,     8,  0, 1}>(Variant::SimtS1Tile2x4C192N32, "simt_s1_2x4_c192_n32"),
    entry<Config{1, 14, 14, 64, 384, 64,  16,   8, 2,   7, 2, 1,  7, 8,    4,  1,   1,     0, 16, 2}>(Variant::SimtS1Tile14x14C16N64, "simt_s1_14x14_c16_n64"),
    entry<Config{1, 14, 14, 64, 384, 96,  16,  12, 2,   7, 2, 1,  7, 8,    4,  1,   1,     0, 16, 1}>(Variant::SimtS1Tile14x14C16K64N96, "simt_s1_14x14_c16_k64_n96"),
    entry<Config{1, 14, 14, 96, 576, 96,  16,  12, 2,   7, 2, 1,  7, 8,    4,  1,   1,     0, 16, 1}>(Variant::SimtS1Tile14x14C16N96, "simt_s1_14x14_c16_n96"),
    entry<Config{2,  7,  8, 16,  96, 24,  16,   4, 4,   1, 8, 1,  4, 6,    2,  2,   1,     0,  8, 4}>(Variant::SimtS2Tile7x8C16N24, "simt_s2_7x8_c16_n24"),
    entry<Config{2,  4,  7, 16,  96, 24,  96,  12, 5,   1, 7, 1,  4, 6,    1, 12,   0,     8,  0, 1}>(Variant::SimtS2Tile4x7C96N24, "simt_s2_4x7_c96_n24"),
    entry<Config{2,  7,  7, 24, 144, 32,  16,   4, 4,   1, 7, 1,  2, 8,    4,  1,   1,     0,  8, 4}>(Variant::SimtS2Tile7x7C16N32, "simt_s2_7x7_c16_n32"),
    entry<Config{2,  7,  7, 24, 144, 32,  48,  12, 4,   1, 7, 1,  7, 8,    1, 12,   0,     0,  8, 1}>(Variant::SimtS2Tile7x7C48N32, "simt_s2_7x7_c48_n32"),
    entry<Config{2,  2,  4, 24, 144, 32, 144,   9, 3,   1, 4, 1,  1, 8,    1,  9,   0,     8,  0, 1}>(Variant::SimtS2Tile2x4C144N32, "simt_s2_2x4_c144_n32"),
    entry<Config{2,  7,  7, 32, 192, 64,  16,   4, 4,   1, 7, 1,  7, 8,    1,  2,   1,     0,  8, 3}>(Variant::SimtS2Tile7x7C16N64, "simt_s2_7x7_c16_n64"),
    entry<Config{2,  7,  7, 32, 192, 64,  48,  12, 4,   1, 7, 1,  7, 8,    1,  6,   0,     0,  8, 1}>(Variant::SimtS2Tile7x7C48N64, "simt_s2_7x7_c48_n64"),
    entry<Config{2,  2,  7, 32, 192, 64,  96,  12, 3,   1, 7, 1,  2, 8,    1,  6,   0,     8,  0, 1}>(Variant::SimtS2Tile2x7C96N64, "simt_s2_2x7_c96_n64"),
    entry<Config{2,  2,  2, 32, 192, 64, 192,  12, 2,   1, 2, 1,  1, 8,    1,  6,   0,     8,  0, 1}>(Variant::SimtS2Tile2x2C192N64, "simt_s2_2x2_c192_n64"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_simt_entries() { return kEntries; }

const InvertedResidualFamily& inverted_residual_simt_family() {
  static constexpr InvertedResidualFamily kFamily = inverted_host::family<Config, inverted_simt::Kernel>(
      Variant::SpecialisedSimt, "simt", "kernels/inverted_residual/simt/kernel.cuh",
      inverted_host::configuration_values<inverted_simt::configurations>);
  return kFamily;
}

}  // namespace mobicuda::kernels
