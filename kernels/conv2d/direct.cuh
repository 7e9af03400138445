#pragma once

#include "kernels/common/conv_vector.cuh"
#include "kernels/conv2d/arguments.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels::convolution {

// Any convolution. Thread -> kPixels outputs of a row x kChannels channels of one group, channels fastest: a warp's
// input loads are broadcasts, its weight loads and stores are consecutive. No shared memory.

inline constexpr int kDirectThreads = 128;

template <class T, int kChannels>
__device__ __forceinline__ void load_weights(const T* __restrict__ weight, Real<T> (&values)[kChannels]) {
  if constexpr (kChannels == 1) {
    values[0] = to_real(__ldg(weight));
  } else if constexpr (std::is_same_v<T, double>) {
#pragma unroll
    for (int c = 0; c < kChannels; c += 2) {
      const double2 pair = __ldg(reinterpret_cast<const double2*>(weight + c));
      values[c] = pair.x;
      values[c + 1] = pair.y;
    }
  } else {
    using Vector = Words<static_cast<int>(sizeof(T)) * kChannels>;
    unpack<T>(__ldg(reinterpret_cast<const Vector*>(weight)), values);
  }
}

template <class X, class T, int kPixels, int kChannels>
__global__ void __launch_bounds__(kDirectThreads)
    direct_kernel(const Arguments a, const X* x, const T* __restrict__ weight, const float* __restrict__ bias,
                  const T* residual, T* y) {
  wait_for_predecessor();
  const std::uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= a.grid.items) return;
  const Item item = decode(a.grid, index);
  const int co = static_cast<int>(item.vector) * kChannels;
  const int oy = static_cast<int>(item.tile_y);
  const int ox0 = static_cast<int>(item.tile_x) * kPixels;
  const int first_in = co / a.group_out * a.group_in;
  const X* picture = x + item.n * a.x_picture() + static_cast<std::size_t>(first_in) * a.x_channel;

  Real<T> sums[kPixels][kChannels];
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    const Real<T> offset = bias != nullptr ? __ldg(bias + co + c) : 0.0F;
#pragma unroll
    for (int p = 0; p < kPixels; ++p) sums[p][c] = offset;
  }

  for (int ky = 0; ky < a.kernel_h; ++ky) {
    const int iy = oy * a.stride_h + ky * a.dilation_h - a.pad_top;
    if (iy < 0 || iy >= a.h) continue;
    for (int kx = 0; kx < a.kernel_w; ++kx) {
      int pixels[kPixels];  // element of channel 0, or -1 outside the image
#pragma unroll
      for (int p = 0; p < kPixels; ++p) {
        const int ix = (ox0 + p) * a.stride_w + kx * a.dilation_w - a.pad_left;
        pixels[p] = ix >= 0 && ix < a.w ? (iy * a.w + ix) * a.x_pixel : -1;
      }
      const T* taps = weight + static_cast<std::size_t>(ky * a.kernel_w + kx) * a.group_in * a.weight_pitch + co;
      for (int ci = 0; ci < a.group_in; ++ci) {
        Real<T> factors[kChannels];
        load_weights<T>(taps + static_cast<std::size_t>(ci) * a.weight_pitch, factors);
#pragma unroll
        for (int p = 0; p < kPixels; ++p) {
          const Real<T> value = pixels[p] >= 0 ? to_real(picture[pixels[p] + ci * a.x_channel]) : 0;
#pragma unroll
          for (int c = 0; c < kChannels; ++c) sums[p][c] = fused_multiply_add(value, factors[c], sums[p][c]);
        }
      }
    }
  }

  const std::size_t out_row = (static_cast<std::size_t>(item.n) * a.out_h + oy) * a.out_w;
#pragma unroll
  for (int p = 0; p < kPixels; ++p) {
    if (ox0 + p >= a.out_w) break;
    const std::size_t at = (out_row + ox0 + p) * a.c_out + co;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const Real<T> skip = residual != nullptr ? to_real(residual[at + c]) : 0;
      y[at + c] = from_real<T>(apply(a.activation, sums[p][c] + skip));
    }
  }
}

}  // namespace mobicuda::kernels::convolution
