#include "kernels/streaming/extremum.h"

#include <limits>

#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using kernels::ExtremumParams;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr kernels::Clip kNone{-kInfinity, kInfinity};
constexpr kernels::Clip kNarrow{-0.25F, 0.5F};

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

/// b has a's extents, or 1 where `repeats`.
ExtremumParams make_params(Elem elem, bool largest, kernels::Clip clip, const std::vector<std::int64_t>& extent,
                           const std::vector<bool>& repeats) {
  ExtremumParams p;
  p.elem = elem;
  p.largest = largest;
  p.activation = clip;
  p.axes = static_cast<int>(extent.size());
  std::int64_t stride = 1;
  for (std::size_t axis = extent.size(); axis-- > 0;) {
    p.extent[axis] = extent[axis];
    p.b_stride[axis] = repeats[axis] ? 0 : stride;
    if (!repeats[axis]) stride *= extent[axis];
  }
  return p;
}

std::int64_t elements(const ExtremumParams& p, bool of_b) {
  std::int64_t count = 1;
  for (int axis = 0; axis < p.axes; ++axis) count *= of_b && p.b_stride[axis] == 0 ? 1 : p.extent[axis];
  return count;
}

float extremum_of(bool largest, float a, float b) {
  if (a != a) return a;
  if (b != b) return b;
  if (largest) return a > b ? a : b;
  return a < b ? a : b;
}

/// An operand's bits: the result is determined to the last of them.
std::vector<float> expected_extrema(const ExtremumParams& p, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> y(a.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t right = 0;
    for (int axis = p.axes - 1; axis >= 0; --axis) {
      right += rest % p.extent[axis] * p.b_stride[axis];
      rest /= p.extent[axis];
    }
    const float extremum = extremum_of(p.largest, a[i], b[size(right)]);
    const float raised = extremum < p.activation.lo ? p.activation.lo : extremum;
    y[i] = raised > p.activation.hi ? p.activation.hi : raised;
  }
  return rounded(p.elem, y);
}

void check_extremum(const ExtremumParams& p, std::size_t misalign_a = 0, std::size_t misalign_b = 0) {
  CAPTURE(to_string(p.elem), p.largest, p.axes, misalign_a, misalign_b);
  CAPTURE(p.extent[0], p.extent[1], p.extent[2], p.extent[3], p.b_stride[0], p.b_stride[1], p.b_stride[2]);
  const std::vector<float> a = rounded(p.elem, random_uniform(1, size(elements(p, false))));
  const std::vector<float> b = rounded(p.elem, random_uniform(2, size(elements(p, true))));
  const DeviceTensor left(p.elem, a, misalign_a);
  const DeviceTensor right(p.elem, b, misalign_b);
  const auto y = run_kernel(p.elem, a.size(), misalign_a, [&](void* out, const kernels::Launch& where) {
    return kernels::extremum(p, left.data(), right.data(), out, where);
  });
  CHECK(compare_bits(y, expected_extrema(p, a, b)));
  CHECK(left.check_unchanged());
  CHECK(right.check_unchanged());
}

TEST_CASE("extremum equals a comparison to the bit, however its right side repeats", "[sanitize]") {
  const std::vector<std::int64_t> shapes[] = {{3, 5, 7, 8}, {2, 4, 3, 24}, {1, 7, 1, 3}, {2, 1, 1, 1}, {0, 5, 7, 8}};
  for (const Elem elem : kAllElems) {
    for (const bool largest : {true, false}) {
      for (const auto& shape : shapes) {
        for (unsigned repeated = 0; repeated < 16; ++repeated) {
          std::vector<bool> repeats;
          for (unsigned axis = 0; axis < 4; ++axis) repeats.push_back((repeated >> axis & 1U) != 0);
          check_extremum(make_params(elem, largest, kNone, shape, repeats));
        }
      }
    }
  }
}

TEST_CASE("extremum takes its element-wise path when a pointer is misaligned, and clips", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const std::vector<bool>& repeats :
         {std::vector<bool>{false, true, true, false}, {false, false, false, false}, {false, false, false, true}}) {
      for (const auto& [a, b] : {std::pair<std::size_t, std::size_t>{0, 0}, {1, 0}, {0, 1}, {1, 1}}) {
        check_extremum(make_params(elem, a == b, kNarrow, {2, 3, 3, 40}, repeats), a, b);
      }
    }
  }
}

TEST_CASE("extremum joins axes of any rank, and refuses what still has more than four") {
  check_extremum(make_params(Elem::F16, true, kNone, {2, 3, 4, 2, 2, 8}, {false, true, true, false, false, false}));
  check_extremum(make_params(Elem::F32, false, kNone, {}, {}));
  const ExtremumParams alternate =
      make_params(Elem::F32, true, kNone, {2, 2, 2, 2, 2}, {false, true, false, true, false});
  CHECK(!kernels::supports(alternate));
  CHECK(kernels::extremum(alternate, nullptr, nullptr, nullptr, {}) == cudaErrorInvalidValue);
}

TEST_CASE("extremum takes a NaN of either side, and of two zeros the right one", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    const float largest = elem == Elem::F32 ? std::numeric_limits<float>::max() : 65504.0F;
    const float denormal = elem == Elem::F32 ? std::numeric_limits<float>::denorm_min() : 0x1p-24F;
    const std::vector<float> edges{0.0F,     -0.0F,     1.0F,      -1.0F,      largest, -largest,
                                   denormal, -denormal, kInfinity, -kInfinity, kNan,    0.25F};
    std::vector<float> a;
    for (const float left : edges) a.insert(a.end(), edges.size(), left);
    const auto side = static_cast<std::int64_t>(edges.size());
    for (const bool of_largest : {true, false}) {
      const ExtremumParams p = make_params(elem, of_largest, kNone, {side, side}, {true, false});
      const DeviceTensor left(elem, a);
      const DeviceTensor right(elem, edges);
      const auto y = run_kernel(elem, a.size(), 0, [&](void* out, const kernels::Launch& where) {
        return kernels::extremum(p, left.data(), right.data(), out, where);
      });
      CHECK(compare_bits(y, expected_extrema(p, a, edges)));
    }
  }
}

TEST_CASE("extremum once for each type", "[race]") {
  for (const Elem elem : kAllElems) {
    for (const bool largest : {true, false}) {
      check_extremum(make_params(elem, largest, kNone, {3, 5, 7, 24}, {false, true, true, false}));
    }
  }
}

}  // namespace
}  // namespace mobicuda::test
