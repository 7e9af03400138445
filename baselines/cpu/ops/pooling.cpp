#include "baselines/cpu/ops/pooling.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/fp32_kernels.h"
#include "baselines/cpu/ops/pool_window.h"

namespace mobicuda::cpu {
namespace {

// NaN wins over numbers, wherever it stands in the window.
template <class T>
T larger_or_nan(T best, T x) {
  return x > best || x != x ? x : best;
}

template <class T>
void max_over(const PoolWindow& rows, const PoolWindow& columns, std::int64_t channels, const Strides& xs, const T* x,
              std::int64_t y_stride, T* y) {
  using Limits = std::numeric_limits<T>;
  const T least = Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest();
  for (std::int64_t c = 0; c < channels; ++c) y[c * y_stride] = least;
  for (std::int64_t iy = rows.first; iy < rows.last; iy += rows.step) {
    for (std::int64_t ix = columns.first; ix < columns.last; ix += columns.step) {
      const T* pixel = x + iy * xs[2] + ix * xs[3];
      for (std::int64_t c = 0; c < channels; ++c) y[c * y_stride] = larger_or_nan(y[c * y_stride], pixel[c * xs[1]]);
    }
  }
}

template <class T>
void average_over(const PoolWindow& rows, const PoolWindow& columns, std::int64_t divisor, std::int64_t channels,
                  const Strides& xs, const T* x, std::int64_t y_stride, T* y) {
  for (std::int64_t c = 0; c < channels; ++c) y[c * y_stride] = T{0};
  for (std::int64_t iy = rows.first; iy < rows.last; iy += rows.step) {
    for (std::int64_t ix = columns.first; ix < columns.last; ix += columns.step) {
      const T* pixel = x + iy * xs[2] + ix * xs[3];
      for (std::int64_t c = 0; c < channels; ++c) y[c * y_stride] += pixel[c * xs[1]];
    }
  }
  if (divisor == 0) return;
  for (std::int64_t c = 0; c < channels; ++c) y[c * y_stride] /= static_cast<T>(divisor);
}

// The inner loops of fp32_kernels.h, where channels lie side by side.
void pool_pixel(const PoolKind kind, const PoolWindow& rows, const PoolWindow& columns, std::int64_t divisor,
                std::int64_t channels, const Strides& xs, const float* x, float* y) {
  PoolTask task;
  task.x = x + rows.first * xs[2] + columns.first * xs[3];
  task.row_stride = rows.step * xs[2];
  task.column_stride = columns.step * xs[3];
  task.rows = rows.taps;
  task.columns = columns.taps;
  task.c = channels;
  task.largest = kind == PoolKind::Max;
  task.divisor = static_cast<float>(std::max<std::int64_t>(divisor, 1));
  task.y = y;
  fp32_kernels().pool(task);
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
    const PoolWindow vertical = pool_window_at(op, 0, oy, x_desc.shape[2]);
    for (std::int64_t ox = 0; ox < y_desc.shape[3]; ++ox) {
      const PoolWindow horizontal = pool_window_at(op, 1, ox, x_desc.shape[3]);
      T* out = y + n * ys[0] + oy * ys[2] + ox * ys[3];
      const std::int64_t divisor = pool_divisor(op, vertical, horizontal);
      if constexpr (std::is_same_v<T, float>) {
        if (xs[1] == 1 && ys[1] == 1) {
          pool_pixel(op.kind, vertical, horizontal, divisor, channels, xs, x + n * xs[0], out);
          continue;
        }
      }
      if (op.kind == PoolKind::Max) {
        max_over(vertical, horizontal, channels, xs, x + n * xs[0], ys[1], out);
        continue;
      }
      if constexpr (std::is_floating_point_v<T>) {  // the average of integers is a QuantizedAveragePool
        average_over(vertical, horizontal, divisor, channels, xs, x + n * xs[0], ys[1], out);
      }
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
template void pool2d(const Pool2d&, const TensorDesc&, const TensorDesc&, const std::int8_t*, std::int8_t*, Range);
template void pool2d(const Pool2d&, const TensorDesc&, const TensorDesc&, const std::uint8_t*, std::uint8_t*, Range);
template void global_average_pool(const TensorDesc&, const float*, float*, Range);
template void global_average_pool(const TensorDesc&, const double*, double*, Range);

LoweredNode lower(const Pool2d& op, const NodeView& view) {
  const Shape& y = view.output_desc().shape;
  return move_rows(view, "pooling", y[2], y[3] * y[1] * op.kernel[0] * op.kernel[1],
                   [op, x_desc = view.desc(Pool2d::kInput), y_desc = view.output_desc()](auto at, Range rows) {
                     pool2d(op, x_desc, y_desc, at.input(Pool2d::kInput), at.output(), rows);
                   });
}

LoweredNode lower(const GlobalAveragePool&, const NodeView& view) {
  constexpr std::int64_t kChannels = 64;  // whole cache lines of each pixel
  const TensorDesc& desc = view.desc(GlobalAveragePool::kInput);
  return loop(view, "pooling", desc.shape[1], kChannels, [desc](auto at, Range channels) {
    global_average_pool(desc, at.input(GlobalAveragePool::kInput), at.output(), channels);
  });
}

}  // namespace mobicuda::cpu
