// 3x3 and 5x5 convolutions by Winograd's F(2x2, 3x3): its transforms for every instruction set, whole layers against
// the oracle within the bound derived for it, and what is no finite number.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "baselines/allocation_count.h"
#include "baselines/cpu/cpu_engine.h"
#include "baselines/cpu/ops/elementwise.h"
#include "baselines/cpu/ops/gemm.h"
#include "baselines/cpu/plan_maker.h"
#include "baselines/cpu/winograd.h"
#include "baselines/cpu_runs.h"
#include "baselines/test_graphs.h"
#include "support/bounded_graph.h"
#include "support/catch.h"
#include "support/conv_oracle.h"
#include "support/random.h"
#include "support/sanitizer.h"
#include "support/winograd.h"

namespace mobicuda::test {
namespace {

using cpu::Fp32Kernels;
using Doubles = std::vector<double>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kNumbers = cpu::kWinogradNumbers;

std::shared_ptr<const Engine> engine_for(const Graph& graph, cpu::WinogradUse use, int threads,
                                         std::int64_t max_batch = 1, const Fp32Kernels& kernels = cpu::fp32_kernels()) {
  EngineOptions options;
  options.max_batch = max_batch;
  options.threads = threads;
  const Graph optimized = optimize(graph);
  cpu::Fp32Choices choices;
  choices.kernels = &kernels;
  choices.winograd = use;
  return std::make_shared<const cpu::CpuEngine<float>>(options, optimized.input_desc(), optimized.output_desc(),
                                                       cpu::make_plan(optimized, options, nullptr, choices));
}

std::int64_t layers_by_winograd(const Engine& engine) {
  return std::ranges::count_if(engine.layers(),
                               [](const LayerInfo& layer) { return layer.kernel.starts_with("winograd/"); });
}

// ---- the transforms

TEST_CASE("winograd: the input's transform takes pixels outside for zeros, with every instruction set") {
  constexpr double kRows[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
  constexpr std::int64_t kWidth = 7;
  constexpr std::int64_t kTiles = 5;
  constexpr std::int64_t kFloatsBetween = 3;
  for (const Fp32Kernels* kernels : cpu::supported_fp32_kernels()) {
    for (const std::int64_t channels : {1, 3, 4, 5, 8, 11, 16, 17, 33}) {
      for (const std::int64_t left : {-3, -1, 0, 1}) {
        for (const int missing : {-1, 0, 3}) {
          CAPTURE(kernels->name, channels, left, missing);
          const std::int64_t stride = channels + kFloatsBetween;
          const Floats x = random_integers(3, static_cast<std::size_t>(4 * kWidth * stride));
          const Floats zeros(static_cast<std::size_t>(channels));
          const std::int64_t v_stride = kTiles * channels + kFloatsBetween;
          Floats v(static_cast<std::size_t>(kNumbers * v_stride), kNaN);
          cpu::WinogradInputTask task;
          for (int i = 0; i < 4; ++i) task.lines[i] = i == missing ? nullptr : x.data() + i * kWidth * stride;
          task.zeros = zeros.data();
          task.w = kWidth;
          task.stride = stride;
          task.left = left;
          task.tiles = kTiles;
          task.channels = channels;
          task.v = v.data();
          task.v_stride = v_stride;
          kernels->winograd_input(task);
          const auto pixel = [&](std::int64_t tile, std::int64_t i, std::int64_t j, std::int64_t c) {
            const std::int64_t column = left + 2 * tile + j;
            if (i == missing || column < 0 || column >= kWidth) return 0.0;
            return static_cast<double>(x[static_cast<std::size_t>((i * kWidth + column) * stride + c)]);
          };
          for (std::int64_t number = 0; number < kNumbers; ++number) {
            for (std::int64_t at = 0; at < v_stride; ++at) {
              const float found = v[static_cast<std::size_t>(number * v_stride + at)];
              if (at >= kTiles * channels) {
                REQUIRE(std::isnan(found));
                continue;
              }
              double expected = 0;
              for (std::int64_t i = 0; i < 4; ++i) {
                for (std::int64_t j = 0; j < 4; ++j) {
                  expected += kRows[number / 4][i] * kRows[number % 4][j] * pixel(at / channels, i, j, at % channels);
                }
              }
              REQUIRE(static_cast<double>(found) == expected);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("winograd: the output's transform writes the pixels there are, and tells what is not finite") {
  constexpr double kRows[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};
  constexpr std::int64_t kTiles = 3;
  for (const Fp32Kernels* kernels : cpu::supported_fp32_kernels()) {
    for (const std::int64_t n : {1, 3, 4, 5, 8, 11, 16, 17, 33}) {
      for (const std::int64_t rows : {1, 2}) {
        for (const std::int64_t columns : {5, 6}) {
          for (const bool with_residual : {false, true}) {
            CAPTURE(kernels->name, n, rows, columns, with_residual);
            const std::int64_t stride = n + 2;
            const std::int64_t row_stride = 8 * stride;
            const std::int64_t m_tile = n + 1;
            const std::int64_t m_stride = kTiles * m_tile + 5;
            Floats m = random_integers(4, static_cast<std::size_t>(kNumbers * m_stride));
            const Floats residual = random_integers(5, static_cast<std::size_t>(2 * row_stride));
            Floats y(residual.size(), kNaN);
            cpu::WinogradOutputTask task;
            task.m = m.data();
            task.m_stride = m_stride;
            task.m_tile = m_tile;
            task.residual = with_residual ? residual.data() : nullptr;
            task.y = y.data();
            task.row_stride = row_stride;
            task.stride = stride;
            task.rows = rows;
            task.columns = columns;
            task.tiles = kTiles;
            task.n = n;
            task.lo = -7;
            task.hi = 9;
            REQUIRE(kernels->winograd_output(task));
            for (std::int64_t at = 0; at < std::ssize(y); ++at) {
              const std::int64_t row = at / row_stride;
              const std::int64_t column = at % row_stride / stride;
              const std::int64_t c = at % stride;
              const float found = y[static_cast<std::size_t>(at)];
              if (row >= rows || column >= columns || c >= n) {
                REQUIRE(std::isnan(found));
                continue;
              }
              double sum = with_residual ? static_cast<double>(residual[static_cast<std::size_t>(at)]) : 0.0;
              for (std::int64_t number = 0; number < kNumbers; ++number) {
                const std::int64_t from = number * m_stride + column / 2 * m_tile + c;
                sum += kRows[row][number / 4] * kRows[column % 2][number % 4] *
                       static_cast<double>(m[static_cast<std::size_t>(from)]);
              }
              REQUIRE(static_cast<double>(found) == std::clamp(sum, -7.0, 9.0));
            }
            for (const float bad : {kNaN, kInfinity, -kInfinity}) {
              for (const std::int64_t at : {std::int64_t{0}, n - 1, m_tile + n / 2, 2 * m_tile}) {
                // A number that is in all four outputs of its tile.
                float& number = m[static_cast<std::size_t>(5 * m_stride + at)];
                const float kept = std::exchange(number, bad);
                REQUIRE(!kernels->winograd_output(task));
                number = kept;
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("winograd: filters are transformed in double and rounded once") {
  constexpr double kRows[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  constexpr std::int64_t kOutputs = 7;
  constexpr std::int64_t kChannels = 5;
  constexpr std::int64_t kPanel = 4;
  for (const std::int64_t kernel : {3, 5}) {
    const std::int64_t taps = kernel * kernel;
    const Floats weight = random_uniform(8, static_cast<std::size_t>(kOutputs * kChannels * taps));
    const std::int64_t matrix = cpu::gemm_packed_elements(kOutputs, kChannels, kPanel);
    Floats packed(static_cast<std::size_t>(cpu::winograd_products(kernel) * matrix));
    cpu::winograd_pack(kOutputs, kChannels, kernel, kPanel, weight.data(), packed.data());
    auto next = packed.begin();
    for (std::int64_t number = 0; number < kNumbers; ++number) {
      const cpu::Range parts = cpu::winograd_parts(kernel, number);
      for (std::int64_t first = 0; first < kOutputs; first += kPanel) {
        for (std::int64_t part = parts.first; part < parts.last; ++part) {
          const cpu::WinogradPart& begin = cpu::kWinogradParts[part];
          for (std::int64_t channel = 0; channel < kChannels; ++channel) {
            for (std::int64_t output = first; output < first + kPanel; ++output) {
              double exact = 0;
              double magnitude = 0;
              for (std::int64_t i = 0; output < kOutputs && i < 9; ++i) {
                const std::int64_t row = begin.row + i / 3;
                const std::int64_t column = begin.column + i % 3;
                if (row >= kernel || column >= kernel) continue;
                const std::int64_t at = (output * kChannels + channel) * taps + row * kernel + column;
                const double term = kRows[number / 4][i / 3] * kRows[number % 4][i % 3] *
                                    static_cast<double>(weight[static_cast<std::size_t>(at)]);
                exact += term;
                magnitude += std::abs(term);
              }
              const double error = std::abs(static_cast<double>(*next++) - exact);
              CAPTURE(kernel, number, part, output, channel);
              REQUIRE(error <= kUnitF32 * std::abs(exact) + 0x1p-50 * magnitude);
            }
          }
        }
      }
    }
    REQUIRE(next == packed.end());
  }
}

TEST_CASE("winograd: the numbers of a filter that are left out are zero for all filters") {
  constexpr std::int64_t kKernel = 5;
  CHECK(cpu::winograd_products(3) == 16);
  CHECK(cpu::winograd_products(kKernel) == 49);
  for (std::int64_t number = 0; number < kNumbers; ++number) {
    const cpu::Range used = cpu::winograd_parts(kKernel, number);
    for (std::int64_t part = 0; part < 4; ++part) {
      // Number 3 along an axis is the last of three taps, which lies in the filter or not.
      const cpu::WinogradPart& begin = cpu::kWinogradParts[part];
      const bool zero =
          (number / 4 == 3 && begin.row + 2 >= kKernel) || (number % 4 == 3 && begin.column + 2 >= kKernel);
      CHECK((part >= used.first && part < used.last) == !zero);
    }
  }
}

// ---- whole layers

struct Layer {
  std::int64_t c, h, w, outputs;
  std::int64_t kernel = 3;
  std::int64_t groups = 1;
  Padding pads{1, 1, 1, 1};
  bool bias = true;
  bool residual = false;  ///< needs c == outputs and an output as large as the input
  Activation activation{};
};

Graph build(const Layer& layer, WeightKind kind = WeightKind::Signed) {
  ConvCase test{layer.c,      layer.h, layer.w,    layer.outputs,  layer.kernel,
                layer.kernel, {},      layer.bias, layer.residual, Layout::NHWC};
  test.op.groups = layer.groups;
  test.op.pads = layer.pads;
  test.op.activation = layer.activation;
  return build(test, kind);
}

// The bound of docs/numerics.md for each output of an image. All elements lie as NHWC.
Doubles allowed_of(const Layer& layer, const Graph& graph, const float* x, const float* expected) {
  const Node& node = *std::ranges::find_if(
      graph.nodes(), [](const Node& candidate) { return std::holds_alternative<Conv2d>(candidate.op); });
  const auto weight = graph.value(node.inputs[Conv2d::kWeight]).constant->data<float>();
  const ValueId bias_id = node.inputs[Conv2d::kBias];
  const auto bias = bias_id == kNoValue ? std::span<const float>{} : graph.value(bias_id).constant->data<float>();
  const Shape& out = graph.output_desc().shape;
  const std::int64_t channels = layer.c / layer.groups;
  const std::int64_t group_outputs = layer.outputs / layer.groups;
  Doubles allowed;
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    const std::int64_t o = i % out[1];
    const std::int64_t row = i / out[1] / out[3];
    const std::int64_t column = i / out[1] % out[3];
    const auto pixel = [&](std::int64_t c, std::int64_t y, std::int64_t z) {
      y -= layer.pads.top;
      z -= layer.pads.left;
      if (y < 0 || y >= layer.h || z < 0 || z >= layer.w) return 0.0;
      return static_cast<double>(x[(y * layer.w + z) * layer.c + o / group_outputs * channels + c]);
    };
    const auto tap = [&](std::int64_t c, std::int64_t y, std::int64_t z) {
      return static_cast<double>(
          weight[static_cast<std::size_t>(((o * channels + c) * layer.kernel + y) * layer.kernel + z)]);
    };
    double magnitude = winograd_magnitude(layer.kernel, channels, row, column, pixel, tap);
    if (!bias.empty()) magnitude += std::abs(static_cast<double>(bias[static_cast<std::size_t>(o)]));
    if (layer.residual) magnitude += std::abs(static_cast<double>(x[i]));
    const double wanted = static_cast<double>(expected[i]);
    // The oracle's own result passed through a float on its way out.
    allowed.push_back(hard_bound(gamma_winograd(layer.kernel, channels), magnitude, wanted, kStoreF32) +
                      kUnitF32 * std::abs(wanted));
  }
  return allowed;
}

// Of every instruction set: within the bound, exact on whole numbers, and with the same bits for every number of
// threads and every place in a batch.
void check(const Layer& layer, std::int64_t images) {
  const Graph graph = build(layer);
  const Graph whole = build(layer, WeightKind::Integer);
  const Floats input = input_for(graph, images);
  const Floats integers = random_integers(78, input.size());
  const Floats expected = run(*compile(graph, Precision::Fp64, images), input);
  const Floats exact = run(*compile(whole, Precision::Fp64, images), integers);
  const auto x_image = static_cast<std::ptrdiff_t>(input.size()) / images;
  const auto y_image = static_cast<std::ptrdiff_t>(expected.size()) / images;
  Doubles allowed;
  for (std::int64_t i = 0; i < images; ++i) {
    const Doubles image = allowed_of(layer, graph, input.data() + i * x_image, expected.data() + i * y_image);
    allowed.insert(allowed.end(), image.begin(), image.end());
  }
  for (const Fp32Kernels* kernels : cpu::supported_fp32_kernels()) {
    CAPTURE(print(graph), kernels->name, images);
    const auto engine = engine_for(graph, cpu::WinogradUse::WherePossible, 1, images, *kernels);
    REQUIRE(layers_by_winograd(*engine) == 1);
    const Floats actual = run(*engine, input);
    REQUIRE(compare_elements(actual, Doubles(expected.begin(), expected.end()), allowed));
    for (const int threads : {2, 3}) {
      const auto shared = engine_for(graph, cpu::WinogradUse::WherePossible, threads, images, *kernels);
      REQUIRE(compare_bits(run(*shared, input), actual));
    }
    for (std::int64_t i = 0; i < images; ++i) {
      const Floats image(input.begin() + i * x_image, input.begin() + (i + 1) * x_image);
      const Floats alone(actual.begin() + i * y_image, actual.begin() + (i + 1) * y_image);
      REQUIRE(compare_bits(run(*engine, image), alone));
    }
    const auto of_integers = engine_for(whole, cpu::WinogradUse::WherePossible, 2, images, *kernels);
    REQUIRE(compare_bits(run(*of_integers, integers), exact));
  }
}

TEST_CASE("winograd: layers of any geometry stay within the bound, and are exact on whole numbers") {
  constexpr int kChannels[] = {1, 2, 3, 4, 5, 8, 13, 16, 24, 33};
  constexpr int kOutputs[] = {1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 33, 40, 66};
  constexpr int kSizes[] = {1, 2, 3, 4, 5, 7, 8, 13, 14};
  constexpr int kKernels[] = {3, 3, 5};
  constexpr int kGroups[] = {1, 1, 1, 2, 3};
  constexpr int kImages[] = {1, 1, 2, 3};
  const int layers = kThreadSanitized ? 15 : 120;
  Choice choose(21);
  for (int i = 0; i < layers; ++i) {
    Layer layer;
    layer.kernel = choose(kKernels);
    layer.groups = choose(kGroups);
    layer.c = layer.groups * choose(kChannels);
    layer.outputs = layer.groups * choose(kOutputs);
    layer.residual = choose.upto(3) == 0;
    if (layer.residual) layer.outputs = layer.c;
    // An output for each input would be a depthwise convolution.
    if (layer.c == layer.groups && layer.outputs == layer.groups) layer.c = layer.outputs = 2 * layer.groups;
    layer.h = choose(kSizes);
    layer.w = choose(kSizes);
    const auto pads = [&](std::int64_t size, std::int64_t& before, std::int64_t& after) {
      const int most = static_cast<int>(layer.kernel) - 1;
      before = choose.upto(most);
      after = layer.residual ? most - before : choose.upto(most);
      while (size + before + after < layer.kernel) ++after;
    };
    pads(layer.h, layer.pads.top, layer.pads.bottom);
    pads(layer.w, layer.pads.left, layer.pads.right);
    layer.bias = choose.flip();
    if (choose.flip()) layer.activation = {-1.5F, 2.0F};
    check(layer, choose(kImages));
  }
}

TEST_CASE("winograd: more tiles than a block, more panels than wait together, and sums in parts") {
  check({.c = 6, .h = 31, .w = 45, .outputs = 5}, 1);
  check({.c = 8, .h = 9, .w = 230, .outputs = 33, .residual = false}, 1);
  check({.c = 20, .h = 6, .w = 7, .outputs = 150}, 3);
  check({.c = 34, .h = 7, .w = 7, .outputs = 34, .residual = true}, 4);
  check({.c = 10, .h = 27, .w = 31, .outputs = 140, .kernel = 5, .pads = {2, 2, 2, 2}}, 2);
  if (!kThreadSanitized) check({.c = 1100, .h = 4, .w = 5, .outputs = 8}, 1);
}

TEST_CASE("winograd: activations that no clip can do follow as in a single layer") {
  for (const ActivationKind kind : {ActivationKind::Silu, ActivationKind::HardSwish, ActivationKind::Tanh}) {
    Layer layer{.c = 12, .h = 7, .w = 9, .outputs = 19};
    const Graph plain = build(layer);
    layer.activation = Activation::of(kind);
    const Graph graph = build(layer);
    const Floats input = input_for(graph, 2);
    for (const int threads : {1, 2}) {
      Floats expected = run(*engine_for(plain, cpu::WinogradUse::WherePossible, threads, 2), input);
      cpu::activate_floats(layer.activation, expected.data(), std::ssize(expected));
      CHECK(compare_bits(run(*engine_for(graph, cpu::WinogradUse::WherePossible, threads, 2), input), expected));
    }
  }
}

TEST_CASE("winograd: outputs lie among the channels of a Concat's output") {
  TestGraph net({DType::F32, Shape{1, 20, 11, 9}, Layout::NHWC}, 14);
  const ValueId entry = net.last();
  Conv2d op;
  op.pads = {1, 1, 1, 1};
  op.activation = Activation::of(ActivationKind::Silu);
  net.conv(op, 24, 3, 3);
  const ValueId left = net.last();
  net.add(Clip{{-0.9F, 0.9F}}, {entry}).conv(op, 37, 3, 3);
  net.add(Concat{1}, {left, net.last()}).pointwise(8);
  const Graph graph = net.build();
  const auto engine = engine_for(graph, cpu::WinogradUse::WhereFaster, 2, 2);
  REQUIRE(layers_by_winograd(*engine) == 2);
  const Floats input = input_for(graph, 2);
  const Floats expected = run(*compile(graph, Precision::Fp64, 2), input);
  CHECK(compare_rel_l2(run(*engine, input), Doubles(expected.begin(), expected.end()),
                       rel_l2_alarm(20 * 9 * 61, kStoreF32)));
}

TEST_CASE("winograd: a network of such layers stays within the bounds that a graph carries along") {
  TestGraph net({DType::F32, Shape{1, 20, 11, 9}, Layout::NCHW}, 14);
  Conv2d op;
  op.pads = {1, 1, 1, 1};
  op.activation = Activation::of(ActivationKind::Silu);
  net.conv(op, 24, 3, 3);
  const ValueId entry = net.last();
  net.conv(op, 24, 3, 3).add(Add{}, {net.last(), entry});
  op.pads = {0, 1, 1, 0};
  op.groups = 2;
  op.activation = Activation::none();
  net.conv(op, 32, 5, 5);
  const Graph graph = net.build();
  const auto engine = engine_for(graph, cpu::WinogradUse::WhereFaster, 1);
  REQUIRE(layers_by_winograd(*engine) == 3);
  for (const std::uint32_t seed : {1, 2, 3}) {
    const Floats image = input_for(graph, 1, seed);
    const BoundedOutput bounded = run_bounded(graph, image, arithmetic_of(Precision::Fp32, "cpu"));
    CHECK(compare_elements(run(*engine, image), bounded.value, bounded.allowed));
  }
}

// ---- what is no finite number

bool same_kind(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return true;
}

TEST_CASE("winograd: NaN and infinity reach the outputs whose windows have them, and no others") {
  const float bad = GENERATE(kNaN, kInfinity, -kInfinity);
  for (const std::int64_t at : {0, 17, 38, 44, 80}) {
    for (const bool clipped : {false, true}) {
      Layer layer{.c = 19, .h = 9, .w = 9, .outputs = 35, .kernel = at % 2 == 0 ? 3 : 5};
      if (clipped) layer.activation = Activation::relu6();
      const Graph graph = build(layer);
      Floats input = input_for(graph, 2);
      input[static_cast<std::size_t>(at * layer.c + at % layer.c)] = bad;
      const Floats expected = run(*compile(graph, Precision::Fp64, 2), input);
      for (const Fp32Kernels* kernels : cpu::supported_fp32_kernels()) {
        const Floats actual = run(*engine_for(graph, cpu::WinogradUse::WherePossible, 1, 2, *kernels), input);
        for (std::size_t i = 0; i < actual.size(); ++i) {
          CAPTURE(kernels->name, bad, at, clipped, i);
          REQUIRE(same_kind(actual[i], expected[i]));
          if (std::isfinite(expected[i])) REQUIRE(std::abs(actual[i] - expected[i]) < 1e-5F);
        }
        for (const int threads : {2, 3}) {
          const auto shared = engine_for(graph, cpu::WinogradUse::WherePossible, threads, 2, *kernels);
          REQUIRE(compare_bits(run(*shared, input), actual));
        }
      }
    }
  }
}

TEST_CASE("winograd: what overflows in a transform is computed as the convolution itself") {
  // Sums of two such inputs are infinite, products with weights below 1 are not.
  Layer layer{.c = 16, .h = 8, .w = 8, .outputs = 20, .residual = false};
  const Graph graph = build(layer);
  Floats input = input_for(graph, 1, 5);
  for (float& x : input) x *= 3e38F / 16;
  input[(2 * 8 + 2) * 16] = 3e38F;
  input[(3 * 8 + 2) * 16] = 3e38F;
  const Floats expected = run(*compile(graph, Precision::Fp64), input);
  const Floats actual = run(*engine_for(graph, cpu::WinogradUse::WherePossible, 1), input);
  const Floats direct = run(*engine_for(graph, cpu::WinogradUse::Never, 1), input);
  std::int64_t replaced = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    if (std::isfinite(expected[i])) REQUIRE(std::isfinite(actual[i]));
    replaced += actual[i] == direct[i] ? 1 : 0;
  }
  CHECK(replaced >= 4 * 20);  // the tiles around the two
}

TEST_CASE("winograd: weights that are not finite give what the convolution itself gives") {
  Floats values = random_uniform(6, 20 * 12 * 9);
  values[(3 * 12 + 5) * 9 + 4] = kInfinity;
  values[(7 * 12 + 2) * 9] = kNaN;
  GraphBuilder builder("weights");
  const ValueId x = builder.set_input("x", {DType::F32, Shape{1, 12, 6, 7}, Layout::NHWC});
  const ValueId w = builder.add_constant("w", HostTensor::of<float>(Shape{20, 12, 3, 3}, values));
  const ValueId y = builder.add_node(Conv2d{}, {x, w, kNoValue, kNoValue}, {}, "y");
  const Graph graph = std::move(builder).build(y);
  const Floats input = input_for(graph, 1);
  const Floats direct = run(*engine_for(graph, cpu::WinogradUse::Never, 1), input);
  const Floats actual = run(*engine_for(graph, cpu::WinogradUse::WherePossible, 1), input);
  for (std::size_t i = 0; i < actual.size(); ++i) REQUIRE(same_kind(actual[i], direct[i]));
}

// ---- the rule, and engines

TEST_CASE("winograd: taken where it was measured to be faster") {
  const auto faster = [](std::int64_t size, std::int64_t channels, std::int64_t outputs) {
    return cpu::winograd_is_faster({size, size, channels, outputs, 3});
  };
  CHECK(cpu::winograd_is_faster({27, 27, 96, 256, 5}));
  CHECK(!cpu::winograd_is_faster({27, 27, 8, 8, 5}));
  CHECK(!faster(56, 7, 512));
  CHECK(faster(224, 64, 64));
  CHECK(faster(56, 64, 64));
  CHECK(faster(56, 16, 16));
  CHECK(faster(14, 512, 512));
  CHECK(faster(7, 512, 512));
  CHECK(faster(7, 32, 32));
  CHECK(faster(4, 64, 64));
  CHECK(!faster(224, 3, 64));  // the transforms take longer than they save
  CHECK(!faster(56, 4, 32));
  CHECK(!faster(56, 8, 8));
  CHECK(!faster(3, 512, 512));  // more weights to read than products to save
  CHECK(!faster(1, 64, 64));    // three of a tile's four outputs are not there
}

TEST_CASE("winograd: other windows, strides and dilations, few channels and depthwise convolutions are not") {
  const auto layers = [](const Conv2d& op, std::int64_t channels, std::int64_t kernel, cpu::WinogradUse use) {
    TestGraph net({DType::F32, Shape{1, channels, 16, 16}, Layout::NHWC}, 3);
    net.conv(op, 32, kernel, kernel);
    return layers_by_winograd(*engine_for(net.build(), use, 1));
  };
  const auto with = [](std::array<std::int64_t, 2> strides, std::array<std::int64_t, 2> dilations,
                       std::int64_t groups) {
    Conv2d op;
    op.strides = strides;
    op.dilations = dilations;
    op.groups = groups;
    return op;
  };
  const Conv2d plain;
  CHECK(layers(plain, 32, 3, cpu::WinogradUse::WhereFaster) == 1);
  CHECK(layers(plain, 32, 5, cpu::WinogradUse::WhereFaster) == 1);
  CHECK(layers(plain, 32, 3, cpu::WinogradUse::Never) == 0);
  CHECK(layers(plain, 3, 3, cpu::WinogradUse::WhereFaster) == 0);
  CHECK(layers(plain, 3, 3, cpu::WinogradUse::WherePossible) == 1);
  CHECK(layers(with({1, 1}, {1, 1}, 2), 32, 3, cpu::WinogradUse::WhereFaster) == 1);
  CHECK(layers(with({1, 1}, {1, 1}, 8), 32, 3, cpu::WinogradUse::WhereFaster) == 0);
  for (const auto use : {cpu::WinogradUse::WhereFaster, cpu::WinogradUse::WherePossible}) {
    CHECK(layers(plain, 32, 7, use) == 0);
    CHECK(layers(plain, 32, 1, use) == 0);
    CHECK(layers(with({2, 1}, {1, 1}, 1), 32, 3, use) == 0);
    CHECK(layers(with({1, 2}, {1, 1}, 1), 32, 3, use) == 0);
    CHECK(layers(with({1, 1}, {2, 1}, 1), 32, 3, use) == 0);
    CHECK(layers(with({1, 1}, {1, 2}, 1), 32, 3, use) == 0);
    CHECK(layers(with({1, 1}, {1, 1}, 32), 32, 3, use) == 0);
  }
}

TEST_CASE("winograd: engines tell its memory to the byte, allocate nothing in a run, and come back from a saved one") {
  const Graph graph = build({.c = 40, .h = 14, .w = 14, .outputs = 40, .residual = true});
  const Floats input = input_for(graph, 3);
  Floats output(input.size());
  const AllocationCount before_compile = aligned_allocations();
  const auto engine = compile(graph, Precision::Fp32, 3, 2);
  const MemoryReport report = engine->memory();
  CHECK(aligned_allocations().bytes - before_compile.bytes == report.weight_bytes);
  REQUIRE(layers_by_winograd(*engine) == 1);
  const AllocationCount before_session = aligned_allocations();
  const auto session = engine->create_session();
  CHECK(aligned_allocations().bytes - before_session.bytes ==
        report.arena_bytes + report.workspace_bytes + report.io_bytes);
  session->run(input, output);
  const AllocationCount before_run = all_allocations();
  session->run(input, output);
  CHECK(all_allocations().calls == before_run.calls);
  Floats broken = input;
  broken[200] = kNaN;
  const AllocationCount before_broken = all_allocations();
  session->run(broken, output);
  CHECK(all_allocations().calls == before_broken.calls);
  session->run(input, output);
  const auto restored = make_cpu_backend()->restore(engine->saved(), engine->options());
  CHECK(layers_by_winograd(*restored) == 1);
  CHECK(compare_bits(run(*restored, input), output));
}

}  // namespace
}  // namespace mobicuda::test
