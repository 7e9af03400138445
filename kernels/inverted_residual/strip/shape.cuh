// What host and device agree on in the strip inverted residual kernel: shapes, layouts, arguments.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/fast_division.cuh"
#include "kernels/common/hardware_limits.h"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_strip {

/// The compile-time side of a variant.
struct Config {
  int c_in, c_hidden, c_out;  ///< multiples of 8; c_in == c_hidden: without expand
  int stride;
  int rows;            ///< of outputs, of a warp
  int warps;           ///< of a block of threads
  int blocks;          ///< of a multiprocessor
  int hard_swish = 0;  ///< 1: e and d are hard-swished, 0: clipped
};

struct Arguments {
  int h, w, out_h, out_w;
  int pad_top, pad_left;
  std::uint32_t strips;  ///< of all images
  std::uint32_t pairs;   ///< of strips: what a warp takes at once
  FastDivision strips_x, strips_y;
  bool residual;
  __half2 expand_hi, depthwise_hi;  ///< the lower bounds are zero
  __half2 project_lo, project_hi;   ///< clipping what is rounded by rounded bounds is the same
};

inline constexpr int kUnit = 16;       // hidden channels at once
inline constexpr int kColumns = 14;    // of a strip's outputs
inline constexpr int kVector = 512;    // 16 bytes of each lane
inline constexpr int kRowVector = 64;  // 16 bytes of lanes 0 to 3
inline constexpr int kDiagonalVector = 128;
inline constexpr int kTaps = 9;

/// Channel of the output in column `column` of the `result`th result of 8: a lane has neighbouring ones of 32, 16 or 8.
__host__ __device__ constexpr int output_channel(int c_out, int result, int column) {
  const int first = result / 4 * 32;
  const int at_once = c_out - first >= 32 ? 4 : result % 4 < 2 && c_out - first >= 16 ? 2 : 1;
  return first + result % 4 / at_once * 8 * at_once + column / 2 * 2 * at_once + result % at_once * 2 + column % 2;
}

inline constexpr int kMostInput = 64;  // channels: a row of x is as many registers at stride 2
inline constexpr int kMostRows = 7;
inline constexpr int kMostSums = 128;  // registers of a lane

/// Word `word` of a lane for expand's 8 channels `group` of a unit. Two words of an instruction stand side by side, the
/// last 8 input channels of an odd number of 8 in single words.
__host__ __device__ constexpr int expand_word(int c_in, int group, int word) {
  const int first = word / 2 * 4;
  return c_in / 8 - word / 2 * 2 == 1 ? first + group : first + group * 2 + word % 2;
}

/// Whether tap kx stands beside tap kx + 1 if `beside`, or beside tap kx - 1. With stride 1 taps 0 and 1, 1 and 2; with
/// stride 2 taps 0 and 1, then tap 2 by itself.
__host__ __device__ constexpr bool has_tap(int stride, int kx, bool beside) {
  return stride == 1 ? (beside ? kx < 2 : kx > 0) : beside == (kx == 0);
}
/// The word of tap kx of row ky; beside tap kx + 1 it is an even one.
__host__ __device__ constexpr int tap_word(int stride, int group, int ky, int kx, bool beside) {
  if (stride == 1) return group * 12 + ky * 4 + (beside ? kx * 2 : kx * 2 - 1);
  return kx == 2 ? 12 + group * 3 + ky : group * 6 + ky * 2 + kx;
}

/// What follows from a Config.
struct Sizes {
  int threads;
  bool expands;
  int units;    ///< of hidden channels; of the last one 8 may be zeros
  int results;  ///< of project, of 8 channels
  // Column p of a strip's patch is of class p % classes and of row p / classes of the instructions' operands.
  int classes;
  int patch_w, patch_h;

  // Words of a lane in a unit's operands. Pairs of words that an instruction takes stand at even places, if need be
  // twice: the compiler would copy them for every instruction.
  int expand_words;   ///< (word / 2, group, word % 2)
  int project_words;  ///< (result, group)
  // Packed weights, in bytes: the projection's biases | zeros | units, each of them biases (expand's of both groups,
  // depthwise's of both) | expand | project | taps. Words of all lanes stand by 16 bytes of each lane, the last two by
  // 8; biases, which are the same in all rows of the operands, by 16 of the lanes 0 to 3; taps by 16 of the lanes on
  // the diagonals, others read zeros.
  int tap_vectors;
  int project_at, taps_at, unit_bytes;
  int head_vectors;
  int zeros_at, units_at, packed_bytes;

  // The patch in shared memory, in bytes: (strip of the pair, row, class, 8, channels).
  int pixel_bytes, class_bytes, row_bytes, strip_bytes, patch_bytes;
  int buffers;  ///< for patches of each warp: two, if they fit
  int shared_bytes;
};

inline constexpr int kExpandAt = 4 * kRowVector;  // of a unit, behind the biases

/// Shared memory that each block may have.
constexpr int most_shared_bytes(const Config& c) { return shared_bytes_of_each(90, c.blocks); }

constexpr Sizes sizes_of(const Config& c) {
  Sizes s{};
  s.threads = c.warps * 32;
  s.expands = c.c_hidden != c.c_in;
  s.units = ceil_div(c.c_hidden, kUnit);
  s.results = c.c_out / 8;
  s.classes = 2 * c.stride;
  s.patch_w = 8 * s.classes;
  s.patch_h = (c.rows - 1) * c.stride + 3;
  s.expand_words = s.expands ? 2 * c.c_in / 8 : 0;
  s.project_words = 2 * s.results;
  s.tap_vectors = ceil_div(c.stride == 1 ? 24 : 18, 4);
  s.project_at = kExpandAt + s.expand_words * 128;
  s.taps_at = s.project_at + s.project_words * 128;
  s.unit_bytes = s.taps_at + s.tap_vectors * kDiagonalVector;
  s.head_vectors = ceil_div(2 * s.results, 4);
  s.zeros_at = s.head_vectors * kRowVector;
  s.units_at = s.zeros_at + s.tap_vectors * kDiagonalVector;
  s.packed_bytes = s.units_at + s.units * s.unit_bytes;
  s.pixel_bytes = c.c_in * 2;
  // Eight lanes that copy neighbouring pixels write to four classes, whose banks are the same unless they lie apart.
  // Variants of 16 to 32 channels were measured without; of 64 channels eight lanes copy one pixel.
  const bool apart = c.stride == 2 && (c.c_in == 8 || (c.c_in > 32 && c.c_in < 64));
  s.class_bytes = 8 * s.pixel_bytes + (apart ? 32 : 0);
  s.row_bytes = s.classes * s.class_bytes;
  s.strip_bytes = s.patch_h * s.row_bytes;
  s.patch_bytes = 2 * s.strip_bytes;
  s.buffers = s.packed_bytes + 2 * c.warps * s.patch_bytes <= most_shared_bytes(c) ? 2 : 1;
  s.shared_bytes = s.packed_bytes + s.buffers * c.warps * s.patch_bytes;
  return s;
}

/// Whether the kernel can be compiled for it, and its blocks fit on an SM.
constexpr bool is_valid(const Config& c) {
  constexpr int kMostWarps = 16;  // of an SM: the compiler has 128 registers at least
  const int channels[] = {c.c_in, c.c_hidden, c.c_out};
  for (const int count : channels) {
    if (count <= 0 || count % 8 != 0) return false;
  }
  if (c.stride != 1 && c.stride != 2) return false;
  if (c.hard_swish != 0 && c.hard_swish != 1) return false;
  if (c.rows <= 0 || c.rows > kMostRows || c.c_out > kMostSums / c.rows || c.c_in > kMostInput) return false;
  if (c.warps <= 0 || c.blocks <= 0 || c.warps > kMostWarps / c.blocks) return false;
  if (c.c_hidden > most_shared_bytes(c)) return false;  // sizes are ints
  const Sizes s = sizes_of(c);
  return (s.expands || (c.c_in == kUnit && c.stride == 1)) && s.shared_bytes <= most_shared_bytes(c);
}

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr Sizes kSizes = sizes_of(kConfig);
  static constexpr int kCIn = kConfig.c_in;
  static constexpr int kCOut = kConfig.c_out;
  static constexpr int kStride = kConfig.stride;
  static constexpr int kRows = kConfig.rows;
  static constexpr int kWarps = kConfig.warps;
  static constexpr int kThreads = kSizes.threads;
  static constexpr int kBlocks = kConfig.blocks;
  static constexpr bool kExpands = kSizes.expands;
  static constexpr bool kHardSwish = kConfig.hard_swish == 1;
  static constexpr int kUnits = kSizes.units;
  static constexpr int kResults = kSizes.results;
  static constexpr bool kMayAdd = kStride == 1 && kCIn == kCOut;
  static constexpr int kClasses = kSizes.classes;
  static constexpr int kPatchW = kSizes.patch_w;
  static constexpr int kPatchH = kSizes.patch_h;
  static constexpr int kExpandWords = kSizes.expand_words;
  static constexpr int kProjectWords = kSizes.project_words;
  static constexpr int kTapVectors = kSizes.tap_vectors;
  static constexpr int kProjectAt = kSizes.project_at;
  static constexpr int kTapsAt = kSizes.taps_at;
  static constexpr int kUnitBytes = kSizes.unit_bytes;
  static constexpr int kHeadVectors = kSizes.head_vectors;
  static constexpr int kZerosAt = kSizes.zeros_at;
  static constexpr int kUnitsAt = kSizes.units_at;
  static constexpr int kPackedBytes = kSizes.packed_bytes;
  static constexpr int kPixelChunks = kCIn / 8;
  static constexpr int kPairs = kCIn / 16;             // of chunks: steps of 16 input channels
  static constexpr bool kOdd = kPixelChunks % 2 != 0;  // a step of 8 behind them
  static constexpr int kPixelBytes = kSizes.pixel_bytes;
  static constexpr int kClassBytes = kSizes.class_bytes;
  static constexpr int kRowBytes = kSizes.row_bytes;
  static constexpr int kStripBytes = kSizes.strip_bytes;
  static constexpr int kPatchBytes = kSizes.patch_bytes;
  static constexpr int kBuffers = kSizes.buffers;
  static constexpr int kSharedBytes = kSizes.shared_bytes;
  static_assert(is_valid(kConfig));

  /// The greatest power of two of chunks that a pixel is a multiple of: the pixels of so many rows share banks.
  static constexpr int kPixelLanes = kPixelChunks & -kPixelChunks;
  /// Chunk `chunk` of 8 channels of the `row`th pixel of a class, so that 8 pixels' are in different banks.
  __host__ __device__ static constexpr int chunk_offset(int row, int chunk) {
    const int swizzle = row / (8 / kPixelLanes) % kPixelLanes;
    return row * kPixelBytes + (chunk ^ swizzle) * 16;
  }
};

}  // namespace mobicuda::kernels::inverted_strip
