#include "choose/rules/conv2d_products.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "choose/pointwise_layer.h"
#include "kernels/conv2d/window_line.h"
#include "kernels/gemm/gemm.h"

namespace mobicuda {
namespace {

using kernels::Conv2dVariant;

/// The time of a launch where the busiest multiprocessor has `rounds` blocks of `slices` slices:
/// fixed_us + rounds * (tile_us + residual_us, where there is one) + slices * max(rounds * slice_us, latency_us).
/// With wgmma no less than what reading all slices from L2 takes, and more where rows of the residual do not begin on
/// 32 bytes. Persistent blocks of large tiles gain nothing where each has one.
struct ProductTime {
  Conv2dVariant variant;
  double fixed_us, tile_us, slice_us, latency_us;
  double residual_us = 0;
  bool wgmma = false;
  double least_rounds = 0;    ///< of less it is not expected to be the fastest
  int most_slices = 1 << 30;  ///< nor is it of a pointwise convolution with more
  double finish_us = 0;       ///< of a tile, at the least, where another tile's products hide behind it
};

// Fitted to layers of networks on an H200; kernels/conv2d/README.md says how well. Those of mma with chunks of 4
// channels are those of the same tiles with chunks of 8.
// clang-format off
constexpr ProductTime kTimes[] = {
    {Conv2dVariant::Mma128x128x64,       1.40, 2.09, 0.71, 0.77, 0.60},
    {Conv2dVariant::Mma128x64x64,        1.68, 1.41, 0.36, 0.55, 0.41},
    {Conv2dVariant::Mma128x32x64,        1.06, 1.05, 0.25, 0.36, 0.25},
    {Conv2dVariant::Mma64x64x64,         0.89, 0.78, 0.25, 0.36, 0.49},
    {Conv2dVariant::Mma64x64x64S2,       0.59, 1.67, 0.24, 0.35, 0.00},
    {Conv2dVariant::Mma64x64x64S4,       0.41, 1.95, 0.25, 0.36, 0.09},
    {Conv2dVariant::Mma64x64x64S8,       0.37, 2.17, 0.24, 0.39, 0.05},
    {Conv2dVariant::Mma64x32x64,         0.84, 0.70, 0.16, 0.25, 0.18},
    {Conv2dVariant::Mma64x32x64S2,       1.30, 1.16, 0.15, 0.24, 0.11},
    {Conv2dVariant::Mma64x32x64S4,       1.37, 1.63, 0.15, 0.22, 0.00},
    {Conv2dVariant::Mma32x32x64,         1.14, 0.42, 0.11, 0.17, 0.00},
    {Conv2dVariant::Mma32x32x64S4,       1.60, 1.68, 0.10, 0.15, 0.00},
    {Conv2dVariant::Mma64x64x64C4,       0.89, 0.78, 0.25, 0.36, 0.49},
    {Conv2dVariant::Mma64x32x64C4,       0.84, 0.70, 0.16, 0.25, 0.18},
    {Conv2dVariant::Mma32x32x64C4,       1.14, 0.42, 0.11, 0.17, 0.00},
    {Conv2dVariant::Wgmma128x64x64,                0.77, 1.62, 0.23, 0.39, 0.19, true},
    {Conv2dVariant::Wgmma128x128x64,               1.26, 2.45, 0.34, 0.47, 0.66, true},
    {Conv2dVariant::Wgmma256x64x64,                0.00, 3.73, 0.46, 0.41, 0.62, true},
    {Conv2dVariant::Wgmma256x128x64,               0.00, 6.90, 0.60, 0.53, 1.53, true},
    {Conv2dVariant::Wgmma128x256x64,               0.00, 5.54, 0.63, 0.57, 2.49, true},
    {Conv2dVariant::Wgmma64x64x64Tile,             1.45, 0.50, 0.14, 0.27, 0.06, true},
    {Conv2dVariant::Wgmma128x64x64Tile,            1.28, 0.73, 0.27, 0.39, 0.06, true},
    {Conv2dVariant::Wgmma128x128x64Tile,           0.50, 1.98, 0.34, 0.46, 0.30, true},
    {Conv2dVariant::Wgmma192x128x64Tile,           0.00, 3.46, 0.51, 0.51, 0.31, true},
    {Conv2dVariant::Wgmma256x128x64Tile,           0.00, 4.07, 0.59, 0.52, 0.27, true},
    {Conv2dVariant::Wgmma64x64x64S2,               2.45, 0.50, 0.14, 0.29, 0.20, true},
    {Conv2dVariant::Wgmma128x64x64S2,              0.44, 1.89, 0.25, 0.44, 0.41, true},
    {Conv2dVariant::Wgmma128x128x64S4,             0.78, 3.17, 0.38, 0.50, 0.21, true},
    {Conv2dVariant::Wgmma128x128x64Persistent,     2.08, 1.39, 0.37, 0.47, 0.00, true},
    {Conv2dVariant::Wgmma256x64x64Persistent,      0.91, 1.55, 0.47, 0.43, 0.00, true},
    {Conv2dVariant::Wgmma192x128x64Persistent,     0.94, 2.00, 0.54, 0.13, 0.00, true, 2},
    {Conv2dVariant::Wgmma256x128x64Persistent,     0.82, 3.46, 0.61, 0.49, 0.00, true, 2},
    {Conv2dVariant::Wgmma128x256x64Persistent,     0.00, 3.10, 0.64, 0.03, 0.00, true, 2},
    {Conv2dVariant::Wgmma256x128x64PersistentPair, 1.44, 3.49, 0.62, 0.59, 0.00, true, 2},
    {Conv2dVariant::Wgmma64x64x64Window,           0.61, 1.90, 0.10, 0.18, 0.23, true},
    {Conv2dVariant::Wgmma64x64x64WindowS2,         0.32, 2.56, 0.11, 0.19, 0.12, true},
    {Conv2dVariant::Wgmma64x64x64WindowS4,         0.66, 1.98, 0.14, 0.21, 0.09, true},
    {Conv2dVariant::Wgmma64x64x64WindowS8,         1.16, 1.91, 0.16, 0.24, 0.14, true},
    {Conv2dVariant::Wgmma128x64x64Window,          0.63, 2.07, 0.19, 0.24, 0.20, true},
    {Conv2dVariant::Wgmma256x64x64Window,          0.00, 3.84, 0.32, 0.36, 0.67, true},
    {Conv2dVariant::Wgmma128x128x64Window,         0.00, 3.95, 0.31, 0.31, 0.56, true},
    {Conv2dVariant::Wgmma128x128x64WindowS2,       0.00, 6.36, 0.34, 0.34, 0.29, true},
    {Conv2dVariant::Wgmma224x64x64Patch8,          3.04, 0.43, 0.26, 0.26, 0.00, true, 0, 2, 1.15},
    {Conv2dVariant::Wgmma224x64x64Patch16,         2.77, 0.41, 0.27, 0.27, 0.00, true, 0, 2, 1.18},
    {Conv2dVariant::Wgmma256x64x64Pooled,          0.91, 1.55, 0.47, 0.43, 0.00, true},
    {Conv2dVariant::Wgmma256x128x64Pooled,         0.82, 3.46, 0.61, 0.49, 0.00, true},
    {Conv2dVariant::Wgmma224x64x64Patch8Pooled,    1.93, 0.17, 0.275, 0.28, 0.00, true},
    {Conv2dVariant::Wgmma224x64x64Patch16Pooled,   1.32, 0.15, 0.28, 0.28, 0.00, true},
};
// clang-format on

/// What a layer moves takes at the least, where it is too much for the L2 cache. The copies of wgmma's tiles overlap
/// half of a residual with the rest.
double memory_us(const kernels::Conv2dParams& params, double bytes_per_us, double residual_share) {
  constexpr double kCachedBytes = 36e6;
  constexpr double kHalf = 2;
  const double in = kHalf * params.n * params.h * params.w * params.c_in;
  const double out = kHalf * params.n * params.out_h * params.out_w * params.c_out;
  const double residual = params.residual ? out : 0;
  return in + out + residual > kCachedBytes ? (in + out + residual_share * residual) / bytes_per_us : 0;
}

/// Of gemm's mma_128x96x32, which conv2d has not, where gemm takes that.
std::optional<double> narrow_gemm_us(const kernels::Conv2dParams& params, int multiprocessors) {
  const double rows = static_cast<double>(params.n) * params.out_h * params.out_w;
  if (!takes_96_columns(rows, params.c_out, params.c_in, multiprocessors)) return std::nullopt;
  const double blocks = std::ceil(rows / 128) * kernels::ceil_div(params.c_out, 96);
  return std::ceil(blocks / multiprocessors) * (0.55 + 0.57 * kernels::ceil_div(params.c_in, 32));
}

/// How many multiprocessors have blocks of clusters of so many: a cluster lies in one group of them (GPC). Of 132
/// multiprocessors an H200 has 120 with clusters of four, and 112 with clusters of eight.
double usable(int multiprocessors, int cluster) {
  constexpr double kOfFour = 10.0 / 11;
  constexpr double kOfEight = 28.0 / 33;
  if (cluster < 4) return multiprocessors;
  return multiprocessors * (cluster < 8 ? kOfFour : kOfEight);
}

/// What a block's windows take to be copied, a row of a plane at a time: with a stride of 2 they are many and short.
double window_copies_us(const kernels::Conv2dParams& params, const kernels::Conv2dWork& work) {
  constexpr double kRowUs = 0.06;
  const double taps = static_cast<double>(params.kernel_h) * params.kernel_w;
  const double rows = work.pixels * taps / kernels::conv_wgmma::window_line(params).columns;
  return static_cast<double>(work.slices) / taps * rows * kRowUs;
}

/// What tensor copies of a residual take longer whose rows do not begin on sectors of 32 bytes, as those of 56 or 104
/// channels: for each row of a tile, where a multiprocessor has several tiles. In MNASNet 1.3 at 32 images such layers
/// took 2.6 to 3.7 us less by other variants, at 8 images, with a tile each, 1.3 us more.
double unaligned_residual_us(const ProductTime& time, const kernels::Conv2dParams& params, int multiprocessors) {
  using enum Conv2dVariant;
  constexpr Conv2dVariant kByCopies[] = {Wgmma64x64x64Tile, Wgmma128x64x64Tile, Wgmma128x128x64Tile,
                                         Wgmma192x128x64Tile, Wgmma256x128x64Tile};
  constexpr int kHalvesOfSector = 16;
  constexpr double kRowUs = 0.045;
  constexpr double kFewRows = 64;
  const bool by_copies = std::ranges::find(kByCopies, time.variant) != std::end(kByCopies);
  if (!by_copies || !params.residual || params.c_out % kHalvesOfSector == 0) return 0;
  const double pixels = static_cast<double>(params.n) * params.out_h * params.out_w;
  const double rows = pixels * kernels::ceil_div(params.c_out, conv2d_tile(time.variant).bn) / multiprocessors;
  return rows > kFewRows ? kRowUs * rows : 0;
}

double expected_us(const ProductTime& time, const kernels::Conv2dParams& params, int multiprocessors) {
  const kernels::Conv2dWork work = conv2d_work(time.variant, params);
  const auto slices = static_cast<double>(work.slices);
  const kernels::Conv2dTile tile = conv2d_tile(time.variant);
  const double rounds = std::ceil(static_cast<double>(work.blocks) / usable(multiprocessors, tile.split_k));
  const bool long_sum = params.kernel_h * params.kernel_w == 1 && work.slices > time.most_slices;
  if (rounds < time.least_rounds || long_sum) return std::numeric_limits<double>::infinity();
  const double tile_us =
      std::max(time.tile_us + (params.residual ? time.residual_us : 0), time.finish_us - slices * time.slice_us);
  double slices_us = slices * std::max(rounds * time.slice_us, time.latency_us);
  if (tile.window) slices_us = std::max(slices_us, rounds * window_copies_us(params, work));
  if (!time.wgmma) return time.fixed_us + rounds * tile_us + slices_us;
  // What all multiprocessors together take in from L2.
  constexpr double kBytesPerUs = 66e3;  // of one
  constexpr double kHalf = 2;
  const double slice_bytes = kHalf * (work.pixels + tile.bn) * tile.bk;
  const double copies_us = static_cast<double>(work.blocks) * slices * slice_bytes / (multiprocessors * kBytesPerUs);
  return std::max(time.fixed_us + rounds * tile_us + slices_us, copies_us) +
         unaligned_residual_us(time, params, multiprocessors);
}

/// What a variant on mma takes longer in a network than after itself, which is how the times above were taken: there
/// its weights are at hand, here they come from L2 or farther, and not before its predecessor has ended. Those of wgmma
/// are under way by then. Of layers of ResNet-50 at one image on an H200.
double cold_weights_us(const ProductTime& time, const kernels::Conv2dParams& params) {
  constexpr double kLatencyUs = 0.6;
  constexpr double kBytesPerUs = 2.5e6;
  return time.wgmma ? 0 : kLatencyUs + static_cast<double>(conv2d_packed_bytes(params)) / kBytesPerUs;
}

/// Many outputs of a short sum, in one wave of tiles of 64x64: 14x14, 256 to 1024 at batch 1 takes 3.0 us by them in
/// ResNet-50 and 3.1 to 3.7 by the variants of gemm, which chains of the layer tell to be as fast.
bool wide_of_few_pixels(const kernels::Conv2dParams& params, const kernels::DeviceTraits& gpu) {
  constexpr int kMostInputs = 256;
  constexpr int kLeastOutputs = 512;
  constexpr double kLeastWave = 0.45;
  if (params.c_in > kMostInputs || params.c_out < kLeastOutputs ||
      !supports(Conv2dVariant::Wgmma64x64x64Tile, params, gpu)) {
    return false;
  }
  const double wave =
      static_cast<double>(conv2d_work(Conv2dVariant::Wgmma64x64x64Tile, params).blocks) / gpu.multiprocessors;
  return wave >= kLeastWave && wave <= 1;
}

/// Whether gemm runs the layer by whole rows.
bool runs_whole_rows(const kernels::Conv2dParams& params, const kernels::DeviceTraits& gpu) {
  const kernels::GemmParams product = product_of(params);
  const double rows = static_cast<double>(params.n) * params.out_h * params.out_w;
  return params.y_pitch == 0 && takes_whole_rows(rows, product.n, product.k, gpu.multiprocessors) &&
         supports(kernels::GemmVariant::MmaRows, product, gpu);
}

}  // namespace

bool takes_96_columns(double m, int n, int k, int multiprocessors) {
  const bool few = n > 64 && n <= 96 && k > 16;
  const bool many = n >= 600 && n % 96 == 0;
  return k <= 160 && (few || many) && std::ceil(m / 128) * kernels::ceil_div(n, 96) >= 1.5 * multiprocessors;
}

bool takes_whole_rows(double m, int n, int k, int multiprocessors) {
  constexpr int kFewOutputs = 48;
  constexpr int kMostInputs = 64;
  constexpr double kRowsOfBlock = 128;
  constexpr int kBlocks = 3;  // of a multiprocessor, at the least: a warp takes long for its first rows
  return n > kFewOutputs && k <= kMostInputs && m >= kRowsOfBlock * kBlocks * multiprocessors;
}

bool beats_gemm(const kernels::Conv2dParams& params, const kernels::DeviceTraits& gpu) {
  // A tile of wgmma has 64 columns and slices of 64; gemm has tiles of fewer columns, and one with slices of 32.
  constexpr int kFewOutputs = 48;
  constexpr int kFewInputs = 32;
  if (params.c_out <= kFewOutputs || params.c_in <= kFewInputs) return false;
  if (wide_of_few_pixels(params, gpu)) return true;
  if (runs_whole_rows(params, gpu)) return false;
  // Of 179 layers at batches 1, 8 and 32 the choices with this factor take the least time; gemm's own tiles are up to a
  // tenth slower than conv2d's on mma.
  constexpr double kSlower = 1.1;
  constexpr double kGemmBytesPerUs = 2.5e6;
  constexpr double kWgmmaBytesPerUs = 2.3e6;
  double wgmma_time = std::numeric_limits<double>::infinity();
  double mma_time = std::numeric_limits<double>::infinity();
  for (const ProductTime& time : kTimes) {
    if (!supports(time.variant, params, gpu)) continue;
    double& best = time.wgmma ? wgmma_time : mma_time;
    best = std::min(best, expected_us(time, params, gpu.multiprocessors));
  }
  if (wgmma_time >= mma_time) return false;  // conv2d would not take wgmma
  const double gemm_time = narrow_gemm_us(params, gpu.multiprocessors).value_or(mma_time);
  return std::max(wgmma_time, memory_us(params, kWgmmaBytesPerUs, 0.5)) <
         kSlower * std::max(gemm_time, memory_us(params, kGemmBytesPerUs, 1));
}

std::vector<Conv2dVariant> products_by_time(const kernels::Conv2dParams& params, const kernels::DeviceTraits& gpu) {
  std::vector<std::pair<double, Conv2dVariant>> found;
  for (const ProductTime& time : kTimes) {
    if (!supports(time.variant, params, gpu)) continue;
    found.emplace_back(expected_us(time, params, gpu.multiprocessors) + cold_weights_us(time, params), time.variant);
  }
  std::sort(found.begin(), found.end());
  std::vector<Conv2dVariant> variants;
  for (const auto& [time, variant] : found) variants.push_back(variant);
  return variants;
}

}  // namespace mobicuda
