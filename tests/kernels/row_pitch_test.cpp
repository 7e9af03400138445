// Kernels that read and write channels of wider pixels give the bits that they give on dense ones, read nothing between
// the rows (NaN there) and write nothing there.
#include <array>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/conv2d/conv2d.h"
#include "kernels/gemm/gemm.h"
#include "kernels/streaming/elementwise.h"
#include "kernels/streaming/pooling.h"
#include "race_case.h"
#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Where a dense matrix lies in the rows of a wider one.
struct Place {
  int columns;
  int first;
  int pitch;
};

std::size_t count(std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns); }

std::vector<float> widened(const std::vector<float>& dense, const Place& place) {
  const std::size_t rows = dense.size() / static_cast<std::size_t>(place.columns);
  std::vector<float> wide(rows * static_cast<std::size_t>(place.pitch), kNan);
  for (std::size_t i = 0; i < dense.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(place.columns);
    wide[row * static_cast<std::size_t>(place.pitch) + static_cast<std::size_t>(place.first) +
         i % static_cast<std::size_t>(place.columns)] = dense[i];
  }
  return wide;
}

void* shifted(void* memory, Elem elem, int elements) {
  return static_cast<std::byte*>(memory) + static_cast<std::size_t>(elements) * kernels::size_of(elem);
}

using Run = std::function<cudaError_t(const void* x, void* y, bool pitched, const kernels::Launch& where)>;

/// Runs a kernel from dense to dense rows, and from wider to wider ones.
void check_pitched(Elem x_elem, Elem elem, const std::vector<float>& x, std::size_t y_count, const Place& x_place,
                   const Place& y_place, const Run& run) {
  const DeviceTensor dense_x(x_elem, x);
  const DeviceTensor wide_x(x_elem, widened(x, x_place));
  const auto dense_y = run_kernel(
      elem, y_count, 0, [&](void* y, const kernels::Launch& where) { return run(dense_x.data(), y, false, where); });
  const std::vector<float> expected = widened(dense_y, y_place);
  const auto y = run_kernel(elem, expected.size(), 0, [&](void* to, const kernels::Launch& where) {
    return run(shifted(wide_x.data(), x_elem, x_place.first), shifted(to, elem, y_place.first), true, where);
  });
  CHECK(compare_bits(y, expected));
}

/// Rows of X, of Y or of both lie apart.
void check_gemm(kernels::GemmVariant variant, kernels::GemmParams p, bool x_apart = true, bool y_apart = true) {
  CAPTURE(kernels::name(variant), to_string(p.elem), p.m, p.n, p.k, p.residual, x_apart, y_apart);
  if (!kernels::supports(variant, p, gpu_traits())) return;
  const Place x_place = x_apart ? Place{p.k, 16, p.k + 40} : Place{p.k, 0, p.k};
  const Place y_place = y_apart ? Place{p.n, 8, (p.n + 31) / 8 * 8} : Place{p.n, 0, p.n};
  const std::vector<float> x = random_uniform(1, count(p.m, p.k));
  const std::vector<float> weight = random_uniform(2, count(p.n, p.k));
  std::vector<std::byte> packed(kernels::gemm_packed_bytes(p.elem, p.n, p.k));
  kernels::gemm_pack(p.elem, p.n, p.k, weight.data(), packed.data());
  const GuardedBuffer w(packed);
  const DeviceTensor bias(Elem::F32, random_uniform(3, count(1, p.n)));
  const DeviceTensor residual(p.elem, random_uniform(4, count(p.m, p.n)));
  check_pitched(p.elem, p.elem, x, count(p.m, p.n), x_place, y_place,
                [&](const void* from, void* to, bool pitched, const kernels::Launch& where) {
                  auto q = p;
                  if (pitched && x_apart) q.x_pitch = x_place.pitch;
                  if (pitched && y_apart) q.y_pitch = y_place.pitch;
                  return kernels::gemm(variant, q, from, w.data(), bias.floats(),
                                       q.residual ? residual.data() : nullptr, to, where);
                });
}

TEST_CASE("gemm: every variant runs on channels of wider pixels", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const kernels::GemmVariant variant : kernels::gemm_variants()) {
      for (const auto& [m, n, k] : {std::array{3, 32, 64}, {150, 40, 24}, {37, 17, 136}, {1, 5, 8}}) {
        kernels::GemmParams p;
        p.elem = p.output = elem;
        p.m = m;
        p.n = n;
        p.k = k;
        p.bias = true;
        p.activation = kernels::Clip{-0.5F, kInfinity};
        check_gemm(variant, p);
        p.residual = true;
        check_gemm(variant, p);
      }
    }
  }
}

TEST_CASE("gemm: every variant runs where rows of X alone or of Y alone lie apart") {
  for (const Elem elem : kAllElems) {
    for (const kernels::GemmVariant variant : kernels::gemm_variants()) {
      kernels::GemmParams p;
      p.elem = p.output = elem;
      p.m = 37;
      p.n = 17;
      p.k = 136;
      p.bias = p.residual = true;
      p.activation = kernels::Clip{-0.5F, kInfinity};
      check_gemm(variant, p, true, false);
      check_gemm(variant, p, false, true);
      p.n = 72;  // whole rows, too
      p.k = 40;
      p.residual = false;
      check_gemm(variant, p, true, false);
      check_gemm(variant, p, false, true);
    }
  }
}

TEST_CASE("gemm refuses rows that overlap or do not start on 16 bytes") {
  kernels::GemmParams p;
  p.elem = p.output = Elem::F16;
  p.m = p.n = p.k = 16;
  const auto supported = [&](int x_pitch, int y_pitch) {
    p.x_pitch = x_pitch;
    p.y_pitch = y_pitch;
    return kernels::supports(kernels::GemmVariant::Simt64x64x16, p, kernels::traits_of(90, 132));
  };
  CHECK(supported(0, 0));
  CHECK(supported(24, 32));
  CHECK(!supported(20, 0));
  CHECK(!supported(8, 0));
  CHECK(!supported(0, 20));
  CHECK(!supported(0, 8));
  p.k = 12;  // a chunk of 8 would reach behind a row
  CHECK(supported(0, 0));
  CHECK(!supported(24, 0));
}

/// False where the variant does not run it.
bool check_conv2d(kernels::Conv2dVariant variant, const kernels::Conv2dParams& p) {
  CAPTURE(kernels::name(variant), p.n, p.h, p.w, p.c_in, p.c_out, p.groups);
  const Place x_place{p.c_in, 0, p.c_in};
  const Place y_place{p.c_out, 8, p.c_out + 24};
  kernels::Conv2dParams apart = p;
  apart.y_pitch = y_place.pitch;
  if (!kernels::supports(variant, apart, gpu_traits())) return false;
  const Elem x_elem = p.input == kernels::Conv2dParams::Input::NhwcElem ? p.elem : Elem::F32;
  const int pool = p.max_pool ? 2 : 1;
  const std::int64_t pixels = std::int64_t{p.n} * (p.out_h / pool) * (p.out_w / pool);
  std::vector<std::byte> packed(kernels::conv2d_packed_bytes(p));
  const std::vector<float> weight = random_uniform(2, count(p.c_out, p.kernel_h * p.kernel_w * p.c_in / p.groups));
  kernels::conv2d_pack(p, weight.data(), packed.data());
  const GuardedBuffer w(packed);
  const DeviceTensor bias(Elem::F32, random_uniform(3, count(1, p.c_out)));
  const DeviceTensor residual(p.elem, random_uniform(4, count(pixels, p.c_out)));
  check_pitched(x_elem, p.elem, random_uniform(1, count(std::int64_t{p.n} * p.h * p.w, p.c_in)), count(pixels, p.c_out),
                x_place, y_place, [&](const void* from, void* to, bool pitched, const kernels::Launch& where) {
                  return kernels::conv2d(variant, pitched ? apart : p, from, w.data(), bias.floats(),
                                         p.residual ? residual.data() : nullptr, to, where);
                });
  return true;
}

TEST_CASE("conv2d: every variant on tensor cores writes channels of wider pixels", "[sanitize]") {
  using Input = kernels::Conv2dParams::Input;
  struct Channels {
    int c_in, c_out, groups, stride;
  };
  kernels::Conv2dParams p;
  p.elem = Elem::F16;
  p.n = 2;
  p.h = 9;
  p.w = 7;
  p.kernel_h = p.kernel_w = 3;
  p.pad_top = p.pad_left = 1;
  p.bias = true;
  for (const kernels::Conv2dVariant variant : kernels::conv2d_variants()) {
    bool ran = false;
    p.max_pool = kernels::name(variant).ends_with("_pooled");
    for (const Channels& channels : {Channels{64, 72, 1, 1},
                                     {64, 136, 1, 1},
                                     {24, 8, 1, 1},
                                     {48, 48, 6, 1},
                                     {128, 48, 2, 1},
                                     {3, 40, 1, 1},
                                     {3, 16, 1, 2},
                                     {512, 40, 1, 1},
                                     {12, 40, 1, 1}}) {
      p.c_in = channels.c_in;
      p.c_out = channels.c_out;
      p.groups = channels.groups;
      p.stride_h = p.stride_w = channels.stride;
      p.out_h = (p.h - 1) / channels.stride + 1;
      p.out_w = (p.w - 1) / channels.stride + 1;
      p.input = p.c_in == 3 ? Input::NhwcFloat : Input::NhwcElem;
      p.residual = false;
      ran = check_conv2d(variant, p) || ran;
      p.residual = true;
      ran = check_conv2d(variant, p) || ran;
    }
    CAPTURE(kernels::name(variant));
    if (race_case::all_variants_run() && kernels::on_tensor_cores(variant)) CHECK(ran);
  }
  p.max_pool = false;
  p.y_pitch = 52;  // not a multiple of 8
  CHECK(!kernels::supports(kernels::Conv2dVariant::Mma64x64x64, p, kernels::traits_of(90, 132)));
  p.y_pitch = 40;
  p.c_out = 48;
  CHECK(!kernels::supports(kernels::Conv2dVariant::Mma64x64x64, p, kernels::traits_of(90, 132)));
}

TEST_CASE("pooling runs on channels of wider pixels", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const auto kind : {kernels::PoolingKind::Max, kernels::PoolingKind::Average}) {
      for (const Place& x_place : {Place{16, 8, 40}, {16, 3, 19}, {5, 1, 9}}) {
        for (const int more : {0, 3, 8}) {
          const Place y_place{x_place.columns, more, x_place.columns + 2 * more};
          CAPTURE(to_string(elem), x_place.columns, x_place.first, x_place.pitch, more);
          kernels::PoolingParams p;
          p.elem = elem;
          p.kind = kind;
          p.n = 2;
          p.h = 7;
          p.w = 5;
          p.c = x_place.columns;
          p.out_h = 4;
          p.out_w = 3;
          p.kernel_h = p.kernel_w = 3;
          p.stride_h = p.stride_w = 2;
          p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = 1;
          check_pitched(elem, elem, random_uniform(5, count(2 * 7 * 5, p.c)), count(2 * 4 * 3, p.c), x_place, y_place,
                        [&](const void* from, void* to, bool pitched, const kernels::Launch& where) {
                          auto q = p;
                          if (pitched) q.x_pitch = x_place.pitch;
                          if (pitched) q.y_pitch = y_place.pitch;
                          return kernels::pooling(q, from, to, where);
                        });
        }
      }
    }
  }
}

TEST_CASE("scale_shift runs on channels of wider pixels", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const Place& place : {Place{16, 8, 40}, {24, 0, 32}, {16, 3, 19}, {1032, 8, 1040}, {5, 1, 9}}) {
      for (const std::int64_t rows : {1, 49, 513}) {
        CAPTURE(to_string(elem), place.columns, place.first, place.pitch, rows);
        const DeviceTensor scale(Elem::F32, random_uniform(6, count(1, place.columns)));
        const DeviceTensor shift(Elem::F32, random_uniform(7, count(1, place.columns)));
        check_pitched(elem, elem, random_uniform(8, count(rows, place.columns)), count(rows, place.columns), place,
                      {place.columns, 0, place.columns},
                      [&](const void* from, void* to, bool pitched, const kernels::Launch& where) {
                        return kernels::scale_shift(elem, rows, place.columns, kernels::Clip{0.0F, kInfinity}, from,
                                                    scale.floats(), shift.floats(), to, where,
                                                    pitched ? place.pitch : 0);
                      });
      }
    }
  }
  CHECK(kernels::scale_shift(Elem::F32, 4, 8, kernels::Clip{0.0F, 1.0F}, nullptr, nullptr, nullptr, nullptr, {}, 7) ==
        cudaErrorInvalidValue);
}

}  // namespace
}  // namespace mobicuda::test
