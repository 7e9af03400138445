// What host and device agree on in the image kernels for 7x7 images: shapes, layouts, arguments.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/types.h"

namespace mobicuda::kernels::inverted_image7 {

inline constexpr int kSide = 7;       // of the largest image
inline constexpr int kChunk = 32;     // hidden channels at once
inline constexpr int kColumns = 160;  // output channels of one product
inline constexpr int kWarpgroup = 128;

struct Config {
  int c_in, c_hidden, c_out;
  int pictures;  ///< of a block
  int parts;     ///< warpgroups that share an image by hidden channels, each with its own weights
  int blocks;    ///< of a cluster, which share the hidden channels as well
  int stages;    ///< chunks of weights of a part in shared memory
};

struct Arguments {
  int n, h, w;
  bool residual;
  __half2 expand_hi, depthwise_hi;  ///< the lower bounds are zero
  Clip project_clip;
};

/// A chunk of packed weights, offsets in bytes: operands of expand | taps 0 to 7 of each channel | the last one |
/// biases, float | operands of project, kColumns output channels after the other.
struct ChunkLayout {
  int taps, last_tap, expand_bias, depthwise_bias;
  int project;
  int product_bytes;  ///< of kColumns in project
  int bytes;
};

constexpr ChunkLayout chunk_layout(int c_in, int c_out) {
  ChunkLayout layout{};
  layout.taps = c_in * kChunk * 2;
  layout.last_tap = layout.taps + kChunk * 16;
  layout.expand_bias = layout.last_tap + kChunk * 4;
  layout.depthwise_bias = layout.expand_bias + kChunk * 4;
  layout.project = layout.depthwise_bias + kChunk * 4;
  layout.product_bytes = kChunk * kColumns * 2;
  layout.bytes = layout.project + kChunk * c_out * 2;
  return layout;
}

template <Config kTheConfig>
struct Shape {
  static constexpr Config kConfig = kTheConfig;
  static constexpr int kPictures = kConfig.pictures;
  static constexpr int kParts = kConfig.parts;
  static constexpr int kBlocks = kConfig.blocks;
  static constexpr int kWarpgroups = kPictures * kParts;
  static constexpr int kSenders = kBlocks * kParts;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kRefillAfter = kStages > 3 ? 2 : 1;  // chunks: others of the block may be behind by one
  static constexpr int kThreads = kWarpgroups * kWarpgroup;
  static constexpr int kStepsIn = kConfig.c_in / 16;
  static constexpr int kBlocksIn = kConfig.c_in / 32;
  static constexpr int kChunks = kConfig.c_hidden / kChunk;
  static constexpr int kProducts = kConfig.c_out / kColumns;
  static constexpr bool kMayAdd = kConfig.c_in == kConfig.c_out;
  static constexpr ChunkLayout kLayout = chunk_layout(kConfig.c_in, kConfig.c_out);
  static constexpr int kStageBytes = kLayout.bytes;
  // Where sums leave no registers for the pixels of x, these are in shared memory, as an operand.
  static constexpr bool kSharedPixels = kProducts > 1;
  static constexpr int kPixelBytes = kSharedPixels ? 64 * kConfig.c_in * 2 : 0;

  // An image's hidden pixels, 8 channels of each in a slot of 16 bytes: rows -1 to 8 of 8 slots, column -1 first,
  // which is column 7 of the row above. What is read past the end is of no output.
  static constexpr int kGroups = kChunk / 8;
  static constexpr int kGroupBytes = 10 * 8 * 16;
  static constexpr int kPatchBytes = kGroups * kGroupBytes + 128;

  // Partial sums: (sending part, image, one of a block's rows, 32 channels, twice, lane of a pixel) of 16 bytes.
  static constexpr int kRows = ceil_div(kSide, kBlocks);
  static constexpr int kPieceBytes = kSide * 4 * 16;
  static constexpr int kRowBytes = kConfig.c_out / 32 * 2 * kPieceBytes;
  static constexpr int kPartialBytes = kSenders == 1 ? 0 : kSenders * kPictures * kRows * kRowBytes;

  // Shared memory: barriers, full and empty of each part's stages, then that of biases and sums | stages | patches, two
  // each | project's biases | pixels of x | partial sums.
  static constexpr int kBiasBytes = kConfig.c_out * 4;
  static constexpr int kArrivedAt = kParts * kStages * 16;
  static constexpr int kStagesAt = 128;
  static constexpr int kPatchesAt = kStagesAt + kParts * kStages * kStageBytes;
  static constexpr int kBiasAt = kPatchesAt + kWarpgroups * 2 * kPatchBytes;
  static constexpr int kPixelsAt = kBiasAt + kBiasBytes;
  static constexpr int kPartialAt = kPixelsAt + kWarpgroups * kPixelBytes;
  static constexpr int kSharedBytes = kPartialAt + kPartialBytes;

  static_assert(kConfig.c_in % 32 == 0 && kConfig.c_hidden % kChunk == 0 && kConfig.c_out % kColumns == 0);
  static_assert(kArrivedAt + 8 <= kStagesAt && kStageBytes % 128 == 0);
  static_assert(kChunks >= kSenders && kStages >= 3);
};

}  // namespace mobicuda::kernels::inverted_image7
