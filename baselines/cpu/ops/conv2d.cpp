#include "baselines/cpu/ops/conv2d.h"

#include <algorithm>

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {

void gather_patches(const PatchGeometry& g, const float* x, Range pixels, float* patches) {
  for (std::int64_t pixel = pixels.first; pixel < pixels.last; ++pixel) {
    const std::int64_t ox = pixel % g.out_w;
    const std::int64_t oy = pixel / g.out_w % g.out_h;
    const float* picture = x + pixel / (g.out_w * g.out_h) * g.h * g.w * g.c + g.first_channel;
    for (std::int64_t ky = 0; ky < g.kernel_h; ++ky) {
      const std::int64_t iy = oy * g.stride_h + ky * g.dilation_h - g.pad_top;
      for (std::int64_t kx = 0; kx < g.kernel_w; ++kx) {
        const std::int64_t ix = ox * g.stride_w + kx * g.dilation_w - g.pad_left;
        const bool inside = iy >= 0 && iy < g.h && ix >= 0 && ix < g.w;
        if (inside) {
          std::copy_n(picture + (iy * g.w + ix) * g.c, g.channels, patches);
        } else {
          std::fill_n(patches, g.channels, 0.0F);
        }
        patches += g.channels;
      }
    }
  }
}

LoweredNode lower(const Conv2d& op, const NodeView& view) {
  return view.fp64 ? lower_fp64(op, view) : lower_fp32(op, view);
}

}  // namespace mobicuda::cpu
