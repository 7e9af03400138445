// What host and device agree on in the image inverted residual kernel: shapes, layouts, arguments.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/hardware_limits.h"
#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_image {

inline constexpr int kSize = 14;    // rows and columns of an image
inline constexpr int kOutSize = 7;  // where the stride is 2
inline constexpr int kUnit = 16;    // hidden channels: a step of project's sums
inline constexpr int kDepth = 2;    // chunks whose weights are in shared memory or on their way
inline constexpr int kFragmentBytes = 512;
inline constexpr int kRowsOfWarp = 2;
inline constexpr int kBands = 2;                  // of an image's rows; each expands also the row of x that both need
inline constexpr int kRows = kSize / kBands + 1;  // of a band
inline constexpr int kWarps = kRows / kRowsOfWarp;
inline constexpr int kThreads = kWarps * 32;
inline constexpr int kTiles = 2;      // of a band's outputs where the stride is 2: two rows of 8
inline constexpr int kMinBlocks = 2;  // of a multiprocessor
inline constexpr int kBarrierBytes = 8;

struct Config {
  int c_in, c_hidden, c_out;
  int stride;
  int blocks;  ///< of a cluster, which share the hidden channels of a band: 1 or 2, with stride 1 also 4 or 8
  int chunk;   ///< hidden channels between two barriers
};

struct Arguments {
  bool residual;
  int pad_top, pad_left;            ///< where the stride is 2, else 1
  __half2 expand_hi, depthwise_hi;  ///< the lower bounds are zero
  Clip project_clip;
};

// Weights are the projection's biases, expand of all units, then project and depthwise of all units. In bytes.
inline constexpr int kGroupBiasBytes = 8 * 4;
inline constexpr int kTapsBytes = 8 * 16;  // of 8 channels: the first 8 taps
inline constexpr int kLastTapBytes = 8 * 4;
/// Of a depthwise window, in the order of the instructions.
__host__ __device__ constexpr int tap(int i) { return i < 6 ? i % 3 * 3 + (i < 3 ? 1 : 0) : 2 + (i - 6) * 3; }
inline constexpr int kDepthwiseBytes = kTapsBytes + kLastTapBytes + kGroupBiasBytes;
constexpr int expand_unit_bytes(int c_in) { return c_in / 32 * 2 * kFragmentBytes + 2 * kGroupBiasBytes; }
constexpr int project_unit_bytes(int c_out) { return c_out / 16 * kFragmentBytes + 2 * kDepthwiseBytes; }

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr int kInBlocks = kConfig.c_in / 32;
  static constexpr int kOutBlocks = kConfig.c_out / 32;
  static constexpr int kStrips = kConfig.c_out / 8;
  static constexpr bool kMayAdd = kConfig.stride == 1 && kConfig.c_in == kConfig.c_out;
  static constexpr int kUnits = kConfig.chunk / kUnit;
  static constexpr int kChunks = kConfig.c_hidden / kConfig.chunk / kConfig.blocks;  // of a block
  static constexpr int kExpandUnitBytes = expand_unit_bytes(kConfig.c_in);
  static constexpr int kProjectUnitBytes = project_unit_bytes(kConfig.c_out);
  static constexpr int kExpandBytes = kUnits * kExpandUnitBytes;
  static constexpr int kProjectBytes = kUnits * kProjectUnitBytes;
  static constexpr int kPackedExpandAt = kConfig.c_out * 4;
  static constexpr int kPackedProjectAt = kPackedExpandAt + kConfig.blocks * kChunks * kExpandBytes;
  static constexpr int kPackedBytes = kPackedProjectAt + kConfig.blocks * kChunks * kProjectBytes;

  // A hidden pixel's 8 channels are a slot of 16 bytes; 16 slots a row: a zero, 14 pixels, a zero. The rows above and
  // below the band are zeros as well. With stride 2 even slots come before odd ones, as a window takes every other one.
  static constexpr int kRowBytes = 16 * 16;
  static constexpr int kGroupBytes = (kRows + 2) * kRowBytes;
  static constexpr int kPatchBytes = kUnits * 2 * kGroupBytes;
  static constexpr int kPatchTail = 384;  // what windows of pixels that do not exist read behind a patch

  __device__ static constexpr unsigned slot_of(unsigned column) {
    if constexpr (kConfig.stride == 1) return column + 1;
    return column == 15 ? 0 : (column + 1) % 2 * 8 + (column + 1) / 2;
  }

  // Sums that come from other warps. With stride 1 all from the other blocks of the cluster, in quads: 4 channels of a
  // pixel in each thread. With stride 2, in pieces, 8 channels of a pixel in each lane, first those from warps of the
  // same block.
  static constexpr int kQuadBytes = kThreads * 16;
  static constexpr int kQuads = kRowsOfWarp * 2 * kOutBlocks * 2 / kConfig.blocks;  // that a block finishes
  static constexpr int kPieceBytes = 2 * kFragmentBytes;
  static constexpr int kLocalPieces = kConfig.stride == 1 ? 0 : 2 / kConfig.blocks * kTiles * kOutBlocks;
  static constexpr int kRemotePieces = (kConfig.blocks - 1) * 2 * kTiles * kOutBlocks;
  static constexpr int kRemoteBytes =
      kConfig.stride == 1 ? (kConfig.blocks - 1) * kQuads * kQuadBytes : kRemotePieces * kPieceBytes;
  static constexpr int kExchangeBytes = kLocalPieces * kPieceBytes + kRemoteBytes;

  // Shared memory: barriers | two patches and what lanes read behind them | rings of weights | sums.
  static constexpr int kBarriers = 2 * kDepth + 1;
  static constexpr int kPatchAt = 128;
  static constexpr int kExpandAt = kPatchAt + 2 * kPatchBytes + kPatchTail;
  static constexpr int kProjectAt = kExpandAt + kDepth * kExpandBytes;
  static constexpr int kExchangeAt = kProjectAt + kDepth * kProjectBytes;
  static constexpr int kSharedBytes = kExchangeAt + kExchangeBytes;

  static_assert(kConfig.c_in % 32 == 0 && kConfig.c_out % 32 == 0 && kConfig.chunk % kUnit == 0);
  static_assert(kChunks * kConfig.blocks * kConfig.chunk == kConfig.c_hidden);
  static_assert(kConfig.stride <= 2 && kBarriers * kBarrierBytes <= kPatchAt);
  static_assert(kConfig.blocks <= 2 || (kConfig.stride == 1 && (kConfig.blocks == 4 || kConfig.blocks == 8)));
  static_assert(kSharedBytes <= shared_bytes_of_each(90, kMinBlocks));
};

}  // namespace mobicuda::kernels::inverted_image
