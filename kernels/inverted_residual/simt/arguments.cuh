#pragma once

#include "kernels/common/fast_division.cuh"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_simt {

inline constexpr int kUnit = 16;  // hidden channels whose weights lie together
inline constexpr int kTaps = 9;

// Packed weights, all float: project bias (c_out) | fronts, one a unit | project (c_hidden, c_out).
// A front: expand (c_in, 16) | expand bias | depthwise taps (9, 16) | depthwise bias; without expand: its last two.
constexpr int expand_floats(bool expand, int c_in) { return expand ? (c_in + 1) * kUnit : 0; }
constexpr int front_floats(bool expand, int c_in) { return expand_floats(expand, c_in) + (kTaps + 1) * kUnit; }

struct Arguments {
  int h, w, out_h, out_w;
  int pad_top, pad_left;
  int c_hidden;
  FastDivision tiles_x, tiles_y;
  bool residual;
  Clip expand_clip;
  Clip depthwise_clip;
  Clip project_clip;
};

/// The compile-time side of a variant.
struct Config {
  bool expand;
  int stride;
  int tile_h, tile_w;
  int c_in, c_out;
  int chunk;                            ///< hidden channels at once
  bool one_chunk;                       ///< c_hidden == chunk
  int warps;                            ///< with expand: a multiple of chunk / 16
  int expand_rows;                      ///< pixels of a thread in expand
  int strip_h, strip_w, strip_c;        ///< depthwise outputs of a thread
  int project_rows, project_columns;    ///< outputs of a thread
  int project_m, project_n, project_k;  ///< warps; k: groups that share the sum over a chunk
  bool in_place;                        ///< the filtered tensor replaces the hidden one
  // Against bank conflicts, floats in the hidden tensor:
  int hidden_pixel_pad;  ///< after a pixel
  int hidden_row_pad;    ///< after a row of the patch
  int min_blocks;        ///< per multiprocessor, for the register budget
};

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr int kThreads = 32 * kConfig.warps;
  static constexpr int kUnits = kConfig.chunk / kUnit;
  static constexpr int kPatchH = (kConfig.tile_h - 1) * kConfig.stride + 3;
  static constexpr int kPatchW = (kConfig.tile_w - 1) * kConfig.stride + 3;
  static constexpr int kPatchPixels = kPatchH * kPatchW;
  // With the rows beyond the patch that expand reads, and does not store.
  static constexpr int kExpandRows = kConfig.expand ? round_up(kPatchPixels, 16 * kConfig.expand_rows) : 0;
  static constexpr int kOutPixels = kConfig.tile_h * kConfig.tile_w;
  // A pixel of the patch: its channels, then 1, or 0 outside the image. An odd number of 16 bytes keeps 8
  // neighbouring pixels in different banks; so it does for pixels of the filtered tensor.
  static constexpr int kPatchStride = kConfig.c_in + 4;
  static constexpr int kHiddenPixel = kConfig.chunk + kConfig.hidden_pixel_pad;
  static constexpr int kHiddenRow = kPatchW * kHiddenPixel + kConfig.hidden_row_pad;
  static constexpr int kFilteredStride = kConfig.chunk + 4;
  static constexpr int kExpandFloats = expand_floats(kConfig.expand, kConfig.c_in);  // of a unit
  static constexpr int kUnitFloats = front_floats(kConfig.expand, kConfig.c_in);
  static constexpr int kFrontFloats = kUnits * kUnitFloats;
  static constexpr int kProjectFloats = kConfig.chunk * kConfig.c_out;
  static constexpr int kStripsY = kConfig.tile_h / kConfig.strip_h;
  static constexpr int kStrips = kStripsY * (kConfig.tile_w / kConfig.strip_w);
  static constexpr int kStripItems = kStrips * (kConfig.chunk / kConfig.strip_c);

  // Offsets in shared memory, in floats.
  static constexpr int kBiasAt = 0;
  static constexpr int kFrontAt = kConfig.c_out;
  static constexpr int kProjectAt = kFrontAt + (kConfig.one_chunk ? 1 : 2) * kFrontFloats;
  static constexpr int kPatchAt = kProjectAt + kProjectFloats;
  static constexpr int kHiddenAt = kPatchAt + kExpandRows * kPatchStride;
  static constexpr int kHiddenFloats = kPatchH * kHiddenRow;
  // With the rows beyond the tile that project reads, and does not store.
  static constexpr int kFilteredFloats = kConfig.project_m * kConfig.project_rows * 8 * kFilteredStride;
  static constexpr int kFilteredAt = kConfig.in_place ? kHiddenAt : kHiddenAt + kHiddenFloats;
  static constexpr int kPartialFloats = kConfig.project_k > 1 ? kConfig.project_k* kOutPixels* kConfig.c_out : 0;
  static constexpr int max(int a, int b) { return a > b ? a : b; }
  static constexpr int kFloats =
      max(max(kFilteredAt + kFilteredFloats, kHiddenAt + kHiddenFloats), kHiddenAt + kPartialFloats);
  static constexpr int kSharedBytes = kFloats * 4;

  static_assert(kConfig.chunk % kUnit == 0 && kConfig.c_in % 4 == 0 && kConfig.c_out % 8 == 0);
  static_assert(kConfig.tile_h % kConfig.strip_h == 0 && kConfig.tile_w % kConfig.strip_w == 0);
  static_assert(kStripItems <= kThreads, "one strip a thread");
  static_assert(kConfig.project_m * kConfig.project_n * kConfig.project_k <= kConfig.warps);
  static_assert(kConfig.expand || kConfig.c_in == kConfig.chunk);
};

}  // namespace mobicuda::kernels::inverted_simt
