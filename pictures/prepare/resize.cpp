#include "pictures/prepare/resize.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "pictures/prepare/channels.h"
#include "pictures/prepare/window.h"

namespace mobicuda::pictures {
namespace {

// Windows of a range of pixels along one axis, and their weights.
class Windows {
 public:
  Windows(int from, int to, int begin, int count) {
    windows_.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      const Window window = make_window(begin + i, from, to);
      windows_.push_back({window.first, window.count, weights_.size()});
      for (int k = 0; k < window.count; ++k) weights_.push_back(weight_of(window, k));
    }
  }

  std::size_t size() const { return windows_.size(); }
  int first(std::size_t i) const { return windows_[i].first; }
  std::span<const std::int32_t> weights(std::size_t i) const {
    return std::span(weights_).subspan(windows_[i].weights, static_cast<std::size_t>(windows_[i].count));
  }
  // The source pixels that any of them needs: windows move forward.
  int begin() const { return windows_.front().first; }
  int end() const { return windows_.back().first + windows_.back().count; }

 private:
  struct Range {
    int first;
    int count;
    std::size_t weights;
  };
  std::vector<Range> windows_;
  std::vector<std::int32_t> weights_;
};

// One row of the source, filtered; `step` is the distance of its pixels in bytes.
void filter_row(const std::uint8_t* row, std::int64_t step, const Windows& columns, std::uint8_t* out) {
  for (std::size_t x = 0; x < columns.size(); ++x) {
    std::int32_t sum[kChannels] = {kHalf, kHalf, kHalf};
    const std::uint8_t* pixel = row + columns.first(x) * step;
    for (const std::int32_t weight : columns.weights(x)) {
      for (int c = 0; c < kChannels; ++c) sum[c] += pixel[c] * weight;
      pixel += step;
    }
    for (int c = 0; c < kChannels; ++c) *out++ = to_byte(sum[c]);
  }
}

}  // namespace

void resize_crop(const PixelView& source, const CropGeometry& crop, int crop_width, int crop_height,
                 std::span<std::uint8_t> out) {
  const Windows columns(source.width, crop.width, crop.left, crop_width);
  const Windows rows(source.height, crop.height, crop.top, crop_height);
  const std::size_t row_bytes = static_cast<std::size_t>(crop_width) * kChannels;
  // Of filtered rows, those that the next row of the result needs are kept: row y is at y modulo their number.
  std::size_t kept = 1;
  for (std::size_t y = 0; y < rows.size(); ++y) kept = std::max(kept, rows.weights(y).size());
  std::vector<std::uint8_t> filtered(kept * row_bytes);
  std::vector<std::int32_t> sums(row_bytes);
  int next = rows.begin();
  for (std::size_t y = 0; y < rows.size(); ++y) {
    const auto weights = rows.weights(y);
    const int last = rows.first(y) + static_cast<int>(weights.size());
    for (next = std::max(next, rows.first(y)); next < last; ++next) {
      filter_row(source.origin + next * source.step_y, source.step_x, columns,
                 filtered.data() + static_cast<std::size_t>(next) % kept * row_bytes);
    }
    std::fill(sums.begin(), sums.end(), kHalf);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const std::uint8_t* const row =
          filtered.data() + (static_cast<std::size_t>(rows.first(y)) + k) % kept * row_bytes;
      const std::int32_t weight = weights[k];
      for (std::size_t i = 0; i < row_bytes; ++i) sums[i] += row[i] * weight;
    }
    std::uint8_t* const to = out.data() + y * row_bytes;
    for (std::size_t i = 0; i < row_bytes; ++i) to[i] = to_byte(sums[i]);
  }
}

}  // namespace mobicuda::pictures
