// The inner loops on integers for every instruction set that this processor has: engines use the widest only.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
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

// Weights that a set of loops takes: of pairs the difference of any two bytes.
std::int16_t draw_weight(Draw& draw, const Int8Kernels& kernels) {
  const bool quads = kernels.operands == Int8Operands::Quads;
  return static_cast<std::int16_t>(quads ? draw.between(-128, 127) : draw.between(-255, 255));
}

TEST_CASE("integer products are exact with every instruction set, in any shape") {
  Draw draw(3);
  for (const Int8Kernels* kernels : supported_int8_kernels()) {
    const bool quads = kernels->operands == Int8Operands::Quads;
    for (const std::int64_t k : {1, 2, 3, 31, 64, 147}) {
      for (const std::int64_t n : {1, 3, 8, 16, 31, 33, 64}) {
        const std::int64_t rows = draw.between(1, 15);
        CAPTURE(kernels->name, k, n, rows);
        const std::int64_t group = int8_group(*kernels);
        const std::int64_t whole = (k + group - 1) / group * group;
        const std::int64_t x_stride = whole + 3;
        const auto zero_point = static_cast<std::int32_t>(quads ? draw.between(0, 255) : 0);
        std::vector<std::int16_t> x(static_cast<std::size_t>(rows * x_stride));
        std::vector<std::uint8_t> bytes(x.size());
        std::vector<std::int16_t> w(static_cast<std::size_t>(n * k));
        for (std::size_t i = 0; i < x.size(); ++i) {
          x[i] = static_cast<std::int16_t>(quads ? draw.between(0, 255) : draw.between(-255, 255));
          bytes[i] = static_cast<std::uint8_t>(x[i]);
        }
        for (auto& weight : w) weight = draw_weight(draw, *kernels);
        std::vector<std::byte> packed(static_cast<std::size_t>(int8_packed_bytes(*kernels, n, k)));
        int8_pack(*kernels, n, k, w.data(), packed.data());
        const std::int64_t panels = (n + kernels->panel - 1) / kernels->panel;
        std::vector<std::int32_t> bias(static_cast<std::size_t>(panels * kernels->panel));
        std::vector<std::int32_t> of_sums(bias.size());
        std::vector<float> multiplier(bias.size());
        for (std::size_t o = 0; o < static_cast<std::size_t>(n); ++o) {
          bias[o] = static_cast<std::int32_t>(draw.between(-100000, 100000));
          const std::int16_t* const row = w.data() + static_cast<std::int64_t>(o) * k;
          of_sums[o] = int8_bias(bias[o], zero_point, std::accumulate(row, row + k, std::int64_t{0}));
          multiplier[o] = static_cast<float>(draw.between(1, 1000)) * 1e-7F;
        }
        const std::int64_t stride = n + 5;
        std::vector<std::uint8_t> y(static_cast<std::size_t>(rows * stride), kGuard);
        std::vector<float> reals(y.size(), -1.0F);
        Int8ProductTask task;
        task.x = quads ? static_cast<const void*>(bytes.data()) : x.data();
        task.x_stride = x_stride;
        task.packed = packed.data();
        task.bias = of_sums.data();
        task.multiplier = multiplier.data();
        task.y = {y.data(), nullptr, {-100.0F, 90.0F, 20}};
        task.y_stride = stride;
        task.rows = rows;
        task.k = whole;
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
              sum += (std::int64_t{x[static_cast<std::size_t>(row * x_stride + i)]} - zero_point) *
                     w[static_cast<std::size_t>(o * k + i)];
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

// A depthwise convolution of h x w pixels; output rows as far as they have a tap within the padding of their side.
struct DepthwiseShape {
  std::int64_t h, w, kernel_h, kernel_w, stride, dilation, pad, out_h, out_w;
};

constexpr DepthwiseShape kDepthwiseShapes[] = {
    {5, 6, 3, 2, 2, 2, 2, 5, 4},      {14, 14, 3, 3, 1, 1, 1, 14, 14}, {9, 80, 3, 3, 2, 1, 1, 5, 40},
    {7, 70, 5, 5, 1, 1, 2, 7, 70},    {3, 3, 7, 7, 1, 1, 3, 3, 3},     {1, 1, 1, 1, 1, 1, 0, 1, 1},
    {4, 90, 1, 3, 1, 40, 40, 12, 90}, {4, 64, 2, 1, 8, 1, 0, 1, 8},    {2, 200, 2, 80, 1, 1, 40, 5, 201},
};

TEST_CASE("integer depthwise convolutions are exact with every instruction set, at all borders") {
  Draw draw(5);
  for (const Int8Kernels* kernels : supported_int8_kernels()) {
    for (const DepthwiseShape& shape : kDepthwiseShapes) {
      for (const std::int64_t c : {1, 7, 16, 33, 64, 100}) {
        const bool is_signed = draw.between(0, 1) == 1;
        const bool to_signed = draw.between(0, 1) == 1;
        CAPTURE(kernels->name, c, is_signed, to_signed, shape.w, shape.kernel_h, shape.kernel_w);
        Int8DepthwiseTask task;
        task.h = shape.h;
        task.w = shape.w;
        task.c = c;
        task.kernel_h = shape.kernel_h;
        task.kernel_w = shape.kernel_w;
        task.stride_h = task.stride_w = shape.stride;
        task.dilation_h = task.dilation_w = shape.dilation;
        task.pad_top = task.pad_left = shape.pad;
        task.out_w = shape.out_w;
        task.is_signed = is_signed;
        task.x_zero_point = is_signed ? -9 : 131;
        const std::int64_t taps = task.kernel_h * task.kernel_w;
        std::vector<std::uint8_t> x(static_cast<std::size_t>(task.h * task.w * c));
        for (auto& byte : x) byte = static_cast<std::uint8_t>(draw.between(0, 255));
        std::vector<std::int16_t> filters(static_cast<std::size_t>(c * taps));
        for (auto& weight : filters) weight = draw_weight(draw, *kernels);
        std::vector<std::byte> packed(
            static_cast<std::size_t>(int8_depthwise_bytes(*kernels, c, task.kernel_h, task.kernel_w)));
        int8_pack_depthwise(*kernels, c, task.kernel_h, task.kernel_w, filters.data(), packed.data());
        const std::int32_t zero_point = int8_zero_point(*kernels, is_signed, task.x_zero_point);
        std::vector<std::int32_t> bias(static_cast<std::size_t>(c));
        std::vector<std::int32_t> of_sums(static_cast<std::size_t>(int8_whole_blocks(*kernels, c)));
        std::vector<float> multiplier(of_sums.size());
        for (std::int64_t i = 0; i < c; ++i) {
          const std::int16_t* const filter = filters.data() + i * taps;
          const auto at = static_cast<std::size_t>(int8_channel_order(*kernels, i));
          bias[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(draw.between(-5000, 5000));
          of_sums[at] = int8_bias(bias[static_cast<std::size_t>(i)], zero_point,
                                  std::accumulate(filter, filter + taps, std::int64_t{0}));
          multiplier[at] = static_cast<float>(draw.between(1, 100)) * 1e-4F;
        }
        std::vector<std::byte> columns(static_cast<std::size_t>(int8_scratch_bytes(*kernels, task)) + 64);
        void* aligned = columns.data();
        std::size_t room = columns.size();
        const std::size_t used = room - 64;
        task.scratch = static_cast<std::byte*>(std::align(64, used, aligned, room));
        std::vector<std::uint8_t> y(static_cast<std::size_t>(task.out_w * c) + 8, kGuard);
        std::vector<float> reals(y.size(), -1.0F);
        task.x = x.data();
        task.packed = packed.data();
        task.bias = of_sums.data();
        task.multiplier = multiplier.data();
        const IntegerRounding rounding =
            to_signed ? IntegerRounding{-128.0F, 127.0F, 0} : IntegerRounding{0, 255.0F, 0};
        std::int64_t wrong = 0;
        for (task.oy = 0; task.oy < shape.out_h; ++task.oy) {
          task.y = {y.data(), nullptr, rounding};
          kernels->depthwise(task);
          task.y = {nullptr, reals.data(), {}};
          kernels->depthwise(task);
          for (std::int64_t ox = 0; ox < task.out_w; ++ox) {
            for (std::int64_t i = 0; i < c; ++i) {
              std::int64_t sum = bias[static_cast<std::size_t>(i)];
              for (std::int64_t tap = 0; tap < taps; ++tap) {
                const std::int64_t iy = task.oy * shape.stride + tap / task.kernel_w * shape.dilation - shape.pad;
                const std::int64_t ix = ox * shape.stride + tap % task.kernel_w * shape.dilation - shape.pad;
                if (iy < 0 || iy >= task.h || ix < 0 || ix >= task.w) continue;
                const std::uint8_t byte = x[static_cast<std::size_t>((iy * task.w + ix) * c + i)];
                const std::int64_t q = is_signed ? std::int64_t{static_cast<std::int8_t>(byte)} : std::int64_t{byte};
                sum += (q - task.x_zero_point) * filters[static_cast<std::size_t>(i * taps + tap)];
              }
              const float m = multiplier[static_cast<std::size_t>(int8_channel_order(*kernels, i))];
              const auto at = static_cast<std::size_t>(ox * c + i);
              wrong += y[at] != static_cast<std::uint8_t>(expected_integer(sum, m, rounding)) ? 1 : 0;
              wrong += reals[at] != static_cast<float>(sum) * m ? 1 : 0;
            }
          }
          wrong += std::count(y.end() - 8, y.end(), kGuard) != 8 ? 1 : 0;
          wrong += std::count(reals.end() - 8, reals.end(), -1.0F) != 8 ? 1 : 0;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

}  // namespace
}  // namespace mobicuda::cpu
