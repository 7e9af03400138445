// What the kernels of int8_conv2d share: arguments, and how a sum becomes an output.
#pragma once

#include "kernels/common/fast_division.cuh"
#include "kernels/common/packet.cuh"
#include "kernels/common/requantize.cuh"
#include "kernels/common/std.h"

namespace mobicuda::kernels::int8_conv {

struct Arguments {
  const std::int8_t* x;
  const std::int8_t* w;  ///< (w_rows, k)
  const std::int32_t* bias;
  const float* multiplier;
  const std::int8_t* residual;  ///< where finish adds one
  void* y;
  int m, n, k;  ///< output pixels, output channels, bytes of a row of w
  int w_rows;   ///< n rounded up to kChannelStep
  int columns;  ///< that are written: n, of bytes w_rows
  int x_pitch, y_pitch;
  int h, w_extent, c_in;
  int stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int taps, tap_bytes;
  int group_in, group_out;
  FastDivision of_image;                   ///< output pixels of an image
  FastDivision of_row;                     ///< of an output row
  FastDivision of_tap;                     ///< chunks of 16 bytes of a tap
  FastDivision of_window_row;              ///< taps of a row of the window
  int k_slices, whole_rounds, last_round;  ///< of pipeline.cuh
  std::uint32_t x_zero;                    ///< four times
  bool y_is_float;
  bool dequantizes;  ///< floats are those that bytes stand for
  float y_scale;
  FinishBytes finish;
};

/// Of kRun neighbouring output channels.
template <int kRun>
struct Channels {
  Packet<std::int32_t, kRun> bias;
  Packet<float, kRun> multiplier;
};

template <int kRun>
__device__ __forceinline__ Channels<kRun> load_channels(const std::int32_t* bias, const float* multiplier) {
  return {load<kRun>(bias), load<kRun>(multiplier)};
}

/// A product of a sum and its multiplier as y has it where it is a float.
__device__ __forceinline__ float float_result(const Arguments& a, float value) {
  if (!a.dequantizes) return value;
  const float whole = ptx::add_rounded(round_clipped(a.finish.result, value), -kRoundToWhole);
  return ptx::multiply_rounded(whole, a.y_scale);
}

/// Finishes and stores kRun (4 or 8) neighbouring sums of pixel m from channel n on, a multiple of kRun.
template <int kRun>
__device__ __forceinline__ void finish_run(const Arguments& a, int m, int n, const std::int32_t (&sums)[kRun],
                                           const Channels<kRun>& channels) {
  if (m >= a.m || n >= a.columns) return;
  float values[kRun];
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    values[i] =
        ptx::multiply_rounded(ptx::float_of(add_wrapping(sums[i], channels.bias.item[i])), channels.multiplier.item[i]);
  }
  const std::size_t at =
      static_cast<std::size_t>(m) * static_cast<std::size_t>(a.y_pitch) + static_cast<std::size_t>(n);
  if (a.y_is_float) {
    float* const to = static_cast<float*>(a.y) + at;
#pragma unroll
    for (float& value : values) value = float_result(a, value);
    if (a.n % kRun == 0) {
      Packet<float, kRun> packet;
#pragma unroll
      for (int i = 0; i < kRun; ++i) packet.item[i] = values[i];
      store(to, packet);
      return;
    }
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      if (n + i < a.n) to[i] = values[i];
    }
    return;
  }
  Packet<std::uint32_t, kRun / 4> bytes;
  Packet<std::uint32_t, kRun / 4> residual{};
  if (a.finish.adds) residual = load<kRun / 4>(reinterpret_cast<const std::uint32_t*>(a.residual + at));
#pragma unroll
  for (int i = 0; i < kRun / 4; ++i) {
    const float four[4] = {values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]};
    bytes.item[i] = finish_bytes(a.finish, four, residual.item[i]);
  }
  store(reinterpret_cast<std::uint32_t*>(static_cast<std::int8_t*>(a.y) + at), bytes);
}

/// One output by itself, of a column below a.n or, of bytes, a.columns.
__device__ __forceinline__ void finish_one(const Arguments& a, int m, int n, std::int32_t sum) {
  const float value =
      ptx::multiply_rounded(ptx::float_of(add_wrapping(sum, __ldg(a.bias + n))), __ldg(a.multiplier + n));
  const std::size_t at =
      static_cast<std::size_t>(m) * static_cast<std::size_t>(a.y_pitch) + static_cast<std::size_t>(n);
  if (a.y_is_float) {
    static_cast<float*>(a.y)[at] = float_result(a, value);
    return;
  }
  const std::uint32_t residual = a.finish.adds ? static_cast<std::uint8_t>(a.residual[at]) : 0U;
  const float four[4] = {value, value, value, value};
  const std::uint32_t bytes = finish_bytes(a.finish, four, residual);
  static_cast<std::int8_t*>(a.y)[at] = static_cast<std::int8_t>(bytes & 0xFFU);
}

/// Where the window of an output pixel begins in x. Rows behind the last pixel are outside of every image.
struct WindowPlace {
  int iy, ix;
  std::int64_t at;  ///< bytes from x to that pixel, which may lie outside of x
};

__device__ __forceinline__ WindowPlace window_of(const Arguments& a, int m) {
  constexpr int kFarOutside = -(1 << 30);
  std::uint32_t pixel;
  std::uint32_t ox;
  const std::uint32_t image = a.of_image.divide(static_cast<std::uint32_t>(m), pixel);
  const std::uint32_t oy = a.of_row.divide(pixel, ox);
  const int iy = static_cast<int>(oy) * a.stride_h - a.pad_top;
  const int ix = static_cast<int>(ox) * a.stride_w - a.pad_left;
  const std::int64_t row = static_cast<std::int64_t>(image) * a.h + iy;
  return {m < a.m ? iy : kFarOutside, ix, (row * a.w_extent + ix) * a.x_pitch};
}

__device__ __forceinline__ bool is_inside(const Arguments& a, int iy, int ix) {
  return static_cast<unsigned>(iy) < static_cast<unsigned>(a.h) &&
         static_cast<unsigned>(ix) < static_cast<unsigned>(a.w_extent);
}

}  // namespace mobicuda::kernels::int8_conv
