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

// Those of `outputs` neighbouring windows whose run of `width` pixels, in the first one from column ix on, lies in a
// line.
Range inside_line(const WindowGeometry& g, std::int64_t ix, std::int64_t width, std::int64_t outputs) {
  const std::int64_t room = g.w - width - ix;
  const std::int64_t first = std::clamp<std::int64_t>((g.stride_w - 1 - ix) / g.stride_w, 0, outputs);
  return {first, room < 0 ? first : std::clamp(room / g.stride_w + 1, first, outputs)};
}

// Runs of `outputs` windows side by side in an output row, from column ix of a line on; the line is null outside the
// image. outside(i, ix) gives the run of window i where not all of it lies in the line.
template <class Outside>
void line_runs(const WindowGeometry& g, const float* line, std::int64_t ix, std::int64_t outputs, const float** to,
               const Outside& outside) {
  const Range inside = line == nullptr ? Range{outputs, outputs} : inside_line(g, ix, g.run_taps, outputs);
  const auto column = [&](std::int64_t i) { return ix + i * g.stride_w; };
  for (std::int64_t i = 0; i < inside.first; ++i) to[i] = outside(i, column(i));
  for (std::int64_t i = inside.first; i < inside.last; ++i) to[i] = line + column(i) * g.c;
  for (std::int64_t i = inside.last; i < outputs; ++i) to[i] = outside(i, column(i));
}

}  // namespace

void window_runs(const WindowGeometry& g, const float* x, Range outputs, float* scratch, const float** x_runs) {
  const std::int64_t rows = outputs.last - outputs.first;
  if (g.run_taps == 1) std::fill_n(scratch, g.c, 0.0F);
  for (std::int64_t row = 0; row < rows;) {
    const std::int64_t output = outputs.first + row;
    const std::int64_t ox = output % g.out_w;
    const std::int64_t oy = output / g.out_w % g.out_h;
    const float* image = x + output / (g.out_w * g.out_h) * g.h * g.w * g.c;
    const std::int64_t together = std::min(rows - row, g.out_w - ox);
    const std::int64_t left = ox * g.stride_w - g.pad_left;
    for (std::int64_t ky = 0; ky < g.kernel_h; ++ky) {
      const std::int64_t iy = oy * g.stride_h + ky * g.dilation_h - g.pad_top;
      const float* line = iy >= 0 && iy < g.h ? image + iy * g.w * g.c : nullptr;
      if (g.run_taps > 1) {
        float* copies = scratch + (ky * rows + row) * g.run_elements();
        line_runs(g, line, left, together, x_runs + ky * rows + row, [&](std::int64_t i, std::int64_t ix) {
          return copied_line(g, line, ix, copies + i * g.run_elements());
        });
        continue;
      }
      for (std::int64_t kx = 0; kx < g.kernel_w; ++kx) {
        line_runs(g, line, left + kx * g.dilation_w, together, x_runs + (ky * g.kernel_w + kx) * rows + row,
                  [&](std::int64_t, std::int64_t) { return scratch; });
      }
    }
    row += together;
  }
}

LoweredNode lower(const Conv2d& op, const NodeView& view) {
  return view.fp64 ? lower_fp64(op, view) : lower_fp32(op, view);
}

}  // namespace mobicuda::cpu
