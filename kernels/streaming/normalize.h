// (x - mean) / sqrt(variance + epsilon), over the channels of each pixel, or over all pixels of each group of channels;
// NHWC. Fewer than 2^31 elements in what is normalised together, and 2^31 of such rows.
//
// A row is one group of an image's channels with all its pixels; over channels, every pixel is an image. A row of up to
// 1024 elements takes a warp, a longer one a block. It is read three times, the later two from the caches: for the
// mean, for the squares of differences from it, and to be written; so nothing is lost where the mean is large. Channels
// of a group lie together: with few of them a warp reads a few bytes of each pixel, which takes several times as long.
//
// Error: derived in docs/numerics.md. Sums are in float, for double in double; their order depends on the row's size
// alone, never on the batch. A row with a NaN or an infinity is NaN.
#pragma once

#include <cstdint>

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

/// Over the channels of each pixel: pixels = 1, groups = 1, and images are all pixels.
struct NormalizeParams {
  Elem elem = Elem::F32;
  std::int64_t images = 0;
  std::int64_t pixels = 1;  ///< of an image
  int c = 0;
  int groups = 1;  ///< > 0, divides c
  float epsilon = 1e-5F;
};

cudaError_t normalize(const NormalizeParams& params, const void* x, void* y, const Launch& where);

}  // namespace mobicuda::kernels
