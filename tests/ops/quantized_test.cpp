// Operations on integers: what makes them of QDQ, and that engines give the bits of the oracle in int64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/plan_file.h>

#include "baselines/engine_runs.h"
#include "onnx_import/import_support.h"
#include "support/integer_oracle.h"
#include "support/qdq_network.h"
#include "support/random.h"
#include "support/sanitizer.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::shared_ptr<const Engine> compiled(const Graph& graph, Precision precision, std::int64_t max_batch, int threads) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  options.threads = threads;
  return make_cpu_backend()->compile(graph, options);
}

// ---- random networks

struct Tracked {
  ValueId value = kNoValue;  // real, behind a Dequantize
  float scale = 1.0F;
  float size = 1.0F;  // about the largest magnitude
};

class RandomQdq {
 public:
  explicit RandomQdq(std::uint32_t seed) : net_(seed, Shape{1, 1 + seed % 5, 9, 8 + seed % 3}) {}

  Graph build() && {
    Tracked x = quantized(net_.input(), 1.0F);
    for (int layer = 0; layer < 6; ++layer) x = next(x);
    x = quantized(net_.add(GlobalAveragePool{}, {x.value}), x.size);
    const std::int64_t channels = net_.shape(x.value)[1];
    const ValueId flat = net_.add(Reshape{Shape{1, channels}}, {x.value});
    const DType dtype = net_.chance(50) ? DType::I8 : DType::U8;
    const ValueId w = net_.weight(Shape{7, channels}, dtype, 0.01F, net_.chance(50), net_.chance(30));
    const ValueId bias = net_.chance(70) ? net_.bias(w, x.scale, 5000) : kNoValue;
    return std::move(net_).build(net_.add(Gemm{}, {flat, w, bias}));
  }

 private:
  Tracked quantized(ValueId real, float size) { return {net_.quantize(real, size), size / 100.0F, size}; }

  Tracked next(const Tracked& x) {
    const Shape shape = net_.shape(x.value);
    switch (net_.below(7)) {
      case 0: {
        Pool2d pool;
        pool.kind = net_.chance(50) ? PoolKind::Max : PoolKind::Average;
        pool.kernel = {2, 3};
        pool.strides = {1, 1 + net_.below(2)};
        pool.pads = {1, 1, 0, 1};
        pool.count_include_pad = net_.chance(50);
        if (shape[2] < 3 || shape[3] < 4) return convolved(x, shape);
        return quantized(net_.add(pool, {x.value}), x.size);
      }
      case 1: {
        const Tracked other = same_size(x, shape[1]);
        return quantized(
            net_.add(Add{net_.chance(40) ? Activation::relu() : Activation::none()}, {x.value, other.value}),
            x.size + other.size);
      }
      case 2: {
        const Tracked other = same_size(x, 3);
        return quantized(net_.add(Concat{}, {x.value, other.value}), std::max(x.size, other.size));
      }
      case 3:
        return quantized(net_.add(Pad{{1, 0, 0, 1}, 0.0F, PadMode::Constant}, {x.value}), x.size);
      case 4:
        return quantized(net_.add(Clip{Activation{0.0F, x.size / 2}}, {x.value}), x.size);
      default:
        return convolved(x, shape);
    }
  }

  Tracked convolved(const Tracked& x, const Shape& shape) {
    if (net_.chance(40)) return depthwise(x, shape);
    const std::int64_t outputs = 1 + net_.below(20);
    if (net_.chance(30)) return convolved_to(x, outputs, {}, 1);
    return convolved_to(x, outputs, {net_.below(2), net_.below(2), net_.below(2), net_.below(2)}, 2);
  }

  Tracked depthwise(const Tracked& x, const Shape& shape) {
    Conv2d op;
    op.groups = shape[1];
    op.pads = {1, 1, 1, 1};
    op.strides = {1, 1 + net_.below(2)};
    return conv(x, op, Shape{shape[1], 1, 3, 3});
  }

  Tracked same_size(const Tracked& x, std::int64_t outputs) {
    Conv2d op;
    op.pads = {1, 1, 1, 1};
    return conv(x, op, Shape{outputs, net_.shape(x.value)[1], 3, 3});
  }

  Tracked convolved_to(const Tracked& x, std::int64_t outputs, const Padding& pads, std::int64_t kernel) {
    Conv2d op;
    op.pads = pads;
    op.dilations = {1, 1 + net_.below(2)};
    const Shape shape = net_.shape(x.value);
    if (shape[1] % 2 == 0 && outputs % 2 == 0 && net_.chance(30)) op.groups = 2;
    if (kernel > shape[2] || 2 * kernel > shape[3]) kernel = 1;
    return conv(x, op, Shape{outputs, shape[1] / op.groups, kernel, kernel});
  }

  Tracked conv(const Tracked& x, Conv2d op, const Shape& weight) {
    const std::int64_t products = weight.elements() / weight[0];
    const auto k = static_cast<float>(products);
    const float scale = 1.0F / (60.0F * std::sqrt(k));
    if (net_.chance(50)) op.activation = net_.chance(50) ? Activation::relu() : Activation{0.0F, x.size};
    const DType dtype = net_.chance(80) ? DType::I8 : DType::U8;
    const ValueId w = net_.weight(weight, dtype, scale, net_.chance(70), net_.chance(20));
    const ValueId bias = net_.chance(80) ? net_.bias(w, x.scale, 3000) : kNoValue;
    return quantized(net_.add(op, {x.value, w, bias, kNoValue}), 2.0F * x.size);
  }

  QdqNetwork net_;
};

bool all_integers(const Graph& graph) {
  return std::ranges::none_of(graph.nodes(), [](const Node& node) {
    return std::holds_alternative<Conv2d>(node.op) || std::holds_alternative<Gemm>(node.op) ||
           std::holds_alternative<Add>(node.op) || std::holds_alternative<GlobalAveragePool>(node.op);
  });
}

TEST_CASE("random QDQ networks give the oracle's bits at every precision, for every number of threads", "[engines]") {
  constexpr std::uint32_t kNetworks = kSanitized ? 30 : 60;
  constexpr std::int64_t kPictures = 3;
  std::set<std::string> met;
  for (std::uint32_t seed = 0; seed < kNetworks; ++seed) {
    CAPTURE(seed);
    const Graph graph = RandomQdq(seed).build();
    const Graph optimized = optimize(graph);
    CAPTURE(print(optimized));
    CHECK(all_integers(optimized));
    for (const Node& node : optimized.nodes()) met.emplace(op_name(node.op));
    const Floats input = input_for(graph, kPictures, seed);
    const auto picture = input.size() / kPictures;
    Floats expected;
    IntegerOracle oracle(optimized);
    for (std::size_t i = 0; i < kPictures; ++i) {
      const auto first = input.begin() + static_cast<std::ptrdiff_t>(i * picture);
      const Numbers y = oracle.run({first, first + static_cast<std::ptrdiff_t>(picture)});
      expected.insert(expected.end(), y.begin(), y.end());
    }
    CHECK(compare_bits(run(*compiled(graph, Precision::Fp64, kPictures, 1), input), expected));
    CHECK(compare_bits(run(*compiled(graph, Precision::Fp32, kPictures, 1), input), expected));
    CHECK(compare_bits(run(*compiled(graph, Precision::Fp32, kPictures, 3), input), expected));
  }
  for (const char* const op : {"Quantize", "Requantize", "QuantizedConv2d", "QuantizedGemm", "QuantizedAdd",
                               "QuantizedAveragePool", "Pool2d", "Concat", "Pad", "Reshape"}) {
    CAPTURE(op);
    CHECK(met.contains(op));
  }
}

TEST_CASE("a plan file has quantised networks, bit for bit") {
  for (const Precision precision : {Precision::Fp32, Precision::Fp64}) {
    for (std::uint32_t seed = 100; seed < 106; ++seed) {
      CAPTURE(seed);
      const Graph graph = RandomQdq(seed).build();
      const auto engine = compiled(graph, precision, 2, 1);
      const SavedEngine saved = engine->saved();
      const auto bytes = plan_file::save_to_memory(saved);
      const SavedEngine read = plan_file::read_from_memory(bytes, "plan");
      CHECK(print(read.graph) == print(saved.graph));
      const auto restored = make_cpu_backend()->restore(read, engine->options());
      const Floats input = input_for(graph, 2);
      CHECK(compare_bits(run(*restored, input), run(*engine, input)));
      CHECK(plan_file::save_to_memory(restored->saved()) == bytes);
    }
  }
}

// ---- what becomes of QDQ

// One value through a graph made by `make` of a QdqNetwork, whose input has that shape.
template <class Make>
Graph network_of(const Shape& shape, const Make& make) {
  QdqNetwork net(1, shape);
  const ValueId output = make(net);
  return std::move(net).build(output);
}

constexpr Quantization kTenth{0.1F, 0};

TEST_CASE("the pass leaves nothing of QDQ around operations on integers") {
  const Shape image{1, 4, 6, 6};
  const auto optimized = [&](const auto& make) { return ops(optimize(network_of(image, make))); };
  const auto conv = [](QdqNetwork& net, ValueId x, const Activation& act) {
    Conv2d op;
    op.activation = act;
    const ValueId w = net.weight(Shape{4, 4, 1, 1}, DType::I8, 0.01F, true, false);
    return net.add(op, {x, w, net.bias(w, 0.1F, 100), kNoValue});
  };
  CHECK(optimized([&](QdqNetwork& net) {
          const ValueId x = net.quantize(net.input(), DType::I8, kTenth);
          return net.quantize(conv(net, x, Activation::relu6()), DType::I8, kTenth);
        }) == "LayoutTransform Quantize QuantizedConv2d Dequantize LayoutTransform");
  SECTION("a convolution without Quantize behind it gives real numbers") {
    CHECK(optimized([&](QdqNetwork& net) {
            return conv(net, net.quantize(net.input(), DType::I8, kTenth), Activation::relu6());
          }) == "LayoutTransform Quantize QuantizedConv2d Clip LayoutTransform");
    CHECK(optimized([&](QdqNetwork& net) {
            const ValueId x = net.quantize(net.input(), DType::I8, kTenth);
            return conv(net, x, Activation::of(ActivationKind::Sigmoid));
          }) == "LayoutTransform Quantize QuantizedConv2d Sigmoid LayoutTransform");
  }
  SECTION("an operation that has no form for integers stays between Dequantize and Quantize") {
    CHECK(optimized([&](QdqNetwork& net) {
            const ValueId x = net.quantize(net.input(), DType::I8, kTenth);
            const ValueId y = net.quantize(net.add(Unary{UnaryKind::Sigmoid}, {x}), DType::U8, {1 / 256.0F, 0});
            return net.quantize(conv(net, y, Activation::none()), DType::I8, kTenth);
          }) == "LayoutTransform Quantize Dequantize Sigmoid Quantize QuantizedConv2d Dequantize LayoutTransform");
  }
  SECTION("a convolution of real numbers keeps its weights' precision") {
    CHECK(optimized([&](QdqNetwork& net) { return conv(net, net.input(), Activation::none()); }) ==
          "LayoutTransform Conv2d LayoutTransform");
  }
  SECTION("movement goes through integers, also without QDQ of its own") {
    CHECK(optimized([&](QdqNetwork& net) {
            const ValueId x = net.quantize(net.input(), DType::I8, kTenth);
            Pool2d pool;
            pool.kernel = {2, 2};
            return net.quantize(conv(net, net.add(pool, {x}), Activation::none()), DType::I8, kTenth);
          }) == "LayoutTransform Quantize Pool2d QuantizedConv2d Dequantize LayoutTransform");
  }
  SECTION("parts of another scale are requantised before they are joined") {
    CHECK(optimized([&](QdqNetwork& net) {
            const ValueId x = net.quantize(net.input(), DType::I8, kTenth);
            const ValueId y = net.quantize(net.input(), DType::U8, {0.2F, 3});
            return net.quantize(net.add(Concat{}, {x, y}), DType::I8, kTenth);
          }) == "LayoutTransform Quantize Quantize Requantize Concat Dequantize LayoutTransform");
  }
  SECTION("a Relu by itself narrows the range of integers") {
    const Graph graph = optimize(network_of(image, [&](QdqNetwork& net) {
      const ValueId x = net.quantize(net.input(), DType::I8, {0.1F, -20});
      return net.add(Clip{Activation::relu()}, {x});
    }));
    CHECK(ops(graph) == "LayoutTransform Quantize Requantize Dequantize LayoutTransform");
    CHECK(op_at<Requantize>(graph, 2).result.range == IntegerRange{-20, 127});
  }
  SECTION("a Clip to a number between two integers, without Quantize behind it, stays real") {
    CHECK(optimized([&](QdqNetwork& net) {
            const ValueId x = net.quantize(net.input(), DType::I8, kTenth);
            return net.add(Clip{Activation{0.0F, 0.55F}}, {x});
          }) == "LayoutTransform Quantize Dequantize Clip LayoutTransform");
  }
}

TEST_CASE("a bias of real numbers becomes the nearest integers") {
  const Graph graph = optimize(network_of(Shape{1, 2}, [](QdqNetwork& net) {
    const ValueId x = net.quantize(net.input(), DType::I8, {0.5F, 0});
    const ValueId w = net.weight(Shape{3, 2}, DType::I8, 0.01F, false, false);
    const float unit = 0.5F * net.builder().value(w).quantized->scales.front();
    const ValueId bias = net.builder().add_constant(
        "bias", HostTensor::of<float>(Shape{3}, std::vector<float>{10.4F * unit, -10.6F * unit, 0.0F}));
    return net.add(Gemm{}, {x, w, bias});
  }));
  CHECK(ops(graph) == "Quantize QuantizedGemm");
  const auto bias = graph.value(graph.nodes()[1].inputs[QuantizedGemm::kBias]).constant->data<std::int32_t>();
  CHECK(std::vector<std::int32_t>(bias.begin(), bias.end()) == std::vector<std::int32_t>{10, -11, 0});
}

TEST_CASE("a bias that no int32 holds leaves its operation real") {
  const Graph graph = optimize(network_of(Shape{1, 2}, [](QdqNetwork& net) {
    const ValueId x = net.quantize(net.input(), DType::I8, {1e-6F, 0});
    const ValueId w = net.weight(Shape{1, 2}, DType::I8, 1e-6F, false, false);
    const ValueId bias =
        net.builder().add_constant("bias", HostTensor::of<float>(Shape{1}, std::vector<float>{100.0F}));
    return net.add(Gemm{}, {x, w, bias});
  }));
  CHECK(ops(graph) == "Quantize Dequantize Gemm");
}

TEST_CASE("weights have no zero points where they are int8 without them") {
  struct Case {
    DType dtype;
    std::int32_t zero_point;
    bool fits;
    std::vector<int> weights;
  };
  for (const Case& c : {Case{DType::U8, 128, true, {0, 255}}, Case{DType::U8, 100, true, {0, 227}},
                        Case{DType::U8, 100, false, {0, 228}}, Case{DType::U8, 0, true, {0, 127}},
                        Case{DType::U8, 0, false, {0, 128}}, Case{DType::I8, 3, true, {-125, 127}},
                        Case{DType::I8, 3, false, {-126, 127}}, Case{DType::I8, 0, true, {-128, 127}}}) {
    CAPTURE(c.weights, c.zero_point);
    HostTensor integers(c.dtype, Shape{1, 2});
    for (std::size_t i = 0; i < 2; ++i) integers.bytes()[i] = static_cast<std::byte>(c.weights[i]);
    const auto quantized =
        std::make_shared<const QuantizedConstant>(QuantizedConstant{integers, {0.5F}, {c.zero_point}, 0});
    const Graph graph = optimize(network_of(Shape{1, 2}, [&](QdqNetwork& net) {
      const ValueId x = net.quantize(net.input(), DType::I8, kTenth);
      return net.add(Gemm{}, {x, net.constant(quantized), kNoValue});
    }));
    REQUIRE(ops(graph) == "Quantize QuantizedGemm");
    const Node& gemm = graph.nodes()[1];
    CHECK((gemm.inputs[QuantizedGemm::kWeightZeroPoint] == kNoValue) == (c.fits || c.zero_point == 0));
    const HostTensor& kept = *graph.value(gemm.inputs[QuantizedGemm::kWeight]).constant;
    CHECK(kept.dtype() == (c.fits ? DType::I8 : c.dtype));
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(kept.bytes()[i] == static_cast<std::byte>(c.weights[i] - (c.fits ? c.zero_point : 0)));
    }
    const Floats x{0.7F, -1.1F};
    const int sum = 7 * (c.weights[0] - c.zero_point) - 11 * (c.weights[1] - c.zero_point);
    CHECK(run(*compiled(graph, Precision::Fp32, 1, 1), x)[0] == static_cast<float>(sum) * (0.1F * 0.5F));
  }
}

// ---- the definitions, worked out by hand

// What Quantize makes of some numbers, as the numbers that Dequantize makes of that.
Floats quantized_to(DType dtype, const Quantization& as, const Floats& x) {
  const Graph graph = network_of(Shape{1, static_cast<std::int64_t>(x.size())},
                                 [&](QdqNetwork& net) { return net.quantize(net.input(), dtype, as); });
  const Floats fp32 = run(*compiled(graph, Precision::Fp32, 1, 1), x);
  CHECK(fp32 == run(*compiled(graph, Precision::Fp64, 1, 1), x));
  return fp32;
}

TEST_CASE("Quantize rounds halves to even, saturates, and takes NaN for the lowest number") {
  CHECK(quantized_to(DType::I8, {1.0F, 0}, {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 0.49F}) == Floats{0, 2, 2, 0, -2, 0});
  CHECK(quantized_to(DType::I8, {1.0F, 10}, {0.5F, 1.5F, -0.5F}) == Floats{0, 2, 0});
  CHECK(quantized_to(DType::I8, {1.0F, 0}, {127.4F, 127.6F, 1e30F, -1e30F, kInfinity, -kInfinity}) ==
        Floats{127, 127, 127, -128, 127, -128});
  CHECK(quantized_to(DType::U8, {2.0F, 128}, {1e9F, -1e9F, 2.9F, 3.0F, 3.1F}) == Floats{254, -256, 2, 4, 4});
  CHECK(quantized_to(DType::I8, {1.0F, 5}, {std::numeric_limits<float>::quiet_NaN()}) == Floats{-133});
}

TEST_CASE("integers move through what moves elements") {
  const Shape image{1, 2, 3, 4};
  const auto moved = [&](const auto& add_op) {
    const Graph real = network_of(image, [&](QdqNetwork& net) { return add_op(net, net.input()); });
    const Graph integer = network_of(image, [&](QdqNetwork& net) {
      return net.quantize(add_op(net, net.quantize(net.input(), DType::U8, {0.5F, 60})), DType::U8, {0.5F, 60});
    });
    std::size_t conversions = 0;
    const Graph optimized = optimize(integer);
    for (const Node& node : optimized.nodes()) {
      conversions += std::holds_alternative<Quantize>(node.op) || std::holds_alternative<Dequantize>(node.op) ? 1 : 0;
    }
    CHECK(conversions == 2);
    Floats x;
    for (int i = 0; i < 24; ++i) x.push_back(static_cast<float>((i * 7) % 24) - 10.0F);
    for (const Precision precision : {Precision::Fp32, Precision::Fp64}) {
      CHECK(compare_bits(run(*compiled(integer, precision, 1, 1), x), run(*compiled(real, precision, 1, 1), x)));
    }
  };
  moved([](QdqNetwork& net, ValueId x) { return net.add(Reshape{Shape{1, 24}}, {x}); });
  moved([](QdqNetwork& net, ValueId x) { return net.add(Transpose{{0, 2, 1, 3}}, {x}); });
  moved([](QdqNetwork& net, ValueId x) { return net.add(Slice{1, 1, 1}, {x}); });
  moved([](QdqNetwork& net, ValueId x) { return net.add(Slice{3, 1, 2}, {x}); });
  moved([](QdqNetwork& net, ValueId x) { return net.add(Concat{2}, {x, x}); });
  moved([](QdqNetwork& net, ValueId x) { return net.add(Pad{{1, 0, 2, 1}, 1.5F, PadMode::Constant}, {x}); });
  moved([](QdqNetwork& net, ValueId x) { return net.add(Pad{{1, 0, 2, 1}, 0.0F, PadMode::Edge}, {x}); });
  moved([](QdqNetwork& net, ValueId x) { return net.add(Pad{{1, 0, 2, 1}, 0.0F, PadMode::Reflect}, {x}); });
  moved([](QdqNetwork& net, ValueId x) {
    Resize resize;
    resize.extents = {6, 2};
    return net.add(resize, {x});
  });
  moved([](QdqNetwork& net, ValueId x) {
    Pool2d pool;
    pool.kernel = {2, 2};
    pool.pads = {1, 1, 0, 0};
    return net.add(pool, {x});
  });
}

// ---- what a graph refuses

template <class Make>
std::string refused(const Make& make) {
  try {
    static_cast<void>(optimize(network_of(Shape{1, 4, 3, 3}, make)));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, std::initializer_list<const char*> words) {
  INFO(text);
  return std::ranges::all_of(words, [&](const char* word) { return text.find(word) != std::string::npos; });
}

ValueId integers(QdqNetwork& net, const Quantization& as = {0.1F, 0}, DType dtype = DType::I8) {
  return net.add(Quantize{QuantizedResult::of(dtype, as)}, {net.input()});
}

// Adds a QuantizedConv2d whose constants `spoil` has made unsound.
struct ConvConstants {
  DType dtype = DType::I8;
  std::vector<float> scales{0.1F, 0.1F};
  std::vector<std::int32_t> zero_points{0, 0};
  std::vector<std::int32_t> bias{0, 0};
  QuantizedConv2d op{{1, 1}, {1, 1}, {}, 1, QuantizedResult::of(DType::I8, {0.1F, 0})};
};

template <class Spoil>
std::string refused_conv(const Spoil& spoil) {
  return refused([&](QdqNetwork& net) {
    ConvConstants c;
    spoil(c);
    const auto list = [](std::size_t size) { return Shape{static_cast<std::int64_t>(size)}; };
    HostTensor weight(c.dtype, Shape{2, 4, 1, 1});
    std::ranges::fill(weight.bytes(), std::byte{100});
    GraphBuilder& to = net.builder();
    return net.add(
        Dequantize{},
        {net.add(c.op, {integers(net), to.add_constant("w", std::move(weight)),
                        to.add_constant("s", HostTensor::of<float>(list(c.scales.size()), c.scales)),
                        to.add_constant("z", HostTensor::of<std::int32_t>(list(c.zero_points.size()), c.zero_points)),
                        to.add_constant("b", HostTensor::of<std::int32_t>(list(c.bias.size()), c.bias))})});
  });
}

TEST_CASE("a graph refuses quantisation that is none") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float scale : {0.0F, -1.0F, nan, kInfinity}) {
    CAPTURE(scale);
    CHECK(has(refused([&](QdqNetwork& net) {
                return net.quantize(net.input(), DType::I8, {scale, 0});
              }),
              {"node #1 'n1'", "scale", "finite and > 0"}));
    CHECK(has(refused_conv([&](ConvConstants& c) { c.scales[1] = scale; }),
              {"w_scale", "output channel 1", "finite and > 0"}));
  }
  CHECK(has(refused([](QdqNetwork& net) {
              return net.quantize(net.input(), DType::I8, {1.0F, 128});
            }),
            {"zero_point", "-128 to 127", "128"}));
  CHECK(has(refused([](QdqNetwork& net) {
              return net.quantize(net.input(), DType::U8, {1.0F, -1});
            }),
            {"zero_point", "0 to 255", "-1"}));
  CHECK(has(refused([](QdqNetwork& net) {
              return net.quantize(net.input(), DType::I32, {1.0F, 0});
            }),
            {"int8 or uint8"}));
  CHECK(has(refused_conv([](ConvConstants& c) { c.zero_points[0] = 200; }), {"w_zero_point", "channel 0", "200"}));
  CHECK(has(refused_conv([](ConvConstants& c) { c.zero_points = {0}; }), {"w_zero_point", "shape 2"}));
  CHECK(has(refused_conv([](ConvConstants& c) { c.scales = {1, 1, 1}; }), {"w_scale", "shape 2", "got 3"}));
  CHECK(has(refused_conv([](ConvConstants& c) { c.bias = {1}; }), {"input 'B'", "shape 2"}));
  CHECK(has(refused_conv([](ConvConstants& c) { c.bias[1] = std::numeric_limits<std::int32_t>::max(); }),
            {"output channel 1", "int32", "floating point"}));
  CHECK(has(refused_conv([](ConvConstants& c) {
              c.scales[0] = 3e38F;
              c.op.result.quantization.scale = 1e-3F;
            }),
            {"w_scale", "infinite"}));
  CHECK(has(refused_conv([](ConvConstants& c) { c.dtype = DType::I32; }), {"input 'W'", "int8 or uint8"}));
  CHECK(has(refused_conv([](ConvConstants& c) { c.op.result.range = {5, 4}; }), {"range", "5..4"}));
  CHECK(has(refused_conv([](ConvConstants& c) { c.op.result.range = {-129, 4}; }), {"range", "-129..4"}));
  CHECK(has(refused_conv([](ConvConstants& c) { c.op.groups = 3; }), {"group", "3"}));
  CHECK(has(refused([](QdqNetwork& net) { return net.add(Dequantize{}, {net.input()}); }), {"integers", "float32"}));
  CHECK(has(refused([](QdqNetwork& net) { return net.add(Unary{}, {integers(net)}); }),
            {"must be float32", "int8", "Dequantize"}));
  CHECK(has(refused([](QdqNetwork& net) { return integers(net); }), {"output", "integers", "DequantizeLinear"}));
  CHECK(has(refused([](QdqNetwork& net) {
              return net.add(Dequantize{}, {net.add(Concat{}, {integers(net), integers(net, {0.2F, 0})})});
            }),
            {"type and quantisation of the first", "0.2"}));
  CHECK(has(refused([](QdqNetwork& net) {
              return net.add(Dequantize{}, {net.add(Pad{{1, 1, 1, 1}, 0.5F, PadMode::Constant}, {integers(net)})});
            }),
            {"attribute 'value'", "whole number", "0.5"}));
  CHECK(has(refused([](QdqNetwork& net) {
              Pool2d pool;
              pool.kind = PoolKind::Average;
              return net.add(Dequantize{}, {net.add(pool, {integers(net)})});
            }),
            {"QuantizedAveragePool"}));
}

}  // namespace
}  // namespace mobicuda::test
