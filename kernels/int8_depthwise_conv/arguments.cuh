#pragma once

#include "kernels/common/conv_items.cuh"
#include "kernels/common/packet.cuh"
#include "kernels/common/requantize.cuh"

namespace mobicuda::kernels::int8_depthwise {

inline constexpr int kWord = 4;  // channels of a thread

struct Arguments {
  ItemGrid grid;
  const std::int8_t* x;
  const std::uint32_t* w;  ///< (kernel_h, words of a row, channels)
  const std::int32_t* bias;
  const float* multiplier;
  std::int8_t* y;
  int h, w_extent, out_h, out_w;
  int channels;  ///< rounded up to kChannelStep
  int x_pitch, y_pitch;
  int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  std::uint32_t x_zero;  ///< four times
  Requantize result;
};

/// Four channels of a pixel from their sums, to which the bias has been added.
__device__ __forceinline__ std::uint32_t finish_word(const Requantize& to, const std::int32_t (&sums)[kWord],
                                                     const Packet<float, kWord>& multiplier) {
  float rounded[kWord];
#pragma unroll
  for (int i = 0; i < kWord; ++i) {
    rounded[i] = round_clipped(to, ptx::multiply_rounded(ptx::float_of(sums[i]), multiplier.item[i]));
  }
  return pack_bytes(to, rounded[0], rounded[1], rounded[2], rounded[3]);
}

}  // namespace mobicuda::kernels::int8_depthwise
