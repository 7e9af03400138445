// conv2d for a network's first layer with mma.sync: variants, limits, launch. The kernel: kernel.cuh.

#include "kernels/common/resident_blocks.h"
#include "kernels/conv2d/families.h"
#include "kernels/conv2d/first/kernel.cuh"
#include "kernels/conv2d/gemm_launch.h"

namespace mobicuda::kernels {
namespace {

using namespace conv_first;
using Input = Conv2dParams::Input;

constexpr Conv2dTile tile_of(int blocks_n) { return {kRows * kColumns, blocks_n * 8, 16, 1, true}; }

constexpr std::size_t kMostShared = 96 * kKilobyte;  // so that the same windows fit on every GPU

struct Extents {
  int row_steps, window_rows, window_columns;
  std::int64_t shared_bytes;
};

Extents extents_of(const Conv2dParams& p, int channels) {
  const int row_steps = ceil_div(p.kernel_w, kStepColumns);
  const int rows = (kRows - 1) * p.stride_h + p.kernel_h;
  const int columns = (kColumns - 1) * p.stride_w + row_steps * kStepColumns;
  const std::int64_t weights = weight_bytes(p.kernel_h, row_steps, channels);
  return {row_steps, rows, columns, weights + std::int64_t{rows} * columns * kPixelBytes};
}

template <int kBlocksN>
bool supports_first(const Conv2dParams& p, const DeviceTraits& gpu) {
  constexpr int kMostWindow = 16;
  constexpr int kMostStride = 8;
  return gpu.code >= 80 && kMostShared <= gpu.shared_bytes_per_block && p.elem == Elem::F16 &&
         p.input != Input::NhwcElem && p.groups == 1 && p.c_in <= kMostIn && p.c_out % 8 == 0 && !p.residual &&
         p.dilation_h == 1 && p.dilation_w == 1 && p.kernel_h <= kMostWindow && p.kernel_w <= kMostWindow &&
         p.stride_h <= kMostStride && p.stride_w <= kMostStride &&
         extents_of(p, kBlocksN * 8).shared_bytes <= static_cast<std::int64_t>(kMostShared);
}

template <class X, int kBlocksN>
cudaError_t launch_input(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  const Extents extents = extents_of(p, kBlocksN * 8);
  const auto shared_bytes = static_cast<std::size_t>(extents.shared_bytes);
  const auto kernel = first_kernel<X, kBlocksN>;
  int resident = 0;
  const cudaError_t status = resident_blocks(kernel, kThreads, shared_bytes, kMostShared, resident);
  if (status != cudaSuccess) return status;
  const int slices = ceil_div(p.c_out, kBlocksN * 8);
  const int strips = std::clamp(resident / slices, 1, kMaxGridYz);
  const X* x = static_cast<const X*>(buffers.x);
  return conv_gemm::for_each_gemm_chunk(
      p, tile_of(kBlocksN), buffers, [&](const conv_gemm::Arguments& shared, unsigned) -> cudaError_t {
        Arguments a{};
        static_cast<conv_gemm::Arguments&>(a) = shared;
        const int pictures = a.m / (p.out_h * p.out_w);
        const int tile_columns = ceil_div(p.out_w, kColumns);
        const int tile_rows = ceil_div(p.out_h, kRows);
        a.out_h = p.out_h;
        a.out_w = p.out_w;
        a.kernel_h = p.kernel_h;
        a.kernel_w = p.kernel_w;
        a.row_steps = extents.row_steps;
        a.window_rows = extents.window_rows;
        a.window_columns = extents.window_columns;
        a.tiles = tile_columns * tile_rows * pictures;
        a.of_tile_columns = FastDivision(static_cast<std::uint32_t>(tile_columns));
        a.of_tile_rows = FastDivision(static_cast<std::uint32_t>(tile_rows));
        a.of_window_columns = FastDivision(static_cast<std::uint32_t>(extents.window_columns));
        a.x_picture = std::int64_t{p.h} * p.w * p.c_in;
        a.x_pixel = p.input == Input::NchwFloat ? 1 : p.c_in;
        a.x_channel = p.input == Input::NchwFloat ? p.h * p.w : 1;
        std::copy(std::begin(p.scale), std::end(p.scale), a.scale);
        std::copy(std::begin(p.shift), std::end(p.shift), a.shift);
        const dim3 grid(static_cast<unsigned>(slices), static_cast<unsigned>(std::min(strips, a.tiles)));
        const cudaError_t error = launch(kernel, grid, dim3(kThreads), shared_bytes, where, a, x);
        x += a.x_picture * pictures;
        return error;
      });
}

template <int kBlocksN>
cudaError_t launch_first(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  return p.input == Input::NhwcUint8 ? launch_input<std::uint8_t, kBlocksN>(p, buffers, where)
                                     : launch_input<float, kBlocksN>(p, buffers, where);
}

template <int kBlocksN>
constexpr Conv2dEntry entry(Conv2dVariant variant, std::string_view name) {
  return {variant, name, tile_of(kBlocksN), supports_first<kBlocksN>, launch_first<kBlocksN>};
}

constexpr Conv2dEntry kEntries[] = {
    entry<4>(Conv2dVariant::First32, "first_32"),
    entry<8>(Conv2dVariant::First64, "first_64"),
};

}  // namespace

std::span<const Conv2dEntry> conv2d_first_entries() { return kEntries; }

}  // namespace mobicuda::kernels
