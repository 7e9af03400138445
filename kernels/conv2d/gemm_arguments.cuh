// What the implicit matrix products of conv2d share: Y (m, c_out) = A (m, k) * B (k, c_out), where m counts the output
// pixels of all images, k the taps and, fastest, the input channels of a group, and A is gathered from x.
#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/common/fast_division.cuh"
#include "kernels/common/next_weights.cuh"
#include "kernels/common/packet.cuh"

namespace mobicuda::kernels::conv_gemm {

struct Arguments {
  const __half* x;
  const __half* weight;  ///< (k, weight_pitch)
  const float* bias;
  const __half* residual;
  __half* y;
  int m, k, slices;
  int h, w, c_in, c_out, weight_pitch, y_pitch;
  int stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int group_in, group_out;
  int n_tiles, group_tiles;    ///< column tiles of Y and of a group
  FastDivision of_picture;     ///< out_h * out_w
  FastDivision of_row;         ///< out_w
  FastDivision of_tap;         ///< group_in
  FastDivision of_window_row;  ///< kernel_w
  Activation activation;
  /// The second convolution of the sum, whose k are those behind the first one's. Null: there is none.
  const __half* second;
  int second_h, second_w, second_in, second_stride_h, second_stride_w;
  NextWeights next;
};

/// The place of a block's tile of Y.
struct TilePlace {
  int m0, n0;
  int n_end;  ///< of the group's columns
  int group;
};

template <int kBm, int kBn>
__device__ __forceinline__ TilePlace place_of(const Arguments& a, int tile) {
  const int m_tile = tile / a.n_tiles;
  const int n_tile = tile - m_tile * a.n_tiles;
  const int group = n_tile / a.group_tiles;
  const int first = group * a.group_out;
  return {m_tile * kBm, first + (n_tile - group * a.group_tiles) * kBn, first + a.group_out, group};
}

/// Finishes and stores kRun neighbouring sums of row m from column n on, which is a multiple of kRun: the one place
/// where bias, residual and activation are applied, but for tiles of y in shared memory (conv2d/wgmma/finish.cuh). With
/// kClip the activation is Clip, which spares code.
template <int kRun, bool kClip = false>
__device__ __forceinline__ void finish_run(const Arguments& a, int m, int n, int n_end, float (&value)[kRun]) {
  const std::size_t at = static_cast<std::size_t>(m) * static_cast<std::size_t>(a.c_out) + static_cast<std::size_t>(n);
  __half* const y = a.y + static_cast<std::size_t>(m) * static_cast<std::size_t>(a.y_pitch) + n;
  const bool whole = a.c_out % kRun == 0;
  Packet<float, kRun> bias{};
  Packet<__half, kRun> residual{};
  if (whole) {
    if (a.bias != nullptr) bias = load<kRun>(a.bias + n);
    if (a.residual != nullptr) residual = load<kRun>(a.residual + at);
  } else {
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      if (n + i >= n_end) break;
      if (a.bias != nullptr) bias.item[i] = a.bias[n + i];
      if (a.residual != nullptr) residual.item[i] = a.residual[at + i];
    }
  }
  Packet<__half, kRun> result;
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    value[i] += bias.item[i] + to_float(residual.item[i]);
  }
  if constexpr (kClip) {
#pragma unroll
    for (float& sum : value) sum = apply(Clip{a.activation.lo, a.activation.hi}, sum);
  } else {
    apply(a.activation, value);
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) result.item[i] = from_float<__half>(value[i]);
  if (whole) {
    store(y, result);
    return;
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    if (n + i < n_end) y[i] = result.item[i];
  }
}

/// A quad's sums of a row of four blocks of 8 columns, as the tensor cores leave them: lane t has columns 2t and 2t + 1
/// of each, of an upper row first, then of a lower one (`half`). Returns all 8 of block t.
__device__ __forceinline__ void gather_quad(const float (*sums)[4], int half, float (&value)[8]) {
  float2 pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = make_float2(sums[i][half * 2], sums[i][half * 2 + 1]);
  const auto exchange = [](float2& even, float2& odd, unsigned distance) {
    const bool is_odd = (threadIdx.x & distance) != 0;
    float2 moved = is_odd ? even : odd;
    moved.x = __shfl_xor_sync(~0U, moved.x, static_cast<int>(distance));
    moved.y = __shfl_xor_sync(~0U, moved.y, static_cast<int>(distance));
    if (is_odd) {
      even = moved;
    } else {
      odd = moved;
    }
  };
  exchange(pairs[0], pairs[1], 1);
  exchange(pairs[2], pairs[3], 1);
  exchange(pairs[0], pairs[2], 2);
  exchange(pairs[1], pairs[3], 2);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    value[2 * i] = pairs[i].x;
    value[2 * i + 1] = pairs[i].y;
  }
}

}  // namespace mobicuda::kernels::conv_gemm
