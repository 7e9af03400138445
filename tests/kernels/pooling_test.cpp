#include "kernels/streaming/pooling.h"

#include <cmath>
#include <iterator>
#include <limits>

#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using kernels::GlobalAveragePoolParams;
using kernels::PoolingKind;
using kernels::PoolingParams;

constexpr int kChannels[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 33, 64, 96};
constexpr std::size_t kMisalignments[] = {0, 1};

struct Window {
  int h, w;
  int kernel_h, kernel_w;
  int stride_h, stride_w;
  int top, left, bottom, right;
};

// Windows larger than the image, wholly in padding, asymmetric, overlapping, with gaps.
constexpr Window kWindows[] = {
    {1, 1, 1, 1, 1, 1, 0, 0, 0, 0}, {7, 7, 7, 7, 1, 1, 0, 0, 0, 0},   {8, 6, 2, 2, 2, 2, 0, 0, 0, 0},
    {7, 5, 3, 3, 2, 2, 1, 1, 1, 1}, {7, 5, 3, 3, 2, 2, 0, 0, 1, 1},   {5, 9, 2, 5, 1, 3, 1, 2, 0, 3},
    {3, 2, 5, 5, 1, 1, 2, 3, 2, 1}, {13, 14, 3, 1, 3, 2, 0, 0, 0, 0}, {4, 4, 2, 2, 3, 3, 3, 3, 3, 3},
    {2, 3, 1, 2, 2, 1, 2, 2, 2, 2},
};

std::size_t elements(int n, int h, int w, int c) {
  return static_cast<std::size_t>(n) * static_cast<std::size_t>(h) * static_cast<std::size_t>(w) *
         static_cast<std::size_t>(c);
}

PoolingParams make_params(Elem elem, PoolingKind kind, const Window& window, int n, int c) {
  PoolingParams p;
  p.elem = elem;
  p.kind = kind;
  p.n = n;
  p.h = window.h;
  p.w = window.w;
  p.c = c;
  p.kernel_h = window.kernel_h;
  p.kernel_w = window.kernel_w;
  p.stride_h = window.stride_h;
  p.stride_w = window.stride_w;
  p.pad_top = window.top;
  p.pad_left = window.left;
  p.pad_bottom = window.bottom;
  p.pad_right = window.right;
  p.out_h = (window.h + window.top + window.bottom - window.kernel_h) / window.stride_h + 1;
  p.out_w = (window.w + window.left + window.right - window.kernel_w) / window.stride_w + 1;
  return p;
}

// Those of the strips that halves take: images smaller than a window, odd extents, windows that end outside of the
// image or lie wholly in padding.
constexpr Window kStripWindows[] = {
    {1, 1, 3, 3, 1, 1, 1, 1, 1, 1}, {8, 8, 3, 3, 1, 1, 1, 1, 1, 1}, {17, 5, 3, 3, 1, 1, 1, 1, 1, 1},
    {4, 5, 3, 3, 1, 1, 4, 3, 3, 5}, {9, 7, 3, 3, 2, 2, 0, 0, 0, 0}, {8, 10, 3, 3, 2, 2, 1, 1, 1, 1},
    {7, 6, 3, 3, 2, 2, 0, 1, 1, 0}, {6, 7, 3, 3, 2, 2, 4, 4, 4, 4}, {10, 9, 2, 2, 2, 2, 0, 0, 0, 0},
    {5, 7, 2, 2, 2, 2, 1, 0, 1, 1}, {6, 7, 2, 2, 2, 2, 3, 3, 3, 3},
};

/// One output element.
struct Pooled {
  double value;
  double magnitude;
};

Pooled oracle_at(const PoolingParams& p, const std::vector<float>& x, int n, int oy, int ox, int channel) {
  double sum = 0.0;
  double absolute = 0.0;
  double largest = -std::numeric_limits<double>::infinity();
  int inside = 0;
  int padded = 0;
  for (int ky = 0; ky < p.kernel_h; ++ky) {
    for (int kx = 0; kx < p.kernel_w; ++kx) {
      const int iy = oy * p.stride_h + ky * p.dilation_h - p.pad_top;
      const int ix = ox * p.stride_w + kx * p.dilation_w - p.pad_left;
      if (iy < p.h + p.pad_bottom && ix < p.w + p.pad_right) ++padded;
      if (iy < 0 || ix < 0 || iy >= p.h || ix >= p.w) continue;
      ++inside;
      const auto value = static_cast<double>(x[elements(n, p.h, p.w, p.c) + elements(iy, p.w, p.c, 1) +
                                               elements(ix, p.c, 1, 1) + static_cast<std::size_t>(channel)]);
      sum += value;
      absolute += std::abs(value);
      if (value > largest || std::isnan(value)) largest = value;
    }
  }
  if (p.kind == PoolingKind::Max) return {largest, 0.0};
  const double divisor = std::max(p.count_include_pad ? padded : inside, 1);
  return {sum / divisor, absolute / divisor};
}

Oracle oracle_pooling(const PoolingParams& p, const std::vector<float>& x) {
  Oracle oracle;
  oracle.products = static_cast<std::int64_t>(p.kernel_h) * p.kernel_w;
  for (int n = 0; n < p.n; ++n) {
    for (int oy = 0; oy < p.out_h; ++oy) {
      for (int ox = 0; ox < p.out_w; ++ox) {
        for (int channel = 0; channel < p.c; ++channel) {
          const Pooled pooled = oracle_at(p, x, n, oy, ox, channel);
          oracle.value.push_back(pooled.value);
          oracle.magnitude.push_back(pooled.magnitude);
        }
      }
    }
  }
  return oracle;
}

std::vector<float> run_pooling(const PoolingParams& p, const std::vector<float>& x, std::size_t misalign) {
  const DeviceTensor in(p.elem, x, misalign);
  std::vector<float> y =
      run_kernel(p.elem, elements(p.n, p.out_h, p.out_w, p.c), misalign,
                 [&](void* out, const kernels::Launch& where) { return kernels::pooling(p, in.data(), out, where); });
  CHECK(in.check_unchanged());
  return y;
}

std::vector<float> run_global(const GlobalAveragePoolParams& p, const std::vector<float>& x, std::size_t misalign) {
  const DeviceTensor in(p.elem, x, misalign);
  std::vector<float> y = run_kernel(
      p.elem, elements(p.n, 1, 1, p.c), misalign,
      [&](void* out, const kernels::Launch& where) { return kernels::global_average_pool(p, in.data(), out, where); });
  CHECK(in.check_unchanged());
  return y;
}

/// global_average_pool is the average over one window, the whole picture.
Oracle oracle_global(const GlobalAveragePoolParams& p, const std::vector<float>& x) {
  const Window whole{p.h, p.w, p.h, p.w, 1, 1, 0, 0, 0, 0};
  return oracle_pooling(make_params(p.elem, PoolingKind::Average, whole, p.n, p.c), x);
}

void check_pooling(const PoolingParams& p, const std::vector<float>& x, std::size_t misalign) {
  CAPTURE(to_string(p.elem), p.n, p.h, p.w, p.c, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad_top, p.pad_left,
          p.pad_bottom, p.pad_right, p.dilation_h, p.dilation_w, p.count_include_pad, misalign);
  const Oracle oracle = oracle_pooling(p, x);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c};
  const std::vector<float> y = run_pooling(p, x, misalign);
  if (p.kind == PoolingKind::Max) {
    CHECK(compare_exact(y, oracle.value, shape));
  } else {
    const auto bounds =
        hard_bounds(gamma(oracle.products, unit_of(p.elem)), oracle.magnitude, oracle.value, store_of(p.elem));
    CHECK(compare_elements(y, oracle.value, bounds, shape));
  }
}

void check_pooling(const PoolingParams& p, std::size_t misalign) {
  check_pooling(p, rounded(p.elem, random_uniform(1, elements(p.n, p.h, p.w, p.c))), misalign);
}

/// Both kinds, and averages over padding as well.
template <class Check>
void for_each_kind(PoolingParams p, const Check& check) {
  check(p);
  p.kind = PoolingKind::Average;
  for (const bool include_pad : {false, true}) {
    p.count_include_pad = include_pad;
    check(p);
  }
}

TEST_CASE("max pooling equals the oracle on all windows", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const Window& window : kWindows) {
      for (const int c : kChannels) {
        for (const std::size_t misalign : kMisalignments) {
          check_pooling(make_params(elem, PoolingKind::Max, window, 2, c), misalign);
        }
      }
    }
  }
}

TEST_CASE("average pooling stays within its bound of the oracle on all windows", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const Window& window : kWindows) {
      for (const int c : kChannels) {
        for (const bool include_pad : {false, true}) {
          PoolingParams p = make_params(elem, PoolingKind::Average, window, 3, c);
          p.count_include_pad = include_pad;
          check_pooling(p, 0);
        }
      }
    }
  }
}

TEST_CASE("average pooling divides by the window within the padded image where ceil_mode ends outside it",
          "[sanitize]") {
  PoolingParams p = make_params(Elem::F32, PoolingKind::Average, {4, 4, 3, 3, 2, 2, 0, 0, 0, 0}, 1, 8);
  p.out_h = p.out_w = 2;
  for (const bool include_pad : {false, true}) {
    p.count_include_pad = include_pad;
    check_pooling(p, 0);
  }
}

TEST_CASE("pooling takes taps that lie apart", "[sanitize]") {
  constexpr int kDilations[][2] = {{2, 2}, {1, 3}, {3, 1}, {5, 2}};
  for (const Elem elem : kElems) {
    for (const Window& window : kWindows) {
      for (const auto& [vertical, horizontal] : kDilations) {
        for (const int c : {1, 5, 8, 16}) {
          PoolingParams p = make_params(elem, PoolingKind::Max, window, 2, c);
          p.dilation_h = vertical;
          p.dilation_w = horizontal;
          check_pooling(p, 0);  // with as many outputs as without: windows that end outside of everything as well
          for (const bool include_pad : {false, true}) {
            p.kind = PoolingKind::Average;
            p.count_include_pad = include_pad;
            check_pooling(p, 0);
          }
        }
      }
    }
  }
}

TEST_CASE("pooling of halves in strips stays within its bound of the oracle", "[sanitize]") {
  for (const Window& window : kStripWindows) {
    for (const int c : {8, 24, 136, 264}) {
      for_each_kind(make_params(Elem::F16, PoolingKind::Max, window, 2, c),
                    [](const PoolingParams& p) { check_pooling(p, 0); });
    }
  }
}

// So many outputs that a thread has several, on the emulator's six multiprocessors.
TEST_CASE("pooling of halves in long strips stays within its bound of the oracle", "[sanitize]") {
  for (const Window& window : {Window{17, 19, 3, 3, 1, 1, 1, 1, 1, 1}, Window{29, 31, 3, 3, 2, 2, 0, 1, 1, 0},
                               Window{30, 27, 2, 2, 2, 2, 0, 0, 0, 1}}) {
    for (const int n : {1, 8}) {
      for_each_kind(make_params(Elem::F16, PoolingKind::Max, window, n, 72), [](PoolingParams p) {
        check_pooling(p, 0);
        ++p.out_h;  // as ceil_mode may have it
        ++p.out_w;
        check_pooling(p, 0);
      });
    }
  }
}

TEST_CASE("pooling of halves in strips that fill a GPU stays within its bound of the oracle", "[large]") {
  for (const Window& window : {Window{17, 17, 3, 3, 1, 1, 1, 1, 1, 1}, Window{35, 35, 3, 3, 2, 2, 0, 0, 0, 0},
                               Window{34, 34, 2, 2, 2, 2, 0, 0, 0, 0}}) {
    for_each_kind(make_params(Elem::F16, PoolingKind::Max, window, 32, 768),
                  [](const PoolingParams& p) { check_pooling(p, 0); });
  }
}

// One channel a thread is another kernel, and one image another length of the strips.
TEST_CASE("pooling of halves in strips has the bits of one channel a thread and of one image", "[sanitize]") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kRare[] = {kNan, kInfinity, -kInfinity, -0.0F, 0.0F, 65504.0F, -65504.0F};
  constexpr int kPictures = 30;
  for (const Window& window : kStripWindows) {
    for_each_kind(make_params(Elem::F16, PoolingKind::Max, window, kPictures, 96), [&](PoolingParams p) {
      CAPTURE(p.h, p.w, p.kernel_h, p.stride_h, p.pad_top, static_cast<int>(p.kind), p.count_include_pad);
      std::vector<float> x = rounded(p.elem, random_uniform(6, elements(p.n, p.h, p.w, p.c)));
      for (std::size_t i = 0; i < x.size(); i += 5) x[i] = kRare[i / 5 % std::size(kRare)];
      for (std::size_t i = 0; i < x.size(); i += 96) x[i] = -0.0F;  // a channel of nothing else
      check_pooling(p, x, 0);
      const std::vector<float> y = run_pooling(p, x, 0);
      CHECK(compare_bits(run_pooling(p, x, 1), y));
      p.n = 1;
      const auto size = static_cast<std::ptrdiff_t>(elements(1, p.h, p.w, p.c));
      const auto out = static_cast<std::ptrdiff_t>(elements(1, p.out_h, p.out_w, p.c));
      const std::vector<float> last(x.end() - size, x.end());
      CHECK(compare_bits(run_pooling(p, last, 0), std::vector<float>(y.end() - out, y.end())));
    });
  }
}

TEST_CASE("pooling propagates NaN and infinity", "[sanitize]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  PoolingParams p = make_params(Elem::F32, PoolingKind::Max, {2, 2, 2, 2, 1, 1, 0, 0, 0, 0}, 1, 4);
  // (h, w, c): channel 0 has a NaN first, channel 1 a NaN last, channel 2 infinities, channel 3 -0 and 0
  const std::vector<float> x{kNan, 1.0F, kInfinity,  -0.0F, 1.0F, 2.0F, 1.0F, -1.0F,
                             2.0F, 3.0F, -kInfinity, -0.0F, 3.0F, kNan, 0.0F, -2.0F};
  for (const Elem elem : kAllElems) {
    p.elem = elem;
    p.kind = PoolingKind::Max;
    CHECK(compare_exact(run_pooling(p, x, 0), std::vector<double>{kNan, kNan, kInfinity, 0.0}));
    p.kind = PoolingKind::Average;
    CHECK(compare_exact(run_pooling(p, x, 0), std::vector<double>{kNan, kNan, kNan, -0.75}));
  }
}

TEST_CASE("pooling of an empty batch does nothing and bad sizes are refused") {
  PoolingParams p = make_params(Elem::F32, PoolingKind::Max, kWindows[2], 0, 8);
  CHECK(kernels::pooling(p, nullptr, nullptr, {}) == cudaSuccess);
  p.stride_h = 0;
  CHECK(kernels::pooling(p, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  p.stride_h = 1;
  p.dilation_w = 0;
  CHECK(kernels::pooling(p, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::global_average_pool({Elem::F32, 0, 7, 7, 8}, nullptr, nullptr, {}) == cudaSuccess);
  CHECK(kernels::global_average_pool({Elem::F32, 1, 0, 7, 8}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
}

TEST_CASE("global_average_pool stays within its bound of the oracle", "[sanitize]") {
  constexpr int kSizes[][2] = {{1, 1}, {1, 2}, {2, 3}, {7, 1}, {3, 3}, {7, 7}, {8, 8}, {13, 5}, {14, 15}, {28, 28}};
  for (const Elem elem : kAllElems) {
    for (const auto& [h, w] : kSizes) {
      for (const int c : {1, 3, 4, 8, 16, 31, 32, 33, 40, 96}) {
        for (const int n : {1, 2, 33}) {
          const GlobalAveragePoolParams p{elem, n, h, w, c};
          const std::size_t misalign = n == 2 ? 1 : 0;
          CAPTURE(to_string(elem), n, h, w, c, misalign);
          const std::vector<float> x = rounded(elem, random_uniform(2, elements(n, h, w, c)));
          const Oracle oracle = oracle_global(p, x);
          const auto bounds =
              hard_bounds(gamma(oracle.products, unit_of(elem)), oracle.magnitude, oracle.value, store_of(elem));
          CHECK(compare_elements(run_global(p, x, misalign), oracle.value, bounds));
        }
      }
    }
  }
}

TEST_CASE("global_average_pool of MobileNetV2 heads keeps its accuracy and is exact on whole numbers", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const int n : {1, 8, 32}) {
      for (const int c : {1280, 1792}) {
        const GlobalAveragePoolParams p{elem, n, 7, 7, c};
        CAPTURE(to_string(elem), n, c);
        const std::vector<float> x = rounded(elem, random_uniform(3, elements(n, 7, 7, c)));
        const Oracle oracle = oracle_global(p, x);
        const std::vector<float> y = run_global(p, x, 0);
        CHECK(compare_elements(
            y, oracle.value,
            hard_bounds(gamma(oracle.products, unit_of(elem)), oracle.magnitude, oracle.value, store_of(elem))));
        CHECK(compare_rel_l2(y, oracle.value, rel_l2_alarm(oracle.products, store_of(elem))));

        const std::vector<float> whole = random_integers(4, x.size());
        std::vector<float> means;  // the sum is exact, so that only the division and the storage round
        for (const double mean : oracle_global(p, whole).value) means.push_back(static_cast<float>(mean));
        CHECK(compare_bits(run_global(p, whole, 0), rounded(elem, means)));
      }
    }
  }
}

TEST_CASE("global_average_pool of a picture does not depend on its batch", "[sanitize]") {
  constexpr int kPictures = 40;
  constexpr int kC = 1280;
  for (const Elem elem : kAllElems) {
    const std::vector<float> x = random_uniform(5, elements(kPictures, 7, 7, kC));
    const std::vector<float> all = run_global({elem, kPictures, 7, 7, kC}, x, 0);
    for (const int picture : {0, 17, kPictures - 1}) {
      CAPTURE(to_string(elem), picture);
      const auto first = static_cast<std::ptrdiff_t>(elements(picture, 7, 7, kC));
      const auto size = static_cast<std::ptrdiff_t>(elements(1, 7, 7, kC));
      const std::vector<float> one(x.begin() + first, x.begin() + first + size);
      const auto place = all.begin() + static_cast<std::ptrdiff_t>(picture) * kC;
      CHECK(compare_bits(run_global({elem, 1, 7, 7, kC}, one, 0), std::vector<float>(place, place + kC)));
    }
  }
}

TEST_CASE("pooling of one window and of whole pictures once", "[race]") {
  for (const Elem elem : kAllElems) {
    check_pooling(make_params(elem, PoolingKind::Max, kWindows[3], 2, 33), 0);
    check_pooling(make_params(elem, PoolingKind::Average, kWindows[3], 2, 64), 0);
    for (const int c : {33, 96}) {
      const GlobalAveragePoolParams p{elem, 3, 14, 15, c};
      const std::vector<float> x = rounded(elem, random_uniform(2, elements(p.n, p.h, p.w, p.c)));
      const Oracle oracle = oracle_global(p, x);
      const auto bounds =
          hard_bounds(gamma(oracle.products, unit_of(elem)), oracle.magnitude, oracle.value, store_of(elem));
      CHECK(compare_elements(run_global(p, x, 0), oracle.value, bounds));
    }
  }
}

}  // namespace
}  // namespace mobicuda::test
