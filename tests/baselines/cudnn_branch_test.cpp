// What networks with branches, gates and other activations need of the cuDNN baseline, against the fp64 oracle.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "baselines/cudnn_runs.h"
#include "support/network_oracle.h"

namespace mobicuda::test {
namespace {

constexpr std::int64_t kPictures = 3;

// Exact in half as well: the results are equal in all precisions.
void check_exact(const char* what, TestGraph& net) {
  const Graph graph = net.build();
  const auto count = static_cast<std::size_t>(kPictures * graph.input_desc().shape.elements());
  const Floats input = random_integers(9, count);
  const std::vector<double> expected = as_doubles(run_oracle(graph, input));
  for (const Precision precision : {Precision::Fp32, Precision::Fp16}) {
    CAPTURE(what, to_string(precision));
    CHECK(compare_exact(run_cudnn(graph, precision, input), expected));
  }
}

TestGraph picture(std::int64_t c, std::int64_t h, std::int64_t w, std::uint32_t seed = 8) {
  return TestGraph({DType::F32, Shape{1, c, h, w}, Layout::NCHW}, seed);
}

Pool2d pooling(PoolKind kind, std::int64_t kernel, std::int64_t stride, Padding pads, bool ceil_mode = false,
               bool count_include_pad = false, std::int64_t dilation = 1) {
  return {kind, {kernel, kernel}, {stride, stride}, pads, ceil_mode, count_include_pad, {dilation, dilation}};
}

// ---- operations without sums ---------------------------------------------------------------------

TEST_CASE("cudnn: concat and slice move elements of any channels and along any axis") {
  for (const std::int64_t channels : {3, 8}) {
    for (const std::int64_t axis : {1, 2, 3}) {
      CAPTURE(channels, axis);
      TestGraph joined = picture(channels, 6, 5);
      const ValueId x = joined.last();
      const ValueId clipped = joined.add(Clip{{-2.0F, 2.0F}}, {x}).last();
      const ValueId part = joined.add(Slice{axis, 1, 2}, {clipped}).last();
      joined.add(Concat{axis}, {clipped, part, x, clipped}).add(Clip{{-3.0F, 3.0F}}, {joined.last()});
      check_exact("joined", joined);
    }
  }
  TestGraph output = picture(8, 6, 5);
  const ValueId sum = output.add(Add{}, {output.last(), output.last()}).last();
  output.add(Concat{}, {sum, sum});
  check_exact("joined last", output);
  TestGraph features({DType::F32, Shape{1, 5}, Layout::NCHW}, 1);
  const ValueId x = features.last();
  features.add(Clip{{-1.0F, 1.0F}}, {x}).add(Concat{}, {x, features.last(), x});
  check_exact("features", features);
}

TEST_CASE("cudnn: parts that begin one another, and parts that something else reads, join where they are") {
  TestGraph net = picture(8, 6, 7);
  const ValueId a = net.add(Clip{{-3.0F, 3.0F}}, {net.last()}).last();
  const ValueId b = net.add(Pool2d{pooling(PoolKind::Max, 3, 1, {1, 1, 1, 1})}, {a}).last();
  const ValueId ab = net.add(Concat{}, {a, b}).last();
  const ValueId c = net.add(Slice{1, 8, 8}, {ab}).add(Add{Activation::relu()}, {net.last(), a}).last();
  const ValueId abc = net.add(Concat{}, {a, b, c}).last();
  const ValueId pooled = net.add(Pool2d{pooling(PoolKind::Max, 2, 1, {1, 1, 0, 0})}, {abc}).last();
  net.add(Concat{}, {abc, pooled, ab}).add(Add{}, {net.last(), net.last()});
  check_exact("nested", net);
}

TEST_CASE("cudnn: channels that are split and shuffled keep their numbers") {
  TestGraph net = picture(8, 9, 7);
  const ValueId entry = net.add(Clip{{-3.0F, 3.0F}}, {net.last()}).last();
  const ValueId kept = net.add(Slice{1, 0, 4}, {entry}).last();
  net.add(Slice{1, 4, 4}, {entry}).add(Add{}, {net.last(), kept});
  net.add(Concat{}, {kept, net.last()}).add(Reshape{Shape{1, 2, 4, 9, 7}}, {net.last()});
  net.add(Transpose{{0, 2, 1, 3, 4}}, {net.last()}).add(Reshape{Shape{1, 8, 9, 7}}, {net.last()});
  check_exact("shuffle", net);
}

TEST_CASE("cudnn: products and extrema repeat the second operand along the axes where it has extent 1") {
  const Op op = GENERATE(Op(Mul{{-7.0F, 9.0F}}), Op(Extremum{ExtremumKind::Max, {-7.0F, 2.0F}}),
                         Op(Extremum{ExtremumKind::Min, {-2.0F, 9.0F}}));
  for (const std::int64_t channels : {5, 8}) {
    for (const Shape& factor : {Shape{1, channels, 6, 4}, Shape{1, channels, 1, 1}, Shape{1, 1, 6, 4},
                                Shape{1, 1, 1, 4}, Shape{1, 1, 1, 1}}) {
      CAPTURE(op_name(op), channels, to_string(factor));
      TestGraph net = picture(channels, 6, 4);
      const ValueId x = net.last();
      if (factor[1] == 1) net.add(Slice{1, 2, 1}, {x});
      if (factor[2] == 1) net.add(Slice{2, 3, 1}, {net.last()});
      if (factor[3] == 1) net.add(Slice{3, 1, 1}, {net.last()});
      net.add(op, {x, net.last()});
      check_exact("operation", net);
    }
  }
  TestGraph features({DType::F32, Shape{1, 5}, Layout::NCHW}, 1);
  const ValueId x = features.last();
  features.add(Slice{1, 2, 1}, {x}).add(op, {x, features.last()});
  check_exact("features", features);
}

TEST_CASE("cudnn: windows of any padding, dilation and rounding pool exactly") {
  const auto check = [](std::int64_t channels, const Pool2d& op) {
    CAPTURE(channels, op.kernel, op.strides, op.dilations, op.pads.top, op.pads.right, op.ceil_mode);
    TestGraph net = picture(channels, 11, 8);
    net.add(Clip{{-3.0F, 3.0F}}, {net.last()}).add(op, {net.last()});
    check_exact("pool", net);
  };
  for (const std::int64_t channels : {5, 16}) {
    check(channels, pooling(PoolKind::Max, 3, 2, {0, 0, 0, 0}, true));
    check(channels, pooling(PoolKind::Max, 3, 2, {1, 0, 0, 2}));
    check(channels, pooling(PoolKind::Max, 3, 2, {1, 1, 1, 1}));
    check(channels, pooling(PoolKind::Max, 3, 1, {2, 2, 2, 2}, false, false, 2));
    check(channels, pooling(PoolKind::Average, 2, 2, {1, 0, 0, 1}, true));
    check(channels, pooling(PoolKind::Average, 2, 2, {1, 0, 0, 1}, true, true));
    check(channels, pooling(PoolKind::Average, 2, 1, {0, 0, 1, 1}, false, false, 3));
  }
}

TEST_CASE("cudnn: borders repeat or mirror the picture") {
  for (const std::int64_t channels : {3, 8}) {
    for (const PadMode mode : {PadMode::Edge, PadMode::Reflect, PadMode::Constant}) {
      TestGraph net = picture(channels, 5, 6);
      net.add(Clip{{-3.0F, 3.0F}}, {net.last()}).add(Pad{{1, 3, 4, 2}, -2.0F, mode}, {net.last()});
      check_exact("pad", net);
    }
  }
}

TEST_CASE("cudnn: NaN passes through pools, products, extrema and activations") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16);
  const auto check = [&](const char* what, const Op& op, bool two_inputs) {
    CAPTURE(what, to_string(precision));
    TestGraph net = picture(8, 6, 6);
    net.add(op, two_inputs ? std::vector<ValueId>{net.last(), net.last()} : std::vector<ValueId>{net.last()});
    const Graph graph = net.build();
    Floats input(8 * 6 * 6, 1.0F);
    input[40] = nan;
    const Floats expected = run_oracle(graph, input);
    const Floats actual = run_cudnn(graph, precision, input);
    REQUIRE(actual.size() == expected.size());
    int nans = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      CHECK(std::isnan(actual[i]) == std::isnan(expected[i]));
      nans += std::isnan(actual[i]) ? 1 : 0;
    }
    CHECK(nans > 0);
  };
  check("max", pooling(PoolKind::Max, 3, 2, {1, 1, 1, 1}), false);
  check("max, rounded up", pooling(PoolKind::Max, 3, 2, {0, 0, 0, 0}, true), false);
  check("average", pooling(PoolKind::Average, 3, 2, {0, 0, 0, 0}, true), false);
  check("product", Mul{Activation::relu6()}, true);
  check("max of two", Extremum{ExtremumKind::Max, {}}, true);
  check("min of two", Extremum{ExtremumKind::Min, {}}, true);
  check("normalisation", LocalResponseNorm{3, 1.0F, 0.75F, 2.0F}, false);
  for (const UnaryKind kind : {UnaryKind::Sigmoid, UnaryKind::HardSwish, UnaryKind::Tanh, UnaryKind::LeakyRelu,
                               UnaryKind::Elu, UnaryKind::Silu}) {
    check("activation", Unary{kind, 0.5F}, false);
  }
}

// ---- activations ---------------------------------------------------------------------------------

const std::vector<Unary> kActivations{{UnaryKind::Sigmoid},         {UnaryKind::HardSwish}, {UnaryKind::Tanh},
                                      {UnaryKind::LeakyRelu, 0.1F}, {UnaryKind::Elu, 0.8F}, {UnaryKind::Silu}};

// What evaluating an activation in float may add, docs/numerics.md: 6 u for Sigmoid, at most (2 + 5 |x|) u for the
// others. Where y is half, cuDNN may use the hardware's tanh, which errs by 2^-11, times x in the products.
double evaluation_bound(Precision precision, double x, double y) {
  if (precision == Precision::Fp32) return (6 + 5 * std::abs(x) + std::abs(y)) * kUnitF32;
  return kUnitF16 * (std::max(1.0, std::abs(x)) + std::abs(y)) + kStoreF16.underflow;
}

TEST_CASE("cudnn: activations stay within the bound of their evaluation, far from zero as well") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16);
  for (const Unary& op : kActivations) {
    for (const Shape& shape : {Shape{1, 8, 9, 5}, Shape{1, 3, 7, 5}, Shape{1, 133}}) {
      CAPTURE(static_cast<int>(op.kind), to_string(shape), to_string(precision));
      TestGraph net({DType::F32, shape, Layout::NCHW}, 3);
      const Graph graph = net.add(op, {net.last()}).build();
      Floats input = random_integers(5, static_cast<std::size_t>(kPictures * shape.elements()));
      const Floats fractions = random_integers(6, input.size());
      for (std::size_t i = 0; i < input.size(); ++i)
        input[i] = input[i] * (i % 7 == 0 ? 16.0F : 1.5F) + fractions[i] / 64;
      const std::vector<double> expected = as_doubles(run_oracle(graph, input));
      std::vector<double> allowed;
      for (std::size_t i = 0; i < input.size(); ++i) {
        allowed.push_back(evaluation_bound(precision, static_cast<double>(input[i]), expected[i]));
      }
      CHECK(compare_elements(run_cudnn(graph, precision, input), expected, allowed));
    }
  }
}

struct ActivatedLayer {
  const char* name;
  std::int64_t c, h, w, products;
  std::function<void(TestGraph&, ValueId)> layer;
};

// The layer with every activation behind it, side by side; or without them.
Graph side_by_side(const ActivatedLayer& test, WeightKind kind, bool activated) {
  TestGraph net({DType::F32, Shape{1, test.c, test.h, test.w}, Layout::NCHW}, 5, kind);
  const ValueId entry = net.last();
  std::vector<ValueId> branches;
  for (const Unary& op : kActivations) {
    test.layer(net.add(Identity{}, {entry}), entry);
    if (activated) net.add(op, {net.last()});
    branches.push_back(net.last());
  }
  return net.add(Concat{}, branches).build();
}

TEST_CASE("cudnn: convolutions and matrix products with any activation stay within the bound") {
  constexpr double kSteepest = 1.5;  // each activation's slope is at most this
  const auto precision = GENERATE(Precision::Fp16, Precision::Fp32);
  const std::vector<ActivatedLayer> layers{
      {"pointwise", 16, 9, 7, 16, [](TestGraph& net, ValueId) { net.pointwise(24); }},
      {"depthwise", 16, 9, 7, 9, [](TestGraph& net, ValueId) { net.depthwise3x3(2); }},
      {"3x3", 8, 9, 7, 72,
       [](TestGraph& net, ValueId) {
         net.conv(conv_op(1, {1, 1, 1, 1}, 1, {}), 16, 3, 3);
       }},
      {"residual", 16, 6, 6, 17,
       [](TestGraph& net, ValueId entry) {
         net.pointwise(16).add(Add{}, {net.last(), entry});
       }},
      {"gemm", 40, 1, 1, 40, [](TestGraph& net, ValueId) { net.flatten().gemm(24); }},
  };
  for (const ActivatedLayer& test : layers) {
    CAPTURE(test.name, to_string(precision));
    const Graph graph = side_by_side(test, WeightKind::Signed, true);
    const Floats input = input_for(graph, kPictures);
    Floats absolute = input;
    for (float& value : absolute) value = std::abs(value);
    const Floats sums = run_oracle(side_by_side(test, WeightKind::Signed, false), input);
    const Floats magnitude = run_oracle(side_by_side(test, WeightKind::Absolute, false), absolute);
    const std::vector<double> expected = as_doubles(run_oracle(graph, input));
    std::vector<double> allowed;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto sum = static_cast<double>(sums[i]);
      allowed.push_back(kSteepest * layer_bound(precision, test.products, static_cast<double>(magnitude[i]), sum) +
                        evaluation_bound(precision, sum, expected[i]));
    }
    CHECK(compare_elements(run_cudnn(graph, precision, input), expected, allowed));
  }
}

// ---- over the channels ---------------------------------------------------------------------------

TEST_CASE("cudnn: normalisation over channels stays within the bound of its sum and its power") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16);
  for (const LocalResponseNorm& op :
       {LocalResponseNorm{5, 1.0F, 0.75F, 2.0F}, LocalResponseNorm{4, 2.0F, 0.5F, 1.0F},
        LocalResponseNorm{40, 3.0F, 0.75F, 1.0F}, LocalResponseNorm{3, 0.5F, 0.0F, 1.0F}}) {
    for (const std::int64_t channels : {7, 16}) {
      CAPTURE(op.size, channels, to_string(precision));
      TestGraph net = picture(channels, 6, 5);
      const Graph graph = net.add(op, {net.last()}).build();
      Floats input = random_integers(5, static_cast<std::size_t>(kPictures * channels * 30));
      for (float& value : input) value *= 0.375F;
      const std::vector<double> expected = as_doubles(run_oracle(graph, input));
      // Relative: `size` roundings of the sum, times beta <= 1, and a power of 16 ulp.
      const double relative = static_cast<double>(std::min(op.size, channels) + 40) * kUnitF32;
      const Store store = precision == Precision::Fp16 ? kStoreF16 : kStoreF32;
      std::vector<double> allowed;
      for (const double y : expected) allowed.push_back((relative + store.unit) * std::abs(y) + store.underflow);
      CHECK(compare_elements(run_cudnn(graph, precision, input), expected, allowed));
    }
  }
}

TEST_CASE("cudnn: softmax over the channels of each pixel and its logarithm stay within their derived error") {
  constexpr double kLargest = 8.0;
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16);
  const bool logarithm = GENERATE(false, true);
  CAPTURE(to_string(precision), logarithm);
  TestGraph net = picture(19, 6, 5);
  net.add(Clip{{-8.0F, 8.0F}}, {net.last()});
  const Graph graph = net.add(logarithm ? Op(LogSoftmax{}) : Op(Softmax{}), {net.last()}).build();
  Floats input = random_integers(3, kPictures * 19 * 30);
  for (float& value : input) value *= 1.5F;
  const std::vector<double> expected = as_doubles(run_oracle(graph, input));
  std::vector<double> allowed;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double half = precision == Precision::Fp16 ? kUnitF16 : 0.0;
    const double error = logarithm ? log_softmax_error(expected[i])
                                   : expected[i] * softmax_relative_error(kLargest - static_cast<double>(input[i]));
    allowed.push_back(error + std::abs(expected[i]) * half + (half > 0 ? kStoreF16.underflow : 0.0));
  }
  CHECK(compare_elements(run_cudnn(graph, precision, input), expected, allowed));
}

// ---- networks ------------------------------------------------------------------------------------

void check_network(const Graph& graph, std::int64_t longest_sum) {
  const Floats input = input_for(graph, kPictures);
  const NetworkOracle oracle(graph, input, kPictures, longest_sum);
  for (const Precision precision : {Precision::Fp32, Precision::Fp16, Precision::Fp64}) {
    CAPTURE(to_string(precision));
    const Floats actual = run_cudnn(graph, precision, input);
    CHECK(oracle.compare(actual, precision));
  }
}

TEST_CASE("cudnn: a block with squeeze and excite agrees with the oracle") {
  const UnaryKind gate = GENERATE(UnaryKind::Silu, UnaryKind::HardSwish);
  TestGraph net = picture(8, 30, 23, 3);
  net.pointwise(48).add(Unary{gate}, {net.last()}).depthwise3x3(2);
  const ValueId expanded = net.add(Unary{gate}, {net.last()}).last();
  net.add(GlobalAveragePool{}, {expanded}).pointwise(8, Activation::relu()).pointwise(48);
  net.add(Unary{UnaryKind::Sigmoid}, {net.last()}).add(Mul{}, {expanded, net.last()}).pointwise(16);
  check_network(net.build(), 15 * 12);
}

TEST_CASE("cudnn: branches of convolutions and pools, joined and normalised, agree with the oracle") {
  TestGraph net = picture(16, 13, 11, 4);
  const ValueId entry = net.pointwise(16, Activation::relu()).last();
  const ValueId a = net.pointwise(24, Activation::relu()).last();
  net.add(Identity{}, {entry}).pointwise(8);
  const ValueId b = net.conv(conv_op(1, {1, 1, 1, 1}, 1, Activation::relu()), 16, 3, 3).last();
  const ValueId c = net.add(Pool2d{pooling(PoolKind::Average, 3, 1, {1, 1, 1, 1})}, {entry}).pointwise(5).last();
  net.add(Concat{}, {a, b, c}).add(LocalResponseNorm{5, 1.0F, 0.75F, 2.0F}, {net.last()}).pointwise(8);
  check_network(net.build(), 9 * 8);
}

TEST_CASE("cudnn: a dense block, whose layers read all layers before, agrees with the oracle") {
  TestGraph net = picture(16, 12, 12, 6);
  std::vector<ValueId> parts{net.conv(conv_op(1, {1, 1, 1, 1}, 1, {}), 16, 3, 3).last()};
  parts[0] = net.add(Pool2d{pooling(PoolKind::Max, 3, 2, {1, 1, 1, 1})}, {parts[0]}).last();
  for (int layer = 0; layer < 3; ++layer) {
    if (layer > 0) net.add(Concat{}, parts);
    const std::int64_t channels = net.shape()[1];
    const ValueId scale = net.constant(Shape{channels}, 1.0F);
    const ValueId shift = net.constant(Shape{channels}, 0.5F);
    net.add(ScaleShift{Activation::relu()}, {net.last(), scale, shift}).pointwise(32, Activation::relu());
    parts.push_back(net.conv(conv_op(1, {1, 1, 1, 1}, 1, {}), 8, 3, 3).last());
  }
  net.add(Concat{}, parts).pointwise(16).add(GlobalAveragePool{}, {net.last()}).flatten().gemm(10);
  check_network(net.build(), 9 * 32);
}

TEST_CASE("cudnn: joined tensors cost no copies where all parts are computed for them") {
  TestGraph net = picture(16, 12, 12, 6);
  const ValueId entry = net.pointwise(16).last();
  const ValueId a = net.pointwise(24).last();
  const ValueId b = net.add(Pool2d{pooling(PoolKind::Max, 3, 1, {1, 1, 1, 1})}, {entry}).last();
  net.add(Concat{}, {a, b}).pointwise(8);
  const auto engine = make_cudnn_backend()->compile(net.build(), options_for(Precision::Fp16, 2));
  for (const LayerInfo& layer : engine->layers()) {
    CAPTURE(layer.name, layer.kernel);
    CHECK(layer.kernel.find("copy_rows") == std::string::npos);
  }
}

}  // namespace
}  // namespace mobicuda::test
