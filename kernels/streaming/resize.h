// Images of another height and width, NHWC: the nearest pixel, or linear between four. Fewer than 2^31 pixels in the
// output of a batch, extents of up to 65536.
//
// Where a row or column lies in the input is a fraction of whole numbers and so found exactly: no rounding of
// coordinates picks another pixel. A thread computes a packet of 16 bytes of channels where these fill packets, else
// one element.
//
// Error: nearest copies bits. Linear: 4 u max |x| of the four pixels, in units of what is computed in (float, for
// double double), and one rounding to storage: docs/numerics.md. A NaN or an infinity reaches all pixels between it and
// its neighbours, also those at a distance of a whole pixel.
#pragma once

#include <cstdint>

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

/// Row or column i of the output lies at (factor * i + offset) / divisor of the input, whose border goes on outside.
struct ResizeLine {
  int in = 1;   ///< extent of the input, > 0
  int out = 1;  ///< extent of the output
  std::int64_t factor = 1;
  std::int64_t offset = 0;
  std::int64_t divisor = 1;  ///< > 0
};

struct ResizeParams {
  Elem elem = Elem::F32;
  bool linear = false;  ///< else the pixel at the floor of the position
  std::int64_t n = 0;
  int c = 0;
  ResizeLine rows;
  ResizeLine columns;
};

cudaError_t resize(const ResizeParams& params, const void* x, void* y, const Launch& where);

}  // namespace mobicuda::kernels
