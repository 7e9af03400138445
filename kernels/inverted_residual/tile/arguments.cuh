#pragma once

#include <cuda_fp16.h>

#include "kernels/common/fast_division.cuh"
#include "kernels/common/half_clip.cuh"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted {

inline constexpr int kUnit = 16;  // hidden channels: one step of k in project, two column fragments in expand

// Packed weights: project bias (n_pairs * 16 floats) | units. A unit holds all that belongs to 16 hidden channels:
// expand fragments (k_steps * 512 bytes) | expand bias | depthwise taps (9, 16) in half | depthwise bias | project
// fragments (n_pairs * 512 bytes). A fragment is 16 (k) x 16 (columns): 4 words for each of 32 lanes.
inline constexpr int kFragmentBytes = 512;
inline constexpr int kUnitBiasBytes = kUnit * 4;
inline constexpr int kTapBytes = kUnit * 2;
inline constexpr int kTapsBytes = 9 * kTapBytes;

/// Byte offsets within a unit.
struct UnitLayout {
  int expand_bias;
  int taps;
  int depthwise_bias;
  int project;
  int bytes;
};

constexpr UnitLayout unit_layout(int k_steps, int n_pairs) {
  UnitLayout layout{};
  layout.expand_bias = k_steps * kFragmentBytes;
  layout.taps = layout.expand_bias + kUnitBiasBytes;
  layout.depthwise_bias = layout.taps + kTapsBytes;
  layout.project = layout.depthwise_bias + kUnitBiasBytes;
  layout.bytes = layout.project + n_pairs * kFragmentBytes;
  return layout;
}

/// Column, of 16, of which lane / 4 == row of fragment 0 or 1 holds the weights: dealt so that a thread's sums are 4
/// neighbouring columns.
constexpr int dealt_column(int fragment, int row) { return row / 2 * 4 + fragment * 2 + row % 2; }

struct Arguments {
  int h, w, out_h, out_w;
  int pad_top, pad_left;
  int c_in, c_out;
  int k_steps;  // of 16 input channels
  int n_pairs;  // of 16 output channels
  int units;
  int chunks;  // of hidden channels
  std::uint32_t tiles;
  FastDivision tiles_x, tiles_y;
  FastDivision patch_vectors;  // of 8 channels, in one pixel of the patch
  FastDivision out_quads;      // of 4 channels, in one output pixel
  UnitLayout unit;
  int patch_row_bytes;
  int weight_slots;  // chunks that shared memory holds: all of them or two
  int patch_slots;
  bool residual;
  HalfClip expand_clip;
  HalfClip depthwise_clip;
  Clip project_clip;
};

/// The compile-time side of a variant.
struct Config {
  bool expand;
  int stride;
  int tile_h, tile_w;
  int chunk;                      ///< hidden channels at once
  int c_out;                      ///< the most
  int warps_m, warps_n, warps_k;  ///< of project; k: groups that share the sum over hidden channels
  int expand_m, expand_n;         ///< blocks of 16 pixels, 16 channels that a warp expands at once
  int strip_h, strip_w;           ///< depthwise outputs of a thread, for two channels
  int min_blocks;                 ///< per multiprocessor, for the register budget
};

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr int kWarps = kConfig.warps_m * kConfig.warps_n * kConfig.warps_k;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kPatchH = (kConfig.tile_h - 1) * kConfig.stride + 3;
  static constexpr int kPatchW = (kConfig.tile_w - 1) * kConfig.stride + 3;
  static constexpr int kPatchPixels = kPatchH * kPatchW;
  static constexpr int kPatchRows = round_up(kPatchPixels, 16 * kConfig.expand_m);
  static constexpr int kOutPixels = kConfig.tile_h * kConfig.tile_w;
  static constexpr int kOutRows = round_up(kOutPixels, 16);
  static constexpr int kUnits = kConfig.chunk / kUnit;
  static constexpr int kChannelPairs = kConfig.chunk / 2;
  static constexpr int kStripsX = kConfig.tile_w / kConfig.strip_w;
  static constexpr int kStrips = kConfig.tile_h / kConfig.strip_h * kStripsX;
  static constexpr int kProjectM = ceil_div(kOutRows / 16, kConfig.warps_m);  // of a warp
  static constexpr int kProjectN = kConfig.c_out / 16 / kConfig.warps_n;
  // Rows of the hidden tensor lie so that 4 neighbouring ones, 8 words each, are in different banks; rows of its
  // successor so that 8 neighbouring ones, 4 words each, are.
  static constexpr int kHiddenRowBytes = kConfig.chunk * 2 + (kConfig.chunk % 32 == 0 ? 32 : 0);
  static constexpr int kFilteredRowBytes = kConfig.chunk * 2 + 16;
  static constexpr int kFilteredBytes = kOutRows * kFilteredRowBytes;
  static_assert(kConfig.chunk % (kUnit * kConfig.expand_n) == 0 && kConfig.c_out % (16 * kConfig.warps_n) == 0);
  static_assert(kConfig.tile_h % kConfig.strip_h == 0 && kConfig.tile_w % kConfig.strip_w == 0);

  /// Of a row of partial sums, in floats: 2 neighbouring rows, 16 words each, are in different banks.
  __host__ __device__ static constexpr int partial_row(int n_pairs) {
    return n_pairs * 16 + (n_pairs % 2 == 0 ? 16 : 0);
  }

  /// Of the hidden tensor, which the partial sums of project follow in time.
  __host__ __device__ static constexpr int hidden_bytes(int n_pairs) {
    const int hidden = kConfig.expand ? kPatchRows * kHiddenRowBytes : 0;
    const int partial = kConfig.warps_k > 1 ? kConfig.warps_k * kOutRows * partial_row(n_pairs) * 4 : 0;
    return hidden > partial ? hidden : partial;
  }

  /// Of one patch: its pixels, then one word for each that masks those outside the image.
  __host__ __device__ static constexpr int patch_bytes(int row_bytes) { return kPatchRows * (row_bytes + 4); }
};

}  // namespace mobicuda::kernels::inverted
