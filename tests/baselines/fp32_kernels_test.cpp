// The inner loops for every instruction set that this processor has: engines use the widest only.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "baselines/cpu/ops/depthwise_conv.h"
#include "baselines/cpu/ops/elementwise.h"
#include "baselines/cpu/ops/fp32_kernels.h"
#include "baselines/cpu/ops/gemm.h"
#include "support/catch.h"
#include "support/random.h"
#include "support/sanitizer.h"
#include "support/tolerance.h"

namespace mobicuda::cpu {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kGuard = -12345.0F;  // stands around every output
constexpr std::int64_t kGuards = 64;

Doubles widened(const Floats& values) { return {values.begin(), values.end()}; }

Floats absolute(Floats values) {
  for (float& value : values) value = std::abs(value);
  return values;
}

Floats guarded(std::int64_t elements) {
  Floats values(static_cast<std::size_t>(elements + 2 * kGuards), kGuard);
  std::fill_n(values.begin() + kGuards, elements, kNaN);
  return values;
}

// Takes the guards off, and checks that nobody wrote over them.
Floats unguarded(const Floats& values) {
  const auto guards = static_cast<std::ptrdiff_t>(kGuards);
  for (std::ptrdiff_t i = 0; i < guards; ++i) {
    REQUIRE(values[static_cast<std::size_t>(i)] == kGuard);
    REQUIRE(*(values.end() - 1 - i) == kGuard);
  }
  return {values.begin() + guards, values.end() - guards};
}

struct GemmData {
  std::int64_t rows, n, k;
  Floats x, weight, bias, residual;
  std::int64_t taps = 1;
  bool has_residual = true;
  bool nonzero = false;  // by gemm_nonzero()
  bool unsigned_zeros = false;

  Doubles expected(const Activation& activation, bool magnitudes) const {
    const auto pick = [&](const Floats& values) { return magnitudes ? absolute(values) : values; };
    Doubles y(residual.size());
    gemm_reference(Gemm{}, Shape{n, k}, widened(pick(x)).data(), pick(weight).data(), pick(bias).data(), y.data(),
                   {0, rows});
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (has_residual) y[i] += static_cast<double>(pick(residual)[i]);
      if (!magnitudes)
        y[i] = std::fmin(std::fmax(y[i], static_cast<double>(activation.lo)), static_cast<double>(activation.hi));
    }
    return y;
  }

  Floats run(const Fp32Kernels& kernels, const Activation& activation) const {
    const std::int64_t panel = kernels.gemm_panel(n);
    Floats packed(static_cast<std::size_t>(gemm_packed_elements(n, k, panel)));
    gemm_pack(n, k, panel, weight.data(), nullptr, packed.data());
    const std::int64_t panels = (n + panel - 1) / panel;
    Floats padded_bias(static_cast<std::size_t>(panels * panel));
    std::copy(bias.begin(), bias.end(), padded_bias.begin());
    // Runs lie apart, in the opposite order, behind an offset.
    const std::int64_t channels = k / taps;
    Floats scattered(static_cast<std::size_t>(rows * k + kOffset), kNaN);
    std::vector<const float*> runs(static_cast<std::size_t>(rows * taps));
    for (std::int64_t run = 0; run < rows * taps; ++run) {
      const std::int64_t at = (rows * taps - 1 - run) * channels;
      std::copy_n(x.begin() + run * channels, channels, scattered.begin() + at + kOffset);
      runs[static_cast<std::size_t>(run % taps * rows + run / taps)] = scattered.data() + at;
    }
    Floats y = guarded(rows * n);
    GemmTask task;
    task.x = runs.data();
    task.x_rows = rows;
    task.x_offset = kOffset;
    task.taps = taps;
    task.channels = channels;
    task.packed = packed.data();
    task.bias = padded_bias.data();
    if (has_residual) task.residual = residual.data();
    task.y = y.data() + kGuards;
    task.y_stride = n;
    task.rows = rows;
    task.n = n;
    task.panel = panel;
    task.last_panel = panels;
    task.lo = activation.lo;
    task.hi = activation.hi;
    task.unsigned_zeros = unsigned_zeros;
    (nonzero ? kernels.gemm_nonzero : kernels.gemm)(task);
    return unguarded(y);
  }

  // Row i alone.
  GemmData row(std::int64_t i) const {
    GemmData one = *this;
    one.rows = 1;
    one.x.assign(x.begin() + i * k, x.begin() + (i + 1) * k);
    one.residual.assign(residual.begin() + i * n, residual.begin() + (i + 1) * n);
    return one;
  }

  static constexpr std::int64_t kOffset = 3;
};

GemmData gemm_data(std::int64_t rows, std::int64_t n, std::int64_t k, bool integers) {
  const auto make = [&](std::uint32_t seed, std::int64_t count) {
    const auto size = static_cast<std::size_t>(count);
    return integers ? test::random_integers(seed, size) : test::random_uniform(seed, size);
  };
  return {rows, n, k, make(1, rows * k), make(2, n * k), make(3, n), make(4, rows * n)};
}

TEST_CASE("gemm of every instruction set stays within the hard bound, and is exact on whole numbers") {
  const Activation activation{-0.75F, 1.5F};
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const std::int64_t rows : {1, 2, 5, 6, 7, 8, 9, 13, 49}) {
      for (const std::int64_t n : {1, 3, 4, 5, 8, 9, 15, 16, 17, 24, 31, 32, 33, 49, 52, 64, 65}) {
        // Tiles that are whole, and one more.
        if (test::kThreadSanitized && (rows > 13 || rows % 6 > 1 || n > 33 || n % 16 > 1)) continue;
        for (const std::int64_t k : {1, 2, 27, 97}) {
          for (const bool has_residual : {false, true}) {
            CAPTURE(kernels->name, rows, n, k, has_residual);
            GemmData data = gemm_data(rows, n, k, false);
            data.has_residual = has_residual;
            const Doubles expected = data.expected(activation, false);
            const Doubles allowed =
                test::hard_bounds(test::gamma(k), data.expected(activation, true), expected, test::kStoreF32);
            REQUIRE(test::compare_elements(data.run(*kernels, activation), expected, allowed));
            GemmData whole = gemm_data(rows, n, k, true);
            whole.has_residual = has_residual;
            const Activation wide{-20.0F, 30.0F};
            REQUIRE(test::compare_exact(whole.run(*kernels, wide), whole.expected(wide, false)));
          }
        }
      }
    }
  }
}

TEST_CASE("gemm of every instruction set sums runs that lie apart, and k in several parts") {
  // More channels than one part of k has; so many runs that they make several parts; runs of one value.
  constexpr std::int64_t kShapes[][2] = {{1, 1025}, {1, 3000}, {9, 1}, {9, 3}, {3, 9}, {9, 130}, {9, 1100}, {49, 64}};
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const std::int64_t rows : {1, 9, 17}) {
      for (const std::int64_t n : {2, 5, 12, 24, 40}) {
        if (test::kThreadSanitized && (rows == 17 || n == 5)) continue;
        for (const auto& [taps, channels] : kShapes) {
          if (test::kThreadSanitized && rows * n * taps * channels > 1000000) continue;
          CAPTURE(kernels->name, rows, n, taps, channels);
          GemmData data = gemm_data(rows, n, taps * channels, false);
          data.taps = taps;
          data.has_residual = rows == 9;
          const Activation activation{-50.0F, 50.0F};
          const Doubles expected = data.expected(activation, false);
          const Doubles allowed =
              test::hard_bounds(test::gamma(data.k), data.expected(activation, true), expected, test::kStoreF32);
          REQUIRE(test::compare_elements(data.run(*kernels, activation), expected, allowed));
          GemmData whole = gemm_data(rows, n, taps * channels, true);
          whole.taps = taps;
          whole.has_residual = rows == 9;
          REQUIRE(
              test::compare_exact(whole.run(*kernels, Activation::none()), whole.expected(Activation::none(), false)));
        }
      }
    }
  }
}

// Zeros of both signs: in six of seven places, in whole rows, in none of others.
void add_zeros(GemmData& data) {
  for (std::int64_t row = 0; row < data.rows; ++row) {
    for (std::int64_t i = 0; i < data.k; ++i) {
      if (row % 5 == 4 || (row % 11 != 5 && (row + i * i) % 7 != 0)) {
        data.x[static_cast<std::size_t>(row * data.k + i)] = i % 2 == 0 ? 0.0F : -0.0F;
      }
    }
  }
}

TEST_CASE("nonzero: gemm without the products of zeros stays within the bound, and gives the bits of all products") {
  // Runs and channels of a run; parts of k that end within the channels of a run and between runs.
  constexpr std::int64_t kShapes[][2] = {{1, 1}, {1, 7}, {1, 33}, {1, 257}, {1, 1100}, {9, 1}, {9, 30}, {9, 260}};
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const std::int64_t rows : {24, 31}) {  // fewer take the other loops
      for (const std::int64_t n : {1, 8, 15, 16, 24, 40, 80, 96, 97, 160, 161, 333}) {
        if (test::kThreadSanitized && (rows == 31 || n % 16 > 1)) continue;
        for (const auto& [taps, channels] : kShapes) {
          if (test::kThreadSanitized && rows * n * taps * channels > 500000) continue;
          CAPTURE(kernels->name, rows, n, taps, channels);
          GemmData data = gemm_data(rows, n, taps * channels, false);
          add_zeros(data);
          data.taps = taps;
          data.has_residual = rows % 2 == 0;
          data.unsigned_zeros = true;
          const Activation activation{-5.0F, 5.0F};
          const Floats all = data.run(*kernels, activation);
          data.nonzero = true;
          const Floats some = data.run(*kernels, activation);
          REQUIRE(test::compare_bits(some, all));
          const Doubles expected = data.expected(activation, false);
          const Doubles allowed =
              test::hard_bounds(test::gamma(data.k), data.expected(activation, true), expected, test::kStoreF32);
          REQUIRE(test::compare_elements(some, expected, allowed));
        }
      }
    }
  }
}

TEST_CASE("nonzero: more rows than there is room for lists of at once give the bits of all products") {
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    CAPTURE(kernels->name);
    GemmData data = gemm_data(231, 200, 150, false);
    add_zeros(data);
    data.unsigned_zeros = true;
    const Floats all = data.run(*kernels, Activation::none());
    data.nonzero = true;
    CHECK(test::compare_bits(data.run(*kernels, Activation::none()), all));
  }
}

TEST_CASE("nonzero: a row has the same bits whatever rows stand beside it, also where its sum is zero") {
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    GemmData all = gemm_data(30, 40, 300, false);
    add_zeros(all);
    // A sum that is rounded to a zero with a sign, which a product by zero would take away.
    std::ranges::fill(all.bias, -0.0F);
    std::ranges::fill(all.residual, -0.0F);
    for (std::int64_t i = 0; i < all.k; ++i) {
      all.x[static_cast<std::size_t>(i)] = i == 3 ? -1e-30F : 0.0F;
      all.weight[static_cast<std::size_t>(i)] = i == 3 ? 1e-30F : -1.0F;
    }
    all.unsigned_zeros = true;
    all.nonzero = true;
    const Floats together = all.run(*kernels, Activation::none());
    CHECK_FALSE(std::signbit(together.front()));
    for (std::int64_t row = 0; row < all.rows; ++row) {
      CAPTURE(kernels->name, row);
      const Floats expected(together.begin() + row * all.n, together.begin() + (row + 1) * all.n);
      CHECK(test::compare_bits(all.row(row).run(*kernels, Activation::none()), expected));
    }
  }
}

TEST_CASE("nonzero: NaN is no zero, and zeros meet no weight at all") {
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    GemmData data = gemm_data(26, 40, 50, true);
    std::ranges::fill(data.x, 0.0F);
    std::ranges::fill(data.weight, std::numeric_limits<float>::infinity());
    data.x[static_cast<std::size_t>(data.k + 17)] = kNaN;
    for (std::int64_t i = 0; i < data.n; ++i) data.weight[static_cast<std::size_t>(i * data.k + 17)] = 1.0F;
    data.unsigned_zeros = true;
    data.nonzero = true;
    const Floats y = data.run(*kernels, Activation::none());
    for (std::int64_t i = 0; i < data.rows * data.n; ++i) {
      CAPTURE(kernels->name, i);
      CHECK(std::isnan(y[static_cast<std::size_t>(i)]) == (i / data.n == 1));
    }
  }
}

TEST_CASE("few outputs take narrow panels") {
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    CAPTURE(kernels->name);
    CHECK(kernels->gemm_panel(1) == kernels->least_panel);
    CHECK(kernels->gemm_panel(kernels->least_panel + 1) == 2 * kernels->least_panel);
    CHECK(kernels->gemm_panel(1000) == kernels->widest_panel);
  }
}

TEST_CASE("gemm of every instruction set gives a row the same bits whatever rows stand beside it") {
  GemmData all = gemm_data(49, 40, 33, false);
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const bool has_residual : {false, true}) {
      all.has_residual = has_residual;
      const Floats together = all.run(*kernels, Activation::none());
      for (std::ptrdiff_t row = 0; row < 49; ++row) {
        CAPTURE(kernels->name, row, has_residual);
        const Floats expected(together.begin() + row * 40, together.begin() + (row + 1) * 40);
        CHECK(test::compare_bits(all.row(row).run(*kernels, Activation::none()), expected));
      }
    }
  }
}

TEST_CASE("gemm of every instruction set lets NaN through the activation") {
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const std::int64_t n : {3, 64}) {
      GemmData data = gemm_data(9, n, 8, false);
      data.has_residual = n == 3;
      data.x[3 * 8 + 2] = kNaN;
      const Floats y = data.run(*kernels, Activation::relu6());
      for (std::int64_t i = 0; i < 9 * n; ++i) {
        CAPTURE(kernels->name, n, i);
        REQUIRE(std::isnan(y[static_cast<std::size_t>(i)]) == (i / n == 3));
      }
    }
  }
}

struct DepthwiseData {
  Conv2d op;
  TensorDesc x_desc, y_desc;
  Shape weight_shape;
  Floats x, weight, bias, residual;

  Doubles expected(bool magnitudes) const {
    const auto pick = [&](const Floats& values) { return magnitudes ? absolute(values) : values; };
    Conv2d used = op;
    if (magnitudes) used.activation = Activation::none();
    Doubles y(residual.size());
    const Floats w = pick(weight);
    const Floats b = pick(bias);
    depthwise_conv_reference(used, x_desc, weight_shape, y_desc, widened(pick(x)).data(), w.data(), b.data(),
                             widened(pick(residual)).data(), y.data(), {0, y_desc.shape[2]});
    return y;
  }

  // So many output rows together. With a ring, x holds the rows alone that they read.
  Floats run(const Fp32Kernels& kernels, bool ring = false, std::int64_t together = 1) const {
    Floats packed(weight.size());
    depthwise_conv_pack(weight_shape, weight.data(), packed.data());
    Floats y = guarded(y_desc.shape.elements());
    const Floats zeros(bias.size());
    DepthwiseTask task;
    task.x = x.data();
    task.packed = packed.data();
    task.bias = bias.data();
    task.zeros = zeros.data();
    task.h = x_desc.shape[2];
    task.ring = task.h;
    task.w = x_desc.shape[3];
    task.c = x_desc.shape[1];
    task.out_w = y_desc.shape[3];
    task.kernel_h = weight_shape[2];
    task.kernel_w = weight_shape[3];
    task.stride_h = op.strides[0];
    task.stride_w = op.strides[1];
    task.dilation_h = op.dilations[0];
    task.dilation_w = op.dilations[1];
    task.pad_top = op.pads.top;
    task.pad_left = op.pads.left;
    task.lo = op.activation.lo;
    task.hi = op.activation.hi;
    Floats held;
    const std::int64_t window = (task.kernel_h - 1) * task.dilation_h + 1;
    for (task.oy = 0; task.oy < y_desc.shape[2]; task.oy += together) {
      task.rows = std::min(together, y_desc.shape[2] - task.oy);
      if (ring) {
        const std::int64_t reach = (task.rows - 1) * task.stride_h + window;
        task.ring = std::min(task.h, reach);
        const std::int64_t line = task.w * task.c;
        held.assign(static_cast<std::size_t>(task.ring * line), kNaN);
        const std::int64_t start = task.oy * task.stride_h - task.pad_top;
        for (std::int64_t row = std::max<std::int64_t>(start, 0); row < std::min(start + reach, task.h); ++row) {
          std::copy_n(x.begin() + row * line, line, held.begin() + row % task.ring * line);
        }
        task.x = held.data();
      }
      const std::int64_t at = task.oy * task.out_w * task.c;
      task.residual = residual.data() + at;
      task.y = y.data() + kGuards + at;
      kernels.depthwise_conv(task);
    }
    return unguarded(y);
  }
};

/// `op`: strides, dilations and padding.
DepthwiseData depthwise_data(Conv2d op, std::int64_t c, std::int64_t kernel, std::int64_t width) {
  DepthwiseData data;
  data.op = op;
  data.op.groups = c;
  data.op.activation = {-1.0F, 2.0F};
  data.x_desc = {DType::F32, Shape{1, c, 9, width}, Layout::NHWC};
  data.weight_shape = Shape{c, 1, kernel, kernel};
  const TensorDesc weight_desc{DType::F32, data.weight_shape, Layout::NCHW};
  const TensorDesc* inputs[] = {&data.x_desc, &weight_desc, nullptr, nullptr};
  data.y_desc = infer_output(data.op, inputs);
  const auto make = [](std::uint32_t seed, std::int64_t count) {
    return test::random_uniform(seed, static_cast<std::size_t>(count));
  };
  data.x = make(5, data.x_desc.shape.elements());
  data.weight = make(6, data.weight_shape.elements());
  data.bias = make(7, c);
  data.residual = make(8, data.y_desc.shape.elements());
  return data;
}

DepthwiseData depthwise_data(std::int64_t c, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                             std::int64_t width = 7, std::int64_t column_dilation = 0) {
  Conv2d op;
  op.strides = {stride, stride};
  op.dilations = {dilation, column_dilation > 0 ? column_dilation : dilation};
  op.pads = {1, 2, 1, 3};
  return depthwise_data(op, c, kernel, width);
}

TEST_CASE("depthwise convolution of every instruction set stays within the hard bound") {
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const std::int64_t c : {1, 3, 4, 7, 8, 15, 16, 17, 32, 33, 64, 65, 130}) {
      for (const std::int64_t kernel : {1, 2, 3, 5}) {
        for (const std::int64_t stride : {1, 2, 3}) {
          for (const std::int64_t dilation : {1, 2}) {
            if (dilation * (kernel - 1) + 1 > 9) continue;
            CAPTURE(kernels->name, c, kernel, stride, dilation);
            const DepthwiseData data = depthwise_data(c, kernel, stride, dilation);
            const Doubles expected = data.expected(false);
            const Doubles allowed =
                test::hard_bounds(test::gamma(kernel * kernel), data.expected(true), expected, test::kStoreF32);
            REQUIRE(test::compare_elements(data.run(*kernels), expected, allowed));
          }
        }
      }
    }
  }
}

TEST_CASE("depthwise convolution of every instruction set computes several pixels of a row, and rows, together") {
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const std::int64_t width : {1, 2, 3, 5, 8, 13, 14, 23, 41}) {
      for (const std::int64_t c : {2, 5, 12, 20, 40}) {
        for (const std::int64_t kernel : {3, 4, 5, 7}) {
          for (const std::int64_t stride : {1, 2, 3}) {
            for (const std::int64_t dilation : {1, 2}) {
              // With the padding.
              if (dilation * (kernel - 1) + 1 > std::min<std::int64_t>(width + 5, 10)) continue;
              CAPTURE(kernels->name, width, c, kernel, stride, dilation);
              const DepthwiseData data = depthwise_data(c, kernel, stride, dilation, width);
              const Doubles expected = data.expected(false);
              const Doubles allowed =
                  test::hard_bounds(test::gamma(kernel * kernel), data.expected(true), expected, test::kStoreF32);
              const Floats found = data.run(*kernels);
              REQUIRE(test::compare_elements(found, expected, allowed));
              REQUIRE(data.run(*kernels, true) == found);
              for (const std::int64_t rows : {2, 3, 8}) REQUIRE(data.run(*kernels, true, rows) == found);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("depthwise convolution of every instruction set computes rows together whatever strides and padding are") {
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const auto& [vertical, horizontal] : {std::pair{1, 2}, {2, 1}, {1, 3}, {3, 1}}) {
      for (const std::int64_t kernel : {2, 3, 5}) {
        // Beyond `kernel` whole windows lie outside of the image.
        for (const std::int64_t padding : {std::int64_t{0}, kernel, kernel + 2}) {
          for (const std::int64_t c : {5, 16, 40}) {
            CAPTURE(kernels->name, vertical, horizontal, kernel, padding, c);
            Conv2d op;
            op.strides = {vertical, horizontal};
            op.pads = {padding, padding, padding, padding};
            const DepthwiseData data = depthwise_data(op, c, kernel, 9);
            const Doubles expected = data.expected(false);
            const Doubles allowed =
                test::hard_bounds(test::gamma(kernel * kernel), data.expected(true), expected, test::kStoreF32);
            const Floats found = data.run(*kernels);
            REQUIRE(test::compare_elements(found, expected, allowed));
            for (const std::int64_t rows : {2, 3}) {
              REQUIRE(data.run(*kernels, false, rows) == found);
              REQUIRE(data.run(*kernels, true, rows) == found);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("depthwise convolution of every instruction set takes windows of very many columns") {
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const std::int64_t c : {3, 12, 40}) {
      for (const std::int64_t stride : {1, 3}) {
        CAPTURE(kernels->name, c, stride);
        const DepthwiseData data = depthwise_data(c, 9, stride, 1, 90, 9);
        const Doubles expected = data.expected(false);
        const Doubles allowed = test::hard_bounds(test::gamma(81), data.expected(true), expected, test::kStoreF32);
        REQUIRE(test::compare_elements(data.run(*kernels), expected, allowed));
      }
    }
  }
}

TEST_CASE("pools of every instruction set give the largest value and the mean of a window") {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kColumns = 4;
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const std::int64_t c : {1, 3, 4, 7, 8, 15, 16, 17, 33, 64}) {
      for (const bool largest : {false, true}) {
        for (const bool nan : {false, true}) {
          CAPTURE(kernels->name, c, largest, nan);
          const std::int64_t line = (kColumns + 2) * c;
          Floats x = test::random_integers(9, static_cast<std::size_t>(kRows * line));
          if (nan) x[static_cast<std::size_t>(line + c - 1)] = kNaN;  // the last channel of a pixel in the middle
          Floats y = guarded(c);
          PoolTask task;
          task.x = x.data();
          task.row_stride = line;
          task.column_stride = c;
          task.rows = kRows;
          task.columns = kColumns;
          task.c = c;
          task.largest = largest;
          task.divisor = 8.0F;
          task.y = y.data() + kGuards;
          kernels->pool(task);
          const Floats found = unguarded(y);
          for (std::int64_t channel = 0; channel < c; ++channel) {
            float most = -std::numeric_limits<float>::infinity();
            float sum = 0.0F;
            for (std::int64_t row = 0; row < kRows; ++row) {
              for (std::int64_t column = 0; column < kColumns; ++column) {
                const float value = x[static_cast<std::size_t>(row * line + column * c + channel)];
                most = std::fmax(most, value);
                sum += value;
              }
            }
            const float expected = nan && channel == c - 1 ? kNaN : largest ? most : sum / 8.0F;
            CAPTURE(channel);
            REQUIRE(test::compare_bits(Floats{found[static_cast<std::size_t>(channel)]}, Floats{expected}));
          }
        }
      }
    }
  }
}

const Activation kLoops[] = {Activation::none(),
                             Activation::relu6(),
                             Activation::of(ActivationKind::Sigmoid),
                             Activation::of(ActivationKind::Silu),
                             Activation::of(ActivationKind::HardSwish),
                             Activation::of(ActivationKind::Tanh),
                             Activation::of(ActivationKind::LeakyRelu, 0.1F)};

// The definition in double, and how far a float may be from it: docs/numerics.md, activations by themselves.
struct Curve {
  double value, allowed;
};
Curve curve(const Activation& activation, double x) {
  constexpr double kLeastNormal = 0x1p-126;
  constexpr double kLeast = 0x1p-149;  // what a product rounds to
  const double y = activate(x, activation);
  const double s = 1 / (1 + std::exp(-x));
  const double of_sigmoid = s * ((1 - s) * (2 * std::abs(x) + 4) + 3) * test::kUnitF32 + kLeastNormal;
  switch (activation.kind) {
    case ActivationKind::Sigmoid:
      return {y, of_sigmoid};
    case ActivationKind::Silu:
      return {y, std::abs(x) * of_sigmoid + std::abs(y) * test::kUnitF32 + kLeast};
    case ActivationKind::HardSwish:
      return {y, 3 * std::abs(x) * (std::abs(x) / 6 + 0.5) * test::kUnitF32 + kLeast};
    case ActivationKind::Tanh:
      return {y, 4 * std::abs(y) * test::kUnitF32 + kLeast};
    default:
      return {y, std::abs(y) * test::kUnitF32 + kLeast};
  }
}

Floats run_elements(const Fp32Kernels& kernels, ElementTask task, const Activation& activation, std::int64_t n) {
  Floats y = guarded(n);
  task.y = y.data() + kGuards;
  task.n = n;
  task.activation = activation;
  kernels.elements(task);
  return unguarded(y);
}

TEST_CASE("element by element, every instruction set computes each form for any number of elements") {
  constexpr std::int64_t kMost = 70;
  const Floats a = test::random_integers(1, kMost);
  const Floats b = test::random_integers(2, kMost);
  const Floats c = test::random_integers(3, kMost);
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const Activation& activation : kLoops) {
      for (const bool repeat : {false, true}) {
        for (int form = 0; form < 4; ++form) {
          ElementTask task;
          task.a = a.data();
          if (form > 0) task.b = b.data();
          if (form == 3) task.c = c.data();
          task.multiply = form == 2;
          task.repeat = repeat;
          for (const std::int64_t n : {1, 3, 4, 5, 8, 15, 16, 17, 31, 33, 64, 70}) {
            CAPTURE(kernels->name, to_string(activation), repeat, form, n);
            Doubles expected;
            Doubles allowed;
            for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
              const auto x = static_cast<double>(a[i]);
              const auto right = static_cast<double>(b[repeat ? 0 : i]);
              const double sums[] = {x, x + right, x * right, x * right + static_cast<double>(c[repeat ? 0 : i])};
              const Curve wanted = curve(activation, sums[form]);
              expected.push_back(wanted.value);
              allowed.push_back(wanted.allowed);
            }
            REQUIRE(test::compare_elements(run_elements(*kernels, task, activation, n), expected, allowed));
          }
        }
      }
    }
  }
}

TEST_CASE("activations of every instruction set stay within their bounds for numbers of every size") {
  Floats x;
  for (int exponent = -149; exponent < 128; ++exponent) {
    for (const float fraction : test::random_uniform(static_cast<std::uint32_t>(exponent + 200), 50, 1.0F, 2.0F)) {
      x.push_back(std::ldexp(fraction, exponent));
      x.push_back(-x.back());
    }
  }
  for (const float value : test::random_uniform(5, 100'000, -110.0F, 110.0F)) x.push_back(value);
  ElementTask task;
  task.a = x.data();
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const Activation& activation : kLoops) {
      CAPTURE(kernels->name, to_string(activation));
      Doubles expected;
      Doubles allowed;
      for (const float value : x) {
        // x / 6 of the largest numbers is not the question.
        const bool overflows = activation.kind == ActivationKind::HardSwish && std::abs(value) > 1e18F;
        const Curve wanted = curve(activation, static_cast<double>(value));
        expected.push_back(wanted.value);
        allowed.push_back(overflows ? std::numeric_limits<double>::infinity() : wanted.allowed);
      }
      const Floats y = run_elements(*kernels, task, activation, std::ssize(x));
      REQUIRE(test::compare_elements(y, expected, allowed));
      for (const std::size_t i : {std::size_t{0}, x.size() / 3, x.size() - 1}) {  // alone as among others
        ElementTask alone;
        alone.a = &x[i];
        REQUIRE(test::compare_bits(run_elements(*kernels, alone, activation, 1), Floats{y[i]}));
      }
    }
  }
}

TEST_CASE("activations of every instruction set take NaN and infinity as their definition does") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats x{kNaN, kInfinity, -kInfinity, 0.0F, -0.0F};
  ElementTask task;
  task.a = x.data();
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const Activation& activation : kLoops) {
      const Floats y = run_elements(*kernels, task, activation, std::ssize(x));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float expected = activate(x[i], activation);
        CAPTURE(kernels->name, to_string(activation), x[i], y[i], expected);
        CHECK((std::isnan(expected) ? std::isnan(y[i]) : y[i] == expected));
      }
    }
  }
}

// Gelu and GeluTanh as curve() has activations.
Curve gelu_curve(ElementFunction function, double x) {
  constexpr double kLeastNormal = 0x1p-126;
  if (function == ElementFunction::Gelu) {
    const double y = evaluate(UnaryKind::Gelu, x);
    return {y, (2 * x * x + 12) * std::abs(y) * test::kUnitF32 + kLeastNormal};
  }
  const double y = evaluate(UnaryKind::GeluTanh, x);
  const double z = 2 * std::sqrt(2 / std::numbers::pi) * x * (1 + 0.044715 * x * x);
  const double s = 1 / (1 + std::exp(-z));
  const double of_sigmoid = s * ((1 - s) * (4 * std::abs(z) + 4) + 3) * test::kUnitF32 + kLeastNormal;
  return {y, std::abs(x) * of_sigmoid + std::abs(y) * test::kUnitF32 + kLeastNormal};
}

TEST_CASE("Gelu of every instruction set stays within its bound for numbers of every size") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Floats x;
  for (int exponent = -149; exponent < 126; ++exponent) {  // twice the largest numbers is not the question
    for (const float fraction : test::random_uniform(static_cast<std::uint32_t>(exponent + 200), 50, 1.0F, 2.0F)) {
      x.push_back(std::ldexp(fraction, exponent));
      x.push_back(-x.back());
    }
  }
  for (const float value : test::random_uniform(7, 200'000, -16.0F, 16.0F)) x.push_back(value);
  const Floats special{kNaN, kInfinity, -kInfinity, 0.0F, -0.0F};
  for (const Fp32Kernels* kernels : supported_fp32_kernels()) {
    for (const ElementFunction function : {ElementFunction::Gelu, ElementFunction::GeluTanh}) {
      CAPTURE(kernels->name, function == ElementFunction::Gelu);
      Doubles expected;
      Doubles allowed;
      for (const float value : x) {
        const Curve wanted = gelu_curve(function, static_cast<double>(value));
        expected.push_back(wanted.value);
        allowed.push_back(wanted.allowed);
      }
      ElementTask task;
      task.function = function;
      task.a = x.data();
      const Floats y = run_elements(*kernels, task, Activation::none(), std::ssize(x));
      REQUIRE(test::compare_elements(y, expected, allowed));
      task.a = special.data();
      const Floats of_special = run_elements(*kernels, task, Activation::none(), std::ssize(special));
      for (std::size_t i = 0; i < special.size(); ++i) {
        const UnaryKind kind = function == ElementFunction::Gelu ? UnaryKind::Gelu : UnaryKind::GeluTanh;
        const float value = evaluate(kind, special[i]);
        CAPTURE(special[i], of_special[i], value);
        CHECK((std::isnan(value) ? std::isnan(of_special[i]) : of_special[i] == value));
      }
    }
  }
}

TEST_CASE("engines use the widest instruction set") {
  CHECK(&fp32_kernels() == supported_fp32_kernels().back());
  CHECK(supported_fp32_kernels().front() == &fp32_kernels_generic());
}

}  // namespace
}  // namespace mobicuda::cpu
