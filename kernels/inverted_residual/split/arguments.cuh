#pragma once

#include "kernels/common/fast_division.cuh"
#include "kernels/common/hardware_limits.h"
#include "kernels/common/std.h"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_split {

inline constexpr int kTaps = 9;
inline constexpr int kUnit = 16;    // hidden channels whose weights and values lie together
inline constexpr int kRows = 16;    // of a tile of mma
inline constexpr int kColumns = 8;  // of it
inline constexpr int kFactors = 4;  // at the start of the packed weights: of x, of the filtered values, two of nobody
inline constexpr int kFragment = 128;  // words of a tile's lanes, 16 bytes each

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
  int c_in, c_hidden, c_out;  ///< multiples of 8
  int chunk;                  ///< hidden channels at once, a multiple of 16
  int warps;
  int expand_n;                   ///< warps side by side in hidden channels; the others share the pixels
  int strip_h, strip_w, strip_c;  ///< depthwise outputs of a thread; the last strip of a row or column of strips ends
                                  ///< with the tile, and has some outputs in common with its neighbour
  int project_n;                  ///< warps side by side in output channels
  int min_blocks;                 ///< per multiprocessor, for the register budget
};

/// What follows from it; floats where no other unit is told.
struct Sizes {
  int threads;
  int units;       ///< of a chunk
  int all_hidden;  ///< channels, and zeros behind up to whole units
  int patch_h, patch_w, patch_pixels;
  int expand_m;      ///< warps
  int expand_tiles;  ///< of 16 pixels, of a warp
  int hidden_row, hidden_plane;
  int strips_y, strips_x, strips;
  int slots;  ///< strips, and some that nobody has: 8, or a multiple of 16
  int strip_items;
  int row_tiles;                      ///< of 16 rows of the filtered tensor
  int project_m;                      ///< warps
  int project_rows, project_columns;  ///< tiles of a warp
  int unit_floats, front_floats, project_floats;
  // Offsets in shared memory: factors, bias and scales of project | fronts of one or two chunks | project of a chunk |
  // hidden tensor | filtered tensor.
  int bias_at, scale_at, front_at, project_at, hidden_at, filtered_at;
  int floats;
};

/// Floats behind a row of the hidden tensor, so that the two strips that a half-warp reads, 64 bytes of either, are in
/// different banks.
constexpr int row_pad(const Config& c, int patch_w, int strips_y) {
  constexpr int kBanks = 32;
  if (strips_y == 1) return 0;
  const int rows = std::min(c.strip_h, c.tile_h - c.strip_h) * c.stride;
  for (int pad = 0; pad < kBanks; pad += 4) {
    if (rows * (patch_w * kUnit + pad) % kBanks == kBanks / 2) return pad;
  }
  return 0;
}

constexpr Sizes sizes_of(const Config& c) {
  Sizes s{};
  s.threads = 32 * c.warps;
  s.units = c.chunk / kUnit;
  s.all_hidden = round_up(c.c_hidden, kUnit);
  s.patch_h = (c.tile_h - 1) * c.stride + 3;
  s.patch_w = (c.tile_w - 1) * c.stride + 3;
  s.patch_pixels = s.patch_h * s.patch_w;
  s.expand_m = c.warps / c.expand_n;
  s.expand_tiles = ceil_div(s.patch_pixels, kRows * s.expand_m);
  s.strips_y = ceil_div(c.tile_h, c.strip_h);
  s.strips_x = ceil_div(c.tile_w, c.strip_w);
  s.strips = s.strips_y * s.strips_x;
  s.slots = s.strips <= kRows / 2 ? kRows / 2 : round_up(s.strips, kRows);
  s.strip_items = s.strips * (c.chunk / c.strip_c);
  s.hidden_row = s.patch_w * kUnit + row_pad(c, s.patch_w, s.strips_y);
  s.hidden_plane = s.patch_h * s.hidden_row;
  s.row_tiles = ceil_div(c.strip_h * c.strip_w * s.slots, kRows);
  s.project_m = c.warps / c.project_n;
  s.project_rows = ceil_div(s.row_tiles, s.project_m);
  s.project_columns = c.c_out / kColumns / c.project_n;
  s.unit_floats = (c.c_in + kTaps + 3) * kUnit;
  s.front_floats = s.units * s.unit_floats;
  s.project_floats = c.chunk * c.c_out;
  s.bias_at = kFactors;
  s.scale_at = s.bias_at + c.c_out;
  s.front_at = s.scale_at + c.c_out;
  s.project_at = s.front_at + (c.chunk == s.all_hidden ? 1 : 2) * s.front_floats;
  s.hidden_at = s.project_at + s.project_floats;
  s.filtered_at = s.hidden_at + s.units * s.hidden_plane;
  s.floats = s.filtered_at + s.row_tiles * s.units * 2 * kFragment;
  return s;
}

/// Whether the kernel can be compiled for it. Bounds of the values keep the sizes ints.
constexpr bool is_valid(const Config& c) {
  constexpr int kMostTile = 32;  // rows or columns
  constexpr int kMostWarps = 32;
  constexpr int kMostOutputs = 128;  // of a thread, each in a register
  constexpr int kMostChannels = 8192;
  constexpr int kMostFloats = static_cast<int>(limits_of(90).shared_bytes_per_block / sizeof(float));
  for (const int value : {c.tile_h, c.tile_w, c.c_in, c.c_hidden, c.c_out, c.chunk, c.warps, c.expand_n, c.strip_h,
                          c.strip_w, c.project_n, c.min_blocks}) {
    if (value < 1 || value > kMostChannels) return false;
  }
  if (c.stride < 1 || c.stride > 2 || c.tile_h > kMostTile || c.tile_w > kMostTile || c.warps > kMostWarps) {
    return false;
  }
  if (c.strip_h > c.tile_h || c.strip_w > c.tile_w || (c.strip_c != 2 && c.strip_c != 4)) return false;
  if (c.strip_h * c.strip_w * c.strip_c > kMostOutputs) return false;
  if (c.c_in % kColumns != 0 || c.c_hidden % kColumns != 0 || c.c_out % kColumns != 0) return false;
  if (c.chunk % kUnit != 0 || round_up(c.c_hidden, kUnit) % c.chunk != 0) return false;
  if (c.warps % c.expand_n != 0 || c.chunk / kUnit % c.expand_n != 0 || c.warps % c.project_n != 0) return false;
  const int columns = c.c_out / kColumns;
  if (columns % c.project_n != 0 || (c.project_n > 1 && columns / c.project_n % 2 != 0)) return false;
  const Sizes s = sizes_of(c);
  constexpr int kWordsOfStep = 8;  // of x, in registers: 16 channels of two pixels
  return s.strip_items <= s.threads && c.min_blocks * c.warps <= 64 && s.floats <= kMostFloats &&
         s.expand_tiles * ceil_div(c.c_in, kUnit) * kWordsOfStep <= kMostOutputs &&
         s.project_rows * s.project_columns * 4 <= kMostOutputs;
}

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static constexpr bool kOneChunk = kConfig.chunk == kSizes.all_hidden;
  static constexpr int kThreads = kSizes.threads;
  static_assert(is_valid(kConfig));
};

}  // namespace mobicuda::kernels::inverted_split
