#pragma once

#include <cuda_fp16.h>

#include "kernels/common/fast_division.cuh"
#include "kernels/common/types.h"

namespace mobicuda::kernels::stem_block_detail {

inline constexpr int kStrip = 14;  // output columns; with those beside them, the rows of an instruction
inline constexpr int kStrips = 2;  // of a warp, for many images
inline constexpr int kColumns = kStrips * kStrip;
inline constexpr int kStemColumns = kColumns + 2;
inline constexpr int kChannels = 32;  // of the stem, padded
inline constexpr int kOutChannels = 16;
inline constexpr int kGroups = kChannels / 8;
inline constexpr int kWindow = 2 * kStemColumns + 1;  // input columns

// Packed weights. Biases: of the depthwise (group, lane % 4) and of the projection (fragment, lane % 4), four floats
// each, b0 b1 b0 b1, as a sum begins with them. Then operands of the instructions, 16 bytes for each lane at a time:
// stem (group) | depthwise (9 times 4 of 36 words, (ky, group, kx)) | projection (step of k).
inline constexpr int kProjectSteps = kChannels / 16;
inline constexpr int kProjectFragments = kOutChannels / 8;
inline constexpr int kDepthwiseVectors = 9 * kGroups / 4;
inline constexpr int kBiasVectors = (kGroups + kProjectFragments) * 4;
inline constexpr int kBiasBytes = kBiasVectors * 16;
inline constexpr int kOperandVectors = kGroups + kDepthwiseVectors + kProjectSteps;
inline constexpr int kVectorBytes = 32 * 16;
inline constexpr int kPackedBytes = kBiasBytes + kOperandVectors * kVectorBytes;

/// Channel, of 16, of which column `column` of fragment 0 or 1 holds the weights of the projection: dealt so that a
/// thread's sums are 4 neighbours.
constexpr int dealt_channel(int fragment, int column) { return column / 2 * 4 + fragment * 2 + column % 2; }

/// Bounds as two equal halves. Rounding is monotone: to clip after it with rounded bounds gives the same half.
struct HalfClip {
  std::uint32_t lo;
  std::uint32_t hi;
};

/// FloatPairs: the window begins at a multiple of 8 bytes in every row.
enum class InputForm : std::uint8_t { Floats, FloatPairs, Bytes };

struct Arguments {
  int h, w, stem_h, stem_w, out_h, out_w, c_out;
  int stem_top, stem_left;    // padding of the depthwise: the stem's pixel for output (0, 0) is (-top, -left)
  int input_top, input_left;  // of both: the input's first for output (0, 0)
  int rows;                   // of a warp
  std::uint32_t units;        // (image, band of rows, block of columns), one for each warp
  FastDivision column_blocks, bands;
  int plane_bytes;                                // of a channel of floats
  int row_bytes;                                  // of the input, or of one of its channels
  int eight_pixels, strip_pixels, out_row_bytes;  // bytes of the output
  HalfClip stem_clip;
  HalfClip depthwise_clip;
  HalfClip project_clip;
  float scale[3];
  float shift[3];
};

}  // namespace mobicuda::kernels::stem_block_detail
