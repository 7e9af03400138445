// Inverted residual blocks of quantised values: variants, limits, packing, launch. The kernel: kernel.cuh.

#include "kernels/int8_inverted_residual/int8_inverted_residual.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kernels/common/launch_cluster.h"
#include "kernels/common/made_variants.h"
#include "kernels/common/specialised_variants.h"
#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/int8_inverted_residual/host.h"
#include "kernels/int8_inverted_residual/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using int8_block::Arguments;
using int8_block::Config;
using int8_block::kFlagBytes;
using int8_block::kOldestWithClusters;
using int8_block::kSlice;
using int8_block::kTapsPitch;
using int8_block::Rounding;
using int8_block::Shape;
using int8_block::Sizes;
using int8_block::sizes_of;
using int8_block::tiles_of;
using Params = Int8InvertedResidualParams;
using Variant = Int8InvertedResidualVariant;
using Layers = Int8BlockLayers;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr int kTaps = 9;
constexpr int kLanes = 32;
constexpr int kPortableCluster = limits_of(kOldestWithClusters).cluster_blocks;
constexpr std::string_view kName = "int8_inverted_residual";

using Kernel = void (*)(Arguments, const unsigned char* x, const unsigned char* packed, unsigned char* y);

struct Entry {
  Variant variant;
  std::string_view name;
  Config config;
  Kernel kernel;
};

template <Config kConfig>
constexpr Entry entry(Variant variant, std::string_view name) {
  return {variant, name, kConfig, int8_block::block_kernel<Shape<kConfig>>};
}

// clang-format off
constexpr Entry kEntries[] = {
    //     stride  channels      tile   warps parts min_blocks cluster
    entry<Config{2,  16,  96,  24,   4,  8,  12, 3, 2, 1}>(Variant::S2Tile4x8K16C96N24, "s2_4x8_k16_c96_n24"),
    entry<Config{2,  16,  96,  24,   7,  8,  12, 3, 1, 1}>(Variant::S2Tile7x8K16C96N24, "s2_7x8_k16_c96_n24"),
    entry<Config{2,  16,  96,  24,   8, 14,   4, 1, 4, 1}>(Variant::S2Tile8x14K16C96N24, "s2_8x14_k16_c96_n24"),
    entry<Config{2,  16,  96,  24,   8, 14,  12, 3, 2, 1}>(Variant::S2Tile8x14K16C96N24Warps12, "s2_8x14_k16_c96_n24_warps12"),
    entry<Config{1,  24, 144,  24,   4,  8,  10, 5, 2, 1}>(Variant::S1Tile4x8K24C144N24, "s1_4x8_k24_c144_n24"),
    entry<Config{1,  24, 144,  24,   8, 16,  20, 5, 1, 1}>(Variant::S1Tile8x16K24C144N24, "s1_8x16_k24_c144_n24"),
    entry<Config{1,  24, 144,  24,  14, 14,   2, 1, 4, 1}>(Variant::S1Tile14x14K24C144N24, "s1_14x14_k24_c144_n24"),
    entry<Config{1,  24, 144,  24,  14, 14,   4, 1, 3, 1}>(Variant::S1Tile14x14K24C144N24Warps4, "s1_14x14_k24_c144_n24_warps4"),
    entry<Config{1,  24, 144,  24,  14, 14,   8, 1, 2, 1}>(Variant::S1Tile14x14K24C144N24Warps8, "s1_14x14_k24_c144_n24_warps8"),
    entry<Config{1,  24, 144,  24,  14, 14,  10, 5, 1, 1}>(Variant::S1Tile14x14K24C144N24Warps10, "s1_14x14_k24_c144_n24_warps10"),
    entry<Config{2,  24, 144,  32,   2,  7,   5, 5, 3, 1}>(Variant::S2Tile2x7K24C144N32, "s2_2x7_k24_c144_n32"),
    entry<Config{2,  24, 144,  32,   2,  7,  15, 5, 1, 1}>(Variant::S2Tile2x7K24C144N32Warps15, "s2_2x7_k24_c144_n32_warps15"),
    entry<Config{2,  24, 144,  32,   4,  7,  10, 5, 1, 1}>(Variant::S2Tile4x7K24C144N32, "s2_4x7_k24_c144_n32"),
    entry<Config{2,  24, 144,  32,   4, 14,  10, 5, 1, 1}>(Variant::S2Tile4x14K24C144N32, "s2_4x14_k24_c144_n32"),
    entry<Config{2,  24, 144,  32,  14, 14,   8, 1, 2, 1}>(Variant::S2Tile14x14K24C144N32, "s2_14x14_k24_c144_n32"),
    entry<Config{1,  32, 192,  32,   4,  8,   6, 6, 4, 1}>(Variant::S1Tile4x8K32C192N32, "s1_4x8_k32_c192_n32"),
    entry<Config{1,  32, 192,  32,   7, 14,  24, 6, 1, 1}>(Variant::S1Tile7x14K32C192N32, "s1_7x14_k32_c192_n32"),
    entry<Config{1,  32, 192,  32,  14, 14,   2, 1, 4, 1}>(Variant::S1Tile14x14K32C192N32, "s1_14x14_k32_c192_n32"),
    entry<Config{1,  32, 192,  32,  14, 14,   6, 3, 2, 1}>(Variant::S1Tile14x14K32C192N32Warps6, "s1_14x14_k32_c192_n32_warps6"),
    entry<Config{1,  32, 192,  32,  14, 14,  16, 2, 1, 1}>(Variant::S1Tile14x14K32C192N32Warps16, "s1_14x14_k32_c192_n32_warps16"),
    entry<Config{1,  32, 192,  32,   2,  7,   6, 3, 3, 2}>(Variant::S1Tile2x7K32C192N32Cluster2, "s1_2x7_k32_c192_n32_cluster2"),
    entry<Config{2,  32, 192,  64,   2,  7,   6, 6, 3, 1}>(Variant::S2Tile2x7K32C192N64, "s2_2x7_k32_c192_n64"),
    entry<Config{2,  32, 192,  64,   4,  7,  12, 6, 2, 1}>(Variant::S2Tile4x7K32C192N64, "s2_4x7_k32_c192_n64"),
    entry<Config{2,  32, 192,  64,   4, 14,  12, 6, 2, 1}>(Variant::S2Tile4x14K32C192N64, "s2_4x14_k32_c192_n64"),
    entry<Config{2,  32, 192,  64,   7, 14,   7, 1, 2, 1}>(Variant::S2Tile7x14K32C192N64, "s2_7x14_k32_c192_n64"),
    entry<Config{2,  32, 192,  64,  14, 14,  12, 3, 1, 1}>(Variant::S2Tile14x14K32C192N64, "s2_14x14_k32_c192_n64"),
    entry<Config{2,  32, 192,  64,   2,  4,   6, 3, 3, 2}>(Variant::S2Tile2x4K32C192N64Cluster2, "s2_2x4_k32_c192_n64_cluster2"),
    entry<Config{2,  32, 192,  64,   2,  7,   6, 3, 4, 2}>(Variant::S2Tile2x7K32C192N64Cluster2, "s2_2x7_k32_c192_n64_cluster2"),
    entry<Config{1,  64, 384,  64,  14, 14,   4, 1, 2, 1}>(Variant::S1Tile14x14K64C384N64, "s1_14x14_k64_c384_n64"),
    entry<Config{1,  64, 384,  64,  14, 14,   6, 2, 2, 1}>(Variant::S1Tile14x14K64C384N64Warps6, "s1_14x14_k64_c384_n64_warps6"),
    entry<Config{1,  64, 384,  64,  14, 14,   8, 4, 1, 1}>(Variant::S1Tile14x14K64C384N64Warps8, "s1_14x14_k64_c384_n64_warps8"),
    entry<Config{1,  64, 384,  64,   2,  7,   6, 6, 2, 2}>(Variant::S1Tile2x7K64C384N64Cluster2, "s1_2x7_k64_c384_n64_cluster2"),
    entry<Config{1,  64, 384,  64,   2, 14,   6, 6, 2, 2}>(Variant::S1Tile2x14K64C384N64Cluster2, "s1_2x14_k64_c384_n64_cluster2"),
    entry<Config{1,  64, 384,  64,   7, 14,  18, 6, 1, 2}>(Variant::S1Tile7x14K64C384N64Cluster2, "s1_7x14_k64_c384_n64_cluster2"),
    entry<Config{1,  64, 384,  64,  14, 14,  15, 3, 1, 2}>(Variant::S1Tile14x14K64C384N64Cluster2, "s1_14x14_k64_c384_n64_cluster2"),
    entry<Config{1,  64, 384,  64,   2,  7,   6, 3, 2, 4}>(Variant::S1Tile2x7K64C384N64Cluster4, "s1_2x7_k64_c384_n64_cluster4"),
    entry<Config{1,  64, 384,  96,  14, 14,  12, 3, 1, 1}>(Variant::S1Tile14x14K64C384N96, "s1_14x14_k64_c384_n96"),
    entry<Config{1,  64, 384,  96,   7,  7,  12, 6, 1, 2}>(Variant::S1Tile7x7K64C384N96Cluster2, "s1_7x7_k64_c384_n96_cluster2"),
    entry<Config{1,  64, 384,  96,   7, 14,  18, 6, 1, 2}>(Variant::S1Tile7x14K64C384N96Cluster2, "s1_7x14_k64_c384_n96_cluster2"),
    entry<Config{1,  64, 384,  96,  14, 14,  15, 3, 1, 2}>(Variant::S1Tile14x14K64C384N96Cluster2, "s1_14x14_k64_c384_n96_cluster2"),
    entry<Config{1,  64, 384,  96,   2,  7,   6, 3, 2, 4}>(Variant::S1Tile2x7K64C384N96Cluster4, "s1_2x7_k64_c384_n96_cluster4"),
    entry<Config{1,  64, 384,  96,   2, 14,   6, 3, 4, 4}>(Variant::S1Tile2x14K64C384N96Cluster4, "s1_2x14_k64_c384_n96_cluster4"),
    entry<Config{1,  96, 576,  96,   7, 14,  12, 3, 1, 1}>(Variant::S1Tile7x14K96C576N96, "s1_7x14_k96_c576_n96"),
    entry<Config{1,  96, 576,  96,  14, 14,  12, 3, 1, 1}>(Variant::S1Tile14x14K96C576N96, "s1_14x14_k96_c576_n96"),
    entry<Config{1,  96, 576,  96,   7,  7,  18, 9, 1, 2}>(Variant::S1Tile7x7K96C576N96Cluster2, "s1_7x7_k96_c576_n96_cluster2"),
    entry<Config{1,  96, 576,  96,   7, 14,  12, 3, 1, 2}>(Variant::S1Tile7x14K96C576N96Cluster2, "s1_7x14_k96_c576_n96_cluster2"),
    entry<Config{1,  96, 576,  96,   2, 14,   5, 5, 2, 4}>(Variant::S1Tile2x14K96C576N96Cluster4, "s1_2x14_k96_c576_n96_cluster4"),
    entry<Config{1,  96, 576,  96,   2,  7,   6, 3, 3, 6}>(Variant::S1Tile2x7K96C576N96Cluster6, "s1_2x7_k96_c576_n96_cluster6"),
    entry<Config{2,  96, 576, 160,   7,  7,   4, 1, 2, 1}>(Variant::S2Tile7x7K96C576N160, "s2_7x7_k96_c576_n160"),
    entry<Config{2,  96, 576, 160,   7,  7,  12, 3, 1, 1}>(Variant::S2Tile7x7K96C576N160Warps12, "s2_7x7_k96_c576_n160_warps12"),
    entry<Config{2,  96, 576, 160,   4,  7,   9, 9, 1, 2}>(Variant::S2Tile4x7K96C576N160Cluster2, "s2_4x7_k96_c576_n160_cluster2"),
    entry<Config{2,  96, 576, 160,   7,  7,  12, 3, 1, 2}>(Variant::S2Tile7x7K96C576N160Cluster2, "s2_7x7_k96_c576_n160_cluster2"),
    entry<Config{2,  96, 576, 160,   2,  7,   6, 6, 2, 3}>(Variant::S2Tile2x7K96C576N160Cluster3, "s2_2x7_k96_c576_n160_cluster3"),
    entry<Config{2,  96, 576, 160,   1,  7,   6, 3, 2, 6}>(Variant::S2Tile1x7K96C576N160Cluster6, "s2_1x7_k96_c576_n160_cluster6"),
    entry<Config{1, 160, 960, 160,   7,  7,   4, 1, 2, 1}>(Variant::S1Tile7x7K160C960N160, "s1_7x7_k160_c960_n160"),
    entry<Config{1, 160, 960, 160,   4,  7,  10, 5, 1, 2}>(Variant::S1Tile4x7K160C960N160Cluster2, "s1_4x7_k160_c960_n160_cluster2"),
    entry<Config{1, 160, 960, 160,   7,  7,  12, 3, 1, 2}>(Variant::S1Tile7x7K160C960N160Cluster2, "s1_7x7_k160_c960_n160_cluster2"),
    entry<Config{1, 160, 960, 160,   2,  7,   5, 5, 2, 6}>(Variant::S1Tile2x7K160C960N160Cluster6, "s1_2x7_k160_c960_n160_cluster6"),
    entry<Config{1, 160, 960, 160,   4,  7,  10, 5, 1, 6}>(Variant::S1Tile4x7K160C960N160Cluster6, "s1_4x7_k160_c960_n160_cluster6"),
    entry<Config{1, 160, 960, 160,   7,  7,  10, 5, 1, 6}>(Variant::S1Tile7x7K160C960N160Cluster6, "s1_7x7_k160_c960_n160_cluster6"),
    entry<Config{1, 160, 960, 160,   2,  7,   4, 4, 2, 8}>(Variant::S1Tile2x7K160C960N160Cluster8, "s1_2x7_k160_c960_n160_cluster8"),
    entry<Config{1, 160, 960, 320,   7,  7,   4, 1, 2, 1}>(Variant::S1Tile7x7K160C960N320, "s1_7x7_k160_c960_n320"),
    entry<Config{1, 160, 960, 320,   7,  7,  12, 3, 1, 1}>(Variant::S1Tile7x7K160C960N320Warps12, "s1_7x7_k160_c960_n320_warps12"),
    entry<Config{1, 160, 960, 320,   4,  7,   9, 3, 1, 2}>(Variant::S1Tile4x7K160C960N320Cluster2, "s1_4x7_k160_c960_n320_cluster2"),
    entry<Config{1, 160, 960, 320,   4,  7,  10, 5, 2, 6}>(Variant::S1Tile4x7K160C960N320Cluster6, "s1_4x7_k160_c960_n320_cluster6"),
    entry<Config{1, 160, 960, 320,   7,  7,  10, 5, 1, 6}>(Variant::S1Tile7x7K160C960N320Cluster6, "s1_7x7_k160_c960_n320_cluster6"),
    entry<Config{1, 160, 960, 320,   1,  7,   8, 4, 1, 8}>(Variant::S1Tile1x7K160C960N320Cluster8, "s1_1x7_k160_c960_n320_cluster8"),
};
// clang-format on
static_assert(in_order_of_variants(kEntries));

constexpr std::array kVariants = variants_of(kEntries);

// Specialised variants.
constexpr std::string_view kSpecialisedName = "int8_block";
constexpr std::string_view kHeader = "kernels/int8_inverted_residual/kernel.cuh";
constexpr std::size_t kConfigValues = sizeof(Config) / sizeof(int);
constexpr auto kFirstSpecialised = static_cast<std::size_t>(Variant::FirstSpecialised);
constexpr std::size_t kMostSpecialised =
    std::numeric_limits<std::underlying_type_t<Variant>>::max() - kFirstSpecialised;

SpecialisedVariants& specialised_variants() {
  static SpecialisedVariants variants(kMostSpecialised);
  return variants;
}

Config config_of(const ConfigValues& values) {
  std::array<int, kConfigValues> own{};
  std::copy_n(values.begin(), own.size(), own.begin());
  return std::bit_cast<Config>(own);
}

ConfigValues values_of(const Config& config) {
  const auto own = std::bit_cast<std::array<int, kConfigValues>>(config);
  ConfigValues values{};
  std::copy(own.begin(), own.end(), values.begin());
  return values;
}

bool is_specialised(Variant variant) { return static_cast<std::size_t>(variant) >= kFirstSpecialised; }
bool is_compiled(Variant variant) { return static_cast<std::size_t>(variant) < std::size(kEntries); }
std::size_t index_of(Variant variant) { return static_cast<std::size_t>(variant) - kFirstSpecialised; }

std::optional<Variant> intern(const ConfigValues& values) {
  const auto index =
      specialised_variants().intern(0, values, specialised_name(kSpecialisedName, values, kConfigValues));
  if (!index) return std::nullopt;
  return static_cast<Variant>(kFirstSpecialised + *index);
}

/// Of a variant with a kernel of its own.
Config config_of(Variant variant) {
  return is_specialised(variant) ? config_of(specialised_variants().at(index_of(variant)).values)
                                 : kEntries[static_cast<std::size_t>(variant)].config;
}

bool is_sane(const Params& p) {
  constexpr int kMostPadding = 2;
  constexpr int kMostStride = 2;
  for (const int extent : {p.h, p.w, p.out_h, p.out_w, p.c_in, p.c_hidden, p.c_out, p.stride}) {
    if (extent <= 0 || extent > kMaxInt / 4) return false;
  }
  if (p.n < 0 || p.stride > kMostStride) return false;
  if (p.pad_top < 0 || p.pad_left < 0 || p.pad_top > kMostPadding || p.pad_left > kMostPadding) return false;
  if (p.residual && (p.c_in != p.c_out || p.out_h != p.h || p.out_w != p.w || p.stride != 1)) return false;
  if (!is_byte(p.x_zero) || !is_valid(p.expand_result) || !is_valid(p.depthwise_result) || !is_valid(p.result))
    return false;
  if (p.residual && (!is_valid(p.sum) || p.sum.a_zero != p.result.zero_point || p.sum.b_zero != p.x_zero)) return false;
  return std::int64_t{p.h} * p.w <= kMaxInt / round_up(p.c_in, kChannelStep) &&
         std::int64_t{p.out_h} * p.out_w <= kMaxInt / round_up(p.c_out, kChannelStep);
}

/// All that int8_block::configurations() depends on.
using MadeKey = std::tuple<std::array<int, 7>, std::array<int, 3>, std::array<std::size_t, 3>>;

MadeKey key_of(const Params& p, const DeviceTraits& gpu) {
  return {{p.n, p.c_in, p.c_hidden, p.c_out, p.out_h, p.out_w, p.stride},
          {gpu.code, gpu.multiprocessors, gpu.large_cluster_blocks},
          {gpu.shared_bytes_per_block, gpu.shared_bytes_per_multiprocessor, gpu.reserved_shared_bytes}};
}

/// The hidden channels of both convolutions.
struct HiddenChannels {
  std::vector<Int8Channel> expand, depthwise;

  HiddenChannels(const Params& p, const Layers& layers) {
    const int most = p.expand_result.high - p.expand_result.low;
    for (int c = 0; c < p.c_hidden; ++c) {
      expand.emplace_back(layers.expand, c, p.c_in, p.x_zero, kLowestByte, kHighestByte, p.expand_result);
      depthwise.emplace_back(layers.depthwise, c, kTaps, stored_zero_point(p.expand_result), 0, most,
                             p.depthwise_result);
    }
  }
};

Rounding rounding_of(const Params& p, const HiddenChannels& hidden) {
  const auto is_small = [](const Int8Channel& channel) {
    constexpr auto kLimit = static_cast<std::int64_t>(-kClippedSumOffset);
    const Int8SumRange& sums = channel.sums();
    const auto largest = std::max(std::abs(sums.least), std::abs(sums.most));
    return largest < kLimit && static_cast<float>(largest) * channel.multiplier() < kMostUnclipped;
  };
  if (stored_zero_point(p.expand_result) != 0 || stored_zero_point(p.depthwise_result) != 0 ||
      !std::all_of(hidden.expand.begin(), hidden.expand.end(), is_small) ||
      !std::all_of(hidden.depthwise.begin(), hidden.depthwise.end(), is_small)) {
    return Rounding::Any;
  }
  const auto is_whole = [](const ByteRange& range) { return range.high - range.low == kHighestByte - kLowestByte; };
  return is_whole(p.expand_result) && is_whole(p.depthwise_result) ? Rounding::Bytes : Rounding::Pairs;
}

// Packing.

void put(unsigned char* to, const auto& value) { std::memcpy(to, &value, sizeof value); }

/// The channel, of 32, that column `column` of n-tile `tile` has: so a lane's columns of four n-tiles are 8 neighbours.
int channel_of_column(int tile, int column) { return column / 2 * 8 + tile * 2 + column % 2; }

/// The hidden channel, of a slice's 32, that byte `byte` of word `word` of a lane's fragment multiplies in project:
/// what the lane has of four groups' sums in depthwise.
int hidden_of_word(int lane, int word, int byte) { return (word * 2 + byte / 2) * 8 + lane % 4 * 2 + byte % 2; }

class Packer {
 public:
  Packer(const Config& config, const Params& params, const Layers& layers)
      : config_(config),
        params_(params),
        layers_(layers),
        sizes_(sizes_of(config)),
        hidden_(params, layers),
        rounding_(rounding_of(params, hidden_)) {}

  void pack(unsigned char* to) const {
    std::memset(to, 0, static_cast<std::size_t>(sizes_.packed_bytes));
    put(to, rounding_);
    unsigned char* const head = to + kFlagBytes;
    for (int c = 0; c < sizes_.n_groups * kSlice; ++c) {
      if (c >= config_.c_out) break;
      std::int64_t bias = layers_.project.bias != nullptr ? layers_.project.bias[c] : 0;
      for (int k = 0; k < config_.c_hidden; ++k)
        bias -= stored_zero_point(params_.depthwise_result) * project_weight(c, k);
      put(head + c * 4, static_cast<std::uint32_t>(bias));  // sums are modulo 2^32
      put(head + (sizes_.n_groups * kSlice + c) * 4, layers_.project.multiplier[c]);
    }
    to += sizes_.head_bytes;
    for (int slice = 0; slice < config_.cluster * sizes_.chunks * config_.parts; ++slice) {
      pack_slice(slice * kSlice, to + slice * sizes_.slice.bytes);
    }
  }

 private:
  std::int8_t project_weight(int channel, int k) const {
    if (channel >= config_.c_out || k >= config_.c_hidden) return 0;
    return layers_.project.weight[std::int64_t{channel} * config_.c_hidden + k];
  }

  /// Of a hidden channel.
  void put_scale(const Int8Channel& channel, unsigned char* bias, unsigned char* scale) const {
    const auto own = static_cast<std::uint32_t>(channel.bias());
    put(bias, rounding_ == Rounding::Any ? own : own + static_cast<std::uint32_t>(kBitsOfClippedSum));
    put(scale, channel.multiplier());
  }

  void pack_slice(int first, unsigned char* to) const {
    pack_expand(first, to);
    for (int i = 0; i < kSlice; ++i) {
      if (first + i >= config_.c_hidden) break;
      const Int8Channel& channel = hidden_.depthwise[static_cast<std::size_t>(first + i)];
      for (int tap = 0; tap < kTaps; ++tap) {
        put(to + sizes_.slice.taps + i * kTapsPitch + tap / 3 * 4 + tap % 3, channel.weight(tap));
      }
      // (lane % 4, group, two channels)
      const int at = (i % 8 / 2 * 8 + i / 8 * 2 + i % 2) * 4;
      put_scale(channel, to + sizes_.slice.depthwise_bias + at, to + sizes_.slice.depthwise_scale + at);
    }
    for (int tile = 0; tile < sizes_.n_groups * 4; ++tile) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const int channel = tile / 4 * kSlice + channel_of_column(tile % 4, lane / 4);
        unsigned char* const at = to + sizes_.slice.project + (tile / 2 * kLanes + lane) * 16 + tile % 2 * 8;
        for (int i = 0; i < 8; ++i) put(at + i, project_weight(channel, first + hidden_of_word(lane, i / 4, i % 4)));
      }
    }
  }

  void pack_expand(int first, unsigned char* to) const {
    for (int step = 0; step < sizes_.k_steps; ++step) {
      for (int tile = 0; tile < 4; ++tile) {
        for (int lane = 0; lane < kLanes; ++lane) {
          const int channel = first + channel_of_column(tile, lane / 4);
          unsigned char* const at = to + ((step * 2 + tile / 2) * kLanes + lane) * 16 + tile % 2 * 8;
          for (int i = 0; i < 8; ++i)
            put(at + i, expand_weight(channel, step * kSlice + i / 4 * 16 + lane % 4 * 4 + i % 4));
        }
      }
    }
    for (int i = 0; i < kSlice && first + i < config_.c_hidden; ++i) {
      put_scale(hidden_.expand[static_cast<std::size_t>(first + i)], to + sizes_.slice.expand_bias + i * 4,
                to + sizes_.slice.expand_scale + i * 4);
    }
  }

  std::int8_t expand_weight(int channel, int k) const {
    if (channel >= config_.c_hidden || k >= config_.c_in) return 0;
    return hidden_.expand[static_cast<std::size_t>(channel)].weight(k);
  }

  const Config& config_;
  const Params& params_;
  const Layers& layers_;
  Sizes sizes_;
  HiddenChannels hidden_;
  Rounding rounding_;
};

Arguments arguments(const Config& config, const Params& p) {
  Arguments a{};
  a.h = p.h;
  a.w = p.w;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.pad_top = p.pad_top;
  a.pad_left = p.pad_left;
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, config.tile_w)));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, config.tile_h)));
  a.residual = p.residual;
  a.padding = four_bytes(stored_zero_point(p.expand_result));
  a.hidden = unsigned_pair_of(p.expand_result);
  a.filtered = unsigned_pair_of(p.depthwise_result);
  a.output = requantize_to(p.result);
  a.sum = add_bytes_of(p.sum);
  return a;
}

}  // namespace

std::span<const Variant> int8_inverted_residual_variants() { return kVariants; }

std::string_view name(Variant variant) {
  if (variant == Variant::Specialised) return kSpecialisedName;
  if (is_specialised(variant)) return specialised_variants().at(index_of(variant)).name;
  return kEntries[static_cast<std::size_t>(variant)].name;
}

bool supports(Variant variant, const Params& params, const DeviceTraits& gpu) {
  if (!is_sane(params) || !(is_specialised(variant) || is_compiled(variant))) return false;
  return int8_block::supports(config_of(variant), params, gpu);
}

std::vector<Variant> int8_inverted_residual_specialised(const Params& params, const DeviceTraits& gpu) {
  static MadeVariants<MadeKey, Variant> made;
  if (!gpu.compiles || !is_sane(params)) return {};
  return made.find(key_of(params, gpu), [&] {
    std::vector<Variant> found;
    for (const Config& config : int8_block::configurations(params, gpu)) {
      if (const auto variant = intern(values_of(config))) found.push_back(*variant);
    }
    return found;
  });
}

double int8_inverted_residual_expected_cycles(Variant variant, const Params& params, const DeviceTraits& gpu) {
  return int8_block::expected_cycles(config_of(variant), params, gpu);
}

std::size_t int8_inverted_residual_packed_bytes(Variant variant, const Params& /*params*/) {
  return static_cast<std::size_t>(sizes_of(config_of(variant)).packed_bytes);
}

void int8_inverted_residual_pack(Variant variant, const Params& params, const Layers& layers, void* packed) {
  const Config config = config_of(variant);
  Packer(config, params, layers).pack(static_cast<unsigned char*>(packed));
}

cudaError_t int8_inverted_residual(Variant variant, const Params& params, const void* x, const void* packed, void* y,
                                   const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu)) return cudaErrorInvalidValue;
  if (params.n == 0) return cudaSuccess;
  const auto kernel = is_specialised(variant) ? reinterpret_cast<Kernel>(const_cast<void*>(
                                                    specialised_variants().kernel(index_of(variant), gpu.capability)))
                                              : kEntries[static_cast<std::size_t>(variant)].kernel;
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  const Config config = config_of(variant);
  const Sizes sizes = sizes_of(config);
  const auto shared_bytes = static_cast<std::size_t>(sizes.shared_bytes);
  cudaError_t status = allow_shared_memory(kernel, shared_bytes);
  if (status == cudaSuccess && config.cluster > kPortableCluster) status = allow_large_clusters(kernel);
  if (status != cudaSuccess) return status;
  return launch_clusters(kernel, dim3(static_cast<unsigned>(tiles_of(config, params) * config.cluster)),
                         dim3(static_cast<unsigned>(sizes.threads)), shared_bytes,
                         static_cast<unsigned>(config.cluster), where, arguments(config, params),
                         static_cast<const unsigned char*>(x), static_cast<const unsigned char*>(packed),
                         static_cast<unsigned char*>(y));
}

// The kernel's table.
namespace {

/// Configurations differ in how many slices they fill up with zeros.
std::string_view packing(Variant variant) {
  static std::mutex mutex;
  static std::map<int, std::string> names;  // of the variants met
  const Config config = config_of(variant);
  const int slices = config.cluster * sizes_of(config).chunks * config.parts;
  const std::scoped_lock lock(mutex);
  return names.try_emplace(slices, std::to_string(slices) + " slices").first->second;
}

OperandBytes operands(Variant variant, const Params& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(1, p.n, p.h, p.w, round_up(p.c_in, kChannelStep));
  bytes.weights[0] = table::as_bytes(int8_inverted_residual_packed_bytes(variant, p));
  bytes.y = table::bytes(1, p.n, p.out_h, p.out_w, round_up(p.c_out, kChannelStep));
  return bytes;
}

std::optional<Variant> specialised_by_name(std::string_view text) {
  const auto values = specialised_values(text, kSpecialisedName, kConfigValues);
  if (!values || !is_valid(config_of(*values))) return std::nullopt;
  return intern(*values);
}

std::optional<CodeName> code(Variant variant) {
  if (!is_specialised(variant)) return std::nullopt;
  std::string expression =
      "mobicuda::kernels::int8_block::block_kernel<mobicuda::kernels::int8_block::Shape<"
      "mobicuda::kernels::int8_block::Config{";
  const ConfigValues values = values_of(config_of(variant));
  for (std::size_t i = 0; i < kConfigValues; ++i)
    expression.append(i == 0 ? "" : ",").append(std::to_string(values[i]));
  return CodeName{std::string(kHeader), expression.append("}>>"), false};
}

void provide(Variant variant, int capability, const void* kernel) {
  specialised_variants().provide(index_of(variant), capability, kernel);
}

cudaError_t launch_on(Variant variant, const Params& p, const Operands& at, const Launch& where) {
  return int8_inverted_residual(variant, p, at.x, at.weights[0], at.y, where);
}

std::string shape(const Params& p) {
  table::ShapeText text(kName);
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c_in", p.c_in).with("c_hidden", p.c_hidden);
  text.with("c_out", p.c_out).with("out_h", p.out_h).with("out_w", p.out_w).with("stride", p.stride);
  text.with("pad_top", p.pad_top).with("pad_left", p.pad_left);
  return text.with("residual", p.residual).take();
}

}  // namespace

const KernelTable<Params, Variant>& kernel_of(const Params&) {
  static const KernelTable<Params, Variant> kTable{
      .name = kName,
      .variants = kVariants,
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packing = packing,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<Params>,
      .shape = shape,
      .specialised = int8_inverted_residual_specialised,
      .specialised_by_name = specialised_by_name,
      .code = code,
      .provide = provide,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
