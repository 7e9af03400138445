// Inverted residual blocks of a few images in half, channels known at compile time: variants, packing, launch.
// Order of the stages: kernel.cuh. The stages: stages.cuh.
// Offsets within an image are int; images are found by size_t.

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/common/resident_blocks.h"
#include "kernels/common/variant_table.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/small/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using inverted_host::put_float;
using inverted_host::put_half;
using inverted_small::Arguments;
using inverted_small::Config;
using inverted_small::kUnit;
using inverted_small::Shape;
using inverted_small::UnitLayout;
using Variant = InvertedResidualVariant;

constexpr int kLanes = 32;

template <Config kConfig>
Arguments arguments(const InvertedResidualParams& p) {
  const int tiles_x = ceil_div(p.out_w, kConfig.tile_w);
  const int tiles_y = ceil_div(p.out_h, kConfig.tile_h);
  Arguments a{};
  inverted_host::set_extents(a, p);
  a.tiles = static_cast<std::uint32_t>(std::int64_t{p.n} * tiles_x * tiles_y);
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(tiles_x));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(tiles_y));
  a.expand_hi = __float2half2_rn(p.expand_clip.hi);
  a.depthwise_hi = __float2half2_rn(p.depthwise_clip.hi);
  a.project_clip = p.project_clip;
  return a;
}

template <Config kConfig, bool kMany>
constexpr std::size_t kSharedBytes = Shape<kConfig>::kHiddenBytes +
                                     (kMany ? 2 : 1) * (Shape<kConfig>::kPartialBytes +
                                                        inverted_small::Table<Shape<kConfig>>::kBytes);

template <Config kConfig, bool kMany>
cudaError_t launch_kernel(std::uint32_t grid, const Arguments& a, const void* x, const void* packed, void* y,
                          const Launch& where) {
  const auto kernel = inverted_small::small_kernel<Shape<kConfig>, kMany>;
  const cudaError_t status = allow_shared_memory(kernel, kSharedBytes<kConfig, kMany>);
  if (status != cudaSuccess) return status;
  return launch(kernel, dim3(grid), dim3(Shape<kConfig>::kThreads), kSharedBytes<kConfig, kMany>, where, a,
                static_cast<const unsigned char*>(x), static_cast<const unsigned char*>(packed),
                static_cast<unsigned char*>(y));
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  const Arguments a = arguments<kConfig>(p);
  constexpr std::size_t kBytes = kSharedBytes<kConfig, true>;
  int resident = 0;
  const auto kernel = inverted_small::small_kernel<Shape<kConfig>, true>;
  const cudaError_t status = resident_blocks(kernel, Shape<kConfig>::kThreads, kBytes, kBytes, resident);
  if (status != cudaSuccess) return status;
  const auto blocks = static_cast<std::uint32_t>(resident);
  if (a.tiles <= blocks) return launch_kernel<kConfig, false>(a.tiles, a, x, packed, y, where);
  return launch_kernel<kConfig, true>(blocks, a, x, packed, y, where);
}

UnitLayout layout_of(const InvertedResidualParams& p) { return inverted_small::unit_layout(p.c_in, p.c_out); }

std::size_t packed_bytes(const InvertedResidualParams& p) {
  return static_cast<std::size_t>(p.c_out) * sizeof(float) + inverted_small::kZeroBytes +
         static_cast<std::size_t>(p.c_hidden / kUnit) * static_cast<std::size_t>(layout_of(p).bytes);
}

/// The first of the two input channels that word `word` of a lane's part of a pixel of x holds: a lane reads 16 or 8
/// neighbouring bytes, and of 24 channels the last 8 by 4 bytes.
int channel_of_word(int c_in, int quarter, int word) {
  if (c_in == 32) return 8 * quarter + 2 * word;
  return word < 2 ? 4 * quarter + 2 * word : 16 + 2 * quarter;
}

void pack_expand(const InvertedResidualParams& p, const InvertedResidualWeights& w, int first, unsigned char* to) {
  for (int word = 0; word < p.c_in / 8; ++word) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int group = 0; group < 2; ++group) {
        unsigned char* const at = to + word / 2 * 512 + lane * 16 + word % 2 * 8 + group * 4;
        const float* const from =
            w.expand + (first + group * 8 + lane / 4) * p.c_in + channel_of_word(p.c_in, lane % 4, word);
        for (int e = 0; e < 2; ++e) put_half(at + e * 2, from[e]);
      }
    }
  }
}

void pack_project(const InvertedResidualParams& p, const InvertedResidualWeights& w, int first, unsigned char* to) {
  for (int strip = 0; strip < p.c_out / 8; ++strip) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int group = 0; group < 2; ++group) {
        unsigned char* const at = to + strip / 2 * 512 + lane * 16 + strip % 2 * 8 + group * 4;
        const float* const from = w.project + (strip * 8 + lane / 4) * p.c_hidden + first + group * 8 + lane % 4 * 2;
        for (int e = 0; e < 2; ++e) put_half(at + e * 2, from[e]);
      }
    }
  }
}

void pack_unit(const InvertedResidualParams& p, const InvertedResidualWeights& w, int first, unsigned char* to) {
  constexpr int kTaps = 9;
  const UnitLayout layout = layout_of(p);
  pack_expand(p, w, first, to);
  pack_project(p, w, first, to + layout.project);
  for (int i = 0; i < kUnit; ++i) {
    const int group = i / 8;
    const int c = i % 8;
    for (int copy = 0; copy < 2; ++copy) {
      put_float(to + layout.expand_bias + c * 16 + group * 8 + copy * 4, w.expand_bias, first + i);
      put_float(to + layout.depthwise_bias + (group * 4 + c / 2) * 16 + copy * 8 + c % 2 * 4, w.depthwise_bias,
                first + i);
    }
    const float* const taps = w.depthwise + (first + i) * kTaps;
    unsigned char* const at = to + layout.taps + i * 32 + c % 2 * 2;
    for (int tap = 0; tap < kTaps - 1; ++tap) put_half(at + tap * 4, taps[tap]);
    put_half(to + layout.last_tap + c * 8 + group * 4 + c % 2 * 2, taps[kTaps - 1]);
  }
}

void pack(const InvertedResidualParams& p, const InvertedResidualWeights& weights, void* packed) {
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, packed_bytes(p));
  for (int c = 0; c < p.c_out; ++c) put_float(to + c * 4, weights.project_bias, c);
  to += p.c_out * 4 + inverted_small::kZeroBytes;
  for (int first = 0; first < p.c_hidden; first += kUnit, to += layout_of(p).bytes) pack_unit(p, weights, first, to);
}

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 80;
  constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
  const std::int64_t tiles_x = (std::int64_t{p.out_w} + kConfig.tile_w - 1) / kConfig.tile_w;
  const std::int64_t tiles_y = (std::int64_t{p.out_h} + kConfig.tile_h - 1) / kConfig.tile_h;
  // Offsets are of bytes, and by a block's stride of tiles beyond the last one.
  return gpu.code >= kOldest && kSharedBytes<kConfig, true> <= gpu.shared_bytes_per_block &&
         inverted_host::channels_fit(p, kConfig) && inverted_host::clips_fit(p) &&
         std::int64_t{p.h} * p.w <= kMaxInt / (2 * p.c_in) &&
         std::int64_t{p.out_h} * p.out_w <= kMaxInt / (2 * p.c_out) &&
         tiles_x * tiles_y <= kMaxInt / 2 / std::max(p.n, 1);
}

template <Config kConfig, bool kBuilt = true>
constexpr InvertedResidualEntry entry(Variant variant, std::string_view name) {
  constexpr InvertedResidualTile kTile{
      kConfig.stride, kConfig.tile_h, kConfig.tile_w, kConfig.c_hidden, kConfig.c_out, Shape<kConfig>::kThreads, true};
  InvertedResidualEntry made{variant, name, kTile, nullptr, packed_bytes, pack, nullptr};
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

}  // namespace mobicuda::kernels
