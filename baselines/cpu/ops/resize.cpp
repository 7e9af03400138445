#include <algorithm>
#include <type_traits>
#include <vector>

#include "baselines/cpu/lower.h"

namespace mobicuda::cpu {
namespace {

/// A row or column of the output between two of the input; of Nearest, the first alone.
struct Tap {
  std::int64_t first = 0;
  std::int64_t second = 0;
  double weight = 0.0;  ///< of the second
};

std::vector<Tap> taps_of(const Resize& op, std::size_t axis, std::int64_t extent) {
  const ResizeAxis at = resize_axis(op, axis, extent);
  std::vector<Tap> taps;
  for (std::int64_t i = 0; i < op.extents.at(axis); ++i) {
    const std::int64_t position = at.factor * i + at.offset;
    const std::int64_t remainder = (position % at.divisor + at.divisor) % at.divisor;
    const std::int64_t floor = (position - remainder) / at.divisor;
    const auto inside = [&](std::int64_t pixel) { return std::clamp<std::int64_t>(pixel, 0, extent - 1); };
    taps.push_back(
        {inside(floor), inside(floor + 1), static_cast<double>(remainder) / static_cast<double>(at.divisor)});
  }
  return taps;
}

struct ResizePlan {
  ResizeMode mode = ResizeMode::Nearest;
  std::vector<Tap> rows;
  std::vector<Tap> columns;
  Strides x_strides{};
  Strides y_strides{};
  std::int64_t channels = 1;
};

/// In double (the definition) or float, for the rows of the output in `rows`, counted through all images.
template <class T>
void resize(const ResizePlan& plan, const T* x, T* y, Range rows) {
  const auto out_h = static_cast<std::int64_t>(plan.rows.size());
  const Strides& xs = plan.x_strides;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const Tap& vertical = plan.rows[static_cast<std::size_t>(row % out_h)];
    const T* const image = x + row / out_h * xs[0];
    T* to = y + row / out_h * plan.y_strides[0] + row % out_h * plan.y_strides[2];
    for (const Tap& horizontal : plan.columns) {
      const T* const upper = image + vertical.first * xs[2];
      const T* const lower = image + vertical.second * xs[2];
      for (std::int64_t c = 0; c < plan.channels; ++c) {
        const std::int64_t left = horizontal.first * xs[3] + c * xs[1];
        T value = upper[left];
        if constexpr (std::is_floating_point_v<T>) {  // of integers there is none but Nearest
          if (plan.mode == ResizeMode::Linear) {
            const std::int64_t right = horizontal.second * xs[3] + c * xs[1];
            const T across = static_cast<T>(horizontal.weight);
            const T down = static_cast<T>(vertical.weight);
            const T above = value * (T{1} - across) + upper[right] * across;
            const T below = lower[left] * (T{1} - across) + lower[right] * across;
            value = above * (T{1} - down) + below * down;
          }
        }
        to[c * plan.y_strides[1]] = value;
      }
      to += plan.y_strides[3];
    }
  }
}

}  // namespace

LoweredNode lower(const Resize& op, const NodeView& view) {
  const TensorDesc& x = view.desc(Resize::kInput);
  ResizePlan plan;
  plan.mode = op.mode;
  plan.rows = taps_of(op, 0, x.shape[2]);
  plan.columns = taps_of(op, 1, x.shape[3]);
  plan.x_strides = strides_of(x);
  plan.y_strides = strides_of(view.output_desc());
  plan.channels = x.shape[1];
  return move_rows(view, "resize", op.extents[0], op.extents[1] * x.shape[1],
                   [plan](auto at, Range rows) { resize(plan, at.input(Resize::kInput), at.output(), rows); });
}

}  // namespace mobicuda::cpu
