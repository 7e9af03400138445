// What host and device agree on in the int8 stem block: shapes, layouts, arguments.
#pragma once

#include "kernels/common/fast_division.cuh"
#include "kernels/common/types.h"
#include "kernels/common/unsigned_bytes.cuh"

namespace mobicuda::kernels::int8_stem {

inline constexpr int kSlice = 32;      // channels of s that are filtered and projected together
inline constexpr int kGroup = 8;       // neighbouring channels of a pixel of s that lie together
inline constexpr int kTile = 16;       // rows of an mma
inline constexpr int kPixelBytes = 4;  // of the image in shared memory
inline constexpr int kWindow = 3;
inline constexpr int kTaps = kWindow * kWindow;
inline constexpr int kTapsPitch = 16;  // bytes of a channel's taps: three of each row of the window, and a zero

/// Floats: NCHW. FloatPairs: the same where each pair of columns lies on 8 bytes. Words: pixels of four bytes.
enum class InputForm : std::uint8_t { Floats, FloatPairs, Words };

/// The compile-time side of a kernel.
struct Config {
  int c_stem, c_out;   ///< room: multiples of 32 and of 16
  int tile_h, tile_w;  ///< of outputs; columns are even
  int warps;           ///< of a block
  int min_blocks;      ///< per SM, for the register budget
};

/// How floats become bytes. Unless `divides`, x / scale, rounded, and x * factor + x * rest, each rounded, are the same
/// number once they are rounded to whole ones, for all x from `least` to `most`, beyond which all are clipped.
struct Quantizer {
  std::int32_t divides;
  float scale;
  float factor, rest;
  float least, most;
};

/// What packed weights begin with. Zeros, which kernels are timed with, are what is usual.
struct Head {
  std::int32_t large_sums;  ///< of some channel, see small_sums() of the launcher
  Quantizer quantizer;
  std::int32_t zero;
};
static_assert(sizeof(Head) == 32);

/// Packed weights: Head, beginnings and scales of the projection, then slices. Offsets in bytes; of a slice's parts
/// within a slice. A beginning is the four numbers that the sums of an mma begin at: two neighbouring channels, twice.
/// offset: rounded_clipped_sum()'s.
struct Layout {
  int project_begin;  ///< (lane % 4, n-tile)
  int project_scale;  ///< (lane % 4, neighbouring channels)
  int slices, slice_bytes;
  int bytes;
  // stem: two rows of the window (two n-tiles, lane, 16 bytes), the last one (lane, four n-tiles, 4 bytes).
  int stem_last;
  int stem_begin;               ///< (lane % 4, n-tile)
  int stem_scale, stem_offset;  ///< (lane % 4, 8 neighbouring channels)
  int taps;                     ///< (channel, row of the window, three taps and a zero), and 4 zeros
  int depthwise_begin;          ///< (group of 8 channels, lane % 4)
  int depthwise_scale;          ///< the same, two neighbouring channels' scales and their offsets
  int project;                  ///< (two n-tiles, lane, 16 bytes)
};

/// What follows from a Config.
struct Sizes {
  int threads;
  int slices;     ///< of kSlice channels of s
  int out_tiles;  ///< n-tiles of the projection

  // Of s: a row has whole mma's; what lies behind the columns that windows see is computed and not used.
  int hidden_h, hidden_w;
  int row_pitch;    ///< pixels of s from a row to the next, an even number
  int plane_bytes;  ///< of a group of channels of all pixels of s

  // Of the image.
  int patch_pairs;    ///< of columns
  int patch_rows;     ///< with those that make the warps' rows equally many
  int rows_together;  ///< of a warp, whose loads are under way together
  int patch_pitch;    ///< bytes from a row to the next
  int patch_shifted;  ///< offset of the second copy
  int patch_bytes;

  int pair_tiles, my_pair_tiles;  ///< 16 pairs of neighbouring outputs; those of a warp

  Layout layout;
  // Shared memory, in bytes: packed weights | image | s.
  int patch_at, hidden_at, hidden_bytes, shared_bytes;
};

constexpr Sizes sizes_of(const Config& c) {
  constexpr int kBanks = 128;
  Sizes s{};
  s.threads = c.warps * 32;
  s.slices = c.c_stem / kSlice;
  s.out_tiles = c.c_out / kGroup;

  s.hidden_h = c.tile_h + kWindow - 1;
  s.hidden_w = round_up(c.tile_w + kWindow - 1, kTile);
  // Eight pairs of pixels, 16 bytes each, are in different banks also where they go on in the next row.
  s.row_pitch = s.hidden_w;
  const int pairs = c.tile_w / 2;
  while (pairs % 8 != 0 && s.row_pitch / 2 % 8 != pairs % 8) s.row_pitch += 2;
  // Four planes are written to different banks, and an ldmatrix reads 2 pixels beyond the last.
  s.plane_bytes = round_up((s.hidden_h * s.row_pitch + 2) * kGroup - kBanks / 4, kBanks) + kBanks / 4;

  constexpr int kMostTogether = 5;
  const int my_rows = ceil_div(2 * s.hidden_h + 1, c.warps);
  const int passes = ceil_div(my_rows, kMostTogether);
  s.rows_together = ceil_div(my_rows, passes);
  s.patch_rows = passes * s.rows_together * c.warps;
  s.patch_pairs = c.tile_w + kWindow;
  // A row of an ldmatrix is four neighbouring pixels, from every second one on. Rows are aligned to 16 bytes: those of
  // even pixels of s lie so in the first copy, those of odd ones in the second, 8 bytes off and in other banks.
  s.patch_pitch = (s.hidden_w + 2) * 2 * kPixelBytes;
  s.patch_shifted = round_up(s.patch_rows * s.patch_pitch, kBanks) + kBanks / 2 - 2 * kPixelBytes;
  s.patch_bytes = s.patch_shifted + s.patch_rows * s.patch_pitch;

  s.pair_tiles = ceil_div(c.tile_h * pairs, kTile);
  s.my_pair_tiles = ceil_div(s.pair_tiles, c.warps);

  const int words = kSlice * 4;
  s.layout.project_begin = static_cast<int>(sizeof(Head));
  s.layout.project_scale = s.layout.project_begin + c.c_out * 8;
  s.layout.slices = s.layout.project_scale + c.c_out * 4;
  int at = 2 * 32 * 16;
  s.layout.stem_last = at;
  s.layout.stem_begin = at + 32 * 16;
  s.layout.stem_scale = s.layout.stem_begin + 2 * words;
  s.layout.stem_offset = s.layout.stem_scale + words;
  s.layout.taps = s.layout.stem_offset + words;
  s.layout.depthwise_begin = s.layout.taps + kSlice * kTapsPitch;
  s.layout.depthwise_scale = s.layout.depthwise_begin + 2 * words;
  s.layout.project = s.layout.depthwise_scale + 2 * words;
  s.layout.slice_bytes = s.layout.project + s.out_tiles / 2 * 32 * 16;
  s.layout.bytes = s.layout.slices + s.slices * s.layout.slice_bytes;

  s.patch_at = round_up(s.layout.bytes, kBanks);
  s.hidden_at = round_up(s.patch_at + s.patch_bytes, kBanks);
  s.hidden_bytes = s.slices * kSlice / kGroup * s.plane_bytes;
  s.shared_bytes = s.hidden_at + s.hidden_bytes;
  return s;
}

/// Whether the kernel can be compiled for it and is right. Shared memory is a matter of the GPU: supports().
constexpr bool is_valid(const Config& c) {
  constexpr int kMostPixels = 4096;
  constexpr int kMostThreadsOfSm = 2048;
  const bool tile = c.tile_h > 0 && c.tile_w > 0 && c.tile_w % 2 == 0 && c.tile_h <= kMostPixels &&
                    c.tile_w <= kMostPixels && c.tile_h * c.tile_w <= kMostPixels;
  const bool channels =
      c.c_stem > 0 && c.c_stem % kSlice == 0 && c.c_stem <= 2 * kSlice && (c.c_out == 16 || c.c_out == 32);
  if (!tile || !channels || c.warps <= 0 || c.warps > 32 || c.min_blocks <= 0) return false;
  const Sizes s = sizes_of(c);
  return c.warps * 32 * c.min_blocks <= kMostThreadsOfSm && c.warps % (s.hidden_w / kTile) == 0 && s.patch_pairs <= 32;
}

struct Arguments {
  int h, w, stem_h, stem_w, out_h, out_w;
  int stem_top, stem_left;    ///< padding of the depthwise: s's pixel for output (0, 0) is (-top, -left)
  int input_top, input_left;  ///< of both: the image's first for output (0, 0)
  FastDivision tiles_x, tiles_y;
  std::uint32_t row_bytes, plane_bytes;  ///< of the image, or of one of its channels
  std::uint32_t input_padding;           ///< four times the zero point, as it is stored
  std::uint32_t input_offset;            ///< of three bytes of rounded values
  float input_low, input_high;           ///< less the zero point
  std::uint32_t padding;                 ///< of s
  UnsignedPair hidden, filtered, output;
  std::uint32_t output_low;  ///< of two 16 bits
};

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static_assert(is_valid(kConfig));
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static constexpr Layout kLayout = kSizes.layout;
  static constexpr int kTileH = kConfig.tile_h;
  static constexpr int kTileW = kConfig.tile_w;
  static constexpr int kWarps = kConfig.warps;
  static constexpr int kThreads = kSizes.threads;
  static constexpr int kSlices = kSizes.slices;
  static constexpr int kOutTiles = kSizes.out_tiles;
  static constexpr int kRun = 2 * kOutTiles;  ///< neighbouring outputs of a lane
  static constexpr int kRowTiles = kSizes.hidden_w / kTile;
  static constexpr int kPlaneBytes = kSizes.plane_bytes;
  static constexpr int kPatchPitch = kSizes.patch_pitch;
  static constexpr int kMyPairTiles = kSizes.my_pair_tiles;
};

}  // namespace mobicuda::kernels::int8_stem
