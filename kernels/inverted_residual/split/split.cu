// Inverted residual blocks whose 1x1 convolutions are split products: variants, limits, packing, launch. The kernel:
// kernel.cuh. Its stages: stages.cuh.

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/common/split_exponent.h"
#include "kernels/common/spread_blocks.h"
#include "kernels/common/variant_table.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/split/host.h"
#include "kernels/inverted_residual/split/kernel.cuh"
#include "kernels/inverted_residual/split_rows.h"

namespace mobicuda::kernels {
namespace inverted_split {
namespace {

using inverted_host::bias_at;
using inverted_host::SplitRows;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr int kLanes = 32;

std::int64_t tiles(const Config& config, const InvertedResidualParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, config.tile_h) * ceil_div(p.out_w, config.tile_w);
}

/// The row of weights that column `g` of a tile of mma has. Two tiles side by side: a lane receives columns 2t and 2t +
/// 1 of both, hence four neighbours.
int row_of_pair(int tile, int g) { return tile / 2 * kUnit + g / 2 * 4 + tile % 2 * 2 + g % 2; }

/// The right factor for 16 k and a tile of columns, for each lane.
template <class Row>
__half* put_step(const SplitRows& weights, int first, const Row& row, __half* to) {
  for (int lane = 0; lane < kLanes; ++lane) to = weights.put(to, row(lane / 4), first + lane % 4 * 4, 4);
  return to;
}

float* put_unit(const Config& config, const SplitRows& expand, const InvertedResidualWeights& w, int x_exponent,
                int filtered_exponent, int unit, float* to) {
  const int first = unit * kUnit;
  auto* halves = reinterpret_cast<__half*>(to);
  const auto row = [&](int tile, int g) { return first + row_of_pair(tile, g); };
  int k = 0;
  for (; k + kUnit <= config.c_in; k += kUnit) {
    for (int tile = 0; tile < 2; ++tile) {
      halves = put_step(
          expand, k, [&](int g) { return row(tile, g); }, halves);
    }
  }
  for (int lane = 0; k < config.c_in && lane < kLanes; ++lane) {
    for (int tile = 0; tile < 2; ++tile) halves = expand.put(halves, row(tile, lane / 4), k + lane % 4 * 2, 2);
  }
  to += config.c_in * kUnit;
  for (int c = 0; c < kUnit; ++c) to[c] = std::ldexp(1.0F, -expand.exponent(first + c) - x_exponent);
  to += kUnit;
  const auto put_row = [&](const auto& value) {
    for (int c = 0; c < kUnit; ++c) *to++ = first + c < config.c_hidden ? value(first + c) : 0.0F;
  };
  put_row([&](int c) { return bias_at(w.expand_bias, c); });
  for (int tap = 0; tap < kTaps; ++tap) {
    put_row([&](int c) { return std::ldexp(w.depthwise[c * kTaps + tap], filtered_exponent); });
  }
  put_row([&](int c) { return std::ldexp(bias_at(w.depthwise_bias, c), filtered_exponent); });
  return to;
}

}  // namespace

bool supports(const Config& config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 80;  // mma.sync m16n8k16
  return gpu.code >= kOldest && p.split && p.expand && config.stride == p.stride &&
         inverted_host::channels_fit(p, config, Elem::F32) && tiles(config, p) <= kMaxInt &&
         shared_bytes(config) <= gpu.shared_bytes_per_block;
}

std::size_t packed_bytes(const Config& config) {
  const Sizes s = sizes_of(config);
  const int units = s.all_hidden / kUnit;
  return static_cast<std::size_t>(s.front_at + units * (s.unit_floats + kUnit * config.c_out)) * sizeof(float);
}

void pack(const Config& config, const InvertedResidualWeights& w, void* packed) {
  const Sizes s = sizes_of(config);
  std::memset(packed, 0, packed_bytes(config));
  const SplitRows expand(w.expand, config.c_hidden, config.c_in);
  const SplitRows project(w.project, config.c_out, config.c_hidden);
  const int x_exponent = split_exponent(w.x_bound);
  const int filtered_exponent = split_exponent(w.filtered_bound);
  auto* to = static_cast<float*>(packed);
  to[0] = std::ldexp(1.0F, x_exponent);
  to[1] = std::ldexp(1.0F, filtered_exponent);
  for (int c = 0; c < config.c_out; ++c) {
    to[s.bias_at + c] = bias_at(w.project_bias, c);
    to[s.scale_at + c] = std::ldexp(1.0F, -project.exponent(c) - filtered_exponent);
  }
  to += s.front_at;
  const int units = s.all_hidden / kUnit;
  for (int unit = 0; unit < units; ++unit) {
    to = put_unit(config, expand, w, x_exponent, filtered_exponent, unit, to);
  }
  auto* halves = reinterpret_cast<__half*>(to);
  const int columns = config.c_out / kColumns;
  for (int unit = 0; unit < units; ++unit) {
    for (int tile = 0; tile < columns; ++tile) {
      const bool alone = tile + 1 == columns && columns % 2 != 0;
      const auto row = [&](int g) { return alone ? tile * kColumns + g : row_of_pair(tile, g); };
      halves = put_step(project, unit * kUnit, row, halves);
    }
  }
}

std::string kernel_expression(const Config& config) {
  return inverted_host::expression("mobicuda::kernels::inverted_split::", "split_kernel", config);
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

}  // namespace inverted_split

namespace {

using inverted_split::Config;
using inverted_split::Shape;
using Variant = InvertedResidualVariant;

/// The configuration with the block's hidden channels: kernels with several chunks have the number of them as an
/// argument.
template <Config kConfig>
Config with_hidden(const InvertedResidualParams& p) {
  Config config = kConfig;
  const int hidden = round_up(p.c_hidden, inverted_split::kUnit);
  if (!Shape<kConfig>::kOneChunk && hidden > config.chunk && hidden % config.chunk == 0 &&
      p.c_hidden % inverted_split::kColumns == 0) {
    config.c_hidden = p.c_hidden;
  }
  return config;
}

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return inverted_split::supports(with_hidden<kConfig>(p), p, gpu);
}

template <Config kConfig>
std::size_t packed_bytes_of(const InvertedResidualParams& p) {
  return inverted_split::packed_bytes(with_hidden<kConfig>(p));
}

template <Config kConfig>
void pack(const InvertedResidualParams& p, const InvertedResidualWeights& weights, void* packed) {
  inverted_split::pack(with_hidden<kConfig>(p), weights, packed);
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  return inverted_split::launch(kConfig, inverted_split::split_kernel<Shape<kConfig>>, p, x, packed, y, where);
}

template <Config kConfig>
constexpr InvertedResidualTile kTile{
    kConfig.stride, kConfig.tile_h, kConfig.tile_w, kConfig.chunk, kConfig.c_out, Shape<kConfig>::kThreads, true};

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
    //     stride tile  c_in,hidden,out chunk warps expand_n strip   project_n blocks
    entry<Config{2,  7,  8, 16,  96, 24,  32,   4, 1,   1, 8, 2,   1,  4}>(Variant::SplitS2Tile7x8C32N24, "split_s2_7x8_c32_n24"),
    entry<Config{2,  7,  8, 16,  96, 24,  32,   8, 1,   1, 4, 2,   1,  3}, kAllVariants>(Variant::SplitS2Tile7x8C32W8N24, "split_s2_7x8_c32_w8_n24"),
    entry<Config{2,  7,  8, 16,  96, 24,  16,   4, 1,   1, 4, 2,   1,  5}, kAllVariants>(Variant::SplitS2Tile7x8C16N24, "split_s2_7x8_c16_n24"),
    entry<Config{1, 14, 14, 24, 144, 24,  16,   8, 1,   7, 1, 2,   1,  2}>(Variant::SplitS1Tile14x14C16N24, "split_s1_14x14_c16_n24"),
    entry<Config{1, 14, 14, 24, 144, 24,  16,   4, 1,   7, 2, 2,   1,  3}>(Variant::SplitS1Tile14x14C16W4N24, "split_s1_14x14_c16_w4_n24"),
    entry<Config{1,  7, 14, 24, 144, 24,  16,   4, 1,   7, 1, 2,   1,  4}>(Variant::SplitS1Tile7x14C16N24, "split_s1_7x14_c16_n24"),
    entry<Config{2,  7,  7, 24, 144, 32,  16,   4, 1,   1, 4, 2,   1,  4}>(Variant::SplitS2Tile7x7C16N32, "split_s2_7x7_c16_n32"),
    entry<Config{2,  7,  7, 24, 144, 32,  48,  12, 3,   1, 4, 2,   2,  1}>(Variant::SplitS2Tile7x7C48N32, "split_s2_7x7_c48_n32"),
    entry<Config{2,  4,  7, 24, 144, 32,  48,   6, 3,   1, 4, 2,   2,  2}>(Variant::SplitS2Tile4x7C48N32, "split_s2_4x7_c48_n32"),
    entry<Config{1, 14, 14, 32, 192, 32,  16,   8, 1,   7, 1, 2,   1,  2}>(Variant::SplitS1Tile14x14C16N32, "split_s1_14x14_c16_n32"),
    entry<Config{1, 14, 14, 32, 192, 32,  32,   8, 1,   7, 2, 2,   1,  2}, kAllVariants>(Variant::SplitS1Tile14x14C32N32, "split_s1_14x14_c32_n32"),
    entry<Config{1, 14, 14, 32, 192, 32,  64,   8, 2,   2,14, 2,   1,  1}>(Variant::SplitS1Tile14x14C64N32, "split_s1_14x14_c64_n32"),
    entry<Config{1,  7, 14, 32, 192, 32,  16,   4, 1,   7, 1, 2,   1,  3}>(Variant::SplitS1Tile7x14C16N32, "split_s1_7x14_c16_n32"),
    entry<Config{1,  7,  7, 32, 192, 32,  96,  12, 2,   7, 1, 2,   2,  1}>(Variant::SplitS1Tile7x7C96N32, "split_s1_7x7_c96_n32"),
    entry<Config{2,  7,  7, 32, 192, 64,  32,   4, 1,   1, 7, 2,   1,  3}>(Variant::SplitS2Tile7x7C32N64, "split_s2_7x7_c32_n64"),
    entry<Config{2,  7,  7, 32, 192, 64,  32,   8, 1,   1, 4, 2,   2,  2}>(Variant::SplitS2Tile7x7C32W8N64, "split_s2_7x7_c32_w8_n64"),
    entry<Config{2,  2,  7, 32, 192, 64,  96,  12, 2,   1, 4, 2,   4,  1}>(Variant::SplitS2Tile2x7C96N64, "split_s2_2x7_c96_n64"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_split_entries() { return kEntries; }

const InvertedResidualFamily& inverted_residual_split_family() {
  static constexpr InvertedResidualFamily kFamily = inverted_host::family<Config, inverted_split::Kernel>(
      Variant::SpecialisedSplit, "split", "kernels/inverted_residual/split/kernel.cuh",
      inverted_host::configuration_values<inverted_split::configurations>);
  return kFamily;
}

}  // namespace mobicuda::kernels
