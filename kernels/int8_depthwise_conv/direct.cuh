#pragma once

#include "kernels/int8_depthwise_conv/arguments.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/int8.cuh"

namespace mobicuda::kernels::int8_depthwise {

// Any window, stride, dilation and padding. Thread -> four channels of one output pixel, channels fastest.

template <int kThreads>
__global__ void __launch_bounds__(kThreads) direct_kernel(const Arguments a) {
  wait_for_predecessor();
  const std::uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= a.grid.items) return;
  const Item item = decode(a.grid, index);
  const int c = static_cast<int>(item.vector) * kWord;
  const int iy0 = static_cast<int>(item.tile_y) * a.stride_h - a.pad_top;
  const int ix0 = static_cast<int>(item.tile_x) * a.stride_w - a.pad_left;
  const std::int64_t image = static_cast<std::int64_t>(item.n) * a.h;
  const int row_words = (a.kernel_w + 3) / 4;

  const auto bias = load<kWord>(a.bias + c);
  std::int32_t sums[kWord];
#pragma unroll
  for (int i = 0; i < kWord; ++i) sums[i] = bias.item[i];
  for (int ky = 0; ky < a.kernel_h; ++ky) {
    const int iy = iy0 + ky * a.dilation_h;
    for (int kx = 0; kx < a.kernel_w; ++kx) {
      const int ix = ix0 + kx * a.dilation_w;
      const bool inside = static_cast<unsigned>(iy) < static_cast<unsigned>(a.h) &&
                          static_cast<unsigned>(ix) < static_cast<unsigned>(a.w_extent);
      const std::int64_t pixel = inside ? (image + iy) * a.w_extent + ix : 0;
      const std::uint32_t values = ptx::load_global_or(a.x + pixel * a.x_pitch + c, inside, a.x_zero);
      const auto weights = load<kWord>(a.w + (static_cast<std::ptrdiff_t>(ky) * row_words + kx / 4) * a.channels + c);
#pragma unroll
      for (int i = 0; i < kWord; ++i) {
        const auto value = static_cast<std::int8_t>(values >> (8 * i) & 0xFFU);
        const auto factor = static_cast<std::int8_t>(weights.item[i] >> (8 * (kx % 4)) & 0xFFU);
        sums[i] = add_wrapping(sums[i], value * factor);
      }
    }
  }
  const std::int64_t pixel =
      (static_cast<std::int64_t>(item.n) * a.out_h + item.tile_y) * a.out_w + static_cast<std::int64_t>(item.tile_x);
  *reinterpret_cast<std::uint32_t*>(a.y + pixel * a.y_pitch + c) =
      finish_word(a.result, sums, load<kWord>(a.multiplier + c));
}

}  // namespace mobicuda::kernels::int8_depthwise
