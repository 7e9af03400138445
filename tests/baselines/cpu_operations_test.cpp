// Every operation through the CPU engine: fp32 against the fp64 oracle with derived bounds, and both against the
// operation's definition where nothing is rounded.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "baselines/cpu/ops/elementwise.h"
#include "baselines/cpu_runs.h"
#include "baselines/test_graphs.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/random.h"
#include "support/sanitizer.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

// Makes the same graph with weights of the asked kind.
using GraphMaker = std::function<Graph(WeightKind)>;

// fp32 against fp64 for one sum of `products` products: the hard bound for every element, and bitwise equality on
// whole numbers.
void check_against_oracle(const GraphMaker& make, std::int64_t products, std::int64_t pictures) {
  constexpr int kThreads = 2;
  const Graph graph = make(WeightKind::Signed);
  const Floats input = input_for(graph, pictures);
  Floats absolute = input;
  for (float& value : absolute) value = std::abs(value);
  const Floats actual = run(*compile(graph, Precision::Fp32, pictures, kThreads), input);
  const Floats expected = run(*compile(graph, Precision::Fp64, pictures, kThreads), input);
  const Floats magnitude = run(*compile(make(WeightKind::Absolute), Precision::Fp64, pictures, kThreads), absolute);
  const std::vector<double> wanted(expected.begin(), expected.end());
  std::vector<double> allowed;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    // The oracle's own result passed through a float on its way out.
    allowed.push_back(hard_bound(gamma(products), static_cast<double>(magnitude[i]), wanted[i], kStoreF32) +
                      kUnitF32 * std::abs(wanted[i]));
  }
  CHECK(compare_elements(actual, wanted, allowed));

  const Graph whole = make(WeightKind::Integer);
  const Floats integers = random_integers(78, input.size());
  CHECK(compare_bits(run(*compile(whole, Precision::Fp32, pictures, kThreads), integers),
                     run(*compile(whole, Precision::Fp64, pictures, kThreads), integers)));
}

void check_conv(ConvCase test, std::int64_t pictures = 2) {
  test.input_layout = Layout::NHWC;
  CAPTURE(print(build(test)), pictures);
  check_against_oracle([&](WeightKind kind) { return build(test, kind); }, test.products(), pictures);
}

TEST_CASE("pointwise convolution in fp32 stays within the hard bound of the oracle") {
  for (const std::int64_t c : {1, 3, 16, 33}) {
    for (const std::int64_t outputs : {1, 7, 8, 16, 17, 31, 32, 33, 65}) {
      for (const auto& [h, w] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 7}, {5, 10}}) {
        ConvCase test{c, h, w, outputs, 1, 1, {}};
        test.op.activation = Activation::relu6();
        test.bias = c != 3;
        check_conv(test);
      }
    }
  }
  check_conv({960, 7, 7, 160, 1, 1, {}});
  check_conv({1280, 1, 1, 1000, 1, 1, {}}, 3);
  check_conv({33, 9, 6, 33, 1, 1, {}, true, true});
}

TEST_CASE("depthwise convolution in fp32 stays within the hard bound of the oracle") {
  for (const std::int64_t c : {2, 7, 16, 31, 64, 144}) {
    for (const std::int64_t kernel : {2, 3, 5}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int64_t dilation : {1, 2}) {
          ConvCase test{c, 11, 8, c, kernel, 3, {}};
          test.op.groups = c;
          test.op.strides = {stride, 1 + stride % 2};
          test.op.dilations = {dilation, 1};
          test.op.pads = {stride - 1, 1, dilation, 3};
          test.op.activation = dilation == 1 ? Activation::relu() : Activation::none();
          test.bias = stride != 3;
          check_conv(test);
        }
      }
    }
  }
  ConvCase with_residual{35, 6, 6, 35, 3, 3, {}, true, true};
  with_residual.op.groups = 35;
  with_residual.op.pads = {1, 1, 1, 1};
  check_conv(with_residual);
}

TEST_CASE("convolution with a few filters for each channel in fp32 stays within the hard bound of the oracle") {
  for (const std::int64_t c : {8, 9, 48}) {
    for (const std::int64_t filters : {2, 3, 4, 5}) {
      for (const std::int64_t kernel : {1, 3, 7}) {
        ConvCase test{c, 21, 10, filters * c, kernel, 3, {}};
        test.op.groups = c;
        test.op.strides = {1 + filters % 2, 2};
        test.op.pads = {kernel / 2, 1, kernel / 2, 1};
        test.op.activation = kernel == 3 ? Activation::relu6() : Activation::none();
        test.bias = c != 9;
        CAPTURE(c, filters, kernel);
        check_conv(test);
        const auto engine = compile(build(test), Precision::Fp32, 1, 1);
        CHECK(std::ranges::any_of(engine->layers(), [](const LayerInfo& layer) {
                return layer.kernel.starts_with("depthwise_conv_repeated/");
              }) == (filters <= 4));
      }
    }
  }
}

TEST_CASE("convolution with a few filters for each channel takes a residual, and is joined to others") {
  constexpr std::int64_t kPictures = 3;
  TestNetwork network(Shape{1, 16, 19, 11});
  const ValueId x = network.last();
  const ValueId wide = network.conv(32, 1);
  Conv2d op;
  op.groups = 16;
  op.pads = {1, 1, 1, 1};
  const auto convolved = [&](ValueId residual) {
    return network.add(op, {x, network.constant(Shape{32, 1, 3, 3}), network.constant(Shape{32}), residual});
  };
  const ValueId sum = convolved(wide);
  network.add(Concat{}, {sum, convolved(kNoValue)});
  network.add(Clip{Activation::relu()}, {network.last()});
  const Graph graph = std::move(network).build();
  const Floats input = input_for(graph, kPictures);
  const Floats expected = run(*compile(graph, Precision::Fp64, kPictures, 1), input);
  const Floats actual = run(*compile(graph, Precision::Fp32, kPictures, 1), input);
  CHECK(compare_rel_l2(actual, std::vector<double>(expected.begin(), expected.end()), rel_l2_alarm(9 + 16, kStoreF32)));
  for (const int threads : {2, 3}) {
    CHECK(compare_bits(run(*compile(graph, Precision::Fp32, kPictures, threads), input), actual));
  }
}

TEST_CASE("general convolution in fp32 stays within the hard bound of the oracle") {
  for (const std::int64_t groups : {1, 2, 4}) {
    for (const std::int64_t kernel : {1, 2, 3, 7}) {
      for (const std::int64_t stride : {1, 2}) {
        ConvCase test{8, 13, 9, 20, kernel, 3, {}};
        test.op.groups = groups;
        test.op.strides = {stride, 3 - stride};
        test.op.dilations = {1, stride};
        test.op.pads = {3, 0, 2, 1};
        test.op.activation = {-0.5F, 2.0F};
        test.bias = kernel != 2;
        check_conv(test);
      }
    }
  }
  ConvCase stem{3, 32, 48, 32, 3, 3, {}};
  stem.op.strides = {2, 2};
  stem.op.pads = {0, 0, 1, 1};
  check_conv(stem);
  ConvCase multiplier{5, 7, 7, 15, 3, 3, {}};  // three outputs for each channel are not depthwise
  multiplier.op.groups = 5;
  check_conv(multiplier);
  ConvCase with_residual{24, 6, 9, 24, 3, 3, {}, true, true};
  with_residual.op.pads = {1, 1, 1, 1};
  with_residual.op.groups = 2;
  check_conv(with_residual);
  ConvCase wide{512, 5, 5, 24, 3, 3, {}};  // patches larger than the scratch memory aims at
  check_conv(wide);
}

TEST_CASE("gemm in fp32 stays within the hard bound of the oracle") {
  for (const std::int64_t features : {1, 5, 128, 1280}) {
    for (const std::int64_t outputs : {1, 15, 16, 17, 1000}) {
      for (const std::int64_t pictures : {1, 2, 7, 50}) {
        if (test::kThreadSanitized && features * outputs * pictures > 1000000) continue;
        CAPTURE(features, outputs, pictures);
        const auto make = [&](WeightKind kind) {
          TestGraph net({DType::F32, Shape{1, features}, Layout::NCHW}, 6, kind);
          return net.gemm(outputs, features != 5).build();
        };
        check_against_oracle(make, features, pictures);
      }
    }
  }
}

// A picture (C, H, W) in NCHW, read by logical index.
struct Picture {
  const float* data;
  std::int64_t c, h, w;

  double at(std::int64_t channel, std::int64_t y, std::int64_t x) const {
    return static_cast<double>(data[(channel * h + y) * w + x]);
  }
};

// What an operation must give for one picture, in the NCHW order of its output.
using Expectation = std::function<std::vector<double>(const Picture&)>;

// Calls body(c, y, x) in NCHW order.
std::vector<double> for_each_pixel(std::int64_t c, std::int64_t h, std::int64_t w,
                                   const std::function<double(std::int64_t, std::int64_t, std::int64_t)>& body) {
  std::vector<double> values;
  for (std::int64_t channel = 0; channel < c; ++channel) {
    for (std::int64_t y = 0; y < h; ++y) {
      for (std::int64_t x = 0; x < w; ++x) values.push_back(body(channel, y, x));
    }
  }
  return values;
}

// Both precisions against the expectation, exactly: whole numbers, and divisors that are powers of two.
void check_exact(const std::function<void(TestGraph&)>& append, const Expectation& expectation) {
  constexpr std::int64_t kPictures = 3;
  const Shape shape{1, 6, 4, 8};
  TestGraph net({DType::F32, shape, Layout::NCHW}, 8, WeightKind::Integer);
  append(net);
  const Graph graph = net.build();
  const Floats input = random_integers(9, static_cast<std::size_t>(kPictures * shape.elements()));
  std::vector<double> expected;
  for (std::int64_t n = 0; n < kPictures; ++n) {
    const std::vector<double> one = expectation({input.data() + n * shape.elements(), shape[1], shape[2], shape[3]});
    expected.insert(expected.end(), one.begin(), one.end());
  }
  for (const Precision precision : {Precision::Fp32, Precision::Fp64}) {
    CAPTURE(to_string(precision));
    CHECK(compare_exact(run(*compile(graph, precision, kPictures, 2), input), expected));
  }
}

TEST_CASE("element-wise operations give what their definition says") {
  check_exact(
      [](TestGraph& net) {
        net.add(Add{Activation::relu6()}, {net.last(), net.last()});
      },
      [](const Picture& p) {
        return for_each_pixel(
            p.c, p.h, p.w, [&](auto c, auto y, auto x) { return std::min(std::max(2.0 * p.at(c, y, x), 0.0), 6.0); });
      });
  check_exact(
      [](TestGraph& net) {
        net.add(Clip{{-1.0F, 2.5F}}, {net.last()});
      },
      [](const Picture& p) {
        return for_each_pixel(p.c, p.h, p.w,
                              [&](auto c, auto y, auto x) { return std::min(std::max(p.at(c, y, x), -1.0), 2.5); });
      });
  check_exact([](TestGraph& net) { net.add(Identity{}, {net.last()}); },
              [](const Picture& p) {
                return for_each_pixel(p.c, p.h, p.w, [&](auto c, auto y, auto x) { return p.at(c, y, x); });
              });
}

TEST_CASE("scale and shift use each channel's own numbers") {
  const Floats scale = random_integers(8, 6);  // what the graph draws first and second
  const Floats shift = random_integers(9, 6);
  check_exact(
      [](TestGraph& net) {
        const ValueId scales = net.constant(Shape{6}, 1.0F);
        const ValueId shifts = net.constant(Shape{6}, 1.0F);
        net.add(ScaleShift{{-7.0F, 11.0F}}, {net.last(), scales, shifts});
      },
      [&](const Picture& p) {
        return for_each_pixel(p.c, p.h, p.w, [&](auto c, auto y, auto x) {
          const auto at = static_cast<std::size_t>(c);
          const double value = static_cast<double>(scale[at]) * p.at(c, y, x) + static_cast<double>(shift[at]);
          return std::min(std::max(value, -7.0), 11.0);
        });
      });
}

TEST_CASE("pooling takes the windows of each channel") {
  Pool2d pool;
  pool.kernel = {2, 4};
  pool.strides = {2, 1};
  check_exact([&](TestGraph& net) { net.add(pool, {net.last()}); },
              [](const Picture& p) {
                return for_each_pixel(p.c, 2, 5, [&](auto c, auto y, auto x) {
                  double largest = p.at(c, 2 * y, x);
                  for (int i = 0; i < 8; ++i) largest = std::max(largest, p.at(c, 2 * y + i / 4, x + i % 4));
                  return largest;
                });
              });
  pool.kind = PoolKind::Average;
  check_exact([&](TestGraph& net) { net.add(pool, {net.last()}); },
              [](const Picture& p) {
                return for_each_pixel(p.c, 2, 5, [&](auto c, auto y, auto x) {
                  double sum = 0.0;
                  for (int i = 0; i < 8; ++i) sum += p.at(c, 2 * y + i / 4, x + i % 4);
                  return sum / 8.0;
                });
              });
  check_exact([](TestGraph& net) { net.add(GlobalAveragePool{}, {net.last()}); },
              [](const Picture& p) {
                return for_each_pixel(p.c, 1, 1, [&](auto c, auto, auto) {
                  double sum = 0.0;
                  for (int i = 0; i < 32; ++i) sum += p.at(c, i / 8, i % 8);
                  return sum / 32.0;
                });
              });
}

TEST_CASE("transpose, pad and reshape move every element to its place") {
  check_exact(
      [](TestGraph& net) {
        net.add(Transpose{{0, 3, 2, 1}}, {net.last()});
      },
      [](const Picture& p) { return for_each_pixel(8, 4, 6, [&](auto i, auto j, auto k) { return p.at(k, j, i); }); });
  check_exact(
      [](TestGraph& net) {
        net.add(Pad{{1, 2, 3, 0}, 0.5F}, {net.last()});
      },
      [](const Picture& p) {
        return for_each_pixel(p.c, 8, 10, [&](auto c, auto y, auto x) {
          return y >= 1 && y < 5 && x >= 2 ? p.at(c, y - 1, x - 2) : 0.5;
        });
      });
  check_exact(
      [](TestGraph& net) {
        net.add(Pad{{1, 2, 3, 0}, 0.5F}, {net.last()}).flatten().add(Clip{Activation::relu()}, {net.last()});
      },
      [](const Picture& p) {
        return for_each_pixel(p.c, 8, 10, [&](auto c, auto y, auto x) {
          return y >= 1 && y < 5 && x >= 2 ? std::max(p.at(c, y - 1, x - 2), 0.0) : 0.5;
        });
      });
}

TEST_CASE("a flattened image keeps the NCHW order of its elements") {
  TestGraph net({DType::F32, Shape{1, 2, 2, 2}, Layout::NCHW}, 1);
  net.add(Clip{{-100.0F, 100.0F}}, {net.last()}).flatten();
  const Floats input{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(run(*compile(net.build(), Precision::Fp32), input) == input);
}

TEST_CASE("scale and shift in fp32 stay within the hard bound of the oracle") {
  for (const Layout layout : {Layout::NCHW, Layout::NHWC}) {
    const auto make = [&](WeightKind kind) {
      TestGraph net({DType::F32, Shape{1, 5, 3, 4}, layout}, 8, kind);
      const ValueId scale = net.constant(Shape{5}, 2.0F);
      const ValueId shift = net.constant(Shape{5}, 2.0F);
      return net.add(ScaleShift{}, {net.last(), scale, shift}).build();
    };
    check_against_oracle(make, 1, 2);
  }
}

TEST_CASE("softmax in fp32 stays within its derived error") {
  constexpr std::int64_t kColumns = 1000;
  TestGraph net({DType::F32, Shape{1, kColumns}, Layout::NCHW}, 1);
  const Graph graph = net.add(Softmax{}, {net.last()}).build();
  const Floats input = random_uniform(3, 2 * kColumns, -10.0F, 10.0F);
  const Floats actual = run(*compile(graph, Precision::Fp32, 2), input);
  const Floats expected = run(*compile(graph, Precision::Fp64, 2), input);
  std::vector<double> allowed;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    constexpr double kLargest = 10.0;
    allowed.push_back(static_cast<double>(expected[i]) *
                      softmax_relative_error(kLargest - static_cast<double>(input[i])));
  }
  CHECK(compare_elements(actual, std::vector<double>(expected.begin(), expected.end()), allowed));
}

TEST_CASE("the logarithm of a softmax in fp32 stays within its derived error") {
  constexpr std::int64_t kColumns = 1000;
  TestGraph net({DType::F32, Shape{1, kColumns}, Layout::NCHW}, 1);
  const Graph graph = net.add(LogSoftmax{}, {net.last()}).build();
  const Floats input = random_uniform(3, 2 * kColumns, -200.0F, 200.0F);
  const Floats actual = run(*compile(graph, Precision::Fp32, 2), input);
  const Floats expected = run(*compile(graph, Precision::Fp64, 2), input);
  std::vector<double> allowed;
  for (const float y : expected) allowed.push_back(log_softmax_error(static_cast<double>(y)));
  CHECK(compare_elements(actual, std::vector<double>(expected.begin(), expected.end()), allowed));
}

TEST_CASE("a layer of float applies its activation to what it gives without one") {
  const Activation activation =
      GENERATE(Activation::of(ActivationKind::Sigmoid), Activation::of(ActivationKind::Silu),
               Activation::of(ActivationKind::HardSwish), Activation::of(ActivationKind::Tanh),
               Activation::of(ActivationKind::LeakyRelu, 0.25F), Activation::of(ActivationKind::Elu, 2.0F));
  const auto append = GENERATE(
      as<std::function<void(TestGraph&, Activation)>>{}, [](TestGraph& net, Activation act) { net.pointwise(19, act); },
      [](TestGraph& net, Activation act) { net.depthwise3x3(1, act); },
      [](TestGraph& net, Activation act) {
        net.conv(Conv2d{{1, 1}, {1, 1}, {1, 1, 1, 1}, 2, act}, 34, 3, 3);
      },
      [](TestGraph& net, Activation act) { net.flatten().gemm(70, true, act); });
  const auto outputs = [&](Activation act) {
    TestGraph net({DType::F32, Shape{1, 36, 7, 5}, Layout::NHWC}, 14);
    append(net, act);
    const Graph graph = net.build();
    return run(*compile(graph, Precision::Fp32, 3, 2), input_for(graph, 3));
  };
  CAPTURE(to_string(activation));
  Floats expected = outputs(Activation::none());
  cpu::activate_floats(activation, expected.data(), std::ssize(expected));
  CHECK(compare_bits(outputs(activation), expected));
}

TEST_CASE("NaN and infinity pass through every fp32 layer as in the oracle") {
  const float bad = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  const auto append = GENERATE(
      as<std::function<void(TestGraph&)>>{}, [](TestGraph& net) { net.pointwise(19, Activation::relu6()); },
      [](TestGraph& net) { net.depthwise3x3(1, Activation::relu6()); },
      [](TestGraph& net) {
        net.conv(Conv2d{{1, 1}, {1, 1}, {}, 1, Activation::relu6()}, 19, 3, 3);
      },
      [](TestGraph& net) { net.add(Clip{Activation::relu6()}, {net.last()}); },
      [](TestGraph& net) { net.add(GlobalAveragePool{}, {net.last()}); },
      [](TestGraph& net) {
        net.add(Pool2d{PoolKind::Max, {2, 2}, {1, 1}, {}, false, false}, {net.last()});
      });
  TestGraph net({DType::F32, Shape{1, 37, 5, 5}, Layout::NHWC}, 14);
  append(net);
  const Graph graph = net.build();
  Floats input = input_for(graph, 1);
  input[12 * 37 + 4] = bad;
  input[12 * 37 + 36] = bad;
  const Floats actual = run(*compile(graph, Precision::Fp32), input);
  const Floats expected = run(*compile(graph, Precision::Fp64), input);
  bool any_nan = false;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CHECK(std::isnan(actual[i]) == std::isnan(expected[i]));
    CHECK(std::isinf(actual[i]) == std::isinf(expected[i]));
    any_nan = any_nan || std::isnan(expected[i]);
  }
  if (std::isnan(bad)) CHECK(any_nan);
}

}  // namespace
}  // namespace mobicuda::test
