// conv2d of small groups with mma.sync and tensor copies: limits, tiles, tensor maps, launch. The kernel: tma.cuh.

#include "kernels/conv2d/grouped/tma.h"

#include <algorithm>
#include <optional>

#include "kernels/common/driver_function.h"
#include "kernels/common/launch.h"
#include "kernels/common/packet.cuh"
#include "kernels/conv2d/gemm_launch.h"
#include "kernels/conv2d/grouped/tma.cuh"

namespace mobicuda::kernels {
namespace {

using namespace conv_grouped_tma;

using EncodeBoxes = decltype(&cuTensorMapEncodeTiled);

constexpr int kWindow = 3;

int window_extent(int outputs, int stride) { return (outputs - 1) * stride + kWindow; }

/// (pictures, h, w, channels) of half, pixels `pitch` channels apart; boxes of rows x columns x 64 channels.
struct Images {
  const void* data;
  int h, w, channels, pitch;
};

bool encode(const Images& images, int pictures, int rows, int columns, CUtensorMap& map) {
  static const auto function = find_driver_function<EncodeBoxes>("cuTensorMapEncodeTiled");
  if (function == nullptr) return false;
  const auto w = static_cast<cuuint64_t>(images.w);
  const auto h = static_cast<cuuint64_t>(images.h);
  const cuuint64_t pixel = static_cast<cuuint64_t>(images.pitch) * 2;
  const cuuint64_t extents[4] = {static_cast<cuuint64_t>(images.channels), w, h, static_cast<cuuint64_t>(pictures)};
  const cuuint64_t strides[3] = {pixel, pixel * w, pixel * w * h};
  const cuuint32_t box[4] = {kChannels, static_cast<cuuint32_t>(columns), static_cast<cuuint32_t>(rows), 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  return function(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, const_cast<void*>(images.data), extents, strides, box,
                  steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

struct TileSize {
  int parts, rows, columns;
};

/// How the blocks walk over the tiles of `pictures` images.
struct Walk {
  TileSize tile;
  int window_rows, window_columns;
  int part_bytes;
  int strips;  ///< blocks of the same channels
  int each;    ///< blocks of a multiprocessor
  int stages;

  int stage_bytes() const { return tile.parts * part_bytes; }
  int shared_bytes() const { return stages * stage_bytes() + kBehindRing; }
};

int tiles_of(const Conv2dParams& p, const TileSize& tile, int pictures) {
  return ceil_div(pictures, tile.parts) * ceil_div(p.out_h, tile.rows) * ceil_div(p.out_w, tile.columns);
}

/// Blocks of a multiprocessor that registers leave room for.
int most_resident(int group) { return group > kWarpChannels ? Shape<32, 1>::kMinBlocks : Shape<4, 1>::kMinBlocks; }

/// The walk with such tiles and stages, and what it is expected to take, in a tile's rows of a multiprocessor; nothing
/// where blocks would leave stages unused, or wait for one that is about to be stored.
std::optional<double> cost_of(const Conv2dParams& p, int pictures, const DeviceTraits& gpu, Walk& walk) {
  // A tile's first rows read two more of the window than they finish. A block by itself takes as long as two that
  // share a multiprocessor; its first window and its last tile move while it computes nothing; and its weights come
  // from L2 as some rows do.
  constexpr int kMoreRows = 2;
  constexpr int kLeastBusy = 2;
  constexpr double kRowsOfWeights = 0.25;  // for each channel of a group
  const int group = p.c_in / p.groups;
  const int slices = ceil_div(p.c_out, kChannels);
  const int tiles = tiles_of(p, walk.tile, pictures);
  const auto bytes = static_cast<std::size_t>(walk.shared_bytes()) + gpu.reserved_shared_bytes;
  const int fitting = std::min(static_cast<int>(gpu.shared_bytes_per_multiprocessor / bytes), most_resident(group));
  if (fitting == 0) return {};
  const int most = std::clamp(fitting * gpu.multiprocessors / slices, 1, kMaxGridYz);
  const int rounds = ceil_div(tiles, std::min(most, tiles));
  if (walk.stages != std::min(rounds, kMostStages)) return {};
  walk.strips = ceil_div(tiles, rounds);
  walk.each = ceil_div(walk.strips * slices, gpu.multiprocessors);
  const int rows = walk.tile.rows + kMoreRows;
  return static_cast<double>(rounds) * std::max(walk.each, kLeastBusy) * rows + kLeastBusy * rows +
         walk.each * group * kRowsOfWeights;
}

Walk choose_walk(const Conv2dParams& p, int pictures, const DeviceTraits& gpu) {
  const int columns = ceil_div(p.out_w, ceil_div(p.out_w, kPixels));
  const int parts = p.out_w <= kPixels / kMostParts && pictures > 1 ? kMostParts : 1;
  Walk best{};
  std::optional<double> least;
  for (int rows = 1; rows <= p.out_h; ++rows) {
    Walk walk{};
    walk.tile = {parts, rows, columns};
    walk.window_rows = window_extent(rows, p.stride_h);
    walk.window_columns = window_extent(columns, p.stride_w);
    const int pixels = round_up(walk.window_rows * walk.window_columns, kSwizzleRows);
    if (parts * pixels > kMostWindow) break;
    walk.part_bytes = pixels * kPixelBytes;
    for (walk.stages = 1; walk.stages <= kMostStages; ++walk.stages) {
      const std::optional<double> cost = cost_of(p, pictures, gpu, walk);
      if (!cost || (least && *cost > *least)) continue;
      least = cost;
      best = walk;
    }
  }
  return best;
}

/// Shared memory of a block with which no multiprocessor holds more of them than its share: spread_blocks() says why.
std::size_t spread_bytes(const Walk& walk, const DeviceTraits& gpu) {
  constexpr std::size_t kUnit = 128;  // that shared memory is given in
  const std::size_t others = gpu.shared_bytes_per_multiprocessor / static_cast<std::size_t>(walk.each + 1);
  const std::size_t spread = (others - std::min(gpu.reserved_shared_bytes, others)) / kUnit * kUnit + kUnit;
  return std::max(static_cast<std::size_t>(walk.shared_bytes()), std::min(spread, gpu.shared_bytes_per_block));
}

bool complete(const Conv2dParams& p, const Walk& walk, int pictures, Arguments& a) {
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.pictures = pictures;
  a.rows = walk.tile.rows;
  a.columns = walk.tile.columns;
  a.parts = walk.tile.parts;
  a.row_bytes = walk.window_columns * kPixelBytes;
  a.copied_bytes = walk.window_rows * a.row_bytes;
  a.part_bytes = walk.part_bytes;
  a.stages = walk.stages;
  a.tiles = tiles_of(p, walk.tile, pictures);
  a.of_tile_columns = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, walk.tile.columns)));
  a.of_tile_rows = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, walk.tile.rows)));
  return encode({a.x, p.h, p.w, p.c_in, p.c_in}, pictures, walk.window_rows, walk.window_columns, a.windows) &&
         encode({a.y, p.out_h, p.out_w, p.c_out, a.y_pitch}, pictures, a.rows, a.columns, a.results);
}

template <class S, bool kClip>
cudaError_t launch_shape(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  constexpr Conv2dTile kTile{kPixels, kChannels, kPixels, 1, true};
  const auto kernel = grouped_tma_kernel<S, kClip>;
  DeviceTraits gpu;
  cudaError_t status = current_device_traits(gpu);
  if (status == cudaSuccess) status = allow_shared_memory(kernel, gpu.shared_bytes_per_block);
  if (status != cudaSuccess) return status;
  return conv_gemm::for_each_gemm_chunk(
      p, kTile, buffers, where, [&](const conv_gemm::Arguments& shared, unsigned) -> cudaError_t {
        const int pictures = shared.m / (p.out_h * p.out_w);
        const Walk walk = choose_walk(p, pictures, gpu);
        Arguments a{};
        static_cast<conv_gemm::Arguments&>(a) = shared;
        if (!complete(p, walk, pictures, a)) return cudaErrorNotSupported;
        const dim3 grid(static_cast<unsigned>(ceil_div(p.c_out, kChannels)), static_cast<unsigned>(walk.strips));
        return launch(kernel, grid, dim3(kThreads), spread_bytes(walk, gpu), where, a);
      });
}

template <int kGroup, int kStride>
cudaError_t launch_stride(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  using S = Shape<kGroup, kStride>;
  return p.activation.kind == ActivationKind::Clip ? launch_shape<S, true>(p, buffers, where)
                                                   : launch_shape<S, false>(p, buffers, where);
}

template <int kGroup>
cudaError_t launch_group(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  return p.stride_h == 1 ? launch_stride<kGroup, 1>(p, buffers, where) : launch_stride<kGroup, 2>(p, buffers, where);
}

}  // namespace

bool supports_grouped_tma(const Conv2dParams& p, const DeviceTraits& gpu) {
  constexpr int kHopper = 90;
  return gpu.code >= kHopper && supports_groups(p);
}

cudaError_t launch_grouped_tma(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  switch (p.c_in / p.groups) {
    case 4:
      return launch_group<4>(p, buffers, where);
    case 8:
      return launch_group<8>(p, buffers, where);
    case 16:
      return launch_group<16>(p, buffers, where);
    default:
      return launch_group<32>(p, buffers, where);
  }
}

}  // namespace mobicuda::kernels
