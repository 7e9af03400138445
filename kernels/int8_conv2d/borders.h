// Where windows reach over an image's edge. A kernel that reads zeros there, not x_zero, has a bias of its own for each
// set of taps that lie inside. For host and device.
#pragma once

#include <algorithm>

#include "kernels/common/types.h"
#include "kernels/int8_conv2d/int8_conv2d.h"

namespace mobicuda::kernels::int8_conv {

/// Outputs along an axis, in classes of the same taps inside: each of those whose window begins before the image, all
/// whose window lies inside, each of those whose window ends behind it. Where there are no more outputs than that, each
/// is a class.
struct BorderAxis {
  int before;   ///< outputs whose window begins before the image
  int skipped;  ///< outputs less classes

  int classes(int outputs) const { return outputs - skipped; }
  /// One of a class's outputs.
  int output_of(int border_class) const { return border_class <= before ? border_class : border_class + skipped; }
};

inline BorderAxis border_axis(int outputs, int extent, int taps, int dilation, int stride, int pad) {
  const int before = std::min(outputs, ceil_div(pad, stride));
  const std::int64_t last_tap = std::int64_t{taps - 1} * dilation - pad;  // of the first output
  // The first output whose last tap lies behind the image.
  const std::int64_t first_behind = last_tap >= extent ? 0 : (extent - last_tap + stride - 1) / stride;
  const auto behind = static_cast<int>(std::max<std::int64_t>(0, outputs - first_behind));
  return {before, std::max(0, outputs - before - 1 - behind)};
}

struct Borders {
  BorderAxis rows, columns;
  int row_classes, column_classes;

  std::int64_t count() const { return std::int64_t{row_classes} * column_classes; }
};

inline Borders borders_of(const Int8Conv2dParams& p) {
  const BorderAxis rows = border_axis(p.out_h, p.h, p.kernel_h, p.dilation_h, p.stride_h, p.pad_top);
  const BorderAxis columns = border_axis(p.out_w, p.w, p.kernel_w, p.dilation_w, p.stride_w, p.pad_left);
  return {rows, columns, rows.classes(p.out_h), columns.classes(p.out_w)};
}

/// Whether some window reaches over an edge, with an x_zero that counts there.
inline bool reaches_over(const Int8Conv2dParams& p) {
  const auto inside = [](int outputs, int extent, int taps, int dilation, int stride, int pad) {
    return pad == 0 && std::int64_t{outputs - 1} * stride + std::int64_t{taps - 1} * dilation < extent;
  };
  return p.x_zero != 0 && !(inside(p.out_h, p.h, p.kernel_h, p.dilation_h, p.stride_h, p.pad_top) &&
                            inside(p.out_w, p.w, p.kernel_w, p.dilation_w, p.stride_w, p.pad_left));
}

inline constexpr int kMostBorders = 64;

/// Biases of classes that are packed: none where no kernel needs them, or there would be too many.
inline int packed_borders(const Int8Conv2dParams& p) {
  if (p.groups != 1 || p.x_pitch == kSmallBytePitch || !reaches_over(p)) return 0;
  const std::int64_t count = borders_of(p).count();
  return count <= kMostBorders ? static_cast<int>(count) : 0;
}

}  // namespace mobicuda::kernels::int8_conv
