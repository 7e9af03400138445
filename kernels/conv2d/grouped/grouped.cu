// conv2d of small groups with mma.sync: limits, tiles, launch. The kernel: kernel.cuh.

#include "kernels/common/resident_blocks.h"
#include "kernels/conv2d/families.h"
#include "kernels/conv2d/gemm_launch.h"
#include "kernels/conv2d/grouped/kernel.cuh"
#include "kernels/conv2d/grouped/tma.h"

namespace mobicuda::kernels {
namespace {

using namespace conv_grouped;

constexpr int kWindow = 3;
constexpr int kInstructionPixels = 16;
// mma.sync has products of 16 inputs x 8 outputs, whatever the groups.
constexpr Conv2dTile kTile{kInstructionPixels, kChannels, kInstructionPixels, 1, true};

bool supports_grouped(const Conv2dParams& p, const DeviceTraits& gpu) {
  return gpu.code >= 80 && kSharedBytes <= gpu.shared_bytes_per_block && supports_groups(p);
}

struct TileSize {
  int rows, columns;
};

int window_extent(int outputs, int stride) { return (outputs - 1) * stride + kWindow; }

/// Of at most `most` pixels; the one that needs the fewest products and copies.
TileSize choose_tile(const Conv2dParams& p, int most) {
  TileSize best{1, 1};
  std::int64_t least = -1;
  for (int rows = 1; rows <= std::min(p.out_h, most); ++rows) {
    for (int columns = 1; columns <= std::min(p.out_w, most / rows); ++columns) {
      const int window = window_extent(rows, p.stride_h) * window_extent(columns, p.stride_w);
      if (window > kMostPixels) break;
      const std::int64_t tiles = std::int64_t{ceil_div(p.out_h, rows)} * ceil_div(p.out_w, columns);
      const std::int64_t cost = tiles * (round_up(rows * columns, kInstructionPixels) + window);
      if (least >= 0 && cost >= least) continue;
      least = cost;
      best = {rows, columns};
    }
  }
  return best;
}

std::int64_t tiles_of(const Conv2dParams& p, const TileSize& tile) {
  return std::int64_t{ceil_div(p.out_h, tile.rows)} * ceil_div(p.out_w, tile.columns);
}

template <int kGroup>
cudaError_t launch_group(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  constexpr int kMostTilePixels = 128;
  constexpr int kSmallTilePixels = 32;
  int resident = 0;
  const auto kernel = grouped_kernel<kGroup>;
  const cudaError_t status = resident_blocks(kernel, kThreads, kSharedBytes, kSharedBytes, resident);
  if (status != cudaSuccess) return status;
  const int slices = ceil_div(p.c_out, kChannels);
  const int strips = std::clamp(resident / slices, 1, kMaxGridYz);
  // A pixel's sum does not depend on its tile, so that the tile may depend on the batch.
  TileSize tile = choose_tile(p, kMostTilePixels);
  if (tiles_of(p, tile) * p.n < strips) tile = choose_tile(p, kSmallTilePixels);
  return conv_gemm::for_each_gemm_chunk(
      p, kTile, buffers, where, [&](const conv_gemm::Arguments& shared, unsigned) -> cudaError_t {
        Arguments a{};
        static_cast<conv_gemm::Arguments&>(a) = shared;
        a.out_h = p.out_h;
        a.out_w = p.out_w;
        a.rows = tile.rows;
        a.columns = tile.columns;
        a.window_rows = window_extent(tile.rows, p.stride_h);
        a.window_columns = window_extent(tile.columns, p.stride_w);
        a.tiles = static_cast<int>(tiles_of(p, tile)) * (a.m / (p.out_h * p.out_w));
        a.of_tile_columns = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, tile.columns)));
        a.of_tile_rows = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, tile.rows)));
        a.of_columns = FastDivision(static_cast<std::uint32_t>(tile.columns));
        a.of_window_columns = FastDivision(static_cast<std::uint32_t>(a.window_columns));
        const dim3 grid(static_cast<unsigned>(slices), static_cast<unsigned>(std::min(strips, a.tiles)));
        return launch(kernel, grid, dim3(kThreads), kSharedBytes, where, a);
      });
}

cudaError_t launch_grouped(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
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

constexpr Conv2dEntry kEntries[] = {
    {Conv2dVariant::Grouped3x3, "grouped3x3", kTile, supports_grouped, launch_grouped, true},
    {Conv2dVariant::Grouped3x3Tma, "grouped3x3_tma", kTile, supports_grouped_tma, launch_grouped_tma, true},
};

}  // namespace

bool supports_groups(const Conv2dParams& p) {
  constexpr int kMostStride = 2;
  const int channels = p.c_in / p.groups;
  const bool size = channels == 4 || channels == 8 || channels == 16 || channels == 32;
  return p.elem == Elem::F16 && p.input == Conv2dParams::Input::NhwcElem && p.groups > 1 && size && p.c_out == p.c_in &&
         p.c_in % 8 == 0 && p.kernel_h == kWindow && p.kernel_w == kWindow && p.dilation_h == 1 && p.dilation_w == 1 &&
         p.stride_h <= kMostStride && p.stride_w <= kMostStride;
}

std::span<const Conv2dEntry> conv2d_grouped_entries() { return kEntries; }

}  // namespace mobicuda::kernels
