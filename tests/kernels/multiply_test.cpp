#include "kernels/streaming/multiply.h"

#include <limits>

#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using kernels::MultiplyParams;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr kernels::Clip kNone{-kInfinity, kInfinity};
constexpr kernels::Clip kNarrow{-0.25F, 0.5F};

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

/// b has a's extents, or 1 where `repeats`.
MultiplyParams make_params(Elem elem, kernels::Clip clip, const std::vector<std::int64_t>& extent,
                           const std::vector<bool>& repeats) {
  MultiplyParams p;
  p.elem = elem;
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

std::int64_t elements(const MultiplyParams& p, bool of_b) {
  std::int64_t count = 1;
  for (int axis = 0; axis < p.axes; ++axis) count *= of_b && p.b_stride[axis] == 0 ? 1 : p.extent[axis];
  return count;
}

/// One product in float, then rounding to storage: the result is determined to the last bit.
std::vector<float> expected_product(const MultiplyParams& p, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> y(a.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t right = 0;
    for (int axis = p.axes - 1; axis >= 0; --axis) {
      right += rest % p.extent[axis] * p.b_stride[axis];
      rest /= p.extent[axis];
    }
    const float product = a[i] * b[size(right)];
    const float raised = product < p.activation.lo ? p.activation.lo : product;
    y[i] = raised > p.activation.hi ? p.activation.hi : raised;
  }
  return rounded(p.elem, y);
}

void check_multiply(const MultiplyParams& p, std::size_t misalign_a = 0, std::size_t misalign_b = 0) {
  CAPTURE(to_string(p.elem), p.axes, misalign_a, misalign_b);
  CAPTURE(p.extent[0], p.extent[1], p.extent[2], p.extent[3], p.b_stride[0], p.b_stride[1], p.b_stride[2]);
  const std::vector<float> a = rounded(p.elem, random_uniform(1, size(elements(p, false))));
  const std::vector<float> b = rounded(p.elem, random_uniform(2, size(elements(p, true))));
  const DeviceTensor left(p.elem, a, misalign_a);
  const DeviceTensor right(p.elem, b, misalign_b);
  const auto y = run_kernel(p.elem, a.size(), misalign_a, [&](void* out, const kernels::Launch& where) {
    return kernels::multiply(p, left.data(), right.data(), out, where);
  });
  CHECK(compare_bits(y, expected_product(p, a, b)));
  CHECK(left.check_unchanged());
  CHECK(right.check_unchanged());
}

TEST_CASE("multiply equals float multiplication to the bit, however its right side repeats", "[sanitize]") {
  const std::vector<std::int64_t> shapes[] = {{3, 5, 7, 8}, {2, 4, 3, 24}, {1, 7, 1, 3}, {33, 2, 2, 16},
                                              {2, 1, 1, 1}, {1, 1, 1, 9},  {0, 5, 7, 8}, {2, 3, 2, 1032}};
  for (const Elem elem : kAllElems) {
    for (const auto& shape : shapes) {
      for (unsigned repeated = 0; repeated < 16; ++repeated) {
        std::vector<bool> repeats;
        for (unsigned axis = 0; axis < 4; ++axis) repeats.push_back((repeated >> axis & 1U) != 0);
        check_multiply(make_params(elem, kNone, shape, repeats));
      }
    }
  }
}

TEST_CASE("multiply takes its element-wise path when a pointer is misaligned, and clips", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const std::vector<bool>& repeats :
         {std::vector<bool>{false, true, true, false}, {false, false, false, false}, {false, false, false, true}}) {
      for (const auto& [a, b] : {std::pair<std::size_t, std::size_t>{0, 0}, {1, 0}, {0, 1}, {1, 1}}) {
        check_multiply(make_params(elem, kNarrow, {2, 3, 3, 40}, repeats), a, b);
      }
    }
  }
}

TEST_CASE("multiply joins axes of any rank, and refuses what still has more than four") {
  check_multiply(make_params(Elem::F16, kNone, {2, 3, 4, 2, 2, 8}, {false, true, true, false, false, false}));
  check_multiply(make_params(Elem::F32, kNone, {2, 3, 1, 4, 1, 2, 5}, {false, true, false, true, true, false, false}));
  check_multiply(make_params(Elem::F32, kNone, {}, {}));
  CHECK(!kernels::supports(make_params(Elem::F32, kNone, {2, 2, 2, 2, 2}, {false, true, false, true, false})));
  CHECK(!kernels::supports(make_params(Elem::F32, kNone, {1 << 20, 1 << 12, 8}, {false, false, true})));
}

TEST_CASE("multiply handles NaN, infinity, -0, denormal and largest numbers as IEEE says", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    const float largest = elem == Elem::F32 ? std::numeric_limits<float>::max() : 65504.0F;
    const float denormal = elem == Elem::F32 ? std::numeric_limits<float>::denorm_min() : 0x1p-24F;
    const std::vector<float> edges{0.0F, -0.0F, 1.0F, -1.0F, largest, denormal, kInfinity, -kInfinity, kNan, 0.25F};
    std::vector<float> a;
    for (const float left : edges) a.insert(a.end(), edges.size(), left);
    const auto side = static_cast<std::int64_t>(edges.size());
    const MultiplyParams p = make_params(elem, kNone, {side, side}, {true, false});
    const DeviceTensor left(elem, a);
    const DeviceTensor right(elem, edges);
    const auto y = run_kernel(elem, a.size(), 0, [&](void* out, const kernels::Launch& where) {
      return kernels::multiply(p, left.data(), right.data(), out, where);
    });
    CHECK(compare_bits(y, expected_product(p, a, edges)));
  }
}

TEST_CASE("multiply goes down more rows than one grid holds", "[large]") {
  constexpr std::int64_t kRows = 65535LL * 64 * 4 + 77;  // one more round than grid y, block and thread cover
  check_multiply(make_params(Elem::F16, kNone, {kRows, 2}, {true, false}));
}

TEST_CASE("multiply once for each type", "[race]") {
  for (const Elem elem : kAllElems) check_multiply(make_params(elem, kNone, {3, 5, 7, 24}, {false, true, true, false}));
}

}  // namespace
}  // namespace mobicuda::test
