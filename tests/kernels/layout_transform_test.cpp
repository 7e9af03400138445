#include "kernels/streaming/layout_transform.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

// Nothing here computes: all comparisons are bitwise.
namespace mobicuda::test {
namespace {

using kernels::LayoutTransformParams;
using kernels::PadMode;
using kernels::PadParams;
using kernels::TransposeParams;

constexpr std::size_t kMisalignments[] = {0, 1};

/// Row-major position in extents, and back.
std::size_t offset(const std::array<int, 4>& extent, const std::array<int, 4>& at) {
  std::size_t result = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    result = result * static_cast<std::size_t>(extent[axis]) + static_cast<std::size_t>(at[axis]);
  }
  return result;
}

std::size_t elements(const std::array<int, 4>& extent) {
  std::size_t product = 1;
  for (const int one : extent) product *= static_cast<std::size_t>(one);
  return product;
}

std::array<int, 4> position(const std::array<int, 4>& extent, std::size_t index) {
  std::array<int, 4> at{};
  for (std::size_t axis = 4; axis-- > 0;) {
    at[axis] = static_cast<int>(index % static_cast<std::size_t>(extent[axis]));
    index /= static_cast<std::size_t>(extent[axis]);
  }
  return at;
}

std::vector<float> permuted(const std::array<int, 4>& extent, const std::array<int, 4>& permutation,
                            const std::vector<float>& x) {
  std::array<int, 4> out{};
  for (std::size_t axis = 0; axis < 4; ++axis) out[axis] = extent[static_cast<std::size_t>(permutation[axis])];
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::array<int, 4> to = position(out, i);
    std::array<int, 4> from{};
    for (std::size_t axis = 0; axis < 4; ++axis) from[static_cast<std::size_t>(permutation[axis])] = to[axis];
    y[i] = x[offset(extent, from)];
  }
  return y;
}

std::vector<float> expected_transform(const LayoutTransformParams& p, const std::vector<float>& x) {
  if (p.from_nhwc == p.to_nhwc) return rounded(p.to, x);
  if (p.to_nhwc) return rounded(p.to, permuted({p.n, p.c, p.h, p.w}, {0, 2, 3, 1}, x));
  return rounded(p.to, permuted({p.n, p.h, p.w, p.c}, {0, 3, 1, 2}, x));
}

std::vector<float> run_transform(const LayoutTransformParams& p, const std::vector<float>& x, std::size_t misalign) {
  const DeviceTensor in(p.from, x, misalign);
  std::vector<float> y = run_kernel(p.to, x.size(), misalign, [&](void* out, const kernels::Launch& where) {
    return kernels::layout_transform(p, in.data(), out, where);
  });
  CHECK(in.check_unchanged());
  return y;
}

/// There is no conversion between half and double.
bool converts(const LayoutTransformParams& p) {
  return p.from == Elem::F16 ? p.to != Elem::F64 : p.from != Elem::F64 || p.to != Elem::F16;
}

void check_transform(const LayoutTransformParams& p, std::size_t misalign) {
  if (!converts(p)) return;
  CAPTURE(to_string(p.from), to_string(p.to), p.from_nhwc, p.to_nhwc, p.n, p.c, p.h, p.w, misalign);
  const std::vector<float> x = rounded(p.from, random_uniform(1, elements({p.n, p.c, p.h, p.w}), -100.0F, 100.0F));
  CHECK(compare_bits(run_transform(p, x, misalign), expected_transform(p, x)));
}

TEST_CASE("layout_transform moves and converts every element", "[sanitize]") {
  constexpr int kChannels[] = {1, 2, 3, 8, 9, 31, 32, 33, 96, 320};
  constexpr int kSizes[][2] = {{1, 1}, {1, 5}, {7, 7}, {31, 33}, {112, 3}, {8, 4}, {4, 8}};
  for (const Elem from : kAllElems) {
    for (const Elem to : kAllElems) {
      for (const bool to_nhwc : {false, true}) {
        for (const int c : kChannels) {
          for (const auto& [h, w] : kSizes) {
            check_transform({from, to, !to_nhwc, to_nhwc, 1 + c % 3, c, h, w}, 0);
          }
        }
      }
    }
  }
}

TEST_CASE("layout_transform between equal orders converts", "[sanitize]") {
  for (const Elem from : kAllElems) {
    for (const Elem to : kAllElems) {
      for (const int c : {1, 3, 7, 8, 9, 1000, 2049}) {
        for (const std::size_t misalign : kMisalignments) check_transform({from, to, true, true, 1, c, 1, 3}, misalign);
      }
    }
  }
}

TEST_CASE("layout_transform takes more pictures than one grid holds", "[large]") {
  constexpr int kPictures = 65535 + 300;
  check_transform({Elem::F32, Elem::F16, false, true, kPictures, 9, 1, 2}, 0);
  check_transform({Elem::F32, Elem::F16, false, true, kPictures, 3, 2, 1}, 0);
}

TEST_CASE("layout_transform to half rounds to nearest even, overflows to infinity and keeps NaN", "[sanitize]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{0.0F,     -0.0F,    1.0F + 0x1p-11F, 1.0F + 0x1p-10F + 0x1p-11F,
                             65504.0F, 65519.0F, 65520.0F,        -1e30F,
                             0x1p-24F, 0x1p-25F, kInfinity,       kNan};
  const std::vector<float> expected{0.0F,      -0.0F,      1.0F,     1.0F + 0x1p-9F, 65504.0F,  65504.0F,
                                    kInfinity, -kInfinity, 0x1p-24F, 0.0F,           kInfinity, kNan};
  const int c = static_cast<int>(x.size());
  CHECK(compare_bits(run_transform({Elem::F32, Elem::F16, true, true, 1, c, 1, 1}, x, 0), expected));
}

TEST_CASE("layout_transform reaches elements beyond 2^31", "[large]") {
  constexpr int kC = 9;
  constexpr int kSide = 11000;
  constexpr std::size_t kPixels = static_cast<std::size_t>(kSide) * kSide;
  constexpr std::size_t kCount = 2 * kC * kPixels;  // 2.18e9
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes < 3 * 2 * kCount) MOBICUDA_SKIP("needs 13 GiB of free device memory");
  const GuardedBuffer x(2 * kCount);
  const GuardedBuffer y(2 * kCount);
  constexpr std::uint16_t kMarker = 0x3C00;
  constexpr std::size_t kPixel = kPixels - 5;
  auto* source = static_cast<std::uint16_t*>(x.data());
  check_cuda(cudaMemset(source, 0, x.bytes()), "cudaMemset");
  const std::size_t planar = (std::size_t{kC} + 7) * kPixels + kPixel;  // picture 1, channel 7
  check_cuda(cudaMemcpy(source + planar, &kMarker, sizeof kMarker, cudaMemcpyHostToDevice), "cudaMemcpy");
  REQUIRE(kernels::layout_transform({Elem::F16, Elem::F16, false, true, 2, kC, kSide, kSide}, x.data(), y.data(), {}) ==
          cudaSuccess);
  synchronize();
  std::vector<std::uint16_t> pixel(kC);
  const auto* result = static_cast<const std::uint16_t*>(y.data()) + (kPixels + kPixel) * kC;
  check_cuda(cudaMemcpy(pixel.data(), result, sizeof kMarker * kC, cudaMemcpyDeviceToHost), "cudaMemcpy");
  CHECK(pixel == std::vector<std::uint16_t>{0, 0, 0, 0, 0, 0, 0, kMarker, 0});
  CHECK(y.check_guards());
}

std::vector<float> run_pad(const PadParams& p, const std::vector<float>& x, std::size_t misalign) {
  const std::array<int, 4> out{p.n, p.h + p.top + p.bottom, p.w + p.left + p.right, p.c};
  const DeviceTensor in(p.elem, x, misalign);
  std::vector<float> y = run_kernel(p.elem, elements(out), misalign, [&](void* to, const kernels::Launch& where) {
    return kernels::pad(p, in.data(), to, where);
  });
  CHECK(in.check_unchanged());
  return y;
}

/// The pixel that stands at position i of a padded axis.
int source(PadMode mode, int i, int extent) {
  if (mode == PadMode::Edge) return std::clamp(i, 0, extent - 1);
  if (mode == PadMode::Reflect && i < 0) return -i;
  return mode == PadMode::Reflect && i >= extent ? 2 * extent - 2 - i : i;
}

std::vector<float> expected_pad(const PadParams& p, const std::vector<float>& x) {
  const std::array<int, 4> out{p.n, p.h + p.top + p.bottom, p.w + p.left + p.right, p.c};
  std::vector<float> y(elements(out), p.value);
  for (std::size_t i = 0; i < y.size(); ++i) {
    std::array<int, 4> at = position(out, i);
    at[1] = source(p.mode, at[1] - p.top, p.h);
    at[2] = source(p.mode, at[2] - p.left, p.w);
    if (at[1] >= 0 && at[1] < p.h && at[2] >= 0 && at[2] < p.w) y[i] = x[offset({p.n, p.h, p.w, p.c}, at)];
  }
  return rounded(p.elem, y);
}

TEST_CASE("convert_pictures scales and shifts each channel", "[sanitize]") {
  const int channels = GENERATE(1, 3, 4);
  const bool to_nhwc = GENERATE(false, true);
  const std::array<int, 4> extent{3, 7, 45, channels};
  kernels::ConvertPicturesParams p{to_nhwc, extent[0], channels, extent[1], extent[2]};
  std::vector<float> numbers = random_uniform(3, elements(extent), 0.0F, 255.99F);
  for (float& number : numbers) number = std::floor(number);
  for (int c = 0; c < channels; ++c) {
    p.scale[c] = 1.0F / static_cast<float>(2 << c);  // exact
    p.shift[c] = static_cast<float>(c) - 1.5F;
  }
  std::vector<float> expected(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t c = i % static_cast<std::size_t>(channels);
    expected[i] = numbers[i] * p.scale[c] + p.shift[c];
  }
  if (!to_nhwc) expected = permuted(extent, {0, 3, 1, 2}, expected);
  const std::vector<std::uint8_t> bytes(numbers.begin(), numbers.end());
  GuardedBuffer x(bytes.size());
  x.upload(std::as_bytes(std::span(bytes)));
  const std::vector<float> y = run_kernel(
      kernels::Elem::F32, bytes.size(), 0,
      [&](void* out, const kernels::Launch& where) { return kernels::convert_pictures(p, x.data(), out, where); });
  CHECK(compare_bits(y, expected));
}

TEST_CASE("convert_pictures refuses more than 4 channels and does nothing for an empty batch") {
  kernels::ConvertPicturesParams p{false, 1, 5, 2, 2};
  CHECK(kernels::convert_pictures(p, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  p.c = 3;
  p.n = 0;
  CHECK(kernels::convert_pictures(p, nullptr, nullptr, {}) == cudaSuccess);
}

TEST_CASE("pad surrounds each picture", "[sanitize]") {
  constexpr int kPads[][4] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 1, 1}, {3, 0, 1, 2}, {0, 2, 3, 0}};
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const Elem elem : kAllElems) {
    for (const int c : {1, 2, 3, 4, 7, 8, 16, 33, 96}) {
      for (const auto& [top, left, bottom, right] : kPads) {
        for (const float value : {0.0F, -1.5F, kNan}) {
          for (const std::size_t misalign : kMisalignments) {
            const PadParams p{elem, 2, 5, 7, c, top, left, bottom, right, value};
            CAPTURE(to_string(elem), c, top, left, bottom, right, value, misalign);
            const std::vector<float> x = rounded(elem, random_uniform(2, elements({p.n, p.h, p.w, p.c})));
            CHECK(compare_bits(run_pad(p, x, misalign), expected_pad(p, x)));
          }
        }
      }
    }
  }
}

TEST_CASE("pad repeats the border's pixels or mirrors the picture", "[sanitize]") {
  constexpr int kPads[][4] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 1, 1}, {3, 0, 1, 2}, {4, 6, 4, 6}};
  for (const Elem elem : kElems) {
    for (const PadMode mode : {PadMode::Edge, PadMode::Reflect}) {
      for (const int c : {1, 3, 8, 33, 96}) {
        for (const auto& [top, left, bottom, right] : kPads) {
          for (const std::size_t misalign : kMisalignments) {
            const PadParams p{elem, 2, 5, 7, c, top, left, bottom, right, 9.0F, mode};
            CAPTURE(to_string(elem), static_cast<int>(mode), c, top, left, bottom, right, misalign);
            const std::vector<float> x = rounded(elem, random_uniform(2, elements({p.n, p.h, p.w, p.c})));
            CHECK(compare_bits(run_pad(p, x, misalign), expected_pad(p, x)));
          }
        }
      }
    }
  }
  const std::vector<float> x{1.0F, 2.0F};
  CHECK(compare_bits(run_pad({Elem::F32, 1, 1, 2, 1, 0, 5, 0, 4, 0.0F, PadMode::Edge}, x, 0),
                     std::vector<float>{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}));
}

TEST_CASE("pad refuses to mirror more pixels than there are") {
  CHECK(kernels::pad({Elem::F32, 1, 5, 7, 8, 5, 0, 0, 0, 0.0F, PadMode::Reflect}, nullptr, nullptr, {}) ==
        cudaErrorInvalidValue);
  CHECK(kernels::pad({Elem::F32, 1, 0, 7, 8, 5, 0, 0, 0, 0.0F, PadMode::Edge}, nullptr, nullptr, {}) ==
        cudaErrorInvalidValue);
}

TEST_CASE("pad refuses negative sizes and does nothing for an empty batch") {
  CHECK(kernels::pad({Elem::F32, 1, 2, 2, 8, -3, 0, 0, 0, 0.0F}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::pad({Elem::F32, 0, 2, 2, 8, 1, 0, 0, 0, 0.0F}, nullptr, nullptr, {}) == cudaSuccess);
}

TEST_CASE("transpose permutes axes in all 24 ways", "[sanitize]") {
  constexpr std::array<int, 4> kShapes[] = {{2, 3, 5, 8}, {3, 2, 4, 7}, {1, 17, 33, 3}, {5, 1, 1, 16}, {2, 300, 1, 3}};
  for (const Elem elem : kAllElems) {
    for (const std::array<int, 4>& shape : kShapes) {
      std::array<int, 4> permutation{0, 1, 2, 3};
      do {
        TransposeParams p;
        p.elem = elem;
        std::copy(shape.begin(), shape.end(), p.shape);
        std::copy(permutation.begin(), permutation.end(), p.permutation);
        for (const std::size_t misalign : kMisalignments) {
          CAPTURE(to_string(elem), shape[1], shape[3], permutation[0], permutation[1], permutation[2], permutation[3],
                  misalign);
          const std::vector<float> x = rounded(elem, random_uniform(3, elements(shape)));
          const DeviceTensor in(elem, x, misalign);
          const auto y = run_kernel(elem, x.size(), misalign, [&](void* out, const kernels::Launch& where) {
            return kernels::transpose(p, in.data(), out, where);
          });
          CHECK(compare_bits(y, permuted(shape, permutation, x)));
          CHECK(in.check_unchanged());
        }
      } while (std::next_permutation(permutation.begin(), permutation.end()));
    }
  }
}

TEST_CASE("transpose refuses what is no permutation and does nothing for an empty tensor") {
  TransposeParams p;
  p.permutation[3] = 2;
  CHECK(kernels::transpose(p, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  p.permutation[3] = 3;
  p.shape[1] = 0;
  CHECK(kernels::transpose(p, nullptr, nullptr, {}) == cudaSuccess);
}

TEST_CASE("layout_transform refuses half to double and back") {
  for (const auto& [from, to] : {std::pair{Elem::F16, Elem::F64}, std::pair{Elem::F64, Elem::F16}}) {
    CHECK(kernels::layout_transform({from, to, false, true, 1, 8, 4, 4}, nullptr, nullptr, {}) ==
          cudaErrorInvalidValue);
  }
}

TEST_CASE("layout_transform of an empty batch does nothing") {
  CHECK(kernels::layout_transform({Elem::F32, Elem::F16, false, true, 0, 8, 4, 4}, nullptr, nullptr, {}) ==
        cudaSuccess);
}

TEST_CASE("layout_transform and pad and transpose once for each type and convert_pictures", "[race]") {
  for (const auto& [from, to] :
       {std::pair{Elem::F32, Elem::F32}, {Elem::F32, Elem::F16}, {Elem::F16, Elem::F16}, {Elem::F64, Elem::F64}}) {
    check_transform({from, to, true, false, 2, 40, 31, 33}, 0);
    check_transform({from, to, false, true, 2, 40, 31, 33}, 0);
  }
  for (const Elem elem : kAllElems) {
    const PadParams p{elem, 2, 5, 7, 33, 1, 2, 3, 4, 0.5F};
    const std::vector<float> x = rounded(elem, random_uniform(2, elements({p.n, p.h, p.w, p.c})));
    CHECK(compare_bits(run_pad(p, x, 0), expected_pad(p, x)));
    const DeviceTensor in(elem, x);
    const TransposeParams transpose{elem, {2, 5, 7, 33}, {0, 3, 1, 2}};
    CHECK(compare_bits(run_kernel(elem, x.size(), 0,
                                  [&](void* out, const kernels::Launch& where) {
                                    return kernels::transpose(transpose, in.data(), out, where);
                                  }),
                       permuted({2, 5, 7, 33}, {0, 3, 1, 2}, x)));
  }
  const kernels::ConvertPicturesParams pictures{true, 2, 3, 7, 45};
  const std::vector<std::byte> bytes(elements({2, 3, 7, 45}), std::byte{7});
  const GuardedBuffer x{std::span<const std::byte>(bytes)};
  run_kernel(Elem::F32, bytes.size(), 0, [&](void* out, const kernels::Launch& where) {  // which compares two runs
    return kernels::convert_pictures(pictures, x.data(), out, where);
  });
}

}  // namespace
}  // namespace mobicuda::test
