// Inverted residual blocks of a few pictures in half, channels known at compile time: variants, packing, launch.
// Order of the stages: inverted_residual_small_kernel.cuh. The stages: inverted_residual_small_stages.cuh.
// Offsets within a picture are int; pictures are found by size_t.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "inverted_residual_families.h"
#include "inverted_residual_small_kernel.cuh"

namespace mobicuda::kernels {
namespace {

using inverted_small::Arguments;
using inverted_small::Config;
using inverted_small::GroupLayout;
using inverted_small::Shape;
using Variant = InvertedResidualVariant;

constexpr int kGroup = 8;  // hidden channels packed together
constexpr int kLanes = 32;

__half2 both(float value) { return __float2half2_rn(value); }

template <Config kConfig>
Arguments arguments(const InvertedResidualParams& p) {
  const int tiles_x = ceil_div(p.out_w, kConfig.tile_w);
  const int tiles_y = ceil_div(p.out_h, kConfig.tile_h);
  Arguments a{};
  a.h = p.h;
  a.w = p.w;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.pad_top = p.pad_top;
  a.pad_left = p.pad_left;
  a.tiles = static_cast<std::uint32_t>(std::int64_t{p.n} * tiles_x * tiles_y);
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(tiles_x));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(tiles_y));
  a.residual = p.residual;
  a.expand_clip = {both(p.expand_clip.lo), both(p.expand_clip.hi)};
  a.depthwise_clip = {both(p.depthwise_clip.lo), both(p.depthwise_clip.hi)};
  a.project_clip = p.project_clip;
  return a;
}

template <Config kConfig>
std::size_t shared_bytes(int tiles_of_a_block) {
  using S = Shape<kConfig>;
  return S::kHiddenBytes + static_cast<std::size_t>(std::min(tiles_of_a_block, 2)) * S::kPartialBytes;
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  const Arguments a = arguments<kConfig>(p);
  const auto kernel = inverted_small::small_kernel<Shape<kConfig>>;
  constexpr int kThreads = Shape<kConfig>::kThreads;
  int device = 0;
  int multiprocessors = 0;
  int blocks = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (status == cudaSuccess) status = allow_shared_memory(kernel, shared_bytes<kConfig>(2));
  if (status == cudaSuccess) {
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kThreads, shared_bytes<kConfig>(2));
  }
  if (status != cudaSuccess) return status;
  const std::uint32_t grid = std::min(a.tiles, static_cast<std::uint32_t>(std::max(blocks, 1) * multiprocessors));
  return launch(kernel, dim3(grid), dim3(kThreads), shared_bytes<kConfig>(grid < a.tiles ? 2 : 1), where, a,
                static_cast<const unsigned char*>(x), static_cast<const unsigned char*>(packed),
                static_cast<unsigned char*>(y));
}

GroupLayout layout_of(const InvertedResidualParams& p) { return inverted_small::group_layout(p.c_out); }

std::size_t packed_bytes(const InvertedResidualParams& p) {
  return static_cast<std::size_t>(p.c_out) * sizeof(float) +
         static_cast<std::size_t>(p.c_hidden / kGroup) * static_cast<std::size_t>(layout_of(p).bytes);
}

void put_half(unsigned char* to, float value) {
  const __half half = __float2half_rn(value);
  std::memcpy(to, &half, sizeof half);
}

void put_float(unsigned char* to, const float* from, int index) {
  const float value = from != nullptr ? from[index] : 0.0F;
  std::memcpy(to, &value, sizeof value);
}

/// The first of the two input channels that word `word` of a lane's row of x holds: a lane reads 16 or 8 neighbouring
/// bytes, and of 24 channels the last 8 by 4 bytes.
int channel_of_word(int c_in, int quarter, int word) {
  if (c_in == 32) return 8 * quarter + 2 * word;
  return word < 2 ? 4 * quarter + 2 * word : 16 + 2 * quarter;
}

void pack_group(const InvertedResidualParams& p, const InvertedResidualWeights& w, int first, unsigned char* to) {
  constexpr int kTaps = 9;
  const GroupLayout layout = layout_of(p);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int quarter = lane % 4;
    const int n = lane / 4;
    for (int word = 0; word < p.c_in / 8; ++word) {
      const float* const from = w.expand + (first + n) * p.c_in + channel_of_word(p.c_in, quarter, word);
      for (int e = 0; e < 2; ++e) put_half(to + lane * 16 + word * 4 + e * 2, from[e]);
    }
    for (int strip = 0; strip < p.c_out / 8; ++strip) {
      const float* const from = w.project + (strip * 8 + n) * p.c_hidden + first + quarter * 2;
      unsigned char* const word = to + layout.project + strip / 4 * 512 + lane * 16 + strip % 4 * 4;
      for (int e = 0; e < 2; ++e) put_half(word + e * 2, from[e]);
    }
  }
  for (int c = 0; c < kGroup; ++c) {
    const float* const taps = w.depthwise + (first + c) * kTaps;
    for (int tap = 0; tap < kTaps - 1; ++tap) put_half(to + layout.taps + c * 16 + tap * 2, taps[tap]);
    put_half(to + layout.last_tap + c * 4, taps[kTaps - 1]);
    unsigned char* const bias = to + layout.bias + c / 2 * 16 + c % 2 * 4;
    put_float(bias, w.expand_bias, first + c);
    put_float(bias + 8, w.depthwise_bias, first + c);
  }
}

void pack(const InvertedResidualParams& p, const InvertedResidualWeights& weights, void* packed) {
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, packed_bytes(p));
  for (int c = 0; c < p.c_out; ++c, to += sizeof(float)) put_float(to, weights.project_bias, c);
  for (int first = 0; first < p.c_hidden; first += kGroup, to += layout_of(p).bytes) {
    pack_group(p, weights, first, to);
  }
}

/// Infinite hidden values would meet the zeros of the depthwise convolution's diagonal matrices.
bool keeps_finite(Clip clip) {
  constexpr float kLargestHalf = 65504.0F;
  return std::abs(clip.lo) <= kLargestHalf && std::abs(clip.hi) <= kLargestHalf;
}

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, int compute_capability) {
  constexpr int kOldest = 80;
  constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
  const std::int64_t tiles_x = (std::int64_t{p.out_w} + kConfig.tile_w - 1) / kConfig.tile_w;
  const std::int64_t tiles_y = (std::int64_t{p.out_h} + kConfig.tile_h - 1) / kConfig.tile_h;
  // Offsets are of bytes, and by a block's stride of tiles beyond the last one.
  return compute_capability >= kOldest && p.elem == Elem::F16 && p.c_in == kConfig.c_in &&
         p.c_hidden == kConfig.c_hidden && p.c_out == kConfig.c_out && keeps_finite(p.expand_clip) &&
         std::int64_t{p.h} * p.w <= kMaxInt / (2 * p.c_in) &&
         std::int64_t{p.out_h} * p.out_w <= kMaxInt / (2 * p.c_out) &&
         tiles_x * tiles_y <= kMaxInt / 2 / std::max(p.n, 1);
}

template <Config kConfig>
constexpr InvertedResidualEntry entry(Variant variant, std::string_view name) {
  constexpr InvertedResidualTile kTile{
      kConfig.stride, kConfig.tile_h, kConfig.tile_w, kConfig.c_hidden, kConfig.c_out, Shape<kConfig>::kThreads, true};
  return {variant, name, kTile, supports_config<kConfig>, packed_bytes, pack, launch_config<kConfig>};
}

// clang-format off
constexpr InvertedResidualEntry kEntries[] = {
    //           channels     stride  tile   slice  parts  min_blocks
    entry<Config{16,  96, 24,  2,     4, 8,   16,    2,    2}>(Variant::SmallS2Tile4x8C96N24, "small_s2_4x8_c96_n24"),
    entry<Config{24, 144, 24,  1,     4, 8,   16,    1,    2}>(Variant::SmallS1Tile4x8C144N24, "small_s1_4x8_c144_n24"),
    entry<Config{24, 144, 32,  2,     2, 4,   16,    1,    2}>(Variant::SmallS2Tile2x4C144N32, "small_s2_2x4_c144_n32"),
    entry<Config{32, 192, 32,  1,     2, 4,   24,    1,    2}>(Variant::SmallS1Tile2x4C192N32, "small_s1_2x4_c192_n32"),
    entry<Config{32, 192, 64,  2,     2, 2,   24,    1,    2}>(Variant::SmallS2Tile2x2C192N64, "small_s2_2x2_c192_n64"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_small_entries() { return kEntries; }

}  // namespace mobicuda::kernels
