// conv2d as an implicit matrix product with wgmma: variants, limits, tensor maps, launch.
// The kernel: kernel.cuh. It exists as sm_90a code only: where that is built, CMakeLists.txt defines
// MOBICUDA_HAS_SM90A.

#include "kernels/conv2d/families.h"

#ifdef MOBICUDA_HAS_SM90A

#include <cstddef>

#include "kernels/common/driver_function.h"
#include "kernels/common/spread_blocks.h"
#include "kernels/conv2d/gemm_launch.h"
#include "kernels/conv2d/wgmma/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using conv_wgmma::Arguments;
using conv_wgmma::Config;
using conv_wgmma::kSliceK;
using conv_wgmma::Shape;

using EncodeWindows = decltype(&cuTensorMapEncodeIm2col);
using EncodeBoxes = decltype(&cuTensorMapEncodeTiled);

// Where the last window of a row and of a column begins, from the image's last pixel.
std::int64_t last_x(const Conv2dParams& p) { return std::int64_t{p.out_w - 1} * p.stride_w - p.pad_left - (p.w - 1); }
std::int64_t last_y(const Conv2dParams& p) { return std::int64_t{p.out_h - 1} * p.stride_h - p.pad_top - (p.h - 1); }

/// `pixels` windows of 64 channels at a time.
bool encode_pixels(const Conv2dParams& p, int pictures, int pixels, const void* x, CUtensorMap& map) {
  static const auto function = find_driver_function<EncodeWindows>("cuTensorMapEncodeIm2col");
  if (function == nullptr) return false;
  const auto channels = static_cast<cuuint64_t>(p.c_in);
  const auto width = static_cast<cuuint64_t>(p.w);
  const auto height = static_cast<cuuint64_t>(p.h);
  const cuuint64_t extents[4] = {channels, width, height, static_cast<cuuint64_t>(pictures)};
  const cuuint64_t strides[3] = {channels * 2, channels * width * 2, channels * width * height * 2};
  const int first_window[2] = {-p.pad_left, -p.pad_top};
  const int last_window[2] = {static_cast<int>(last_x(p)), static_cast<int>(last_y(p))};
  const cuuint32_t steps[4] = {1, static_cast<cuuint32_t>(p.stride_w), static_cast<cuuint32_t>(p.stride_h), 1};
  return function(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, const_cast<void*>(x), extents, strides, first_window,
                  last_window, kSliceK, static_cast<cuuint32_t>(pixels), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/// 64 inputs x 64 outputs of a tap at a time.
bool encode_weights(const Conv2dParams& p, int pitch, const void* packed, CUtensorMap& map) {
  static const auto function = find_driver_function<EncodeBoxes>("cuTensorMapEncodeTiled");
  if (function == nullptr) return false;
  const auto outputs = static_cast<cuuint64_t>(pitch);
  const auto inputs = static_cast<cuuint64_t>(p.c_in / p.groups);
  const cuuint64_t extents[3] = {outputs, inputs, static_cast<cuuint64_t>(p.kernel_h * p.kernel_w)};
  const cuuint64_t strides[2] = {outputs * 2, outputs * inputs * 2};
  const cuuint32_t box[3] = {64, kSliceK, 1};
  const cuuint32_t steps[3] = {1, 1, 1};
  return function(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, const_cast<void*>(packed), extents, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/// `rows` pixels x 64 channels of a group at a time, of pixels that are `pitch` channels apart.
bool encode_tile(const Arguments& a, int pitch, int rows, const void* tensor, CUtensorMap& map) {
  static const auto function = find_driver_function<EncodeBoxes>("cuTensorMapEncodeTiled");
  if (function == nullptr) return false;
  const auto channels = static_cast<cuuint64_t>(a.group_out);
  const auto groups = static_cast<cuuint64_t>(a.c_out / a.group_out);
  const auto row_bytes = static_cast<cuuint64_t>(pitch) * 2;
  const cuuint64_t extents[3] = {channels, groups, static_cast<cuuint64_t>(a.m)};
  const cuuint64_t strides[2] = {groups == 1 ? row_bytes : channels * 2, row_bytes};
  const cuuint32_t box[3] = {conv_wgmma::kPanelColumns, 1, static_cast<cuuint32_t>(rows)};
  const cuuint32_t steps[3] = {1, 1, 1};
  return function(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, const_cast<void*>(tensor), extents, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

constexpr Conv2dTile tile_of(const Config& config) { return {config.bm, config.bn, kSliceK, 1, true}; }

/// Within what tensor maps of windows hold.
bool supports_wgmma(const Conv2dParams& p, const DeviceTraits& gpu) {
  constexpr int kMostBefore = 128;
  constexpr int kMostBehind = 127;
  constexpr int kMostStride = 8;
  constexpr int kMostTap = 255;
  const auto fits = [](std::int64_t last) { return last >= -kMostBefore && last <= kMostBehind; };
  return gpu.wgmma_code && conv_gemm::supports_gemm(p) && p.activation.kind == ActivationKind::Clip &&
         (p.groups == 1 || p.c_in / p.groups % kSliceK == 0) && p.stride_h <= kMostStride &&
         p.stride_w <= kMostStride && p.pad_top <= kMostBefore && p.pad_left <= kMostBefore && fits(last_x(p)) &&
         fits(last_y(p)) && std::int64_t{p.kernel_h - 1} * p.dilation_h <= kMostTap &&
         std::int64_t{p.kernel_w - 1} * p.dilation_w <= kMostTap;
}

/// Distances in a tensor map are multiples of 16 bytes, and of the dimension before.
bool supports_wgmma_tile(const Conv2dParams& p, const DeviceTraits& gpu) {
  return p.c_out % conv_gemm::kWeightMultiple == 0 && (p.groups == 1 || p.y_pitch % (p.c_out / p.groups) == 0) &&
         supports_wgmma(p, gpu);
}

/// What the kernel takes beside `shared`, which is of a launch.
template <class S>
bool complete(const Conv2dParams& p, const conv_gemm::Arguments& shared, typename S::Arguments& a) {
  static_cast<conv_gemm::Arguments&>(a) = shared;
  a.kernel_w = p.kernel_w;
  a.tap_slices = ceil_div(a.group_in, kSliceK);
  a.slices = p.kernel_h * p.kernel_w * a.tap_slices;
  const int pictures = a.m / (p.out_h * p.out_w);
  if constexpr (S::kTile) {
    if (!encode_tile(a, a.y_pitch, conv_wgmma::kWarpRows, a.y, a.result)) return false;
    if (a.residual != nullptr && !encode_tile(a, a.c_out, S::kBm, a.residual, a.added)) return false;
  }
  return encode_pixels(p, pictures, S::kBm, a.x, a.pixels) && encode_weights(p, a.weight_pitch, a.weight, a.weights);
}

/// Shared memory of a block. Where every block finds a multiprocessor, no two share one: spread_blocks() says why.
/// Where a multiprocessor has two of a launch's blocks to do and room for three, no third one that asks for as much
/// fits: the first blocks of a next launch like this one would take the third places, then one more on each
/// multiprocessor whose blocks end early, and those that have three of them end late.
template <class S>
cudaError_t shared_bytes(unsigned blocks, std::size_t lone_bytes, std::size_t& bytes) {
  int multiprocessors = 0;
  if (const cudaError_t status = count_multiprocessors(multiprocessors); status != cudaSuccess) return status;
  const auto each = static_cast<unsigned>(multiprocessors);
  bytes = S::kSharedBytes;
  if (blocks <= each) {
    bytes = lone_bytes;
  } else if (S::kMinBlocks == 3 && blocks <= 2 * each) {
    bytes = S::kPairSharedBytes;
  }
  return cudaSuccess;
}

template <Config kConfig>
cudaError_t launch_wgmma(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  using S = Shape<kConfig>;
  const auto kernel = conv_wgmma::wgmma_kernel<S>;
  std::size_t lone_bytes = 0;
  cudaError_t status = lone_block_bytes(lone_bytes);
  lone_bytes = std::max<std::size_t>(lone_bytes, S::kSharedBytes);
  if (status == cudaSuccess) status = allow_shared_memory(kernel, lone_bytes);
  if (status != cudaSuccess) return status;
  return conv_gemm::for_each_gemm_chunk(
      p, tile_of(kConfig), buffers, [&](const conv_gemm::Arguments& shared, unsigned blocks) -> cudaError_t {
        typename S::Arguments a{};
        if (!complete<S>(p, shared, a)) return cudaErrorNotSupported;
        std::size_t bytes = 0;
        if (const cudaError_t status = shared_bytes<S>(blocks, lone_bytes, bytes); status != cudaSuccess) return status;
        return launch(kernel, dim3(blocks), dim3(conv_wgmma::kBlockThreads), bytes, where, a);
      });
}

template <Config kConfig>
constexpr Conv2dEntry entry(Conv2dVariant variant, std::string_view name) {
  return {variant, name, tile_of(kConfig), kConfig.tile ? supports_wgmma_tile : supports_wgmma, launch_wgmma<kConfig>};
}

}  // namespace
}  // namespace mobicuda::kernels

#define MOBICUDA_ENTRY(variant, name, ...) entry<Config __VA_ARGS__>(variant, name)

#else

namespace mobicuda::kernels {
namespace {
constexpr Conv2dEntry nothing(Conv2dVariant variant, std::string_view name) {
  return {variant,
          name,
          {},
          [](const Conv2dParams&, const DeviceTraits&) { return false; },
          [](const Conv2dParams&, const Conv2dBuffers&, const Launch&) { return cudaErrorNotSupported; }};
}
}  // namespace
}  // namespace mobicuda::kernels

#define MOBICUDA_ENTRY(variant, name, ...) nothing(variant, name)

#endif

namespace mobicuda::kernels {
namespace {

// clang-format off
constexpr Conv2dEntry kEntries[] = {
    //                                                                          bm   bn  stages  min_blocks  tile
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x64x64, "wgmma_128x64x64",           {128,  64,      4,          2}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x128x64, "wgmma_128x128x64",         {128, 128,      3,          2}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma256x64x64, "wgmma_256x64x64",           {256,  64,      5,          1}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma256x128x64, "wgmma_256x128x64",         {256, 128,      4,          1}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x256x64, "wgmma_128x256x64",         {128, 256,      4,          1}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x64x64Tile, "wgmma_128x64x64_tile",    {128,  64,      3,          3,    true}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x128x64Tile, "wgmma_128x128x64_tile",  {128, 128,      3,          2,    true}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma256x128x64Tile, "wgmma_256x128x64_tile",  {256, 128,      4,          1,    true}),
};
// clang-format on

}  // namespace

std::span<const Conv2dEntry> conv2d_wgmma_entries() { return kEntries; }

}  // namespace mobicuda::kernels
