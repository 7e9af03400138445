// conv2d for a network's first layer with mma.sync: variants, limits, launch. The kernel: kernel.cuh.

#include <limits>

#include "kernels/common/resident_blocks.h"
#include "kernels/conv2d/families.h"
#include "kernels/conv2d/first/kernel.cuh"
#include "kernels/conv2d/gemm_launch.h"

namespace mobicuda::kernels {
namespace {

using namespace conv_first;
using Input = Conv2dParams::Input;

template <class S>
constexpr Conv2dTile tile_of() {
  return {kRows * kColumns, S::kChannels, 16, 1, true};
}

/// What a block may have of shared memory. Of 4 warps: two fit on an SM of 228 KB, one on every GPU. Of 8: one fits on
/// an SM of 228 KB.
template <class S>
constexpr std::size_t kMostShared = (S::kWarps == 4 ? 96 : 176) * kKilobyte;

struct Extents {
  int row_steps, window_columns, window_pixels, weight_bytes, window_bytes;
  std::size_t shared_bytes;
};

template <class S>
Extents extents_of(const Conv2dParams& p) {
  Extents e{};
  e.row_steps = ceil_div(p.kernel_w, kStepColumns);
  e.window_columns = (kColumns - 1) * p.stride_w + e.row_steps * kStepColumns;
  e.window_pixels = ((kRows - 1) * p.stride_h + p.kernel_h) * e.window_columns;
  e.weight_bytes = p.kernel_h * e.row_steps * 16 * S::kWeightPitch;
  e.window_bytes = round_up(e.window_pixels * kPixelBytes, 16);
  constexpr int kRest = S::kWarps * S::kOutBytes + S::kChannels * static_cast<int>(sizeof(float));
  e.shared_bytes = static_cast<std::size_t>(e.weight_bytes + 2 * e.window_bytes + kRest);
  return e;
}

template <class S>
bool supports_first(const Conv2dParams& p, const DeviceTraits& gpu) {
  constexpr int kMostWindow = 16;
  constexpr int kMostStride = 8;
  return gpu.code >= 80 && kMostShared<S> <= gpu.shared_bytes_per_block && p.elem == Elem::F16 &&
         p.input != Input::NhwcElem && p.groups == 1 && p.c_in <= kMostIn && p.c_out % 8 == 0 && !p.residual &&
         p.dilation_h == 1 && p.dilation_w == 1 && p.kernel_h <= kMostWindow && p.kernel_w <= kMostWindow &&
         p.stride_h <= kMostStride && p.stride_w <= kMostStride && extents_of<S>(p).shared_bytes <= kMostShared<S>;
}

/// A float as half, twice.
std::uint32_t pair_of(float value) {
  const __half half = __float2half_rn(value);
  return std::uint32_t{0x10001} * reinterpret_cast<const std::uint16_t&>(half);
}

template <class X, class S>
cudaError_t launch_input(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  const Extents extents = extents_of<S>(p);
  const auto kernel = first_kernel<X, S>;
  int resident = 0;
  const cudaError_t status = resident_blocks(kernel, S::kThreads, extents.shared_bytes, kMostShared<S>, resident);
  if (status != cudaSuccess) return status;
  const int slices = ceil_div(p.c_out, S::kChannels);
  const int strips = std::clamp(resident / slices, 1, kMaxGridYz);
  const X* x = static_cast<const X*>(buffers.x);
  return conv_gemm::for_each_gemm_chunk(
      p, tile_of<S>(), buffers, where, [&](const conv_gemm::Arguments& shared, unsigned) -> cudaError_t {
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
        a.window_columns = extents.window_columns;
        a.window_pixels = extents.window_pixels;
        a.weight_bytes = extents.weight_bytes;
        a.window_bytes = extents.window_bytes;
        a.tiles = tile_columns * tile_rows * pictures;
        a.of_tile_columns = FastDivision(static_cast<std::uint32_t>(tile_columns));
        a.of_tile_rows = FastDivision(static_cast<std::uint32_t>(tile_rows));
        a.of_window_columns = FastDivision(static_cast<std::uint32_t>(extents.window_columns));
        a.of_row_steps = FastDivision(static_cast<std::uint32_t>(extents.row_steps));
        a.x_picture = std::int64_t{p.h} * p.w * p.c_in;
        a.x_pixel = p.input == Input::NchwFloat ? 1 : p.c_in;
        a.x_channel = p.input == Input::NchwFloat ? p.h * p.w : 1;
        constexpr float kInfinity = std::numeric_limits<float>::infinity();
        const bool clips = p.activation.kind == ActivationKind::Clip;
        a.lo = pair_of(clips ? p.activation.lo : -kInfinity);
        a.hi = pair_of(clips ? p.activation.hi : kInfinity);
        std::copy(std::begin(p.scale), std::end(p.scale), a.scale);
        std::copy(std::begin(p.shift), std::end(p.shift), a.shift);
        const dim3 grid(static_cast<unsigned>(slices), static_cast<unsigned>(std::min(strips, a.tiles)));
        const cudaError_t error = launch(kernel, grid, dim3(S::kThreads), extents.shared_bytes, where, a, x);
        x += a.x_picture * pictures;
        return error;
      });
}

template <class S>
cudaError_t launch_first(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  return p.input == Input::NhwcUint8 ? launch_input<std::uint8_t, S>(p, buffers, where)
                                     : launch_input<float, S>(p, buffers, where);
}

template <class S>
constexpr Conv2dEntry entry(Conv2dVariant variant, std::string_view name) {
  return {variant, name, tile_of<S>(), supports_first<S>, launch_first<S>, true};
}

constexpr Conv2dEntry kEntries[] = {
    entry<Shape<4, 1, 5>>(Conv2dVariant::First32, "first_32"),
    entry<Shape<8, 1, 4>>(Conv2dVariant::First64, "first_64"),
    entry<Shape<6, 2, 2>>(Conv2dVariant::First96, "first_96"),
};

}  // namespace

std::span<const Conv2dEntry> conv2d_first_entries() { return kEntries; }

}  // namespace mobicuda::kernels
