// What host and device agree on in the int8 inverted residual kernel: shapes, layouts, arguments.
#pragma once

#include "kernels/common/fast_division.cuh"
#include "kernels/common/quantization.h"
#include "kernels/common/requantize.cuh"
#include "kernels/common/types.h"

namespace mobicuda::kernels::int8_block {

inline constexpr int kSlice = 32;      // hidden channels that a warp takes through the block at once
inline constexpr int kGroup = 8;       // neighbouring channels of a hidden pixel that lie together
inline constexpr int kTile = 16;       // pixels of an mma's rows
inline constexpr int kNoSlot = 65535;  // of a pixel of x
inline constexpr int kStages = 3;      // slices of weights in shared memory
inline constexpr int kFlagBytes = 16;
inline constexpr int kToBytes = kSlice * 16;
inline constexpr int kTapsPitch = 16;  // bytes of a channel's taps: three of each row of the window, and a zero

/// The compile-time side of a kernel.
struct Config {
  int stride;
  int c_in, c_hidden, c_out;
  int tile_h, tile_w;  ///< of outputs
  int warps;           ///< of a block
  int parts;           ///< warps that share the same output pixels, each with its own hidden channels
  int min_blocks;      ///< per SM, for the register budget
};

/// How sums of hidden values become bytes. Packing finds out what is right for all inputs: README.md.
enum class Rounding : std::uint32_t {
  Any,
  Pairs,  ///< small sums, and the zero point is the lower end of the range
  Bytes,  ///< and the upper end 255 above
};

/// Packed weights are kFlagBytes, of which the first word is the Rounding, the projection's biases and multipliers, then
/// slices; offsets in bytes within a slice. Arguments that make bytes of sums (kToBytes) are
///   (n-tile or group, lane % 4, the result's two rows, two channels) int32, what sums begin at: twice the same, as an
///     mma takes them;
///   (lane % 4, 8 channels) float, multipliers;
///   (lane % 4, 8 channels) float, multipliers times -2^23.
struct SliceLayout {
  int of_expand;     ///< arguments, of 8 neighbouring channels; before them expand: (32 of c_in, two n-tiles, lane, 16
                     ///< bytes)
  int taps;          ///< (channel, row of the window, three taps and a zero), and 4 zeros
  int of_depthwise;  ///< arguments, of two neighbouring channels of each group
  int project;       ///< (two n-tiles, lane, 16 bytes)
  int bytes;
};

/// What follows from a Config.
struct Sizes {
  int threads;
  int in_pitch, out_pitch;  ///< bytes of a pixel of x and y
  int k_steps;              ///< of 32 input channels
  int n_groups;             ///< of 32 output channels
  int chunks;               ///< of parts * kSlice hidden channels

  int patch_h, patch_w;
  int row_pitch;    ///< hidden pixels from a row to the next, an even number
  int slots;        ///< hidden pixels of a patch
  int plane_bytes;  ///< of a group of channels of all hidden pixels
  int shifted;      ///< offset of the second copy of a slice's hidden pixels: with stride 1
  int pixel_warps;  ///< warps / parts
  int columns;      ///< of a tile of outputs with those beside it that fill rows of an mma
  int out_tiles, my_out_tiles;

  SliceLayout slice;
  int head_bytes, packed_bytes;  ///< of the weights before the slices; of all

  // Shared memory, in bytes: x | slots of its pixels | stages of weights | hidden pixels, twice. The sums that warps
  // exchange in the end take the place of the last two.
  int x_pitch, x_bytes, slots_bytes, stage_bytes, hidden_slice_bytes, hidden_bytes, sums_bytes, shared_bytes;
};

constexpr Sizes sizes_of(const Config& c) {
  Sizes s{};
  s.threads = c.warps * 32;
  s.in_pitch = round_up(c.c_in, kChannelStep);
  s.out_pitch = round_up(c.c_out, kChannelStep);
  s.k_steps = ceil_div(c.c_in, kSlice);
  s.n_groups = ceil_div(c.c_out, kSlice);
  s.chunks = ceil_div(c.c_hidden, c.parts * kSlice);

  s.patch_h = (c.tile_h - 1) * c.stride + 3;
  s.patch_w = (c.tile_w - 1) * c.stride + 3;
  s.row_pitch = round_up(s.patch_w, 2);
  s.slots = s.patch_h * s.row_pitch;
  // A row of an ldmatrix is two neighbouring pixels of a group of channels, and a window's row two of these, of which
  // the last pixel meets a zero. Rows are 16 bytes and aligned to that: they begin at even pixels, and in the second
  // copy, 8 bytes off, at odd ones. Four planes store to different banks, and so do both copies load.
  constexpr int kBanks = 128;
  constexpr int kBeyond = 2;
  s.plane_bytes = round_up((s.slots + kBeyond) * kGroup - kBanks / 4, kBanks) + kBanks / 4;
  const int copy_bytes = kSlice / kGroup * s.plane_bytes;
  s.shifted = copy_bytes + kBanks / 2 - kGroup;
  s.pixel_warps = c.warps / c.parts;
  s.columns = round_up(c.tile_w, 8);
  s.out_tiles = ceil_div(c.tile_h * s.columns, kTile);
  s.my_out_tiles = ceil_div(s.out_tiles, s.pixel_warps);

  const int at = s.k_steps * kSlice * kSlice;
  s.slice.of_expand = at;
  s.slice.taps = at + kToBytes;
  s.slice.of_depthwise = s.slice.taps + kSlice * kTapsPitch;
  s.slice.project = s.slice.of_depthwise + kToBytes;
  s.slice.bytes = s.slice.project + s.n_groups * kSlice * kSlice;
  s.head_bytes = kFlagBytes + s.n_groups * kSlice * 8;
  s.packed_bytes = s.head_bytes + s.chunks * c.parts * s.slice.bytes;

  s.x_pitch = s.k_steps * kSlice + 16;
  const int x_pixels = round_up(s.patch_h * s.patch_w, kTile);
  s.x_bytes = x_pixels * s.x_pitch;
  s.slots_bytes = round_up(x_pixels * 2, 16);
  s.stage_bytes = c.parts * s.slice.bytes;
  s.hidden_slice_bytes = c.stride == 1 ? round_up(s.shifted + copy_bytes, kBanks) : copy_bytes;
  s.hidden_bytes = 2 * c.parts * s.hidden_slice_bytes;
  s.sums_bytes = c.parts > 1 ? s.pixel_warps * s.my_out_tiles * s.n_groups * (c.parts - 1) * kTile * kSlice * 4 : 0;
  s.shared_bytes = s.x_bytes + s.slots_bytes + std::max(kStages * s.stage_bytes + s.hidden_bytes, s.sums_bytes);
  return s;
}

/// Whether the kernel can be compiled for it and is right. Shared memory is a matter of the GPU: supports().
constexpr bool is_valid(const Config& c) {
  constexpr int kMostWarps = 32;
  constexpr int kMostThreadsOfSm = 2048;
  constexpr int kMostPixels = 4096;
  const bool extents = (c.stride == 1 || c.stride == 2) && c.tile_h > 0 && c.tile_w > 0 && c.tile_h <= kMostPixels &&
                       c.tile_w <= kMostPixels && c.tile_h * c.tile_w <= kMostPixels && c.min_blocks > 0;
  const bool work = c.warps > 0 && c.warps <= kMostWarps && c.parts > 0 && c.warps % c.parts == 0 &&
                    c.warps * 32 * c.min_blocks <= kMostThreadsOfSm;
  const bool channels =
      c.c_in > 0 && c.c_in % 8 == 0 && c.c_hidden > 0 && c.c_hidden % 8 == 0 && c.c_out > 0 && c.c_out % 8 == 0;
  if (!extents || !work || !channels) return false;
  // Sums of a lane are in registers; this bounds the products in sizes_of(), too.
  constexpr int kMostSums = 512;
  const int tiles = ceil_div(ceil_div(c.tile_h * round_up(c.tile_w, 8), kTile), c.warps / c.parts);
  return tiles * ceil_div(c.c_out, kSlice) * 16 <= kMostSums && sizes_of(c).slots < kNoSlot;
}

/// Hidden values are stored as uint8, less the lower end of their range: 0 is `low`.
struct Unsigned {
  std::uint32_t add;   ///< zero_point - low, of two 16 bits
  std::uint32_t most;  ///< high - low, likewise
};

constexpr std::uint32_t two_values(int value) { return 0x10001U * (static_cast<std::uint32_t>(value) & 0xFFFFU); }
constexpr Unsigned unsigned_of(const ByteRange& range) {
  return {two_values(range.zero_point - range.low), two_values(range.high - range.low)};
}

struct Arguments {
  int h, w, out_h, out_w;
  int pad_top, pad_left;
  FastDivision tiles_x, tiles_y;
  bool residual;
  std::uint32_t padding;  ///< four times the hidden tensor's zero point, as it is stored
  Unsigned hidden, filtered;
  Requantize output;
  AddBytes sum;
};

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static_assert(is_valid(kConfig));
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static constexpr SliceLayout kLayout = kSizes.slice;
  static constexpr int kStride = kConfig.stride;
  static constexpr int kTileH = kConfig.tile_h;
  static constexpr int kTileW = kConfig.tile_w;
  static constexpr int kColumns = kSizes.columns;
  static constexpr int kWarps = kConfig.warps;
  static constexpr int kParts = kConfig.parts;
  static constexpr int kThreads = kSizes.threads;
  static constexpr int kInPitch = kSizes.in_pitch;
  static constexpr int kOutPitch = kSizes.out_pitch;
  static constexpr int kStepsK = kSizes.k_steps;
  static constexpr int kGroups = kSizes.n_groups;
  static constexpr int kChunks = kSizes.chunks;
  static constexpr int kPatchH = kSizes.patch_h;
  static constexpr int kPatchW = kSizes.patch_w;
  static constexpr int kRowPitch = kSizes.row_pitch;
  static constexpr int kPlaneBytes = kSizes.plane_bytes;
  static constexpr int kPixelWarps = kSizes.pixel_warps;
  static constexpr int kMyOutTiles = kSizes.my_out_tiles;
  static constexpr bool kMayAdd = kStride == 1 && kConfig.c_in == kConfig.c_out;

  static constexpr int kSlotsAt = kSizes.x_bytes;
  static constexpr int kStagesAt = kSlotsAt + kSizes.slots_bytes;
  static constexpr int kHiddenAt = kStagesAt + kStages * kSizes.stage_bytes;
};

}  // namespace mobicuda::kernels::int8_block
