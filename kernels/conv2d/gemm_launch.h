// Host side that the implicit matrix products of conv2d share: arguments, and batches in launches of a size that the
// kernels' 32-bit indices hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/conv2d/families.h"
#include "kernels/conv2d/gemm_arguments.cuh"

namespace mobicuda::kernels::conv_gemm {

inline constexpr int kWeightMultiple = 8;  ///< packed weights have rows of a multiple of it

/// How many channels of a pixel are copied at once: 16 bytes, or 8 where only that divides a group's; else none.
inline int widest_chunk(int group_in) {
  constexpr int kWide = 8;
  if (group_in % kWide == 0) return kWide;
  return group_in % (kWide / 2) == 0 ? kWide / 2 : 0;
}

/// `chunk`: the channels that the product copies at once.
inline bool supports_gemm(const Conv2dParams& p, int chunk = 8) {
  constexpr std::int64_t kMaxK = 1 << 30;
  const bool whole_groups = p.groups == 1 || p.c_out / p.groups % kWeightMultiple == 0;
  const std::int64_t k = std::int64_t{p.kernel_h} * p.kernel_w * (p.c_in / p.groups) + p.second.c_in;
  return p.elem == Elem::F16 && p.input == Conv2dParams::Input::NhwcElem && widest_chunk(p.c_in / p.groups) == chunk &&
         p.second.c_in % chunk == 0 && whole_groups && k <= kMaxK;
}

/// For all of `n` images of p.
inline Arguments gemm_arguments(const Conv2dParams& p, const Conv2dTile& tile, int n) {
  Arguments a{};
  a.m = n * p.out_h * p.out_w;
  a.group_in = p.c_in / p.groups;
  a.group_out = p.c_out / p.groups;
  a.k = p.kernel_h * p.kernel_w * a.group_in + p.second.c_in;
  a.slices = ceil_div(a.k, tile.bk);
  a.h = p.h;
  a.w = p.w;
  a.c_in = p.c_in;
  a.c_out = p.c_out;
  a.y_pitch = p.y_pitch == 0 ? p.c_out : p.y_pitch;
  a.weight_pitch = round_up(p.c_out, kWeightMultiple);
  a.stride_h = p.stride_h;
  a.stride_w = p.stride_w;
  a.dilation_h = p.dilation_h;
  a.dilation_w = p.dilation_w;
  a.pad_top = p.pad_top;
  a.pad_left = p.pad_left;
  a.group_tiles = ceil_div(a.group_out, tile.bn);
  a.n_tiles = a.group_tiles * p.groups;
  a.of_picture = FastDivision(static_cast<std::uint32_t>(p.out_h * p.out_w));
  a.of_row = FastDivision(static_cast<std::uint32_t>(p.out_w));
  a.of_tap = FastDivision(static_cast<std::uint32_t>(a.group_in));
  a.of_window_row = FastDivision(static_cast<std::uint32_t>(p.kernel_w));
  a.second_h = p.second.h;
  a.second_w = p.second.w;
  a.second_in = p.second.c_in;
  a.second_stride_h = p.second.stride_h;
  a.second_stride_w = p.second.stride_w;
  a.activation = p.activation;
  return a;
}

/// Calls launch_chunk(arguments, blocks) for as many images at a time as one launch holds.
template <class LaunchChunk>
cudaError_t for_each_gemm_chunk(const Conv2dParams& p, const Conv2dTile& tile, const Conv2dBuffers& buffers,
                                const Launch& where, const LaunchChunk& launch_chunk) {
  constexpr std::int64_t kMost = 1 << 30;  // pixels, and blocks, of a launch
  const std::int64_t pixels = std::int64_t{p.out_h} * p.out_w;
  const std::int64_t n_tiles = std::int64_t{ceil_div(p.c_out / p.groups, tile.bn)} * p.groups * tile.split_k;
  const std::int64_t most_pixels = std::min(kMost, kMost / n_tiles * tile.bm);
  const std::int64_t pictures = std::max<std::int64_t>(1, most_pixels / pixels);
  for (std::int64_t first = 0; first < p.n; first += pictures) {
    Arguments a = gemm_arguments(p, tile, static_cast<int>(std::min<std::int64_t>(pictures, p.n - first)));
    a.x = static_cast<const __half*>(buffers.x) + first * p.h * p.w * p.c_in;
    a.weight = static_cast<const __half*>(buffers.packed);
    a.bias = buffers.bias;
    a.residual = static_cast<const __half*>(buffers.residual);
    if (a.residual != nullptr) a.residual += first * pixels * p.c_out;
    a.second = static_cast<const __half*>(buffers.second);
    if (a.second != nullptr) a.second += first * p.second.h * p.second.w * p.second.c_in;
    a.y = static_cast<__half*>(buffers.y) + first * pixels * a.y_pitch;
    const int blocks = ceil_div(a.m, tile.bm) * a.n_tiles * tile.split_k;
    // Beside so many blocks a layer's weights are nothing; threads, which share the lines, are counted in 32 bits.
    constexpr int kManyBlocks = 1 << 20;
    if (blocks < kManyBlocks) a.next = where.next;
    if (const cudaError_t error = launch_chunk(a, static_cast<unsigned>(blocks)); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace mobicuda::kernels::conv_gemm
