#include "baselines/cpu/ops/pooling.h"

#include <algorithm>
#include <limits>

namespace mobicuda::cpu {
namespace {

// A window along one axis, cut to the image, and to the padded image.
struct Window {
  std::int64_t first, last;
  std::int64_t padded_extent;
};

Window window_at(std::int64_t o, std::int64_t kernel, std::int64_t stride, std::int64_t before, std::int64_t after,
                 std::int64_t extent) {
  const std::int64_t start = o * stride - before;
  const std::int64_t end = std::min(start + kernel, extent + after);
  return {std::max<std::int64_t>(start, 0), std::min(end, extent), end - start};
}

// NaN wins over numbers, wherever it stands in the window.
template <class T>
T larger(T best, T x) {
  return x > best || x != x ? x : best;
}

template <class T>
void max_over(const Window& rows, const Window& columns, std::int64_t channels, const Strides& xs, const T* x,
              std::int64_t y_stride, T* y) {
  for (std::int64_t c = 0; c < channels; ++c) y[c * y_stride] = -std::numeric_limits<T>::infinity();
  for (std::int64_t iy = rows.first; iy < rows.last; ++iy) {
    for (std::int64_t ix = columns.first; ix < columns.last; ++ix) {
      const T* pixel = x + iy * xs[2] + ix * xs[3];
      for (std::int64_t c = 0; c < channels; ++c) y[c * y_stride] = larger(y[c * y_stride], pixel[c * xs[1]]);
    }
  }
}

template <class T>
void average_over(const Window& rows, const Window& columns, std::int64_t divisor, std::int64_t channels,
                  const Strides& xs, const T* x, std::int64_t y_stride, T* y) {
  for (std::int64_t c = 0; c < channels; ++c) y[c * y_stride] = T{0};
  for (std::int64_t iy = rows.first; iy < rows.last; ++iy) {
    for (std::int64_t ix = columns.first; ix < columns.last; ++ix) {
      const T* pixel = x + iy * xs[2] + ix * xs[3];
      for (std::int64_t c = 0; c < channels; ++c) y[c * y_stride] += pixel[c * xs[1]];
    }
  }
  if (divisor == 0) return;
  for (std::int64_t c = 0; c < channels; ++c) y[c * y_stride] /= static_cast<T>(divisor);
}

}  // namespace

template <class T>
void pool2d(const Pool2d& op, const TensorDesc& x_desc, const TensorDesc& y_desc, const T* x, T* y, Range rows) {
  const Strides xs = strides_of(x_desc);
  const Strides ys = strides_of(y_desc);
  const std::int64_t channels = x_desc.shape[1];
  const std::int64_t out_h = y_desc.shape[2];
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t n = row / out_h;
    const std::int64_t oy = row % out_h;
    const Window vertical = window_at(oy, op.kernel[0], op.strides[0], op.pads.top, op.pads.bottom, x_desc.shape[2]);
    for (std::int64_t ox = 0; ox < y_desc.shape[3]; ++ox) {
      const Window horizontal =
          window_at(ox, op.kernel[1], op.strides[1], op.pads.left, op.pads.right, x_desc.shape[3]);
      T* out = y + n * ys[0] + oy * ys[2] + ox * ys[3];
      if (op.kind == PoolKind::Max) {
        max_over(vertical, horizontal, channels, xs, x + n * xs[0], ys[1], out);
        continue;
      }
      const std::int64_t inside = std::max<std::int64_t>(vertical.last - vertical.first, 0) *
                                  std::max<std::int64_t>(horizontal.last - horizontal.first, 0);
      const std::int64_t divisor = op.count_include_pad ? vertical.padded_extent * horizontal.padded_extent : inside;
      average_over(vertical, horizontal, divisor, channels, xs, x + n * xs[0], ys[1], out);
    }
  }
}

template <class T>
void global_average_pool(const TensorDesc& x_desc, const T* x, T* y, Range channels) {
  const Strides xs = strides_of(x_desc);
  const std::int64_t per_picture = x_desc.shape[1];
  for (std::int64_t first = channels.first; first < channels.last;) {
    const std::int64_t n = first / per_picture;
    const std::int64_t last = std::min(channels.last, (n + 1) * per_picture);
    const T* picture = x + n * xs[0] + (first - n * per_picture) * xs[1];
    for (std::int64_t i = first; i < last; ++i) y[i] = T{0};
    for (std::int64_t iy = 0; iy < x_desc.shape[2]; ++iy) {
      for (std::int64_t ix = 0; ix < x_desc.shape[3]; ++ix) {
        const T* pixel = picture + iy * xs[2] + ix * xs[3];
        for (std::int64_t i = first; i < last; ++i) y[i] += pixel[(i - first) * xs[1]];
      }
    }
    const T divisor = static_cast<T>(x_desc.shape[2] * x_desc.shape[3]);
    for (std::int64_t i = first; i < last; ++i) y[i] /= divisor;
    first = last;
  }
}

template void pool2d(const Pool2d&, const TensorDesc&, const TensorDesc&, const float*, float*, Range);
template void pool2d(const Pool2d&, const TensorDesc&, const TensorDesc&, const double*, double*, Range);
template void global_average_pool(const TensorDesc&, const float*, float*, Range);
template void global_average_pool(const TensorDesc&, const double*, double*, Range);

}  // namespace mobicuda::cpu
