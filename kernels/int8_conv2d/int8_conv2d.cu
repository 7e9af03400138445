// Convolution of bytes: variants, limits, packing, launch.
// Tiles on tensor cores: pipeline.cuh, mma.cuh; by wgmma: wgmma/. First layers: stem.cuh, stem_tile.cuh. Few rows:
// gemv.cuh. Everything: direct.cuh.

#include "kernels/int8_conv2d/int8_conv2d.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "kernels/common/resident_blocks.h"
#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/int8_conv2d/borders.h"
#include "kernels/int8_conv2d/direct.cuh"
#include "kernels/int8_conv2d/families.h"
#include "kernels/int8_conv2d/gemv.cuh"
#include "kernels/int8_conv2d/narrow.cuh"
#include "kernels/int8_conv2d/pipeline.cuh"
#include "kernels/int8_conv2d/stem.cuh"
#include "kernels/int8_conv2d/stem_tile.cuh"

namespace mobicuda::kernels {
namespace {

using int8_conv::Arguments;
using int8_conv::MmaConfig;
using int8_conv::MmaTile;
using Params = Int8Conv2dParams;
using Variant = Int8Conv2dVariant;

constexpr int kLargestExtent = 1 << 30;
constexpr int kSmallPitchStep = int8_conv::kStemTaps * kSmallBytePitch;  // of a first layer's weights
constexpr int kOldest = 75;
constexpr int kTensorCores = 80;

bool gives_floats(const Params& p) { return p.output != Params::Output::Int8; }
int x_pitch_of(const Params& p) { return p.x_pitch == 0 ? round_up(p.c_in, kChannelStep) : p.x_pitch; }
int y_pitch_of(const Params& p) {
  if (gives_floats(p)) return p.c_out;
  return p.y_pitch == 0 ? round_up(p.c_out, kChannelStep) : p.y_pitch;
}
bool has_small_pitch(const Params& p) { return p.x_pitch == kSmallBytePitch; }

/// Bytes of W for one tap.
int tap_bytes_of(const Params& p) {
  if (p.groups > 1) return p.c_in / p.groups;
  return has_small_pitch(p) ? kSmallBytePitch : round_up(p.c_in, kChannelStep);
}
std::int64_t row_bytes_of(const Params& p) {
  const std::int64_t step = has_small_pitch(p) ? kSmallPitchStep : kChannelStep;
  return ceil_div(std::int64_t{p.kernel_h} * p.kernel_w * tap_bytes_of(p), step) * step;
}

bool is_pointwise(const Params& p) {
  return p.kernel_h == 1 && p.kernel_w == 1 && p.stride_h == 1 && p.stride_w == 1 && p.pad_top == 0 &&
         p.pad_left == 0 && p.out_h == p.h && p.out_w == p.w && p.groups == 1 && !has_small_pitch(p);
}

std::int64_t pixels_of(const Params& p) { return std::int64_t{p.out_h} * p.out_w; }

/// Whether sizes are positive, and what indices are made of are ints.
bool has_extents(const Params& p) {
  const bool positive = p.h > 0 && p.w > 0 && p.c_in > 0 && p.c_out > 0 && p.out_h > 0 && p.out_w > 0 &&
                        p.kernel_h > 0 && p.kernel_w > 0 && p.stride_h > 0 && p.stride_w > 0 && p.dilation_h > 0 &&
                        p.dilation_w > 0 && p.groups > 0;
  if (!positive || p.n < 0 || p.pad_top < 0 || p.pad_left < 0 || p.x_pitch < 0 || p.y_pitch < 0) return false;
  constexpr std::int64_t kMost = kLargestExtent;
  const std::int64_t bottom = std::int64_t{p.out_h} * p.stride_h + std::int64_t{p.kernel_h} * p.dilation_h;
  const std::int64_t right = std::int64_t{p.out_w} * p.stride_w + std::int64_t{p.kernel_w} * p.dilation_w;
  if (std::max({bottom, right, std::int64_t{p.pad_top}, std::int64_t{p.pad_left}}) > kMost) return false;
  if (std::max({p.c_in, p.c_out, p.x_pitch, p.y_pitch, p.h, p.w}) > kLargestExtent / kChannelStep) return false;
  if (std::int64_t{p.kernel_h} * p.kernel_w > kMost / tap_bytes_of(p)) return false;
  return pixels_of(p) <= kMost && p.n <= kMost / pixels_of(p);
}

bool has_pitches(const Params& p) {
  const int x_pitch = x_pitch_of(p);
  if (has_small_pitch(p) ? p.c_in > kSmallBytePitch : x_pitch % kChannelStep != 0 || x_pitch < p.c_in) return false;
  if (gives_floats(p)) return p.y_pitch == 0 && !p.residual;
  const int y_pitch = y_pitch_of(p);
  return y_pitch % kChannelStep == 0 && y_pitch >= p.c_out;
}

bool has_quantisation(const Params& p) {
  if (!is_byte(p.x_zero) || !is_valid(p.result) || !is_scale(p.y_scale)) return false;
  return !p.residual || (is_valid(p.sum) && p.sum.a_zero == p.result.zero_point);
}

Arguments arguments(const Params& p) {
  Arguments a{};
  a.m = static_cast<int>(p.n * pixels_of(p));
  a.n = p.c_out;
  a.k = static_cast<int>(row_bytes_of(p));
  a.y_is_float = gives_floats(p);
  a.dequantizes = p.output == Params::Output::Dequantized;
  a.y_scale = p.y_scale;
  a.w_rows = round_up(p.c_out, kChannelStep);
  a.columns = a.y_is_float ? p.c_out : a.w_rows;
  a.x_pitch = x_pitch_of(p);
  a.y_pitch = y_pitch_of(p);
  a.h = p.h;
  a.w_extent = p.w;
  a.c_in = p.c_in;
  a.stride_h = p.stride_h;
  a.stride_w = p.stride_w;
  a.dilation_h = p.dilation_h;
  a.dilation_w = p.dilation_w;
  a.pad_top = p.pad_top;
  a.pad_left = p.pad_left;
  a.taps = p.kernel_h * p.kernel_w;
  a.tap_bytes = tap_bytes_of(p);
  a.group_in = p.c_in / p.groups;
  a.group_out = p.c_out / p.groups;
  a.of_image = FastDivision(static_cast<std::uint32_t>(pixels_of(p)));
  a.of_row = FastDivision(static_cast<std::uint32_t>(p.out_w));
  a.of_tap = FastDivision(static_cast<std::uint32_t>(ceil_div(a.tap_bytes, kChannelStep)));
  a.of_window_row = FastDivision(static_cast<std::uint32_t>(p.kernel_w));
  a.x_zero = four_bytes(p.x_zero);
  a.finish = {requantize_to(p.result), add_bytes_of(p.sum), p.residual};
  return a;
}

template <class Tile>
std::size_t most_shared_bytes(int k) {
  return int8_conv::shared_bytes<Tile>(ceil_div(k, Tile::kBk), Tile::kStages);
}

template <class Tile>
cudaError_t launch_tile(const Params& p, const Arguments& shared, const Launch& where) {
  Arguments a = shared;
  a.k_slices = ceil_div(a.k, Tile::kBk);
  const int m_tiles = ceil_div(a.m, Tile::kBm);
  const int n_tiles = ceil_div(a.n, Tile::kBn);
  const auto kernel = is_pointwise(p) ? int8_conv::conv_kernel<Tile, int8_conv::PixelRows>
                                      : int8_conv::conv_kernel<Tile, int8_conv::WindowRows>;
  int blocks = 0;
  DeviceTraits gpu;
  cudaError_t status = current_device_traits(gpu);
  if (status == cudaSuccess) {
    status = resident_blocks(kernel, Tile::kThreads, most_shared_bytes<Tile>(a.k), gpu.shared_bytes_per_block, blocks);
  }
  if (status != cudaSuccess) return status;
  const int strip_blocks = std::clamp(blocks / n_tiles, 1, std::min(m_tiles, kMaxGridYz));
  a.whole_rounds = m_tiles / strip_blocks;
  a.last_round = m_tiles % strip_blocks;
  const std::int64_t steps = std::int64_t{ceil_div(m_tiles, strip_blocks)} * a.k_slices;
  return launch(kernel, dim3(static_cast<unsigned>(n_tiles), static_cast<unsigned>(strip_blocks)), dim3(Tile::kThreads),
                int8_conv::shared_bytes<Tile>(a.k_slices, steps), where, a);
}

cudaError_t launch_narrow(const Params&, const Arguments& a, const Launch& where) {
  const auto kernel = a.k <= 16   ? int8_conv::narrow_kernel<1>
                      : a.k <= 32 ? int8_conv::narrow_kernel<2>
                                  : int8_conv::narrow_kernel<4>;
  int blocks = 0;
  const cudaError_t status = resident_blocks(kernel, int8_conv::kNarrowThreads, 0, 0, blocks);
  if (status != cudaSuccess) return status;
  const int strips = ceil_div(a.columns, int8_conv::kNarrowChannels);
  const int strip_blocks = std::clamp(blocks / strips, 1, ceil_div(a.m, int8_conv::kNarrowPixels));
  return launch(kernel, dim3(static_cast<unsigned>(strip_blocks), static_cast<unsigned>(strips)),
                dim3(int8_conv::kNarrowThreads), 0, where, a);
}

cudaError_t launch_gemv(const Params&, const Arguments& a, const Launch& where) {
  const auto kernel = a.m == 1 ? int8_conv::gemv_kernel<1> : int8_conv::gemv_kernel<int8_conv::kGemvRows>;
  const dim3 grid(static_cast<unsigned>(ceil_div(a.columns, int8_conv::kGemvThreads / 32)),
                  static_cast<unsigned>(ceil_div(a.m, int8_conv::kGemvRows)));
  return launch(kernel, grid, dim3(int8_conv::kGemvThreads), 0, where, a);
}

cudaError_t launch_stem(const Params&, const Arguments& a, const Launch& where) {
  const dim3 grid(static_cast<unsigned>(ceil_div(a.m, int8_conv::kStemPixels)),
                  static_cast<unsigned>(ceil_div(a.columns, int8_conv::kStemChannels)));
  return launch(int8_conv::stem_kernel<int8_conv::kStemTiles>, grid, dim3(int8_conv::kStemThreads), 0, where, a);
}

std::size_t stem_tile_bytes(const Params& p) {
  const int8_conv::StemTileImage under(arguments(p), p.kernel_h);
  return static_cast<std::size_t>(p.kernel_h) * int8_conv::kStemTileRowBytes +
         static_cast<std::size_t>(under.rows) * static_cast<std::size_t>(under.columns) * kSmallBytePitch;
}

cudaError_t launch_stem_tile(const Params& p, const Arguments& shared, const Launch& where) {
  int8_conv::StemTileArguments a{};
  static_cast<Arguments&>(a) = shared;
  a.window_h = p.kernel_h;
  a.window_w = p.kernel_w;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  const int columns = ceil_div(p.out_w, int8_conv::kStemTileSide);
  const int tiles = columns * ceil_div(p.out_h, int8_conv::kStemTileSide);
  a.of_tile_row = FastDivision(static_cast<std::uint32_t>(columns));
  a.of_tiles = FastDivision(static_cast<std::uint32_t>(tiles));
  a.of_columns = FastDivision(static_cast<std::uint32_t>(int8_conv::StemTileImage(a, p.kernel_h).columns));
  int multiprocessors = 0;
  if (const cudaError_t status = count_multiprocessors(multiprocessors); status != cudaSuccess) return status;
  // With few images the channels of a tile are several blocks', which each load the image.
  const int channels = ceil_div(a.columns, int8_conv::kStemTileChannels);
  const bool few = std::int64_t{p.n} * tiles < 2 * multiprocessors;
  return launch(int8_conv::stem_tile_kernel,
                dim3(static_cast<unsigned>(p.n * tiles), static_cast<unsigned>(few ? channels : 1)),
                dim3(int8_conv::kStemTileThreads), stem_tile_bytes(p), where, a);
}

cudaError_t launch_direct(const Params&, const Arguments& a, const Launch& where) {
  const auto kernel = a.group_in % 4 == 0 ? int8_conv::direct_kernel<true> : int8_conv::direct_kernel<false>;
  const dim3 grid(static_cast<unsigned>(a.m), static_cast<unsigned>(ceil_div(a.columns, int8_conv::kDirectThreads)));
  return launch(kernel, grid, dim3(int8_conv::kDirectThreads), 0, where, a);
}

constexpr int kMostNarrow = 64;  // bytes of k

template <class Tile>
bool supports_tile(const Params& p, const DeviceTraits& gpu) {
  return gpu.code >= kTensorCores && p.groups == 1 && !has_small_pitch(p) &&
         most_shared_bytes<Tile>(static_cast<int>(row_bytes_of(p))) <= gpu.shared_bytes_per_block;
}

int columns_of(const Params& p) { return round_up(p.c_out, kChannelStep); }

bool supports_narrow(const Params& p, const DeviceTraits& gpu) {
  return gpu.code >= kTensorCores && is_pointwise(p) && row_bytes_of(p) <= kMostNarrow &&
         ceil_div(columns_of(p), int8_conv::kNarrowChannels) <= kMaxGridYz;
}

bool supports_gemv(const Params& p, const DeviceTraits&) {
  return is_pointwise(p) && p.n * pixels_of(p) <= std::int64_t{int8_conv::kGemvRows} * kMaxGridYz;
}

bool supports_stem(const Params& p, const DeviceTraits& gpu) {
  return gpu.code >= kTensorCores && p.groups == 1 && has_small_pitch(p) &&
         ceil_div(columns_of(p), int8_conv::kStemChannels) <= kMaxGridYz;
}

/// A tile's window rows are 32 bytes, and what a block needs fits without asking.
bool supports_stem_tile(const Params& p, const DeviceTraits& gpu) {
  constexpr int kMostStride = 8;
  constexpr int kMostRows = 64;  // of a window, with dilation
  return supports_stem(p, gpu) && p.kernel_w <= int8_conv::kStemTileTaps && p.dilation_w == 1 &&
         p.stride_h <= kMostStride && p.stride_w <= kMostStride &&
         std::int64_t{p.kernel_h} * p.dilation_h <= kMostRows && stem_tile_bytes(p) <= kSharedBytesWithoutAsking;
}

bool supports_direct(const Params& p, const DeviceTraits&) {
  return ceil_div(columns_of(p), int8_conv::kDirectThreads) <= kMaxGridYz;
}

template <MmaConfig kConfig>
constexpr Int8Conv2dEntry mma(Variant variant, std::string_view name) {
  using Tile = MmaTile<kConfig>;
  return {variant,
          name,
          {Tile::kBm, Tile::kBn, Tile::kBk, Tile::kSplitK, Tile::kThreads},
          supports_tile<Tile>,
          launch_tile<Tile>};
}

// clang-format off
constexpr Int8Conv2dEntry kOwnEntries[] = {
    //            bm   bn   bk  warps m, n, k  stages  resident  min_blocks
    mma<MmaConfig{128, 128, 64,       2, 4, 1,      4,    false,          2}>(Variant::Mma128x128x64, "mma_128x128x64"),
    mma<MmaConfig{128,  64, 64,       2, 2, 1,      4,    false,          3}>(Variant::Mma128x64x64, "mma_128x64x64"),
    mma<MmaConfig{128,  32, 64,       4, 1, 1,      4,     true,          4}>(Variant::Mma128x32x64, "mma_128x32x64"),
    mma<MmaConfig{256,  16, 32,       8, 1, 1,      4,     true,          3}>(Variant::Mma256x16x32, "mma_256x16x32"),
    mma<MmaConfig{ 64,  64, 64,       2, 2, 1,      4,    false,          4}>(Variant::Mma64x64x64, "mma_64x64x64"),
    mma<MmaConfig{ 64,  32, 64,       4, 1, 1,      4,     true,          6}>(Variant::Mma64x32x64, "mma_64x32x64"),
    mma<MmaConfig{ 32,  32, 128,      2, 1, 2,      4,     true,          4}>(Variant::Mma32x32x128K2, "mma_32x32x128_k2"),
    mma<MmaConfig{ 16,  32, 256,      1, 1, 4,      4,     true,          4}>(Variant::Mma16x32x256K4, "mma_16x32x256_k4"),
    {Variant::Narrow, "narrow",
     {int8_conv::kNarrowPixels, int8_conv::kNarrowChannels, kMostNarrow, 1, int8_conv::kNarrowThreads},
     supports_narrow, launch_narrow},
    {Variant::Gemv, "gemv", {int8_conv::kGemvRows, int8_conv::kGemvThreads / 32, 1, 32, int8_conv::kGemvThreads},
     supports_gemv, launch_gemv},
    {Variant::Stem, "stem",
     {int8_conv::kStemPixels, int8_conv::kStemChannels, kSmallPitchStep, 1, int8_conv::kStemThreads},
     supports_stem, launch_stem},
    {Variant::StemTile, "stem_tile",
     {int8_conv::kStemTileSide * int8_conv::kStemTileSide, int8_conv::kStemTileChannels, kSmallPitchStep, 1,
      int8_conv::kStemTileThreads},
     supports_stem_tile, launch_stem_tile},
    {Variant::Direct, "direct", {1, int8_conv::kDirectThreads, 1, 1, int8_conv::kDirectThreads},
     supports_direct, launch_direct},
};
// clang-format on

static_assert(in_order_of_variants(kOwnEntries), "entry_of() takes the variant for the index");

/// All entries and variants, in the order of Int8Conv2dVariant.
struct Table {
  std::vector<Int8Conv2dEntry> entries{std::begin(kOwnEntries), std::end(kOwnEntries)};
  std::vector<Variant> variants;
};

const Table& entry_table() {
  static const Table all = [] {
    Table joined;
    const auto wgmma = int8_conv2d_wgmma_entries();
    joined.entries.insert(joined.entries.end(), wgmma.begin(), wgmma.end());
    for (const Int8Conv2dEntry& entry : joined.entries) joined.variants.push_back(entry.variant);
    return joined;
  }();
  return all;
}

const Int8Conv2dEntry& entry_of(Variant variant) { return entry_table().entries[static_cast<std::size_t>(variant)]; }

}  // namespace

std::span<const Int8Conv2dVariant> int8_conv2d_variants() { return entry_table().variants; }

std::string_view name(Int8Conv2dVariant variant) { return entry_of(variant).name; }

Int8Conv2dTile int8_conv2d_tile(Int8Conv2dVariant variant) { return entry_of(variant).tile; }

bool supports(Int8Conv2dVariant variant, const Int8Conv2dParams& p, const DeviceTraits& gpu) {
  if (static_cast<std::size_t>(variant) >= entry_table().entries.size() || gpu.code < kOldest) return false;
  if (!has_extents(p) || p.c_in % p.groups != 0 || p.c_out % p.groups != 0) return false;
  return has_pitches(p) && has_quantisation(p) && entry_of(variant).supports(p, gpu);
}

std::size_t int8_conv2d_packed_channels(const Int8Conv2dParams& p) {
  return static_cast<std::size_t>(round_up(p.c_out, kChannelStep));
}

std::size_t int8_conv2d_packed_biases(const Int8Conv2dParams& p) {
  return int8_conv2d_packed_channels(p) * static_cast<std::size_t>(1 + int8_conv::packed_borders(p));
}

std::size_t int8_conv2d_packed_bytes(const Int8Conv2dParams& p) {
  return int8_conv2d_packed_channels(p) * static_cast<std::size_t>(row_bytes_of(p));
}

namespace {

/// Of an output channel the sum of the weights of each tap, modulo 2^32.
class TapSums {
 public:
  TapSums(const Params& p, const std::int8_t* weight, std::size_t channel)
      : params_(p), sums_(static_cast<std::size_t>(p.kernel_h) * static_cast<std::size_t>(p.kernel_w)) {
    const auto group_in = static_cast<std::size_t>(p.c_in / p.groups);
    for (std::size_t c = 0; c < group_in; ++c) {
      for (std::size_t tap = 0; tap < sums_.size(); ++tap) {
        sums_[tap] += static_cast<std::uint32_t>(weight[(channel * group_in + c) * sums_.size() + tap]);
      }
    }
  }

  std::uint32_t all() const { return std::accumulate(sums_.begin(), sums_.end(), 0U); }
  /// Of the taps inside of the image that output (oy, ox) sees.
  std::uint32_t inside(int oy, int ox) const {
    const Params& p = params_;
    std::uint32_t sum = 0;
    for (int ky = 0; ky < p.kernel_h; ++ky) {
      for (int kx = 0; kx < p.kernel_w; ++kx) {
        const int y = oy * p.stride_h + ky * p.dilation_h - p.pad_top;
        const int x = ox * p.stride_w + kx * p.dilation_w - p.pad_left;
        if (y >= 0 && y < p.h && x >= 0 && x < p.w) sum += sums_[static_cast<std::size_t>(ky * p.kernel_w + kx)];
      }
    }
    return sum;
  }

 private:
  const Params& params_;
  std::vector<std::uint32_t> sums_;
};

/// `bias`: channels of the first class, those of the next behind them.
void pack_borders(const Params& p, const TapSums& taps, std::uint32_t offset, std::int32_t* bias) {
  if (int8_conv::packed_borders(p) == 0) return;
  const int8_conv::Borders borders = int8_conv::borders_of(p);
  for (int row = 0; row < borders.row_classes; ++row) {
    for (int column = 0; column < borders.column_classes; ++column) {
      const std::uint32_t inside = taps.inside(borders.rows.output_of(row), borders.columns.output_of(column));
      *bias = static_cast<std::int32_t>(offset - static_cast<std::uint32_t>(p.x_zero) * inside);
      bias += int8_conv2d_packed_channels(p);
    }
  }
}

}  // namespace

void int8_conv2d_pack(const Int8Conv2dParams& p, const std::int8_t* weight, const std::int32_t* bias,
                      const float* multiplier, std::int8_t* packed, std::int32_t* packed_bias,
                      float* packed_multiplier) {
  const std::size_t channels = int8_conv2d_packed_channels(p);
  const auto row_bytes = static_cast<std::size_t>(row_bytes_of(p));
  const auto tap_bytes = static_cast<std::size_t>(tap_bytes_of(p));
  const auto taps = static_cast<std::size_t>(p.kernel_h) * static_cast<std::size_t>(p.kernel_w);
  const auto group_in = static_cast<std::size_t>(p.c_in / p.groups);
  std::fill_n(packed, channels * row_bytes, std::int8_t{0});
  std::fill_n(packed_bias, int8_conv2d_packed_biases(p), 0);
  std::fill_n(packed_multiplier, channels, 0.0F);
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(p.c_out); ++channel) {
    for (std::size_t c = 0; c < group_in; ++c) {
      for (std::size_t tap = 0; tap < taps; ++tap) {
        packed[channel * row_bytes + tap * tap_bytes + c] = weight[(channel * group_in + c) * taps + tap];
      }
    }
    const TapSums sums(p, weight, channel);
    const std::uint32_t offset = bias == nullptr ? 0 : static_cast<std::uint32_t>(bias[channel]);
    packed_bias[channel] = static_cast<std::int32_t>(offset - static_cast<std::uint32_t>(p.x_zero) * sums.all());
    pack_borders(p, sums, offset, packed_bias + channels + channel);
    packed_multiplier[channel] = multiplier[channel];
  }
}

cudaError_t int8_conv2d(Int8Conv2dVariant variant, const Int8Conv2dParams& params, const void* x,
                        const Int8Conv2dWeights& weights, const void* residual, void* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu)) return cudaErrorInvalidValue;
  if (params.residual && residual == nullptr) return cudaErrorInvalidValue;
  if (params.n == 0) return cudaSuccess;
  Arguments a = arguments(params);
  a.x = static_cast<const std::int8_t*>(x);
  a.w = static_cast<const std::int8_t*>(weights.packed);
  a.bias = weights.bias;
  a.multiplier = weights.multiplier;
  a.residual = static_cast<const std::int8_t*>(residual);
  a.y = y;
  return entry_of(variant).launch(params, a, where);
}

// The kernel's table.
namespace {

OperandBytes operands(Int8Conv2dVariant, const Params& p) {
  OperandBytes bytes;
  const auto channels = table::as_bytes(int8_conv2d_packed_channels(p));
  bytes.x = table::bytes(sizeof(std::int8_t), p.n, p.h, p.w, x_pitch_of(p));
  bytes.weights[0] = table::as_bytes(int8_conv2d_packed_bytes(p));
  bytes.weights[1] = table::bytes(sizeof(std::int32_t), table::as_bytes(int8_conv2d_packed_biases(p)));
  bytes.weights[2] = table::bytes(sizeof(float), channels);
  const std::size_t element = gives_floats(p) ? sizeof(float) : sizeof(std::int8_t);
  bytes.y = table::bytes(element, p.n, pixels_of(p), y_pitch_of(p));
  if (p.residual) bytes.residual = bytes.y;
  return bytes;
}

cudaError_t launch_on(Int8Conv2dVariant variant, const Params& p, const Operands& at, const Launch& where) {
  const Int8Conv2dWeights weights{at.weights[0], static_cast<const std::int32_t*>(at.weights[1]),
                                  static_cast<const float*>(at.weights[2])};
  return int8_conv2d(variant, p, at.x, weights, at.residual, at.y, where);
}

std::string shape(const Params& p) {
  table::ShapeText text("int8_conv2d");
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c_in", p.c_in).with("c_out", p.c_out);
  text.with("out_h", p.out_h).with("out_w", p.out_w).with_window(p).with("groups", p.groups);
  text.with("x_pitch", p.x_pitch).with("y_pitch", p.y_pitch).with("residual", p.residual);
  return text.with("float_output", gives_floats(p)).take();
}

}  // namespace

const KernelTable<Int8Conv2dParams, Int8Conv2dVariant>& kernel_of(const Int8Conv2dParams&) {
  static const KernelTable<Int8Conv2dParams, Int8Conv2dVariant> kTable{
      .name = "int8_conv2d",
      .variants = int8_conv2d_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<Int8Conv2dParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
