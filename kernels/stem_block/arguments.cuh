#pragma once

#include <cuda_fp16.h>

#include "kernels/common/fast_division.cuh"
#include "kernels/common/types.h"

namespace mobicuda::kernels::stem_block_detail {

inline constexpr int kStrip = 14;  // output columns; with those beside them, the rows of an instruction
inline constexpr int kStrips = 2;  // of a warp, for many images
inline constexpr int kColumns = kStrips * kStrip;
inline constexpr int kStemColumns = kColumns + 2;
inline constexpr int kWindow = 2 * kStemColumns + 1;  // input columns

/// What a kernel has room for; channels beyond an image's are zeros.
struct Channels {
  int stem;  ///< a multiple of 8
  int out;   ///< 16 or 24
};

inline constexpr int kVectorBytes = 32 * 16;

/// What follows from the channels. Packed weights. Biases: of the depthwise (group, lane % 4) and of the projection
/// (fragment, lane % 4), four floats each, b0 b1 b0 b1, as a sum begins with them. Then operands of the instructions,
/// 16 bytes for each lane at a time: stem (group) | depthwise (ky, group, kx), a word each | projection (step of k,
/// fragment), two words each; the second ones of a last step of 8 channels are zeros that no instruction takes.
struct Sizes {
  int groups;  ///< of 8 channels of the stem
  int project_steps;
  int fragments;  ///< of 8 output channels
  int depthwise_vectors, project_vectors, operand_vectors;
  int bias_vectors, bias_bytes;
  int packed_bytes;
};

constexpr Sizes sizes_of(const Channels& channels) {
  Sizes s{};
  s.groups = channels.stem / 8;
  s.project_steps = ceil_div(channels.stem, 16);
  s.fragments = channels.out / 8;
  s.depthwise_vectors = ceil_div(9 * s.groups, 4);
  s.project_vectors = ceil_div(s.project_steps * s.fragments * 2, 4);
  s.operand_vectors = s.groups + s.depthwise_vectors + s.project_vectors;
  s.bias_vectors = (s.groups + s.fragments) * 4;
  s.bias_bytes = s.bias_vectors * 16;
  s.packed_bytes = s.bias_bytes + s.operand_vectors * kVectorBytes;
  return s;
}

template <Channels kChannels>
struct Shape {
  static constexpr Sizes kSizes = sizes_of(kChannels);
  static constexpr int kGroups = kSizes.groups;
  static constexpr int kProjectSteps = kSizes.project_steps;
  static constexpr int kFragments = kSizes.fragments;
  static constexpr int kDepthwiseVectors = kSizes.depthwise_vectors;
  static constexpr int kProjectVectors = kSizes.project_vectors;
  static constexpr int kBiasVectors = kSizes.bias_vectors;
  static constexpr int kBiasBytes = kSizes.bias_bytes;
  // Of a pixel of the stem: 8 neighbouring ones, 4 words each, are in different banks.
  static constexpr int kPixelBytes = kChannels.stem * 2 + (kGroups % 2 == 0 ? 16 : 0);
  static_assert(kChannels.stem % 8 == 0 && (kChannels.out == 16 || kChannels.out == 24));
};

/// Output channel of which column `column` of a fragment holds the weights of the projection: dealt so that a thread's
/// sums of fragments 0 and 1 are 4 neighbours.
constexpr int dealt_channel(int fragment, int column) {
  return fragment < 2 ? column / 2 * 4 + fragment * 2 + column % 2 : fragment * 8 + column;
}

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
