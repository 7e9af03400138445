// A tile of an inverted residual block in exact float: what is configured, and the sizes that follow from it. For
// inverted_residual's family simt and for stem_block, which both have simt_stages.cuh.
#pragma once

#include "kernels/common/fast_division.cuh"
#include "kernels/common/hardware_limits.h"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_simt {

inline constexpr int kTaps = 9;
inline constexpr int kExpandUnit = 16;    // hidden channels of a warp in expand
inline constexpr int kExpandColumns = 8;  // of a thread
inline constexpr int kExpandLanes = 16;   // of a warp, side by side in pixels
inline constexpr int kProjectLanesM = 8;  // of a warp, by pixels
inline constexpr int kProjectLanesN = 4;  // by output channels

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
  int stride;
  int tile_h, tile_w;
  int c_in, c_hidden, c_out;          ///< c_in and c_out are multiples of 4
  int chunk;                          ///< hidden channels at once; without expand all of them
  int warps;                          ///< with expand: a multiple of chunk / 16
  int expand_rows;                    ///< pixels of a thread in expand; 0: a block without expand
  int strip_h, strip_w, strip_c;      ///< depthwise outputs of a thread
  int project_rows, project_columns;  ///< outputs of a thread
  int project_m, project_k;           ///< warps by pixels; k: groups that share the sum over a chunk
  int in_place;                       ///< 1: the filtered tensor replaces the hidden one
  // Against bank conflicts, floats in the hidden tensor:
  int hidden_pixel_pad;  ///< after a pixel
  int hidden_row_pad;    ///< after a row of the patch
  int min_blocks;        ///< per multiprocessor, for the register budget
};

/// What follows from it; floats where no other unit is told.
struct Sizes {
  int threads;
  int unit;   ///< hidden channels whose weights lie together
  int units;  ///< of a chunk
  int patch_h, patch_w, patch_pixels;
  int out_pixels;
  // A pixel of the patch: its channels, then 1, or 0 outside the image. An odd number of 16 bytes keeps 8
  // neighbouring pixels in different banks; so it does for pixels of the filtered tensor.
  int patch_stride;
  int hidden_pixel, hidden_row, hidden_floats;
  int filtered_stride;
  int expand_floats;  ///< of a unit
  int unit_floats, front_floats;
  int project_n;        ///< warps by output channels
  int project_columns;  ///< of all warps: c_out and zeros behind
  int project_floats;   ///< of a chunk
  int strips_y, strips, strip_items;
  // Offsets in shared memory: project bias | fronts of one or two chunks | project of a chunk | patch | hidden tensor |
  // filtered tensor, or in place of the hidden one. Sums that groups of warps share replace both.
  int front_at, project_at, patch_at, hidden_at, filtered_at;
  int floats;
};

constexpr bool expands(const Config& c) { return c.expand_rows > 0; }
constexpr bool is_one_chunk(const Config& c) { return c.chunk == c.c_hidden; }

constexpr Sizes sizes_of(const Config& c) {
  Sizes s{};
  s.threads = 32 * c.warps;
  s.unit = c.chunk % kExpandUnit == 0 ? kExpandUnit : kExpandUnit / 2;
  s.units = c.chunk / s.unit;
  s.patch_h = (c.tile_h - 1) * c.stride + 3;
  s.patch_w = (c.tile_w - 1) * c.stride + 3;
  s.patch_pixels = s.patch_h * s.patch_w;
  s.out_pixels = c.tile_h * c.tile_w;
  s.patch_stride = c.c_in + 4;
  s.hidden_pixel = c.chunk + c.hidden_pixel_pad;
  s.hidden_row = s.patch_w * s.hidden_pixel + c.hidden_row_pad;
  s.hidden_floats = s.patch_h * s.hidden_row;
  s.filtered_stride = c.chunk + 4;
  s.expand_floats = expands(c) ? (c.c_in + 1) * s.unit : 0;
  s.unit_floats = s.expand_floats + (kTaps + 1) * s.unit;
  s.front_floats = s.units * s.unit_floats;
  s.project_n = ceil_div(c.c_out, kProjectLanesN * c.project_columns);
  s.project_columns = s.project_n * kProjectLanesN * c.project_columns;
  s.project_floats = c.chunk * s.project_columns;
  s.strips_y = c.tile_h / c.strip_h;
  s.strips = s.strips_y * (c.tile_w / c.strip_w);
  s.strip_items = s.strips * (c.chunk / c.strip_c);
  s.front_at = c.c_out;
  s.project_at = s.front_at + (is_one_chunk(c) ? 1 : 2) * s.front_floats;
  s.patch_at = s.project_at + s.project_floats;
  // With the rows beyond the patch that expand reads, and does not store.
  const int expand_rows = expands(c) ? round_up(s.patch_pixels, kExpandLanes * c.expand_rows) : 0;
  s.hidden_at = s.patch_at + expand_rows * s.patch_stride;
  s.filtered_at = s.hidden_at + (c.in_place == 1 ? 0 : s.hidden_floats);
  // With the rows beyond the tile that project reads, and does not store.
  const int filtered = c.project_m * c.project_rows * kProjectLanesM * s.filtered_stride;
  const int partial = c.project_k > 1 ? c.project_k * s.out_pixels * c.c_out : 0;
  s.floats = std::max(s.filtered_at + filtered, s.hidden_at + s.hidden_floats);
  s.floats = std::max(s.floats, s.hidden_at + partial);
  return s;
}

/// Whether the kernel can be compiled for it. Bounds of the values keep the sizes ints.
constexpr bool is_valid(const Config& c) {
  constexpr int kMostTile = 32;  // rows or columns
  constexpr int kMostWarps = 32;
  constexpr int kMostOutputs = 128;  // of a thread, each in a register
  constexpr int kMostPad = 64;
  constexpr int kMostChannels = 8192;
  constexpr int kMostFloats = static_cast<int>(limits_of(90).shared_bytes_per_block / sizeof(float));
  for (const int value : {c.tile_h, c.tile_w, c.c_in, c.c_hidden, c.c_out, c.chunk, c.warps, c.strip_h, c.strip_w,
                          c.project_rows, c.project_columns, c.project_m, c.project_k, c.min_blocks}) {
    if (value < 1 || value > kMostChannels) return false;
  }
  if (c.stride < 1 || c.stride > 2 || c.tile_h > kMostTile || c.tile_w > kMostTile || c.warps > kMostWarps) {
    return false;
  }
  if (c.strip_h > c.tile_h || c.strip_w > c.tile_w || c.tile_h % c.strip_h != 0 || c.tile_w % c.strip_w != 0) {
    return false;
  }
  if (c.strip_c != 1 && c.strip_c != 2 && c.strip_c != 4) return false;
  if (c.expand_rows < 0 || c.expand_rows > kMostOutputs / kExpandColumns ||
      c.strip_h * c.strip_w > kMostOutputs / c.strip_c || c.project_rows > kMostOutputs ||
      c.project_rows * c.project_columns > kMostOutputs) {
    return false;
  }
  if (c.in_place < 0 || c.in_place > 1 || c.hidden_pixel_pad < 0 || c.hidden_pixel_pad > kMostPad ||
      c.hidden_row_pad < 0 || c.hidden_row_pad > kMostPad || c.hidden_pixel_pad % 4 != 0 || c.hidden_row_pad % 4 != 0) {
    return false;
  }
  if (c.c_in % 4 != 0 || c.c_out % 4 != 0 || c.project_columns % 2 != 0 || c.c_hidden % c.chunk != 0) return false;
  if (c.project_m > c.warps || c.project_k > c.warps || c.chunk % (4 * c.project_k) != 0) return false;
  const Sizes s = sizes_of(c);
  if (expands(c) ? c.chunk % kExpandUnit != 0 || c.warps % s.units != 0
                 : c.chunk % s.unit != 0 || c.chunk != c.c_hidden || c.c_in != c.c_hidden) {
    return false;
  }
  // One strip a thread; a thread copies 4 channels of the patch.
  return s.strip_items <= s.threads && c.c_in / 4 <= s.threads && s.project_n <= c.warps &&
         c.project_m * s.project_n * c.project_k <= c.warps && c.min_blocks * c.warps <= 64 &&
         c.project_m * c.project_rows * kProjectLanesM >= s.out_pixels && s.floats <= kMostFloats;
}

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static constexpr bool kExpand = expands(kConfig);
  static constexpr bool kOneChunk = is_one_chunk(kConfig);
  static constexpr bool kInPlace = kConfig.in_place == 1;
  static constexpr int kThreads = kSizes.threads;
  static constexpr int kUnit = kSizes.unit;
  static constexpr int kUnits = kSizes.units;
  static constexpr int kPatchH = kSizes.patch_h;
  static constexpr int kPatchW = kSizes.patch_w;
  static constexpr int kPatchPixels = kSizes.patch_pixels;
  static constexpr int kOutPixels = kSizes.out_pixels;
  static constexpr int kPatchStride = kSizes.patch_stride;
  static constexpr int kHiddenPixel = kSizes.hidden_pixel;
  static constexpr int kHiddenRow = kSizes.hidden_row;
  static constexpr int kFilteredStride = kSizes.filtered_stride;
  static constexpr int kExpandFloats = kSizes.expand_floats;
  static constexpr int kUnitFloats = kSizes.unit_floats;
  static constexpr int kFrontFloats = kSizes.front_floats;
  static constexpr int kProjectN = kSizes.project_n;
  static constexpr int kProjectColumns = kSizes.project_columns;
  static constexpr int kProjectFloats = kSizes.project_floats;
  static constexpr int kStripsY = kSizes.strips_y;
  static constexpr int kStrips = kSizes.strips;
  static constexpr int kStripItems = kSizes.strip_items;
  static constexpr int kBiasAt = 0;
  static constexpr int kFrontAt = kSizes.front_at;
  static constexpr int kProjectAt = kSizes.project_at;
  static constexpr int kPatchAt = kSizes.patch_at;
  static constexpr int kHiddenAt = kSizes.hidden_at;
  static constexpr int kFilteredAt = kSizes.filtered_at;
  static_assert(is_valid(kConfig));
};

}  // namespace mobicuda::kernels::inverted_simt
