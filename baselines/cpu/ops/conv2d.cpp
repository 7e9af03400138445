#include "baselines/cpu/ops/conv2d.h"

#include <algorithm>

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {

namespace {

// The kernel_w pixels of a line from column ix on, zero outside the image.
const float* copied_line(const WindowGeometry& g, const float* line, std::int64_t ix, float* to) {
  const std::int64_t first = std::clamp<std::int64_t>(-ix, 0, g.kernel_w);
  const std::int64_t last = line == nullptr ? first : std::clamp(g.w - ix, first, g.kernel_w);
  std::fill_n(to, first * g.c, 0.0F);
  if (last > first) std::copy_n(line + (ix + first) * g.c, (last - first) * g.c, to + first * g.c);
  std::fill_n(to + last * g.c, (g.kernel_w - last) * g.c, 0.0F);
  return to;
}

}  // namespace

void window_runs(const WindowGeometry& g, const float* x, Range outputs, float* scratch, const float** x_runs) {
  const std::int64_t rows = outputs.last - outputs.first;
  std::int64_t ox = outputs.first % g.out_w;
  std::int64_t oy = outputs.first / g.out_w % g.out_h;
  const float* image = x + outputs.first / (g.out_w * g.out_h) * g.h * g.w * g.c;
  if (g.run_taps == 1) std::fill_n(scratch, g.c, 0.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float** to = x_runs + row;
    const std::int64_t left = ox * g.stride_w - g.pad_left;
    for (std::int64_t ky = 0; ky < g.kernel_h; ++ky) {
      const std::int64_t iy = oy * g.stride_h + ky * g.dilation_h - g.pad_top;
      const float* line = iy >= 0 && iy < g.h ? image + iy * g.w * g.c : nullptr;
      if (g.run_taps > 1) {
        const bool inside = line != nullptr && left >= 0 && left + g.kernel_w <= g.w;
        *to = inside ? line + left * g.c : copied_line(g, line, left, scratch + (ky * rows + row) * g.run_elements());
        to += rows;
        continue;
      }
      for (std::int64_t kx = 0; kx < g.kernel_w; ++kx, to += rows) {
        const std::int64_t ix = left + kx * g.dilation_w;
        *to = line != nullptr && ix >= 0 && ix < g.w ? line + ix * g.c : scratch;
      }
    }
    if (++ox < g.out_w) continue;
    ox = 0;
    if (++oy < g.out_h) continue;
    oy = 0;
    image += g.h * g.w * g.c;
  }
}

LoweredNode lower(const Conv2d& op, const NodeView& view) {
  return view.fp64 ? lower_fp64(op, view) : lower_fp32(op, view);
}

}  // namespace mobicuda::cpu
