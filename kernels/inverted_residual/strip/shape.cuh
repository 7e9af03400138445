// What host and device agree on in the strip inverted residual kernel: shapes, layouts, arguments.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/fast_division.cuh"
#include "kernels/common/hardware_limits.h"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_strip {

struct Config {
  int c_in, c_hidden, c_out;  ///< c_in == c_hidden: without expand
  int stride;
  int rows;    ///< of outputs, of a warp
  int warps;   ///< of a block of threads
  int blocks;  ///< of a multiprocessor
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

template <Config kConfig>
struct Shape {
  static constexpr int kCIn = kConfig.c_in;
  static constexpr int kCOut = kConfig.c_out;
  static constexpr int kStride = kConfig.stride;
  static constexpr int kRows = kConfig.rows;
  static constexpr int kWarps = kConfig.warps;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kBlocks = kConfig.blocks;
  static constexpr bool kExpands = kConfig.c_hidden != kCIn;
  static constexpr int kUnits = ceil_div(kConfig.c_hidden, kUnit);  // of the last one 8 channels may be zeros
  static constexpr int kResults = kCOut / 8;
  static constexpr bool kMayAdd = kStride == 1 && kCIn == kCOut;

  // Column p of a strip's patch is of class p % kClasses and of row p / kClasses of the instructions' operands.
  static constexpr int kClasses = 2 * kStride;
  static constexpr int kPatchW = 8 * kClasses;
  static constexpr int kPatchH = (kRows - 1) * kStride + 3;

  // Words of a lane in a unit's operands. Pairs of words that an instruction takes stand at even places, if need be
  // twice: the compiler would copy them for every instruction.
  static constexpr int kExpandWords = kExpands ? 2 * kCIn / 8 : 0;  // (word / 2, group, word % 2)
  static constexpr int kProjectWords = 2 * kResults;                // (result, group)
  static constexpr int kTapWords = kStride == 1 ? 24 : 18;
  // In bytes. Words of all lanes stand by 16 bytes of each lane, the last two by 8; biases, which are the same in all
  // rows of the operands, by 16 of the lanes 0 to 3; taps by 16 of the lanes on the diagonals, others read zeros.
  static constexpr int kTapVectors = ceil_div(kTapWords, 4);
  static constexpr int kExpandAt = 256;  // behind the biases: expand's of both groups, depthwise's of both
  static constexpr int kProjectAt = kExpandAt + kExpandWords * 128;
  static constexpr int kTapsAt = kProjectAt + kProjectWords * 128;
  static constexpr int kUnitBytes = kTapsAt + kTapVectors * 128;
  static constexpr int kHeadVectors = ceil_div(2 * kResults, 4);  // the projection's biases
  static constexpr int kZerosAt = kHeadVectors * 64;
  static constexpr int kUnitsAt = kZerosAt + kTapVectors * 128;
  static constexpr int kPackedBytes = kUnitsAt + kUnits * kUnitBytes;

  __host__ __device__ static constexpr int expand_word(int group, int word) {
    const int first = word / 2 * 4;
    return kCIn / 8 - word / 2 * 2 == 1 ? first + group : first + group * 2 + word % 2;
  }
  __host__ __device__ static constexpr bool has_tap(int kx, bool beside) {
    return kStride == 1 ? (beside ? kx < 2 : kx > 0) : beside == (kx == 0);
  }
  /// Tap kx of row ky beside tap kx + 1 if `beside`, at an even word, or beside tap kx - 1. With stride 1 taps 0 and 1,
  /// 1 and 2; with stride 2 taps 0 and 1, then tap 2 by itself.
  __host__ __device__ static constexpr int tap_word(int group, int ky, int kx, bool beside) {
    if (kStride == 1) return group * 12 + ky * 4 + (beside ? kx * 2 : kx * 2 - 1);
    return kx == 2 ? 12 + group * 3 + ky : group * 6 + ky * 2 + kx;
  }

  // The patch in shared memory: (strip of the pair, row, class, 8, channels).
  static constexpr int kPixelChunks = kCIn / 8;
  static constexpr int kPixelBytes = kCIn * 2;
  static constexpr int kRowBytes = kPatchW * kPixelBytes;
  static constexpr int kStripBytes = kPatchH * kRowBytes;
  static constexpr int kPatchBytes = 2 * kStripBytes;
  static constexpr int kMostShared = shared_bytes_of_each(90, kBlocks);
  static constexpr int kBuffers = kPackedBytes + 2 * kWarps * kPatchBytes <= kMostShared ? 2 : 1;
  static constexpr int kSharedBytes = kPackedBytes + kBuffers * kWarps * kPatchBytes;

  static_assert(kCIn == 16 || kCIn == 24 || kCIn == 32);
  static_assert(kStride == 1 || kStride == 2);
  static_assert(kExpands || (kCIn == kUnit && kStride == 1));
  static_assert(kConfig.c_hidden % 8 == 0 && kCOut % 8 == 0);
  static_assert(kSharedBytes <= kMostShared);

  /// Chunk `chunk` of 8 channels of the `row`th pixel of a class, so that 8 pixels' are in different banks.
  __host__ __device__ static constexpr int chunk_offset(int row, int chunk) {
    const int swizzle = kCIn == 16 ? row / 4 % 2 : kCIn == 32 ? row / 2 % 4 : 0;
    return row * kPixelBytes + (chunk ^ swizzle) * 16;
  }
};

}  // namespace mobicuda::kernels::inverted_strip
