// Inverted residual blocks on spatial tiles, half: variants, limits, packing, launch.
// Order of the stages: kernel.cuh. The stages: stages.cuh.
// Offsets within an image are int; images are found by size_t.

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/common/variant_table.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/tile/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using inverted::Arguments;
using inverted::Config;
using inverted::kUnit;
using inverted::Shape;
using inverted::UnitLayout;
using inverted_host::put_halves;
using Variant = InvertedResidualVariant;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

int k_steps(const InvertedResidualParams& p) { return p.expand ? ceil_div(p.c_in, 16) : 0; }
int n_pairs(const InvertedResidualParams& p) { return ceil_div(p.c_out, 16); }
int units(const InvertedResidualParams& p) { return ceil_div(p.c_hidden, kUnit); }

__half2 both(float value) { return __float2half2_rn(value); }

template <Config kConfig>
Arguments arguments(const InvertedResidualParams& p) {
  const int tiles_x = ceil_div(p.out_w, kConfig.tile_w);
  const int tiles_y = ceil_div(p.out_h, kConfig.tile_h);
  Arguments a{};
  inverted_host::set_extents(a, p);
  a.c_in = p.c_in;
  a.c_out = p.c_out;
  a.k_steps = k_steps(p);
  a.n_pairs = n_pairs(p);
  a.units = units(p);
  a.chunks = ceil_div(a.units, Shape<kConfig>::kUnits);
  a.tiles = static_cast<std::uint32_t>(std::int64_t{p.n} * tiles_x * tiles_y);
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(tiles_x));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(tiles_y));
  const int vectors = ceil_div(p.c_in, 16) * 2;
  a.patch_vectors = FastDivision(static_cast<std::uint32_t>(vectors));
  a.out_quads = FastDivision(static_cast<std::uint32_t>(p.c_out / 4));
  a.unit = inverted::unit_layout(a.k_steps, a.n_pairs);
  a.patch_row_bytes = vectors * 16 + 16;  // an odd number of 16 bytes: ldmatrix reads 8 rows from different banks
  a.weight_slots = a.chunks;
  a.patch_slots = 1;
  a.expand_clip = {both(p.expand_activation.lo), both(p.expand_activation.hi)};
  a.depthwise_clip = {both(p.depthwise_activation.lo), both(p.depthwise_activation.hi)};
  a.project_clip = p.project_clip;
  return a;
}

/// The least that any launch of these parameters can do with.
template <Config kConfig>
std::size_t least_shared_bytes(const InvertedResidualParams& p) {
  Arguments a = arguments<kConfig>(p);
  a.weight_slots = std::min(a.chunks, 2);
  a.patch_slots = 2;
  return inverted::shared_bytes<kConfig>(a);
}

/// Sets the slots; prefers all weights resident to two chunks at a time if as many blocks run at once as the variant
/// is made for.
template <Config kConfig>
cudaError_t place_in_shared_memory(const DeviceTraits& gpu, Arguments& a, int& blocks) {
  const std::size_t most = gpu.shared_bytes_per_block;
  const std::size_t share = gpu.shared_bytes_per_multiprocessor / kConfig.min_blocks - gpu.reserved_shared_bytes;
  const auto kernel = inverted::fused_kernel<Shape<kConfig>>;
  // Always the device's maximum: another thread may launch the same kernel with another size at this moment.
  cudaError_t status = allow_shared_memory(kernel, most);
  for (a.patch_slots = 1; status == cudaSuccess; ++a.patch_slots) {
    a.weight_slots = a.chunks;
    // Alone on its multiprocessor a block loads all its weights before it waits for the predecessor.
    const bool one_wave = a.tiles <= static_cast<std::uint32_t>(gpu.multiprocessors);
    if (inverted::shared_bytes<kConfig>(a) > (one_wave ? most : std::min(most, share))) {
      a.weight_slots = std::min(a.chunks, 2);
    }
    int blocks_each = 0;
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, kernel, Shape<kConfig>::kThreads,
                                                           inverted::shared_bytes<kConfig>(a));
    blocks = std::max(1, blocks_each) * gpu.multiprocessors;
    // A block with one tile has no use for the next one's patch.
    if (a.patch_slots == 2 || a.tiles <= static_cast<std::uint32_t>(blocks)) break;
  }
  return status;
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  DeviceTraits gpu;
  int blocks = 0;
  Arguments a = arguments<kConfig>(p);
  cudaError_t status = current_device_traits(gpu);
  if (status == cudaSuccess) status = place_in_shared_memory<kConfig>(gpu, a, blocks);
  if (status != cudaSuccess) return status;
  const std::uint32_t grid = std::min(a.tiles, static_cast<std::uint32_t>(blocks));
  return launch(inverted::fused_kernel<Shape<kConfig>>, dim3(grid), dim3(Shape<kConfig>::kThreads),
                inverted::shared_bytes<kConfig>(a), where, a, static_cast<const __half*>(x),
                static_cast<const unsigned char*>(packed), static_cast<__half*>(y));
}

/// Whether the number of tiles is an int.
bool tiles_fit(const InvertedResidualParams& p, const InvertedResidualTile& t) {
  const std::int64_t tiles_x = (std::int64_t{p.out_w} + t.columns - 1) / t.columns;
  const std::int64_t tiles_y = (std::int64_t{p.out_h} + t.rows - 1) / t.rows;
  return tiles_x * tiles_y <= kMaxInt / std::max(p.n, 1);
}

bool channels_fit(const InvertedResidualParams& p, const InvertedResidualTile& t) {
  constexpr int kMostChannels = 8192;
  if (p.c_in < 8 || p.c_hidden < 8 || p.c_out < 8 || p.c_in > kMostChannels || p.c_hidden > kMostChannels) return false;
  const int hidden_step = p.expand ? kUnit : 8;
  return p.c_in % 8 == 0 && p.c_out % 8 == 0 && p.c_out <= t.c_out && p.c_hidden % hidden_step == 0 &&
         (p.expand || p.c_hidden == p.c_in);
}

/// One fragment of 16 (k) x 16 (columns); value(column, k) gives the weights.
template <class Value>
void pack_fragment(unsigned char* to, const Value& value) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int word = 0; word < 4; ++word) {
      const int column = inverted::dealt_column(word / 2, lane / 4);
      const int k = lane % 4 * 2 + word % 2 * 8;
      put_halves(to + lane * 16 + word * 4, value(column, k), value(column, k + 1));
    }
  }
}

void pack_floats(unsigned char* to, const float* from, int first, int count, int end) {
  for (int i = 0; i < count; ++i) {
    const float value = from != nullptr && first + i < end ? from[first + i] : 0.0F;
    std::memcpy(to + i * 4, &value, sizeof value);
  }
}

/// matrix is (rows, columns) row-major; zeros outside.
float at(const float* matrix, int rows, int columns, int row, int column) {
  return row < rows && column < columns ? matrix[std::int64_t{row} * columns + column] : 0.0F;
}

void pack_unit(const InvertedResidualParams& p, const InvertedResidualWeights& w, int unit, unsigned char* to) {
  constexpr int kTaps = 9;
  const UnitLayout layout = inverted::unit_layout(k_steps(p), n_pairs(p));
  const int first = unit * kUnit;
  for (int step = 0; step < k_steps(p); ++step) {
    pack_fragment(to + step * inverted::kFragmentBytes,
                  [&](int column, int k) { return at(w.expand, p.c_hidden, p.c_in, first + column, step * 16 + k); });
  }
  pack_floats(to + layout.expand_bias, p.expand ? w.expand_bias : nullptr, first, kUnit, p.c_hidden);
  for (int tap = 0; tap < kTaps; ++tap) {
    for (int c = 0; c < kUnit; c += 2) {
      put_halves(to + layout.taps + tap * inverted::kTapBytes + c * 2,
                 at(w.depthwise, p.c_hidden, kTaps, first + c, tap),
                 at(w.depthwise, p.c_hidden, kTaps, first + c + 1, tap));
    }
  }
  pack_floats(to + layout.depthwise_bias, w.depthwise_bias, first, kUnit, p.c_hidden);
  for (int pair = 0; pair < n_pairs(p); ++pair) {
    pack_fragment(to + layout.project + pair * inverted::kFragmentBytes,
                  [&](int column, int k) { return at(w.project, p.c_out, p.c_hidden, pair * 16 + column, first + k); });
  }
}

std::size_t packed_bytes(const InvertedResidualParams& params) {
  const UnitLayout layout = inverted::unit_layout(k_steps(params), n_pairs(params));
  return static_cast<std::size_t>(n_pairs(params) * inverted::kPairBiasBytes) +
         static_cast<std::size_t>(units(params)) * static_cast<std::size_t>(layout.bytes);
}

void pack(const InvertedResidualParams& params, const InvertedResidualWeights& weights, void* packed) {
  auto* to = static_cast<unsigned char*>(packed);
  pack_floats(to, weights.project_bias, 0, n_pairs(params) * 16, params.c_out);
  to += n_pairs(params) * inverted::kPairBiasBytes;
  const int unit_bytes = inverted::unit_layout(k_steps(params), n_pairs(params)).bytes;
  for (int unit = 0; unit < units(params); ++unit, to += unit_bytes) pack_unit(params, weights, unit, to);
}

template <Config kConfig>
constexpr InvertedResidualTile kTile{kConfig.stride, kConfig.tile_h,           kConfig.tile_w, kConfig.chunk,
                                     kConfig.c_out,  Shape<kConfig>::kThreads, kConfig.expand};

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 80;
  return gpu.code >= kOldest && p.elem == Elem::F16 && channels_fit(p, kTile<kConfig>) &&
         tiles_fit(p, kTile<kConfig>) && least_shared_bytes<kConfig>(p) <= gpu.shared_bytes_per_block;
}

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
    //       expand  stride  tile    chunk  c_out  warps m, n, k  expand m, n  strip   min_blocks
    entry<Config{false, 1,   14, 14,    32,    16,       8, 1, 1,        1, 1,  7, 1,  3}>(Variant::PlainTile14x14C32N16, "plain_14x14_c32_n16"),
    entry<Config{false, 1,    7, 14,    32,    16,       7, 1, 1,        1, 1,  7, 1,  2}>(Variant::PlainTile7x14C32N16, "plain_7x14_c32_n16"),
    entry<Config{false, 1,    8, 14,    32,    16,      14, 1, 1,        1, 1,  4, 1,  2}, kAllVariants>(Variant::PlainTile8x14C32N16, "plain_8x14_c32_n16"),
    entry<Config{true,  1,   14, 14,    48,    32,       4, 2, 1,        2, 1,  7, 2,  2}>(Variant::S1Tile14x14C48N32, "s1_14x14_c48_n32"),
    entry<Config{true,  1,   14, 14,    64,    32,       4, 2, 1,        2, 2,  7, 2,  2}>(Variant::S1Tile14x14C64N32, "s1_14x14_c64_n32"),
    entry<Config{true,  1,   14, 14,    64,    64,       4, 4, 1,        2, 2,  7, 1,  1}>(Variant::S1Tile14x14C64N64, "s1_14x14_c64_n64"),
    entry<Config{true,  1,   14, 14,    64,    96,       5, 3, 1,        2, 2,  7, 1,  1}>(Variant::S1Tile14x14C64N96, "s1_14x14_c64_n96"),
    entry<Config{true,  1,    7,  7,    64,    64,       4, 2, 1,        3, 1,  7, 1,  2}>(Variant::S1Tile7x7C64N64, "s1_7x7_c64_n64"),
    entry<Config{true,  1,    4,  7,   144,    32,       2, 2, 4,        2, 1,  4, 1,  2}>(Variant::S1Tile4x7C144N32, "s1_4x7_c144_n32"),
    entry<Config{true,  1,    2,  4,   192,    32,       1, 2, 8,        2, 1,  1, 2,  2}>(Variant::S1Tile2x4C192N32, "s1_2x4_c192_n32"),
    entry<Config{true,  1,    2,  2,   192,    64,       1, 4, 4,        1, 1,  1, 1,  2}>(Variant::S1Tile2x2C192N64, "s1_2x2_c192_n64"),
    entry<Config{true,  2,    7, 14,    48,    32,       4, 2, 1,        2, 1,  7, 1,  2}>(Variant::S2Tile7x14C48N32, "s2_7x14_c48_n32"),
    entry<Config{true,  2,    7,  7,    48,    64,       4, 2, 1,        2, 1,  7, 1,  2}>(Variant::S2Tile7x7C48N64, "s2_7x7_c48_n64"),
    entry<Config{true,  2,    4,  7,    96,    32,       2, 2, 4,        2, 1,  4, 1,  2}>(Variant::S2Tile4x7C96N32, "s2_4x7_c96_n32"),
    entry<Config{true,  2,    2,  4,   144,    32,       1, 2, 8,        3, 1,  1, 2,  2}>(Variant::S2Tile2x4C144N32, "s2_2x4_c144_n32"),
    entry<Config{true,  2,    2,  2,   192,    64,       1, 4, 4,        2, 1,  1, 1,  2}>(Variant::S2Tile2x2C192N64, "s2_2x2_c192_n64"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_tile_entries() { return kEntries; }

}  // namespace mobicuda::kernels
