// int8_conv2d as an implicit matrix product with wgmma: variants, limits, tensor maps, launch.
// The kernel: kernel.cuh. It exists as sm_90a code only: where that is built, CMakeLists.txt defines
// MOBICUDA_HAS_SM90A.

#include "kernels/int8_conv2d/families.h"

#ifdef MOBICUDA_HAS_SM90A

#include <algorithm>
#include <cstddef>

#include "kernels/common/spread_blocks.h"
#include "kernels/common/window_map.h"
#include "kernels/int8_conv2d/borders.h"
#include "kernels/int8_conv2d/wgmma/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using int8_conv::wgmma::Arguments;
using int8_conv::wgmma::Config;
using int8_conv::wgmma::Shape;
using Params = Int8Conv2dParams;
using Variant = Int8Conv2dVariant;

constexpr int kSliceBytes = int8_conv::wgmma::kSliceBytes;
constexpr int kRun = int8_conv::wgmma::kRun;

/// 128 bytes of a tap of 64 channels at a time, in the order of kernel.cuh: pairs of channels, runs of 16, pairs of a
/// run. A channel's bytes are `a.k` apart. The distances do not grow from dimension to dimension, as those of cuda.h's
/// example do; the driver asks for multiples of 16 bytes only (580.159).
bool encode_weights(const Arguments& a, CUtensorMap& map) {
  static const auto function = find_driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  if (function == nullptr) return false;
  const auto row = static_cast<cuuint64_t>(a.k);
  const auto tap = static_cast<cuuint64_t>(a.tap_bytes);
  const cuuint64_t extents[5] = {tap / 2, static_cast<cuuint64_t>(a.taps), 2, static_cast<cuuint64_t>(a.w_rows / kRun),
                                 kRun / 2};
  const cuuint64_t pitches[4] = {tap, row, row * kRun, row * 2};
  const cuuint32_t box[5] = {kSliceBytes / 2, 1, 2, int8_conv::wgmma::kPanelColumns / kRun, kRun / 2};
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  return function(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 5, const_cast<std::int8_t*>(a.w), extents, pitches, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/// 64 channels of `rows` pixels of the residual at a time.
bool encode_added(const Arguments& a, int rows, CUtensorMap& map) {
  static const auto function = find_driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  if (function == nullptr) return false;
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(a.w_rows / 2), static_cast<cuuint64_t>(a.m)};
  const cuuint64_t pitches[1] = {static_cast<cuuint64_t>(a.y_pitch)};
  const cuuint32_t box[2] = {int8_conv::wgmma::kPanelColumns / 2, static_cast<cuuint32_t>(rows)};
  const cuuint32_t steps[2] = {1, 1};
  return function(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<std::int8_t*>(a.residual), extents, pitches, box,
                  steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <Config kConfig>
bool supports_wgmma(const Params& p, const DeviceTraits& gpu) {
  if (!gpu.wgmma_code || p.groups != 1 || p.x_pitch == kSmallBytePitch || p.output != Params::Output::Int8)
    return false;
  constexpr std::int64_t kMostTiles = 1 << 30;
  const std::int64_t row_of_tiles = ceil_div(p.c_out, kConfig.bn);
  if (ceil_div(std::int64_t{p.n} * p.out_h * p.out_w, std::int64_t{kConfig.bm}) > kMostTiles / row_of_tiles) {
    return false;
  }
  return fits_window_map(p) && (!int8_conv::reaches_over(p) || int8_conv::packed_borders(p) > 0);
}

void set_borders(const Params& p, Arguments& a) {
  a.has_borders = int8_conv::packed_borders(p) > 0;
  if (!a.has_borders) return;
  const int8_conv::Borders borders = int8_conv::borders_of(p);
  a.border_columns = borders.column_classes;
  a.row = {borders.rows.before, borders.rows.skipped};
  a.column = {borders.columns.before, borders.columns.skipped};
}

template <Config kConfig>
cudaError_t launch_wgmma(const Params& p, const int8_conv::Arguments& shared, const Launch& where) {
  using S = Shape<kConfig>;
  const auto kernel = int8_conv::wgmma::wgmma_kernel<S>;
  Arguments a{};
  static_cast<int8_conv::Arguments&>(a) = shared;
  a.slices = a.taps * ceil_div(a.tap_bytes, kSliceBytes);
  const int n_tiles = ceil_div(a.w_rows, S::kBn);
  a.of_row_of_tiles = FastDivision(static_cast<std::uint32_t>(n_tiles));
  a.tiles = ceil_div(a.m, S::kBm) * n_tiles;
  a.window_w = p.kernel_w;
  set_borders(p, a);
  if (!encode_windows(p, p.n, {a.tap_bytes / 2, a.x_pitch / 2}, S::kBm, a.x, a.pixels) ||
      !encode_weights(a, a.weights)) {
    return cudaErrorNotSupported;
  }
  if (a.finish.adds && !encode_added(a, S::kBm, a.added)) return cudaErrorNotSupported;
  int multiprocessors = 0;
  if (const cudaError_t status = count_multiprocessors(multiprocessors); status != cudaSuccess) return status;
  const auto blocks = static_cast<unsigned>(std::min(a.tiles, multiprocessors * S::kMinBlocks));
  std::size_t bytes = S::kSharedBytes;
  if (const cudaError_t status = spread_blocks(kernel, blocks, S::kBlockThreads, 1, bytes); status != cudaSuccess) {
    return status;
  }
  return launch(kernel, dim3(blocks), dim3(S::kBlockThreads), bytes, where, a);
}

template <Config kConfig>
constexpr Int8Conv2dEntry entry(Variant variant, std::string_view name) {
  using S = Shape<kConfig>;
  return {variant,
          name,
          {S::kBm, S::kBn, kSliceBytes, 1, S::kBlockThreads},
          supports_wgmma<kConfig>,
          launch_wgmma<kConfig>};
}

}  // namespace
}  // namespace mobicuda::kernels

#define MOBICUDA_ENTRY(variant, name, ...) entry<Config __VA_ARGS__>(variant, name)

#else

namespace mobicuda::kernels {
namespace {
constexpr Int8Conv2dEntry nothing(Int8Conv2dVariant variant, std::string_view name) {
  return {variant,
          name,
          {},
          [](const Int8Conv2dParams&, const DeviceTraits&) { return false; },
          [](const Int8Conv2dParams&, const int8_conv::Arguments&, const Launch&) { return cudaErrorNotSupported; }};
}
}  // namespace
}  // namespace mobicuda::kernels

#define MOBICUDA_ENTRY(variant, name, ...) nothing(variant, name)

#endif

namespace mobicuda::kernels {
namespace {

// clang-format off
constexpr Int8Conv2dEntry kEntries[] = {
    //                                                                                  bm   bn  stages  min_blocks  tiles
    MOBICUDA_ENTRY(Int8Conv2dVariant::Wgmma128x64x128, "wgmma_128x64x128",            {128,  64,      4,          2,      2}),
    MOBICUDA_ENTRY(Int8Conv2dVariant::Wgmma256x64x128, "wgmma_256x64x128",            {256,  64,      5,          1,      1}),
    MOBICUDA_ENTRY(Int8Conv2dVariant::Wgmma128x128x128, "wgmma_128x128x128",          {128, 128,      3,          2,      1}),
    MOBICUDA_ENTRY(Int8Conv2dVariant::Wgmma256x128x128, "wgmma_256x128x128",          {256, 128,      4,          1,      1}),
    MOBICUDA_ENTRY(Int8Conv2dVariant::Wgmma128x256x128, "wgmma_128x256x128",          {128, 256,      4,          1,      1}),
};
// clang-format on

}  // namespace

std::span<const Int8Conv2dEntry> int8_conv2d_wgmma_entries() { return kEntries; }

}  // namespace mobicuda::kernels
