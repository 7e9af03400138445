#pragma once

#include "kernels/common/conv_vector.cuh"
#include "kernels/depthwise_conv/arguments.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels::depthwise {

// Any window, stride, dilation, padding and channel count. Thread -> one output element, channels fastest, so that a
// warp reads consecutive channels of one pixel. No shared memory.

template <class T>
__global__ void __launch_bounds__(kMaxItemThreads)
    direct_kernel(const Arguments a, const T* x, const T* __restrict__ weight, const float* __restrict__ bias, T* y) {
  wait_for_predecessor();
  const std::uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= a.grid.items) return;
  const Item item = decode(a.grid, index);
  const int c = static_cast<int>(item.vector);
  const int iy0 = static_cast<int>(item.tile_y) * a.stride_h - a.pad_top;
  const int ix0 = static_cast<int>(item.tile_x) * a.stride_w - a.pad_left;
  const T* picture = x + static_cast<std::size_t>(item.n) * a.h * a.w * a.c + c;

  Real<T> sum = bias != nullptr ? __ldg(bias + c) : 0.0F;
  for (int ky = 0; ky < a.kernel_h; ++ky) {
    const int iy = iy0 + ky * a.dilation_h;
    if (iy < 0 || iy >= a.h) continue;
    for (int kx = 0; kx < a.kernel_w; ++kx) {
      const int ix = ix0 + kx * a.dilation_w;
      if (ix < 0 || ix >= a.w) continue;
      const Real<T> value = to_real(picture[(static_cast<std::size_t>(iy) * a.w + ix) * a.c]);
      const Real<T> factor = to_real(__ldg(weight + (static_cast<std::size_t>(ky) * a.kernel_w + kx) * a.c + c));
      sum = fused_multiply_add(value, factor, sum);
    }
  }
  y[index] = from_real<T>(apply(a.activation, sum));
}

}  // namespace mobicuda::kernels::depthwise
