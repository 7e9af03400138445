#include "kernels/streaming/elementwise.h"

#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr kernels::Clip kNone{-kInfinity, kInfinity};
constexpr kernels::Clip kRelu6{0.0F, 6.0F};
constexpr kernels::Clip kNarrow{-0.25F, 0.5F};
constexpr std::size_t kMisalignments[] = {0, 1};
constexpr std::size_t kCounts[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 127, 128, 1023, 1024, 1025, 2047, 2048, 2049, 100003};

float clipped(kernels::Clip clip, float x) {
  const float raised = x < clip.lo ? clip.lo : x;
  return raised > clip.hi ? clip.hi : raised;
}

/// One addition or none in float, then rounding to storage: the result is determined to the last bit.
std::vector<float> expected_add(Elem elem, kernels::Clip clip, const std::vector<float>& a,
                                const std::vector<float>& b) {
  std::vector<float> y(a.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = clipped(clip, a[i] + b[i]);
  return rounded(elem, y);
}

std::vector<float> expected_clip(Elem elem, kernels::Clip clip, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = clipped(clip, x[i]);
  return rounded(elem, y);
}

std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

std::vector<float> run_add(Elem elem, kernels::Clip clip, const std::vector<float>& a, const std::vector<float>& b,
                           std::size_t misalign = 0) {
  const DeviceTensor left(elem, a, misalign);
  const DeviceTensor right(elem, b, misalign);
  std::vector<float> y = run_kernel(elem, a.size(), misalign, [&](void* out, const kernels::Launch& where) {
    return kernels::add(elem, static_cast<std::int64_t>(a.size()), clip, left.data(), right.data(), out, where);
  });
  CHECK(left.check_unchanged());
  CHECK(right.check_unchanged());
  return y;
}

std::vector<float> run_clip(Elem elem, kernels::Clip clip, const std::vector<float>& x, std::size_t misalign = 0) {
  const DeviceTensor in(elem, x, misalign);
  std::vector<float> y = run_kernel(elem, x.size(), misalign, [&](void* out, const kernels::Launch& where) {
    return kernels::clip(elem, static_cast<std::int64_t>(x.size()), clip, in.data(), out, where);
  });
  CHECK(in.check_unchanged());
  return y;
}

/// Numbers at the edges of the format, -0 and NaN among them.
std::vector<float> edges(Elem elem) {
  const float largest = elem != Elem::F16 ? std::numeric_limits<float>::max() : 65504.0F;
  const float denormal = elem != Elem::F16 ? std::numeric_limits<float>::denorm_min() : 0x1p-24F;
  const float smallest = elem != Elem::F16 ? std::numeric_limits<float>::min() : 0x1p-14F;
  return {0.0F,     -0.0F,     1.0F,     -1.0F,     6.0F,      5.5F,       7.0F, largest, -largest,
          denormal, -denormal, smallest, -smallest, kInfinity, -kInfinity, kNan, -kNan,   0.25F};
}

TEST_CASE("add equals float addition to the bit", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const std::size_t count : kCounts) {
      for (const std::size_t misalign : kMisalignments) {
        for (const kernels::Clip clip : {kNone, kNarrow}) {
          CAPTURE(to_string(elem), count, misalign, clip.lo);
          const std::vector<float> a = rounded(elem, random_uniform(1, count));
          const std::vector<float> b = rounded(elem, random_uniform(2, count));
          CHECK(compare_bits(run_add(elem, clip, a, b, misalign), expected_add(elem, clip, a, b)));
        }
      }
    }
  }
}

TEST_CASE("add takes its scalar path when only one pointer is misaligned", "[sanitize]") {
  constexpr std::size_t kCount = 1000;
  for (const Elem elem : kAllElems) {
    for (int which = 0; which < 3; ++which) {
      CAPTURE(to_string(elem), which);
      const std::vector<float> a = rounded(elem, random_uniform(3, kCount));
      const std::vector<float> b = rounded(elem, random_uniform(4, kCount));
      const DeviceTensor left(elem, a, which == 0 ? 1 : 0);
      const DeviceTensor right(elem, b, which == 1 ? 1 : 0);
      const auto y = run_kernel(elem, kCount, which == 2 ? 1 : 0, [&](void* out, const kernels::Launch& where) {
        return kernels::add(elem, kCount, kNone, left.data(), right.data(), out, where);
      });
      CHECK(compare_bits(y, expected_add(elem, kNone, a, b)));
    }
  }
}

TEST_CASE("add handles NaN, infinity, -0, denormal and largest numbers as IEEE says", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    std::vector<float> a;
    std::vector<float> b;
    for (const float left : edges(elem)) {
      for (const float right : edges(elem)) {
        a.push_back(left);
        b.push_back(right);
      }
    }
    CAPTURE(to_string(elem));
    CHECK(compare_bits(run_add(elem, kNone, a, b), expected_add(elem, kNone, a, b)));
    CHECK(compare_exact(run_add(elem, kRelu6, a, b), widened(expected_add(elem, kRelu6, a, b))));
  }
}

TEST_CASE("clip equals min(max(x, lo), hi) to the bit", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const std::size_t count : kCounts) {
      for (const std::size_t misalign : kMisalignments) {
        CAPTURE(to_string(elem), count, misalign);
        const std::vector<float> x = rounded(elem, random_uniform(5, count));
        CHECK(compare_bits(run_clip(elem, kNarrow, x, misalign), expected_clip(elem, kNarrow, x)));
      }
    }
  }
}

TEST_CASE("clip propagates NaN and keeps infinities within bounds", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    const std::vector<float> x = edges(elem);
    CAPTURE(to_string(elem));
    CHECK(compare_bits(run_clip(elem, kNone, x), x));
    for (const kernels::Clip clip : {kRelu6, kNarrow, kernels::Clip{0.0F, kInfinity}}) {
      CHECK(compare_exact(run_clip(elem, clip, x), widened(expected_clip(elem, clip, x))));
    }
  }
}

TEST_CASE("clip with lo above hi gives hi") {
  const std::vector<float> x{-3.0F, 0.0F, 1.5F, 3.0F};
  const std::vector<double> hi(x.size(), -1.0);
  CHECK(compare_exact(run_clip(Elem::F32, {2.0F, -1.0F}, x), hi));
}

TEST_CASE("scale_shift stays within its bound of the oracle", "[sanitize]") {
  constexpr int kChannels[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 24, 31, 32, 33, 96, 127, 128, 129, 144, 960, 1280, 2056};
  constexpr std::int64_t kRows[] = {0, 1, 2, 3, 49, 257};
  for (const Elem elem : kAllElems) {
    for (const int c : kChannels) {
      for (const std::int64_t rows : kRows) {
        const std::size_t misalign = static_cast<std::size_t>(rows % 2);
        CAPTURE(to_string(elem), c, rows, misalign);
        const auto channels = static_cast<std::size_t>(c);
        const std::size_t count = channels * static_cast<std::size_t>(rows);
        const std::vector<float> x = rounded(elem, random_uniform(6, count));
        const std::vector<float> scale = random_uniform(7, channels);
        const std::vector<float> shift = random_uniform(8, channels);
        std::vector<double> expected(count);
        std::vector<double> magnitude(count);
        for (std::size_t i = 0; i < count; ++i) {
          const double product = static_cast<double>(scale[i % channels]) * static_cast<double>(x[i]);
          const auto offset = static_cast<double>(shift[i % channels]);
          expected[i] =
              std::min(std::max(product + offset, static_cast<double>(kNarrow.lo)), static_cast<double>(kNarrow.hi));
          magnitude[i] = std::abs(product) + std::abs(offset);
        }
        const DeviceTensor in(elem, x, misalign);
        const DeviceTensor factors(Elem::F32, scale);
        const DeviceTensor offsets(Elem::F32, shift);
        const auto y = run_kernel(elem, count, misalign, [&](void* out, const kernels::Launch& where) {
          return kernels::scale_shift(elem, rows, c, kNarrow, in.data(), factors.floats(), offsets.floats(), out,
                                      where);
        });
        CHECK(compare_elements(y, expected, hard_bounds(gamma(1, unit_of(elem)), magnitude, expected, store_of(elem))));
        CHECK(in.check_unchanged());
        CHECK(factors.check_unchanged());
        CHECK(offsets.check_unchanged());
      }
    }
  }
}

TEST_CASE("scale_shift is exact on whole numbers over more rows than one grid holds", "[large]") {
  constexpr int kC = 1;
  constexpr std::int64_t kRows = 65535LL * 128 * 4 + 77;  // one more round than grid y, block and thread cover
  const DeviceTensor in(Elem::F16, random_integers(9, static_cast<std::size_t>(kRows)));
  const DeviceTensor factor(Elem::F32, std::vector<float>{3.0F});
  const DeviceTensor offset(Elem::F32, std::vector<float>{-1.0F});
  const std::vector<float> x = in.download();
  const auto y = run_kernel(Elem::F16, x.size(), 0, [&](void* out, const kernels::Launch& where) {
    return kernels::scale_shift(Elem::F16, kRows, kC, kNone, in.data(), factor.floats(), offset.floats(), out, where);
  });
  std::vector<double> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = 3.0 * static_cast<double>(x[i]) - 1.0;
  CHECK(compare_exact(y, expected));
}

TEST_CASE("clip reaches elements beyond 2^31", "[large]") {
  constexpr std::size_t kCount = (std::size_t{1} << 31U) + 1027;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes < 3 * 2 * kCount) MOBICUDA_SKIP("needs 12 GiB of free device memory");
  const GuardedBuffer x(2 * kCount);
  const GuardedBuffer y(2 * kCount);
  constexpr int kByte = 0x40;  // 0x4040 is 2.125 in half
  check_cuda(cudaMemset(x.data(), kByte, x.bytes()), "cudaMemset");
  REQUIRE(kernels::clip(Elem::F16, static_cast<std::int64_t>(kCount), {0.0F, 2.0F}, x.data(), y.data(), {}) ==
          cudaSuccess);
  synchronize();
  constexpr std::size_t kChecked = 4096;
  std::vector<std::uint16_t> end(kChecked);
  const auto* last = static_cast<const std::uint16_t*>(y.data()) + (kCount - kChecked);
  check_cuda(cudaMemcpy(end.data(), last, 2 * kChecked, cudaMemcpyDeviceToHost), "cudaMemcpy");
  constexpr std::uint16_t kTwo = 0x4000;
  CHECK(end == std::vector<std::uint16_t>(kChecked, kTwo));
  CHECK(y.check_guards());
}

TEST_CASE("elementwise kernels refuse negative sizes") {
  CHECK(kernels::add(Elem::F32, -1, kNone, nullptr, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::clip(Elem::F32, -1, kNone, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::scale_shift(Elem::F32, 1, -1, kNone, nullptr, nullptr, nullptr, nullptr, {}) == cudaErrorInvalidValue);
}

TEST_CASE("add and clip and scale_shift once for each type", "[race]") {
  constexpr int kChannels = 17;
  constexpr std::int64_t kRows = 59;
  const DeviceTensor scale(Elem::F32, random_uniform(7, kChannels));
  const DeviceTensor shift(Elem::F32, random_uniform(8, kChannels));
  for (const Elem elem : kAllElems) {
    const std::vector<float> a = rounded(elem, random_uniform(1, 1003));
    const std::vector<float> b = rounded(elem, random_uniform(2, 1003));
    CHECK(compare_bits(run_add(elem, kNarrow, a, b), expected_add(elem, kNarrow, a, b)));
    CHECK(compare_bits(run_clip(elem, kNarrow, a), expected_clip(elem, kNarrow, a)));
    const DeviceTensor x(elem, a);
    run_kernel(elem, a.size(), 0, [&](void* out, const kernels::Launch& where) {  // which compares two runs
      return kernels::scale_shift(elem, kRows, kChannels, kNarrow, x.data(), scale.floats(), shift.floats(), out,
                                  where);
    });
  }
}

}  // namespace
}  // namespace mobicuda::test
