// Inverted residual blocks of a few images in half, channels known at compile time: variants, packing, launch.
// Which configurations a block may take: configurations.cpp.
// Order of the stages: kernel.cuh. The stages: stages.cuh.
// Offsets within an image are int; images are found by size_t.

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/common/resident_blocks.h"
#include "kernels/common/variant_table.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/small/host.h"
#include "kernels/inverted_residual/small/kernel.cuh"

namespace mobicuda::kernels {
namespace inverted_small {
namespace {

using inverted_host::put_float;
using inverted_host::put_half;

constexpr int kLanes = 32;

Arguments arguments(const Config& config, const InvertedResidualParams& p) {
  const int tiles_x = ceil_div(p.out_w, config.tile_w);
  const int tiles_y = ceil_div(p.out_h, config.tile_h);
  Arguments a{};
  inverted_host::set_extents(a, p);
  a.tiles = static_cast<std::uint32_t>(std::int64_t{p.n} * tiles_x * tiles_y);
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(tiles_x));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(tiles_y));
  a.expand_hi = inverted_host::hidden_bound(p);
  a.depthwise_hi = __float2half2_rn(p.depthwise_activation.hi);
  a.project_clip = p.project_clip;
  return a;
}

/// Blocks of a walking kernel that the current device holds at once.
cudaError_t resident(const Sizes& sizes, Kernel kernel, std::uint32_t& blocks) {
  const auto shared_bytes = static_cast<std::size_t>(sizes.shared_bytes);
  int count = 0;
  const cudaError_t status = resident_blocks(kernel, sizes.threads, shared_bytes, shared_bytes, count);
  blocks = static_cast<std::uint32_t>(count);
  return status;
}

cudaError_t enqueue(const Sizes& sizes, Kernel kernel, std::uint32_t grid, const Arguments& a, const void* x,
                    const void* packed, void* y, const Launch& where) {
  const auto shared_bytes = static_cast<std::size_t>(sizes.shared_bytes);
  const cudaError_t status = allow_shared_memory(kernel, shared_bytes);
  if (status != cudaSuccess) return status;
  return kernels::launch(kernel, dim3(grid), dim3(static_cast<unsigned>(sizes.threads)), shared_bytes, where, a,
                         static_cast<const unsigned char*>(x), static_cast<const unsigned char*>(packed),
                         static_cast<unsigned char*>(y));
}

/// The first of the two input channels that word `word` of a lane's part of a pixel of x holds: a lane reads 16
/// neighbouring bytes of each 32 channels, 8 of 16 that are left over, 4 of the last 8.
int channel_of_word(int c_in, int quarter, int word) {
  const int words = c_in / 8;
  if (word < words / 4 * 4) return word / 4 * 32 + 8 * quarter + word % 4 * 2;
  if (word < words / 2 * 2) return words / 4 * 32 + 4 * quarter + word % 2 * 2;
  return words / 2 * 16 + 2 * quarter;
}

/// A slice's channels beyond the last repeat channel 0, and project multiplies them by zero: so they are finite where y
/// is.
int hidden_channel(const Config& config, int channel) { return channel < config.c_hidden ? channel : 0; }

void pack_expand(const Config& config, const InvertedResidualWeights& w, int first, unsigned char* to) {
  for (int word = 0; word < config.c_in / 8; ++word) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int group = 0; group < 2; ++group) {
        unsigned char* const at = to + word / 2 * 512 + lane * 16 + word % 2 * 8 + group * 4;
        const int row = hidden_channel(config, first + group * 8 + lane / 4);
        const float* const from = w.expand + row * config.c_in + channel_of_word(config.c_in, lane % 4, word);
        for (int e = 0; e < 2; ++e) put_half(at + e * 2, from[e]);
      }
    }
  }
}

void pack_project(const Config& config, const InvertedResidualWeights& w, int first, unsigned char* to) {
  for (int strip = 0; strip < config.c_out / 8; ++strip) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int group = 0; group < 2; ++group) {
        unsigned char* const at = to + strip / 2 * 512 + lane * 16 + strip % 2 * 8 + group * 4;
        const int channel = first + group * 8 + lane % 4 * 2;
        if (channel >= config.c_hidden) continue;
        const float* const from = w.project + (strip * 8 + lane / 4) * config.c_hidden + channel;
        for (int e = 0; e < 2; ++e) put_half(at + e * 2, from[e]);
      }
    }
  }
}

void pack_unit(const Config& config, const UnitLayout& layout, const InvertedResidualWeights& w, int first,
               unsigned char* to) {
  constexpr int kTaps = 9;
  pack_expand(config, w, first, to);
  pack_project(config, w, first, to + layout.project);
  for (int i = 0; i < kUnit; ++i) {
    const int group = i / 8;
    const int c = i % 8;
    const int channel = hidden_channel(config, first + i);
    for (int copy = 0; copy < 2; ++copy) {
      put_float(to + layout.expand_bias + c * 16 + group * 8 + copy * 4, w.expand_bias, channel);
      put_float(to + layout.depthwise_bias + (group * 4 + c / 2) * 16 + copy * 8 + c % 2 * 4, w.depthwise_bias,
                channel);
    }
    const float* const taps = w.depthwise + channel * kTaps;
    unsigned char* const at = to + layout.taps + i * 32 + c % 2 * 2;
    for (int tap = 0; tap < kTaps - 1; ++tap) put_half(at + tap * 4, taps[tap]);
    put_half(to + layout.last_tap + c * 8 + group * 4 + c % 2 * 2, taps[kTaps - 1]);
  }
}

}  // namespace

bool supports(const Config& config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 80;
  constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
  const std::int64_t tiles_x = (std::int64_t{p.out_w} + config.tile_w - 1) / config.tile_w;
  const std::int64_t tiles_y = (std::int64_t{p.out_h} + config.tile_h - 1) / config.tile_h;
  // Offsets are of bytes, and by a block's stride of tiles beyond the last one.
  return gpu.code >= kOldest && static_cast<std::size_t>(sizes_of(config).shared_bytes) <= gpu.shared_bytes_per_block &&
         config.stride == p.stride && p.expand && inverted_host::channels_fit(p, config) &&
         inverted_host::activations_fit(p, config) && std::int64_t{p.h} * p.w <= kMaxInt / (2 * p.c_in) &&
         std::int64_t{p.out_h} * p.out_w <= kMaxInt / (2 * p.c_out) &&
         tiles_x * tiles_y <= kMaxInt / 2 / std::max(p.n, 1);
}

std::size_t packed_bytes(const Config& config) { return static_cast<std::size_t>(sizes_of(config).packed_bytes); }

void pack(const Config& config, const InvertedResidualWeights& weights, void* packed) {
  const Sizes s = sizes_of(config);
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, static_cast<std::size_t>(s.packed_bytes));
  for (int c = 0; c < config.c_out; ++c) put_float(to + c * 4, weights.project_bias, c);
  to += s.units_offset;
  for (int unit = 0; unit < s.slices * s.units; ++unit) {
    pack_unit(config, s.unit, weights, unit * kUnit, to + unit * s.unit.bytes);
  }
}

cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& p, const void* x,
                   const void* packed, void* y, const Launch& where) {
  const Sizes s = sizes_of(config);
  const Arguments a = arguments(config, p);
  std::uint32_t grid = a.tiles;
  if (config.walks == 1) {
    std::uint32_t blocks = 0;
    if (const cudaError_t status = resident(s, kernel, blocks); status != cudaSuccess) return status;
    grid = std::min(grid, blocks);
  }
  return enqueue(s, kernel, grid, a, x, packed, y, where);
}

std::string kernel_expression(const Config& config) {
  return inverted_host::expression("mobicuda::kernels::inverted_small::", "small_kernel", config);
}

}  // namespace inverted_small

namespace {

using inverted_small::Config;
using inverted_small::Shape;
using inverted_small::small_kernel;
using inverted_small::walking;
using Variant = InvertedResidualVariant;

/// A variant is two kernels, the second of which takes more shared memory.
template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return inverted_small::supports(walking(kConfig), p, gpu);
}

template <Config kConfig>
std::size_t packed_bytes(const InvertedResidualParams& /*params*/) {
  return inverted_small::packed_bytes(kConfig);
}

template <Config kConfig>
void pack(const InvertedResidualParams& /*params*/, const InvertedResidualWeights& weights, void* packed) {
  inverted_small::pack(kConfig, weights, packed);
}

/// Blocks walk where there are more tiles than the GPU holds blocks.
template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  using Walking = Shape<walking(kConfig)>;
  const inverted_small::Arguments a = inverted_small::arguments(kConfig, p);
  std::uint32_t blocks = 0;
  const cudaError_t status = inverted_small::resident(Walking::kSizes, small_kernel<Walking>, blocks);
  if (status != cudaSuccess) return status;
  if (a.tiles <= blocks) {
    return inverted_small::enqueue(Shape<kConfig>::kSizes, small_kernel<Shape<kConfig>>, a.tiles, a, x, packed, y,
                                   where);
  }
  return inverted_small::enqueue(Walking::kSizes, small_kernel<Walking>, blocks, a, x, packed, y, where);
}

template <Config kConfig, bool kBuilt = true>
constexpr InvertedResidualEntry entry(Variant variant, std::string_view name) {
  constexpr InvertedResidualTile kTile{
      kConfig.stride, kConfig.tile_h, kConfig.tile_w, kConfig.c_hidden, kConfig.c_out, Shape<kConfig>::kThreads, true};
  InvertedResidualEntry made{variant, name, kTile, nullptr, packed_bytes<kConfig>, pack<kConfig>, nullptr};
  if constexpr (kBuilt) {
    made.supports = supports_config<kConfig>;
    made.launch = launch_config<kConfig>;
  }
  return made;
}

// clang-format off
constexpr InvertedResidualEntry kEntries[] = {
    //           channels     stride  tile  slice  parts  min_blocks
    entry<Config{16,  96, 24,  2,     4, 8,  32,    2,    1}, kAllVariants>(Variant::SmallS2Tile4x8C96N24, "small_s2_4x8_c96_n24"),
    entry<Config{16,  96, 24,  2,     4, 8,  48,    2,    1}>(Variant::SmallS2Tile4x8C96N24Slice48, "small_s2_4x8_c96_n24_slice48"),
    entry<Config{16,  96, 24,  2,     8, 8,  48,    4,    1}, kAllVariants>(Variant::SmallS2Tile8x8C96N24, "small_s2_8x8_c96_n24"),
    entry<Config{24, 144, 24,  1,     4, 8,  48,    2,    1}>(Variant::SmallS1Tile4x8C144N24, "small_s1_4x8_c144_n24"),
    entry<Config{24, 144, 24,  1,     4, 8,  48,    1,    1}>(Variant::SmallS1Tile4x8C144N24Warp, "small_s1_4x8_c144_n24_warp"),
    entry<Config{24, 144, 24,  1,     8, 8,  48,    2,    1}>(Variant::SmallS1Tile8x8C144N24, "small_s1_8x8_c144_n24"),
    entry<Config{24, 144, 32,  2,     2, 4,  48,    1,    1}>(Variant::SmallS2Tile2x4C144N32, "small_s2_2x4_c144_n32"),
    entry<Config{24, 144, 32,  2,     4, 4,  48,    1,    1}>(Variant::SmallS2Tile4x4C144N32, "small_s2_4x4_c144_n32"),
    entry<Config{24, 144, 32,  2,     4, 8,  48,    2,    1}, kAllVariants>(Variant::SmallS2Tile4x8C144N32, "small_s2_4x8_c144_n32"),
    entry<Config{32, 192, 32,  1,     2, 4,  48,    1,    1}>(Variant::SmallS1Tile2x4C192N32, "small_s1_2x4_c192_n32"),
    entry<Config{32, 192, 32,  1,     4, 4,  48,    1,    1}>(Variant::SmallS1Tile4x4C192N32, "small_s1_4x4_c192_n32"),
    entry<Config{32, 192, 32,  1,     4, 8,  48,    1,    1}>(Variant::SmallS1Tile4x8C192N32, "small_s1_4x8_c192_n32"),
    entry<Config{32, 192, 64,  2,     2, 2,  16,    1,    1}>(Variant::SmallS2Tile2x2C192N64, "small_s2_2x2_c192_n64"),
    entry<Config{32, 192, 64,  2,     2, 4,  48,    1,    1}>(Variant::SmallS2Tile2x4C192N64, "small_s2_2x4_c192_n64"),
    entry<Config{32, 192, 64,  2,     4, 4,  48,    1,    1}>(Variant::SmallS2Tile4x4C192N64, "small_s2_4x4_c192_n64"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_small_entries() { return kEntries; }

const InvertedResidualFamily& inverted_residual_small_family() {
  static constexpr InvertedResidualFamily kFamily =
      inverted_host::family<inverted_small::Config, inverted_small::Kernel>(
          InvertedResidualVariant::SpecialisedSmall, "small", "kernels/inverted_residual/small/kernel.cuh",
          inverted_host::configuration_values<inverted_small::configurations>);
  return kFamily;
}

}  // namespace mobicuda::kernels
