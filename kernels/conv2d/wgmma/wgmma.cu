// conv2d as an implicit matrix product with wgmma: variants, limits, tensor maps, launch.
// The kernel: kernel.cuh. It exists as sm_90a code only: where that is built, CMakeLists.txt defines
// MOBICUDA_HAS_SM90A.

#include "kernels/conv2d/families.h"

#ifdef MOBICUDA_HAS_SM90A

#include <cstddef>

#include "kernels/common/spread_blocks.h"
#include "kernels/common/window_map.h"
#include "kernels/conv2d/gemm_launch.h"
#include "kernels/conv2d/wgmma/kernel.cuh"
#include "kernels/conv2d/wgmma/patch.cuh"
#include "kernels/conv2d/wgmma/tensor_maps.h"
#include "kernels/conv2d/wgmma/window.cuh"
#include "kernels/conv2d/window_line.h"

namespace mobicuda::kernels {
namespace {

using conv_wgmma::Arguments;
using conv_wgmma::Config;
using conv_wgmma::encode_images;
using conv_wgmma::encode_tile;
using conv_wgmma::encode_weights;
using conv_wgmma::kSliceK;
using conv_wgmma::PatchArguments;
using conv_wgmma::PatchConfig;
using conv_wgmma::PatchShape;
using conv_wgmma::Shape;
using conv_wgmma::Way;
using conv_wgmma::WindowArguments;
using conv_wgmma::WindowConfig;
using conv_wgmma::WindowLine;
using conv_wgmma::WindowShape;

/// A row of a plane at a time, and the zeros at its left: 64 channels of each.
bool encode_rows(const Conv2dParams& p, int pictures, const void* x, CUtensorMap& map) {
  const auto channels = static_cast<cuuint64_t>(p.c_in);
  const auto width = static_cast<cuuint64_t>(p.w);
  const auto height = static_cast<cuuint64_t>(p.h);
  const cuuint64_t extents[4] = {channels, width, height, static_cast<cuuint64_t>(pictures)};
  const cuuint64_t strides[3] = {channels * 2, channels * width * 2, channels * width * height * 2};
  const WindowLine line = conv_wgmma::window_line(p);
  const cuuint32_t box[4] = {kSliceK, static_cast<cuuint32_t>(line.columns * line.stride), 1, 1};
  return encode_images(const_cast<void*>(x), extents, strides, box, map, static_cast<cuuint32_t>(line.stride));
}

constexpr Conv2dTile tile_of(const Config& config) {
  return {config.bm, config.bn, kSliceK, config.split, true, config.pair};
}

/// Within what tensor maps of windows hold.
bool supports_wgmma(const Conv2dParams& p, const DeviceTraits& gpu, bool takes_swish = false) {
  const bool second_fits = p.second.c_in == 0 || fits_window_map(second_alone(p));
  const bool finishes = p.activation.kind == ActivationKind::Clip || (takes_swish && is_swish(p.activation));
  return gpu.wgmma_code && conv_gemm::supports_gemm(p) && finishes &&
         (p.groups == 1 || p.c_in / p.groups % kSliceK == 0) && fits_window_map(p) && second_fits;
}

/// Distances in a tensor map are multiples of 16 bytes; here of the dimension before too, as in cuda.h's example.
bool fits_tile_map(const Conv2dParams& p) {
  return p.c_out % conv_gemm::kWeightMultiple == 0 && (p.groups == 1 || p.y_pitch % (p.c_out / p.groups) == 0);
}

bool supports_tile(const Conv2dParams& p, const DeviceTraits& gpu) {
  return fits_tile_map(p) && supports_wgmma(p, gpu);
}

/// What is added would be waited for between two tiles. Pixels are shared by tiles of one group.
template <Config kConfig>
bool supports_persistent(const Conv2dParams& p, const DeviceTraits& gpu) {
  if (p.residual || Shape<kConfig>::kCluster > gpu.cluster_blocks) return false;
  return ceil_div(p.c_out / p.groups, kConfig.bn) % kConfig.pair == 0 && supports_tile(p, gpu);
}

/// The convolution whose outputs are the upper left of each 2x2: the others are as many taps to the right and down.
Conv2dParams every_other(Conv2dParams p) {
  p.out_h /= 2;
  p.out_w /= 2;
  p.stride_h = p.stride_w = 2;
  p.max_pool = false;
  return p;
}

bool supports_pooled(const Conv2dParams& p, const DeviceTraits& gpu) {
  if (p.residual || p.stride_h != 1 || p.stride_w != 1 || p.out_h < 2 || p.out_w < 2) return false;
  constexpr int kMostTap = 254;  // one less than without: the right and lower taps are one further
  return std::int64_t{p.kernel_h - 1} * p.dilation_h <= kMostTap &&
         std::int64_t{p.kernel_w - 1} * p.dilation_w <= kMostTap && supports_tile(every_other(p), gpu);
}

/// What the kernel takes beside `shared`, which is of a launch.
template <class S>
bool complete(const Conv2dParams& p, const conv_gemm::Arguments& shared, typename S::Arguments& a) {
  static_cast<conv_gemm::Arguments&>(a) = shared;
  a.kernel_w = p.kernel_w;
  a.tap_slices = ceil_div(a.group_in, kSliceK);
  a.own_slices = p.kernel_h * p.kernel_w * a.tap_slices;
  a.slices = a.own_slices + ceil_div(p.second.c_in, kSliceK);
  const int pictures = a.m / (p.out_h * p.out_w);
  if (a.second != nullptr) {
    const int channels = p.second.c_in;
    if (!encode_windows(second_alone(p), pictures, {channels, channels}, S::kCopiedPixels, a.second, a.second_pixels)) {
      return false;
    }
  }
  if constexpr (S::kTile || S::kPersistent) {
    if (!encode_tile(a, a.y_pitch, conv_wgmma::kWarpRows, a.y, a.result)) return false;
    if (a.residual != nullptr && !encode_tile(a, a.c_out, S::kBm, a.residual, a.added)) return false;
  }
  return encode_windows(p, pictures, {p.c_in, p.c_in}, S::kCopiedPixels, a.x, a.pixels) &&
         encode_weights(p, a.weight_pitch, a.weight, a.weights);
}

/// Shared memory of a block. Where every block finds a multiprocessor, no two share one: spread_blocks() says why.
/// Where a multiprocessor has two of a launch's blocks to do and room for three, no third one that asks for as much
/// fits: the first blocks of a next launch like this one would take the third places, then one more on each
/// multiprocessor whose blocks end early, and those that have three of them end late.
template <class S, class Kernel>
cudaError_t choose_shared_bytes(Kernel* kernel, unsigned blocks, unsigned multiprocessors, std::size_t& bytes) {
  bytes = S::kMinBlocks == 3 && blocks > multiprocessors && blocks <= 2 * multiprocessors ? S::kPairSharedBytes
                                                                                          : S::kSharedBytes;
  return spread_blocks(kernel, blocks, S::kBlockThreads, S::kCluster, bytes);
}

template <Config kConfig>
cudaError_t launch_wgmma(const Conv2dParams& params, const Conv2dBuffers& buffers, const Launch& where) {
  using S = Shape<kConfig>;
  const auto kernel = conv_wgmma::wgmma_kernel<S>;
  int multiprocessors = 0;
  if (const cudaError_t status = count_multiprocessors(multiprocessors); status != cudaSuccess) return status;
  const auto each = static_cast<unsigned>(multiprocessors);
  const Conv2dParams p = S::kPooled ? every_other(params) : params;
  const Conv2dTile tile{S::kPixels, S::kBn, kSliceK, S::kSplit, true};
  return conv_gemm::for_each_gemm_chunk(
      p, tile, buffers, where, [&](const conv_gemm::Arguments& shared, unsigned all) -> cudaError_t {
        typename S::Arguments a{};
        if (!complete<S>(p, shared, a)) return cudaErrorNotSupported;
        unsigned blocks = all;
        if constexpr (S::kPersistent) {
          blocks = std::min(all, each * S::kMinBlocks / S::kPair * S::kPair);
        }
        std::size_t bytes = 0;
        const cudaError_t status = choose_shared_bytes<S>(kernel, blocks, each, bytes);
        if (status != cudaSuccess) return status;
        return launch_clusters(kernel, dim3(blocks), dim3(S::kBlockThreads), bytes, S::kCluster, where, a);
      });
}

/// Every block of a cluster has a slice at the least.
template <int kSplit>
bool supports_split(const Conv2dParams& p, const DeviceTraits& gpu) {
  const int slices = p.kernel_h * p.kernel_w * ceil_div(p.c_in / p.groups, kSliceK) + ceil_div(p.second.c_in, kSliceK);
  return slices >= kSplit && gpu.cluster_blocks >= kSplit && supports_wgmma(p, gpu);
}

constexpr int kSwizzledBytes = 1024;

int plane_bytes(const Conv2dParams& p, int bm) {
  return round_up(conv_wgmma::plane_pixels(conv_wgmma::window_line(p), bm) * conv_wgmma::kRowBytes, kSwizzledBytes);
}

int window_bytes(const Conv2dParams& p, int bm) { return p.stride_h * p.stride_w * plane_bytes(p, bm); }

/// Windows of a block: with one slice of channels only one.
template <class S>
int windows_of(const Conv2dParams& p) {
  return std::min(conv_wgmma::kMostWindows, ceil_div(ceil_div(p.c_in / p.groups, kSliceK), S::kSplit));
}

/// So many stages of the ring find room beside the windows; 0 where that is too few.
template <class S>
int stages_in(std::size_t shared_bytes, int windows, int window_bytes) {
  for (int stages = S::kMostStages; stages >= S::kLeastStages; --stages) {
    if (static_cast<std::size_t>(S::shared_bytes(stages, windows, window_bytes)) <= shared_bytes) return stages;
  }
  return 0;
}

// What wgmma's code runs on, and nothing else.
constexpr std::size_t kMostBlockBytes = limits_of(90).shared_bytes_per_block;

/// With a stride of 1 the zeros at the left of a row are those at the right of the row before, those above an image are
/// those below the image before: there are at least as many.
bool shares_padding(const Conv2dParams& p) {
  const int pad_right = p.out_w - 1 + p.kernel_w - (p.w + p.pad_left);
  const int pad_bottom = p.out_h - 1 + p.kernel_h - (p.h + p.pad_top);
  return pad_right <= p.pad_left && pad_bottom <= p.pad_top && p.out_w <= p.w + p.pad_left &&
         p.out_h <= p.h + p.pad_top && p.kernel_h * p.kernel_w > 1;
}

template <WindowConfig kConfig>
bool supports_window(const Conv2dParams& p, const DeviceTraits& gpu) {
  using S = WindowShape<kConfig>;
  constexpr int kMostBox = 256;
  constexpr std::int64_t kMostRows = 1 << 30;
  constexpr std::int64_t kMostBlocks = 1 << 30;
  if (p.stride_h != p.stride_w || p.stride_w > 2 || p.dilation_h != 1 || p.dilation_w != 1) return false;
  if (!supports_wgmma(p, gpu)) return false;
  const WindowLine line = conv_wgmma::window_line(p);
  if (line.columns > kMostBox / line.stride || p.n > kMostRows / (std::int64_t{line.image_rows} * line.columns)) {
    return false;
  }
  const std::int64_t column_tiles = std::int64_t{ceil_div(p.c_out / p.groups, S::kBn)} * p.groups * S::kSplit;
  if (ceil_div(conv_wgmma::line_rows(p, p.n), std::int64_t{S::kBm}) > kMostBlocks / column_tiles) return false;
  // With a stride of 2 a window of one row or column would leave planes unread.
  if (line.stride == 1 ? !shares_padding(p) : p.kernel_h == 1 || p.kernel_w == 1) return false;
  return ceil_div(p.c_in / p.groups, kSliceK) >= S::kSplit && gpu.cluster_blocks >= S::kSplit &&
         stages_in<S>(kMostBlockBytes, windows_of<S>(p), window_bytes(p, S::kBm)) > 0;
}

/// Shared memory of a block, and stages of its ring. Where every block finds a multiprocessor, no two share one:
/// spread_blocks() says why; what is left takes a block of the next kernel, which loads its weights beside this one.
/// Else two share one if there is room.
template <class S, class Kernel>
cudaError_t choose_window_stages(Kernel* kernel, unsigned blocks, WindowArguments& a, std::size_t& bytes) {
  std::size_t lone = 0;
  cudaError_t status = lone_block_bytes(lone);
  if (status == cudaSuccess) status = allow_shared_memory(kernel, kMostBlockBytes);
  bool apart = false;
  if (status == cudaSuccess) {
    status = fit_apart(kernel, blocks, S::kBlockThreads, S::kSplit, kMostBlockBytes, apart);
  }
  constexpr std::size_t kHalf = shared_bytes_of_each(90, 2);
  a.stages = stages_in<S>(apart ? lone : kHalf, a.windows, a.window_bytes);
  if (a.stages == 0) a.stages = stages_in<S>(kMostBlockBytes, a.windows, a.window_bytes);
  bytes = static_cast<std::size_t>(S::shared_bytes(a.stages, a.windows, a.window_bytes));
  if (apart) bytes = std::max(bytes, lone);
  return status;
}

/// With a stride of 2 the next tap is in the plane of odd columns, the one after it a pixel further in that of even
/// ones; so with rows.
void set_tap_steps(WindowArguments& a) {
  constexpr int kPixel = conv_wgmma::kRowBytes / 16;
  const int row = a.columns * kPixel;
  const int plane = a.plane_bytes / 16;
  const bool planes = a.stride > 1;
  a.column_steps[0] = planes ? plane : kPixel;
  a.column_steps[1] = planes ? kPixel - plane : kPixel;
  a.row_steps[0] = planes ? 2 * plane : row;
  a.row_steps[1] = planes ? row - 2 * plane : row;
}

template <WindowConfig kConfig>
cudaError_t launch_window(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  using S = WindowShape<kConfig>;
  const auto kernel = conv_wgmma::window_kernel<S>;
  const Conv2dTile tile{S::kBm, S::kBn, kSliceK, S::kSplit, true};
  return conv_gemm::for_each_gemm_chunk(
      p, tile, buffers, where, [&](const conv_gemm::Arguments& shared, unsigned) -> cudaError_t {
        WindowArguments a{};
        static_cast<conv_gemm::Arguments&>(a) = shared;
        const int pictures = a.m / (p.out_h * p.out_w);
        a.out_h = p.out_h;
        a.out_w = p.out_w;
        a.kernel_h = p.kernel_h;
        a.kernel_w = p.kernel_w;
        a.channel_slices = ceil_div(a.group_in, kSliceK);
        const WindowLine line = conv_wgmma::window_line(p);
        a.stride = line.stride;
        a.taps_h = line.taps_h;
        a.taps_w = line.taps_w;
        a.columns = line.columns;
        a.image_rows = line.image_rows;
        a.line = static_cast<int>(conv_wgmma::line_rows(p, pictures));
        a.windows = windows_of<S>(p);
        a.plane_bytes = plane_bytes(p, S::kBm);
        a.window_bytes = window_bytes(p, S::kBm);
        set_tap_steps(a);
        a.of_columns = FastDivision(static_cast<std::uint32_t>(a.columns));
        a.of_image_rows = FastDivision(static_cast<std::uint32_t>(a.image_rows));
        if (!encode_rows(p, pictures, a.x, a.pixels) || !encode_weights(p, a.weight_pitch, a.weight, a.weights)) {
          return cudaErrorNotSupported;
        }
        const auto blocks = static_cast<unsigned>(ceil_div(a.line, S::kBm) * a.n_tiles * S::kSplit);
        std::size_t bytes = 0;
        const cudaError_t status = choose_window_stages<S>(kernel, blocks, a, bytes);
        if (status != cudaSuccess) return status;
        return launch_clusters(kernel, dim3(blocks), dim3(S::kBlockThreads), bytes, S::kSplit, where, a);
      });
}

template <class S>
constexpr Conv2dTile kPatchTile{.bm = conv_wgmma::kPatchPixels,
                                .bn = conv_wgmma::kPanelColumns,
                                .bk = kSliceK,
                                .split_k = 1,
                                .whole_taps = true,
                                .patch_rows = S::kRows,
                                .patch_columns = S::kColumns};

/// Bytes of 64 channels of the input under a patch.
template <class S>
int patch_input_bytes(const Conv2dParams& p) {
  return (S::kRows - 1 + p.kernel_h) * (S::kColumns - 1 + p.kernel_w) * conv_wgmma::kRowBytes;
}

/// Inputs and slices of weights in a block's shared memory; no inputs: there is no room.
struct PatchRoom {
  int inputs = 0, stages = 0;
  bool weights_stay = false;  ///< all slices of a tile are there
};

/// Weights that can stay do. Else a third input pays where enough stages are left.
template <class S>
PatchRoom patch_room(const Conv2dParams& p, int multiprocessors) {
  constexpr int kMostStages = 12;
  constexpr int kEnoughStages = 6;
  constexpr int kLeastStages = 4;
  constexpr int kLeastInputs = 2;
  const int pitch = round_up(patch_input_bytes<S>(p), kSwizzledBytes);
  const auto fits = [&](int inputs, int stages) {
    return static_cast<std::size_t>(S::shared_bytes(stages, inputs, pitch)) <= kMostBlockBytes;
  };
  const int slices = p.kernel_h * p.kernel_w * ceil_div(p.c_in, kSliceK);
  const int channel_tiles = ceil_div(p.c_out, conv_wgmma::kPanelColumns);
  // A block's tiles have the same channels then: few multiprocessors may be left over.
  constexpr int kOfTen = 10;
  const bool shares_out =
      channel_tiles <= multiprocessors && multiprocessors % channel_tiles * kOfTen <= multiprocessors;
  if (slices <= kMostStages && shares_out) {
    for (int inputs = conv_wgmma::kMostInputs; inputs >= kLeastInputs; --inputs) {
      if (fits(inputs, slices)) return {inputs, slices, true};
    }
  }
  for (int inputs = kLeastInputs + 1; inputs >= kLeastInputs; --inputs) {
    const int least = inputs == kLeastInputs ? kLeastStages : kEnoughStages;
    for (int stages = kMostStages; stages >= least; --stages) {
      if (fits(inputs, stages)) return {inputs, stages, false};
    }
  }
  return {};
}

/// Extents of y.
struct PatchOutput {
  int h, w;

  PatchOutput(const Conv2dParams& p, bool pooled)
      : h(pooled ? p.out_h / 2 : p.out_h), w(pooled ? p.out_w / 2 : p.out_w) {}
};

template <PatchConfig kConfig>
bool supports_patch(const Conv2dParams& p, const DeviceTraits& gpu) {
  constexpr int kMostSide = 16;  // of a window
  constexpr std::int64_t kMostTiles = 1 << 29;
  if (p.residual || p.groups != 1 || p.stride_h != 1 || p.stride_w != 1 || p.dilation_h != 1 || p.dilation_w != 1 ||
      p.kernel_h > kMostSide || p.kernel_w > kMostSide) {
    return false;
  }
  using S = PatchShape<kConfig>;
  const PatchOutput out(p, S::kPooled);
  const std::int64_t of_image = std::int64_t{ceil_div(p.out_h, S::kRows)} * ceil_div(p.out_w, S::kColumns) *
                                ceil_div(p.c_out, conv_wgmma::kPanelColumns);
  if (out.h == 0 || out.w == 0 || p.n > kMostTiles / of_image) return false;
  return fits_tile_map(p) && supports_wgmma(p, gpu, !S::kPooled) && patch_room<S>(p, gpu.multiprocessors).inputs > 0;
}

/// The input under a patch at a time; zeros outside of the image.
template <class S>
bool encode_patches(const Conv2dParams& p, int pictures, const void* x, CUtensorMap& map) {
  const cuuint64_t pixel = static_cast<cuuint64_t>(p.c_in) * 2;
  const auto width = static_cast<cuuint64_t>(p.w);
  const auto height = static_cast<cuuint64_t>(p.h);
  const cuuint64_t extents[4] = {static_cast<cuuint64_t>(p.c_in), width, height, static_cast<cuuint64_t>(pictures)};
  const cuuint64_t strides[3] = {pixel, pixel * width, pixel * width * height};
  const cuuint32_t box[4] = {kSliceK, static_cast<cuuint32_t>(S::kColumns - 1 + p.kernel_w),
                             static_cast<cuuint32_t>(S::kRows - 1 + p.kernel_h), 1};
  return encode_images(const_cast<void*>(x), extents, strides, box, map);
}

/// A box of y at a time.
template <class S>
bool encode_boxes(const PatchOutput& out, const conv_gemm::Arguments& a, int pictures, CUtensorMap& map) {
  const cuuint64_t pixel = static_cast<cuuint64_t>(a.y_pitch) * 2;
  const auto width = static_cast<cuuint64_t>(out.w);
  const auto height = static_cast<cuuint64_t>(out.h);
  const cuuint64_t extents[4] = {static_cast<cuuint64_t>(a.c_out), width, height, static_cast<cuuint64_t>(pictures)};
  const cuuint64_t strides[3] = {pixel, pixel * width, pixel * width * height};
  const cuuint32_t box[4] = {conv_wgmma::kPanelColumns, S::kBoxColumns, S::kBoxHeight, 1};
  return encode_images(a.y, extents, strides, box, map);
}

template <PatchConfig kConfig>
cudaError_t launch_patch(const Conv2dParams& params, const Conv2dBuffers& buffers, const Launch& where) {
  if constexpr (!kConfig.pooled && !kConfig.swish) {
    constexpr PatchConfig kSwish{kConfig.columns, false, true};
    if (is_swish(params.activation)) return launch_patch<kSwish>(params, buffers, where);
  }
  using S = PatchShape<kConfig>;
  const auto kernel = conv_wgmma::patch_kernel<S>;
  int multiprocessors = 0;
  cudaError_t status = count_multiprocessors(multiprocessors);
  if (status == cudaSuccess) status = allow_shared_memory(kernel, kMostBlockBytes);
  if (status != cudaSuccess) return status;
  const PatchOutput out(params, S::kPooled);
  Conv2dParams p = params;  // of which y has the extents
  p.out_h = out.h;
  p.out_w = out.w;
  const PatchRoom room = patch_room<S>(p, multiprocessors);
  return conv_gemm::for_each_gemm_chunk(
      p, kPatchTile<S>, buffers, where, [&](const conv_gemm::Arguments& shared, unsigned) -> cudaError_t {
        constexpr int kRows = S::kRows / (S::kPooled ? 2 : 1);  // of a patch, in y
        constexpr int kColumns = S::kColumns / (S::kPooled ? 2 : 1);
        const int pictures = shared.m / (out.h * out.w);
        const int columns = ceil_div(out.w, kColumns);
        const int of_image = columns * ceil_div(out.h, kRows);
        PatchArguments a{};
        a.bias = shared.bias;
        a.activation = shared.activation;
        a.c_out = shared.c_out;
        a.kernel_h = p.kernel_h;
        a.kernel_w = p.kernel_w;
        a.pad_top = p.pad_top;
        a.pad_left = p.pad_left;
        a.channel_slices = ceil_div(p.c_in, kSliceK);
        a.tiles = pictures * of_image * shared.n_tiles;
        a.of_patch = FastDivision(static_cast<std::uint32_t>(shared.n_tiles));
        a.of_image = FastDivision(static_cast<std::uint32_t>(of_image));
        a.of_patch_row = FastDivision(static_cast<std::uint32_t>(columns));
        a.input_columns = S::kColumns - 1 + p.kernel_w;
        a.input_bytes = patch_input_bytes<S>(p);
        a.input_pitch = round_up(a.input_bytes, kSwizzledBytes);
        a.inputs = room.inputs;
        a.stages = room.stages;
        a.weights_stay = room.weights_stay;
        a.of_inputs = FastDivision(static_cast<std::uint32_t>(a.inputs));
        a.of_stages = FastDivision(static_cast<std::uint32_t>(a.stages));
        if (!encode_patches<S>(p, pictures, shared.x, a.pixels) || !encode_boxes<S>(out, shared, pictures, a.result) ||
            !encode_weights(p, shared.weight_pitch, shared.weight, a.weights)) {
          return cudaErrorNotSupported;
        }
        // Of weights that stay all tiles of a block have the same channels.
        const int together = a.weights_stay ? shared.n_tiles : 1;
        const int blocks = std::min(multiprocessors / together * together, a.tiles);
        const auto bytes = static_cast<std::size_t>(S::shared_bytes(a.stages, a.inputs, a.input_pitch));
        return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(conv_wgmma::kPatchThreads), bytes, where, a);
      });
}

template <PatchConfig kConfig>
constexpr Conv2dEntry patch_entry(Conv2dVariant variant, std::string_view name) {
  return {variant, name,          kPatchTile<PatchShape<kConfig>>, supports_patch<kConfig>, launch_patch<kConfig>,
          true,    kConfig.pooled};
}

template <WindowConfig kConfig>
constexpr Conv2dEntry window_entry(Conv2dVariant variant, std::string_view name) {
  return {variant,
          name,
          {kConfig.bm, kConfig.bn, kSliceK, kConfig.split, true, 1, true},
          supports_window<kConfig>,
          launch_window<kConfig>,
          true};
}

template <Config kConfig>
constexpr Conv2dEntry entry(Conv2dVariant variant, std::string_view name) {
  Conv2dEntry made{variant, name, tile_of(kConfig), supports_split<kConfig.split>, launch_wgmma<kConfig>, true};
  if (kConfig.way == Way::Tile) made.supports = supports_tile;
  if (kConfig.way == Way::Pooled) {
    made.supports = supports_pooled;
    made.pools = true;
  }
  if (kConfig.way == Way::Persistent) made.supports = supports_persistent<kConfig>;
  made.takes_second = !made.pools;
  return made;
}

}  // namespace
}  // namespace mobicuda::kernels

#define MOBICUDA_ENTRY(variant, name, ...) entry<Config __VA_ARGS__>(variant, name)
#define MOBICUDA_WINDOW_ENTRY(variant, name, ...) window_entry<WindowConfig __VA_ARGS__>(variant, name)
#define MOBICUDA_PATCH_ENTRY(variant, name, ...) patch_entry<PatchConfig __VA_ARGS__>(variant, name)

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
#define MOBICUDA_WINDOW_ENTRY(variant, name, ...) nothing(variant, name)
#define MOBICUDA_PATCH_ENTRY(variant, name, ...) nothing(variant, name)

#endif

namespace mobicuda::kernels {
namespace {

// clang-format off
constexpr Conv2dEntry kEntries[] = {
    //                                                                          bm   bn  stages  min_blocks  way, strips
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x64x64, "wgmma_128x64x64",           {128,  64,      4,          2}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x128x64, "wgmma_128x128x64",         {128, 128,      3,          2}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma256x64x64, "wgmma_256x64x64",           {256,  64,      5,          1}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma256x128x64, "wgmma_256x128x64",         {256, 128,      4,          1}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x256x64, "wgmma_128x256x64",         {128, 256,      4,          1}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma64x64x64Tile, "wgmma_64x64x64_tile",
                   {.bm = 64, .bn = 64, .stages = 4, .min_blocks = 3, .way = Way::Tile, .groups = 1}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x64x64Tile, "wgmma_128x64x64_tile",    {128,  64,      3,          3,  Way::Tile}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x128x64Tile, "wgmma_128x128x64_tile",  {128, 128,      3,          2,  Way::Tile}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma192x128x64Tile, "wgmma_192x128x64_tile",
                   {.bm = 192, .bn = 128, .stages = 4, .min_blocks = 1, .way = Way::Tile, .groups = 3}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma256x128x64Tile, "wgmma_256x128x64_tile",  {256, 128,      4,          1,  Way::Tile}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma64x64x64S2, "wgmma_64x64x64_s2",
                   {.bm = 64, .bn = 64, .stages = 4, .min_blocks = 3, .split = 2, .groups = 1}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x64x64S2, "wgmma_128x64x64_s2",      {.bm = 128, .bn =  64, .stages = 4, .min_blocks = 2, .split = 2}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x128x64S4, "wgmma_128x128x64_s4",    {.bm = 128, .bn = 128, .stages = 3, .min_blocks = 2, .split = 4}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x128x64Persistent, "wgmma_128x128x64_persistent", {128, 128, 3, 2, Way::Persistent, 1}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma256x64x64Persistent, "wgmma_256x64x64_persistent",   {256,  64, 4, 1, Way::Persistent, 2}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma192x128x64Persistent, "wgmma_192x128x64_persistent",
                   {.bm = 192, .bn = 128, .stages = 4, .min_blocks = 1, .way = Way::Persistent, .strips = 2, .groups = 3}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma256x128x64Persistent, "wgmma_256x128x64_persistent", {256, 128, 4, 1, Way::Persistent, 2}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma128x256x64Persistent, "wgmma_128x256x64_persistent", {128, 256, 4, 1, Way::Persistent, 2}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma256x128x64PersistentPair, "wgmma_256x128x64_persistent_pair",
                   {.bm = 256, .bn = 128, .stages = 4, .min_blocks = 1, .way = Way::Persistent, .strips = 2, .pair = 2}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma256x64x64Pooled, "wgmma_256x64x64_pooled",
                   {.bm = 256, .bn =  64, .stages = 4, .min_blocks = 1, .way = Way::Pooled, .strips = 2}),
    MOBICUDA_ENTRY(Conv2dVariant::Wgmma256x128x64Pooled, "wgmma_256x128x64_pooled",
                   {.bm = 256, .bn = 128, .stages = 4, .min_blocks = 1, .way = Way::Pooled, .strips = 2}),
    MOBICUDA_WINDOW_ENTRY(Conv2dVariant::Wgmma64x64x64Window, "wgmma_64x64x64_window",       {.bm = 64, .bn = 64, .groups = 1}),
    MOBICUDA_WINDOW_ENTRY(Conv2dVariant::Wgmma64x64x64WindowS2, "wgmma_64x64x64_window_s2", {.bm = 64, .bn = 64, .split = 2, .groups = 1}),
    MOBICUDA_WINDOW_ENTRY(Conv2dVariant::Wgmma64x64x64WindowS4, "wgmma_64x64x64_window_s4", {.bm = 64, .bn = 64, .split = 4, .groups = 1}),
    MOBICUDA_WINDOW_ENTRY(Conv2dVariant::Wgmma64x64x64WindowS8, "wgmma_64x64x64_window_s8", {.bm = 64, .bn = 64, .split = 8, .groups = 1}),
    MOBICUDA_WINDOW_ENTRY(Conv2dVariant::Wgmma128x64x64Window, "wgmma_128x64x64_window",     {128,  64}),
    MOBICUDA_WINDOW_ENTRY(Conv2dVariant::Wgmma128x128x64Window, "wgmma_128x128x64_window",   {128, 128}),
    MOBICUDA_WINDOW_ENTRY(Conv2dVariant::Wgmma256x64x64Window, "wgmma_256x64x64_window",     {256,  64}),
    MOBICUDA_WINDOW_ENTRY(Conv2dVariant::Wgmma128x128x64WindowS2, "wgmma_128x128x64_window_s2", {.bm = 128, .bn = 128, .split = 2}),
    MOBICUDA_PATCH_ENTRY(Conv2dVariant::Wgmma224x64x64Patch8, "wgmma_224x64x64_patch8",                {.columns =  8, .pooled = false}),
    MOBICUDA_PATCH_ENTRY(Conv2dVariant::Wgmma224x64x64Patch16, "wgmma_224x64x64_patch16",              {.columns = 16, .pooled = false}),
    MOBICUDA_PATCH_ENTRY(Conv2dVariant::Wgmma224x64x64Patch8Pooled, "wgmma_224x64x64_patch8_pooled",   {.columns =  8, .pooled = true}),
    MOBICUDA_PATCH_ENTRY(Conv2dVariant::Wgmma224x64x64Patch16Pooled, "wgmma_224x64x64_patch16_pooled", {.columns = 16, .pooled = true}),
};
// clang-format on

}  // namespace

std::span<const Conv2dEntry> conv2d_wgmma_entries() { return kEntries; }

}  // namespace mobicuda::kernels
