// The inner loops on integers for every instruction set that this processor has: engines use the widest only.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "baselines/cpu/ops/int8_kernels.h"
#include "support/catch.h"

namespace mobicuda::cpu {
namespace {

constexpr std::uint8_t kGuard = 0xA5;  // stands behind every row of an output

// The same numbers with every standard library.
class Draw {
 public:
  explicit Draw(std::uint32_t seed) : engine_(seed) {}
  std::int64_t between(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(engine_() % static_cast<std::uint32_t>(hi - lo + 1));
  }

 private:
  std::mt19937 engine_;
};

// What docs/int8.md says, in int64 and doubles that are rounded once to float.
std::int64_t expected_integer(std::int64_t sum, float multiplier, const IntegerRounding& to) {
  const float as_float = static_cast<float>(static_cast<double>(sum));
  const float real = static_cast<float>(static_cast<double>(as_float) * static_cast<double>(multiplier));
  const double clamped = std::fmin(std::fmax(std::nearbyint(static_cast<double>(real)), static_cast<double>(to.low)),
                                   static_cast<double>(to.high));
  return static_cast<std::int64_t>(clamped) + to.zero_point;
}

TEST_CASE("integer products are exact with every instruction set, in any shape") {
  Draw draw(3);
  for (const Int8Kernels* kernels : supported_int8_kernels()) {
    for (const std::int64_t k : {1, 2, 3, 31, 64, 147}) {
      for (const std::int64_t n : {1, 3, 8, 16, 31, 33, 64}) {
        const std::int64_t rows = draw.between(1, 15);
        CAPTURE(kernels->panel, k, n, rows);
        const std::int64_t even = k + k % 2;
        std::vector<std::int16_t> x(static_cast<std::size_t>(rows * even));
        std::vector<std::int16_t> w(static_cast<std::size_t>(n * k));
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t i = 0; i < k; ++i) {
            x[static_cast<std::size_t>(row * even + i)] = static_cast<std::int16_t>(draw.between(-255, 255));
          }
        }
        for (auto& weight : w) weight = static_cast<std::int16_t>(draw.between(-255, 255));
        std::vector<std::int16_t> packed(static_cast<std::size_t>(int8_packed_elements(n, k, kernels->panel)));
        int8_pack(n, k, kernels->panel, w.data(), packed.data());
        const std::int64_t panels = (n + kernels->panel - 1) / kernels->panel;
        std::vector<std::int32_t> bias(static_cast<std::size_t>(panels * kernels->panel));
        std::vector<float> multiplier(bias.size());
        for (std::size_t o = 0; o < static_cast<std::size_t>(n); ++o) {
          bias[o] = static_cast<std::int32_t>(draw.between(-100000, 100000));
          multiplier[o] = static_cast<float>(draw.between(1, 1000)) * 1e-7F;
        }
        const std::int64_t stride = n + 5;
        std::vector<std::uint8_t> y(static_cast<std::size_t>(rows * stride), kGuard);
        std::vector<float> reals(y.size(), -1.0F);
        Int8ProductTask task;
        task.x = x.data();
        task.packed = packed.data();
        task.bias = bias.data();
        task.multiplier = multiplier.data();
        task.y = {y.data(), nullptr, {-100.0F, 90.0F, 20}};
        task.y_stride = stride;
        task.rows = rows;
        task.k = even;
        task.n = n;
        task.last_panel = panels;
        kernels->products(task);
        task.y = {nullptr, reals.data(), {}};
        kernels->products(task);
        std::int64_t wrong = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t o = 0; o < stride; ++o) {
            const auto at = static_cast<std::size_t>(row * stride + o);
            if (o >= n) {
              wrong += y[at] != kGuard || reals[at] != -1.0F ? 1 : 0;
              continue;
            }
            std::int64_t sum = bias[static_cast<std::size_t>(o)];
            for (std::int64_t i = 0; i < k; ++i) {
              sum += std::int64_t{x[static_cast<std::size_t>(row * even + i)]} * w[static_cast<std::size_t>(o * k + i)];
            }
            const float m = multiplier[static_cast<std::size_t>(o)];
            wrong += y[at] != static_cast<std::uint8_t>(expected_integer(sum, m, {-100.0F, 90.0F, 20})) ? 1 : 0;
            wrong += reals[at] != static_cast<float>(sum) * m ? 1 : 0;
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("integer depthwise convolutions are exact with every instruction set, at all borders") {
  Draw draw(5);
  for (const Int8Kernels* kernels : supported_int8_kernels()) {
    for (const std::int64_t c : {1, 7, 16, 33}) {
      for (const bool is_signed : {true, false}) {
        CAPTURE(kernels->panel, c, is_signed);
        Int8DepthwiseTask task;
        task.h = 5;
        task.w = 6;
        task.c = c;
        task.kernel_h = 3;
        task.kernel_w = 2;
        task.stride_w = 2;
        task.dilation_h = 2;
        task.pad_top = 2;
        task.pad_left = 1;
        task.out_w = 4;
        task.is_signed = is_signed;
        task.x_zero_point = is_signed ? -9 : 131;
        std::vector<std::uint8_t> x(static_cast<std::size_t>(task.h * task.w * c));
        for (auto& byte : x) byte = static_cast<std::uint8_t>(draw.between(0, 255));
        std::vector<std::int32_t> w(static_cast<std::size_t>(6 * c));
        for (auto& weight : w) weight = static_cast<std::int32_t>(draw.between(-255, 255));
        std::vector<std::int32_t> bias(static_cast<std::size_t>(c));
        std::vector<std::int32_t> sums(bias.size());
        std::vector<float> multiplier(bias.size());
        for (std::size_t i = 0; i < bias.size(); ++i) {
          bias[i] = static_cast<std::int32_t>(draw.between(-5000, 5000));
          multiplier[i] = static_cast<float>(draw.between(1, 100)) * 1e-4F;
        }
        std::vector<std::uint8_t> y(static_cast<std::size_t>(task.out_w * c) + 8, kGuard);
        task.x = x.data();
        task.packed = w.data();
        task.bias = bias.data();
        task.multiplier = multiplier.data();
        task.sums = sums.data();
        task.y = {y.data(), nullptr, {-128.0F, 127.0F, 0}};
        std::int64_t wrong = 0;
        for (task.oy = 0; task.oy < 5; ++task.oy) {
          kernels->depthwise(task);
          for (std::int64_t ox = 0; ox < task.out_w; ++ox) {
            for (std::int64_t i = 0; i < c; ++i) {
              std::int64_t sum = bias[static_cast<std::size_t>(i)];
              for (std::int64_t tap = 0; tap < 6; ++tap) {
                const std::int64_t iy = task.oy + tap / 2 * 2 - 2;
                const std::int64_t ix = ox * 2 + tap % 2 - 1;
                if (iy < 0 || iy >= task.h || ix < 0 || ix >= task.w) continue;
                const std::uint8_t byte = x[static_cast<std::size_t>((iy * task.w + ix) * c + i)];
                const std::int64_t q = is_signed ? std::int64_t{static_cast<std::int8_t>(byte)} : std::int64_t{byte};
                sum += (q - task.x_zero_point) * w[static_cast<std::size_t>(tap * c + i)];
              }
              const auto expected = static_cast<std::uint8_t>(
                  expected_integer(sum, multiplier[static_cast<std::size_t>(i)], task.y.rounding));
              wrong += y[static_cast<std::size_t>(ox * c + i)] != expected ? 1 : 0;
            }
          }
          wrong += std::count(y.end() - 8, y.end(), kGuard) != 8 ? 1 : 0;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

}  // namespace
}  // namespace mobicuda::cpu
