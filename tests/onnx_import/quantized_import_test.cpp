// The forms in which exporters write quantised networks: each must give the same operations on integers, and so the
// same bits.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "import_support.h"
#include "support/random.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using Floats = std::vector<float>;
using Tensor = schema::TensorProto;

constexpr std::int64_t kChannels = 3;
constexpr std::int64_t kOutputs = 4;
constexpr std::int64_t kExtent = 6;
constexpr std::int64_t kClasses = 5;

// A stem, a Relu, a depthwise convolution, an Add, a pool and a classifier.
struct Numbers {
  std::vector<std::int8_t> stem = bytes(1, kOutputs* kChannels * 9);
  std::vector<std::int8_t> depthwise = bytes(2, kOutputs * 9);
  std::vector<std::int8_t> classifier = bytes(3, kClasses* kOutputs);
  std::vector<std::int32_t> bias{300, -200, 100, 0};
  Floats stem_scales{0.002F, 0.003F, 0.001F, 0.0015F};
  Floats depthwise_scales{0.004F, 0.002F, 0.003F, 0.001F};

  static std::vector<std::int8_t> bytes(std::uint32_t seed, std::int64_t count) {
    const Floats random = random_uniform(seed, static_cast<std::size_t>(count), -128.0F, 127.9F);
    std::vector<std::int8_t> result;
    for (const float value : random) result.push_back(static_cast<std::int8_t>(value));
    return result;
  }
};

constexpr float kInScale = 0.01F;
constexpr float kStemScale = 0.02F;
constexpr float kDepthwiseScale = 0.03F;
constexpr float kSumScale = 0.04F;
constexpr float kClassScale = 0.001F;

enum class Activations { Int8, Uint8, Uint8WithoutZeroPoint };

class Qdq {
 public:
  Qdq(std::int64_t opset, Activations types) : builder(opset), types_(types) {
    builder.input("x", {kDynamic, kChannels, kExtent, kExtent}).output("logits");
    for (const auto& [name, scale] : {std::pair{"in", kInScale}, std::pair{"stem", kStemScale},
                                      std::pair{"dw", kDepthwiseScale}, std::pair{"sum", kSumScale}}) {
      builder.floats(std::string(name) + ".s", {}, {scale});
    }
    if (types == Activations::Int8) builder.integers<std::int8_t>("z", {}, {-7});
    if (types == Activations::Uint8) builder.integers<std::uint8_t>("z", {}, {121});
  }

  std::vector<std::string> operands(const std::string& value, const std::string& scale) const {
    std::vector<std::string> result{value, scale + ".s"};
    if (types_ != Activations::Uint8WithoutZeroPoint) result.emplace_back("z");
    return result;
  }
  // QuantizeLinear and DequantizeLinear of a value; gives the real one's name.
  std::string around(const std::string& value, const std::string& scale) {
    builder.node("QuantizeLinear", operands(value, scale), {value + ".q"}, value + "_Q");
    builder.node("DequantizeLinear", operands(value + ".q", scale), {value + ".dq"}, value + "_DQ");
    return value + ".dq";
  }
  OnnxNode dequantize(const std::string& integers, const Floats& scales, const std::string& name) {
    builder.floats(name + ".s", scales.size() == 1 ? Dims{} : Dims{std::ssize(scales)}, scales);
    return builder.node("DequantizeLinear", {integers, name + ".s"}, {name});
  }

  OnnxBuilder builder;

 private:
  Activations types_;
};

using WriteWeight =
    std::function<void(Qdq&, const std::string&, const Dims&, const std::vector<std::int8_t>&, const Floats&)>;

// As onnxruntime.quantization: integers in the file, a DequantizeLinear each, biases of INT32.
void write_integers(Qdq& to, const std::string& name, const Dims& dims, const std::vector<std::int8_t>& integers,
                    const Floats& scales) {
  to.builder.integers(name + ".q", dims, integers);
  OnnxNode node = to.dequantize(name + ".q", scales, name);
  if (scales.size() > 1) node.attr("axis", 0);
}

// As PyTorch's and TensorRT's tools: real numbers in the file, QuantizeLinear and DequantizeLinear each.
void write_reals(Qdq& to, const std::string& name, const Dims& dims, const std::vector<std::int8_t>& integers,
                 const Floats& scales) {
  Floats reals;
  const std::size_t inner = integers.size() / static_cast<std::size_t>(dims[0]);
  for (std::size_t i = 0; i < integers.size(); ++i) {
    reals.push_back(static_cast<float>(integers[i]) * scales[scales.size() == 1 ? 0 : i / inner]);
  }
  to.builder.floats(name + ".r", dims, reals);
  to.builder.floats(name + ".s", scales.size() == 1 ? Dims{} : Dims{std::ssize(scales)}, scales);
  to.builder.integers(name + ".z", scales.size() == 1 ? Dims{} : Dims{std::ssize(scales)},
                      std::vector<std::int8_t>(scales.size(), 0));
  const std::string z = name + ".z";
  const auto node = [&](const char* op, const std::string& from, const std::string& y) {
    OnnxNode made = to.builder.node(op, {from, name + ".s", z}, {y});
    if (scales.size() > 1) made.attr("axis", 0);
  };
  node("QuantizeLinear", name + ".r", name + ".q");
  node("DequantizeLinear", name + ".q", name);
}

// As converters of TFLite: (O, kh, kw, I) and a Transpose behind the DequantizeLinear.
void write_transposed(Qdq& to, const std::string& name, const Dims& dims, const std::vector<std::int8_t>& integers,
                      const Floats& scales) {
  if (dims.size() != 4) return write_integers(to, name, dims, integers, scales);
  std::vector<std::int8_t> moved(integers.size());
  const std::int64_t taps = dims[2] * dims[3];
  for (std::int64_t i = 0; i < std::ssize(integers); ++i) {
    const std::int64_t o = i / (dims[1] * taps);
    moved[static_cast<std::size_t>((o * taps + i % taps) * dims[1] + i / taps % dims[1])] =
        integers[static_cast<std::size_t>(i)];
  }
  to.builder.integers(name + ".q", {dims[0], dims[2], dims[3], dims[1]}, moved);
  OnnxNode node = to.dequantize(name + ".q", scales, name + ".t");
  if (scales.size() > 1) node.attr("axis", -4);
  to.builder.node("Transpose", {name + ".t"}, {name}).ints("perm", {0, 3, 1, 2});
}

// As exporters that write no initializers: a Constant node each.
void write_constants(Qdq& to, const std::string& name, const Dims& dims, const std::vector<std::int8_t>& integers,
                     const Floats& scales) {
  Tensor value = integer_tensor("", dims, integers);
  value.clear_raw_data();
  for (const std::int8_t integer : integers) value.add_int32_data(integer);
  to.builder.node("Constant", {}, {name + ".q"}).attr("value", std::move(value));
  OnnxNode node = to.dequantize(name + ".q", scales, name);
  if (scales.size() > 1) node.attr("axis", 0);
}

enum class Classifier { Gemm, MatMul };

OnnxBuilder network_of(std::int64_t opset, Activations types, bool per_channel, const WriteWeight& write,
                       Classifier classifier = Classifier::Gemm) {
  const Numbers n;
  Qdq to(opset, types);
  const auto scales = [&](const Floats& all) { return per_channel ? all : Floats{all.front()}; };
  const std::string in = to.around("x", "in");
  write(to, "stem.w", {kOutputs, kChannels, 3, 3}, n.stem, scales(n.stem_scales));
  to.builder.integers("stem.b.q", {kOutputs}, n.bias);
  Floats bias_scales;
  for (const float scale : scales(n.stem_scales)) bias_scales.push_back(kInScale * scale);
  OnnxNode bias = to.dequantize("stem.b.q", bias_scales, "stem.b");
  if (per_channel) bias.attr("axis", 0);
  to.builder.node("Conv", {in, "stem.w", "stem.b"}, {"stem"}, "stem").ints("pads", {1, 1, 1, 1});
  to.builder.node("Relu", {"stem"}, {"relu"});
  const std::string stem = to.around("relu", "stem");
  write(to, "dw.w", {kOutputs, 1, 3, 3}, n.depthwise, scales(n.depthwise_scales));
  to.builder.node("Conv", {stem, "dw.w"}, {"dw"}, "dw").ints("pads", {1, 1, 1, 1}).attr("group", kOutputs);
  const std::string dw = to.around("dw", "dw");
  to.builder.node("Add", {stem, dw}, {"sum"}, "add");
  const std::string sum = to.around("sum", "sum");
  to.builder.node("GlobalAveragePool", {sum}, {"mean"});
  const std::string mean = to.around("mean", "sum");
  to.builder.node("Flatten", {mean}, {"flat"});
  if (classifier == Classifier::Gemm) {
    write(to, "fc.w", {kClasses, kOutputs}, n.classifier, {kClassScale});
    to.builder.node("Gemm", {"flat", "fc.w"}, {"logits"}, "fc").attr("transB", 1);
    return to.builder;
  }
  std::vector<std::int8_t> transposed;
  for (std::int64_t i = 0; i < kOutputs; ++i) {
    for (std::int64_t o = 0; o < kClasses; ++o) {
      transposed.push_back(n.classifier[static_cast<std::size_t>(o * kOutputs + i)]);
    }
  }
  to.builder.integers("fc.q", {kOutputs, kClasses}, transposed);
  to.dequantize("fc.q", Floats(static_cast<std::size_t>(kClasses), kClassScale), "fc.w").attr("axis", 1);
  to.builder.node("MatMul", {"flat", "fc.w"}, {"logits"}, "fc");
  return to.builder;
}

// The same network of operators on integers.
OnnxBuilder qoperator_network(Activations types, bool per_channel) {
  const Numbers n;
  Qdq to(13, types);
  OnnxBuilder& b = to.builder;
  b.import_domain("com.microsoft", 1);
  const auto constant = [&](const std::string& name, const Dims& dims, const std::vector<std::int8_t>& integers,
                            const Floats& scales) {
    const Floats used = per_channel ? scales : Floats{scales.front()};
    b.integers(name, dims, integers).floats(name + ".s", {std::ssize(used)}, used);
    b.integers(name + ".z", {std::ssize(used)}, std::vector<std::int8_t>(used.size(), 0));
    return std::vector<std::string>{name, name + ".s", name + ".z"};
  };
  const auto join = [](std::vector<std::string> first, const std::vector<std::vector<std::string>>& more) {
    for (const auto& part : more) first.insert(first.end(), part.begin(), part.end());
    return first;
  };
  const auto microsoft = [](OnnxNode node) { node.proto().set_domain("com.microsoft"); };
  b.node("QuantizeLinear", to.operands("x", "in"), {"x.q"});
  const auto stem_w = constant("stem.w", {kOutputs, kChannels, 3, 3}, n.stem, n.stem_scales);
  b.integers("stem.b", {kOutputs}, n.bias);
  // Relu is a clamp at the zero point, so that the result's type begins there.
  b.node("QLinearConv", join(to.operands("x.q", "in"), {stem_w, {"stem.s", "z", "stem.b"}}), {"stem.q"})
      .ints("pads", {1, 1, 1, 1});
  const auto dw_w = constant("dw.w", {kOutputs, 1, 3, 3}, n.depthwise, n.depthwise_scales);
  b.node("QLinearConv", join(to.operands("stem.q", "stem"), {dw_w, {"dw.s", "z"}}), {"dw.q"})
      .ints("pads", {1, 1, 1, 1})
      .attr("group", kOutputs);
  microsoft(b.node("QLinearAdd", join(to.operands("stem.q", "stem"), {to.operands("dw.q", "dw"), {"sum.s", "z"}}),
                   {"sum.q"}));
  microsoft(b.node("QLinearGlobalAveragePool", join(to.operands("sum.q", "sum"), {{"sum.s", "z"}}), {"mean.q"}));
  b.node("Flatten", {"mean.q"}, {"flat.q"});
  const auto fc =
      constant("fc.w", {kClasses, kOutputs}, n.classifier, Floats(static_cast<std::size_t>(kClasses), kClassScale));
  OnnxNode gemm = b.node("QGemm", join(to.operands("flat.q", "sum"), {fc}), {"logits"});
  gemm.attr("transB", 1);
  microsoft(gemm);
  return b;
}

Floats logits(const OnnxBuilder& builder) {
  return evaluate(import(builder), random_uniform(9, static_cast<std::size_t>(kChannels * kExtent * kExtent)));
}

constexpr const char* kIntegers =
    "LayoutTransform Quantize QuantizedConv2d QuantizedConv2d QuantizedAdd QuantizedAveragePool Reshape QuantizedGemm";

TEST_CASE("every form of QDQ becomes the same operations on integers") {
  for (const Activations types : {Activations::Int8, Activations::Uint8, Activations::Uint8WithoutZeroPoint}) {
    for (const bool per_channel : {true, false}) {
      CAPTURE(static_cast<int>(types), per_channel);
      const OnnxBuilder plain = network_of(13, types, per_channel, write_integers);
      CHECK(ops(optimize(import(plain))) == kIntegers);
      const Floats expected = logits(plain);
      for (const WriteWeight& write :
           {WriteWeight(write_reals), WriteWeight(write_transposed), WriteWeight(write_constants)}) {
        const OnnxBuilder other = network_of(13, types, per_channel, write);
        CHECK(ops(optimize(import(other))) == kIntegers);
        CHECK(compare_bits(logits(other), expected));
      }
      const OnnxBuilder matrix = network_of(13, types, per_channel, write_integers, Classifier::MatMul);
      CHECK(ops(optimize(import(matrix))) == kIntegers);
      CHECK(compare_bits(logits(matrix), expected));
    }
  }
}

TEST_CASE("QDQ is read at every opset that has it") {
  const Floats expected = logits(network_of(13, Activations::Int8, false, write_integers));
  for (const std::int64_t opset : {11, 12, 17, 19, 20, 21, 22, 23, 24, 25}) {
    CAPTURE(opset);
    CHECK(compare_bits(logits(network_of(opset, Activations::Int8, false, write_integers)), expected));
  }
}

TEST_CASE("a constant is dequantised with the scale and the zero point of its channel, along axis 1 by default") {
  const auto weights = [](std::int64_t axis) {
    OnnxBuilder builder = network(13);
    builder.integers<std::int8_t>("q", {2, 2, 1, 1}, {1, 2, 3, 4}).floats("s", {2}, {1, 10});
    builder.integers<std::int8_t>("z", {2}, {1, -1});
    OnnxNode node = builder.node("DequantizeLinear", {"q", "s", "z"}, {"w"});
    if (axis != 1) node.attr("axis", axis);
    builder.node("Conv", {"x", "w"}, {"y"});
    return constant_of(import(builder), 0, Conv2d::kWeight);
  };
  CHECK(weights(0) == Floats{0, 1, 40, 50});
  CHECK(weights(1) == Floats{0, 30, 2, 50});
}

TEST_CASE("QDQ of opset 10 has one scale for all channels") {
  OnnxBuilder b(10);
  b.input("x", {kDynamic, 2, 4, 4}).output("y");
  b.floats("s", {}, {0.1F}).integers<std::int8_t>("z", {}, {1}).integers<std::int8_t>("wz", {}, {0});
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  b.node("DequantizeLinear", {"q", "s", "z"}, {"real"});
  b.integers<std::int8_t>("wq", {3, 2, 1, 1}, Numbers::bytes(5, 6));
  b.node("DequantizeLinear", {"wq", "s", "wz"}, {"w"});
  b.node("Conv", {"real", "w"}, {"c"});
  b.node("QuantizeLinear", {"c", "s", "z"}, {"cq"});
  b.node("DequantizeLinear", {"cq", "s", "z"}, {"y"});
  CHECK(ops(optimize(import(b))) == "LayoutTransform Quantize QuantizedConv2d Dequantize LayoutTransform");
}

TEST_CASE("operators on integers become what QDQ becomes") {
  for (const bool per_channel : {true, false}) {
    const Graph graph = optimize(import(qoperator_network(Activations::Int8, per_channel)));
    CHECK(ops(graph) == kIntegers);
    // But for the Relu, which this form has as the lowest number of a type.
    Graph qdq = optimize(import(network_of(13, Activations::Int8, per_channel, write_integers)));
    QuantizedConv2d stem = op_at<QuantizedConv2d>(qdq, 2);
    CHECK(stem.result.range == IntegerRange{-7, 127});
    stem.result.range = range_of(DType::I8);
    CHECK(op_at<QuantizedConv2d>(graph, 2).result == stem.result);
    for (std::size_t node = 2; node < graph.nodes().size(); ++node) {
      for (std::size_t i = 0; i < graph.nodes()[node].inputs.size(); ++i) {
        const ValueId a = graph.nodes()[node].inputs[i];
        const ValueId b = qdq.nodes()[node].inputs[i];
        REQUIRE((a == kNoValue) == (b == kNoValue));
        if (a == kNoValue || !graph.value(a).constant) continue;
        CHECK(std::ranges::equal(graph.value(a).constant->bytes(), qdq.value(b).constant->bytes()));
      }
    }
  }
}

TEST_CASE("QLinearMatMul, QLinearAveragePool and QLinearConcat are read") {
  OnnxBuilder b(13);
  b.input("x", {kDynamic, 2, 4, 4}).output("y").import_domain("com.microsoft", 1);
  b.floats("s", {}, {0.1F}).integers<std::int8_t>("z", {}, {1}).floats("s2", {}, {0.2F});
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  OnnxNode pool = b.node("QLinearAveragePool", {"q", "s", "z", "s2", "z"}, {"p"});
  pool.ints("kernel_shape", {2, 2}).ints("strides", {2, 2}).proto().set_domain("com.microsoft");
  b.node("MaxPool", {"q"}, {"m"}).ints("kernel_shape", {2, 2}).ints("strides", {2, 2});
  OnnxNode joined = b.node("QLinearConcat", {"s2", "z", "p", "s2", "z", "m", "s", "z"}, {"c"});
  joined.attr("axis", 1).proto().set_domain("com.microsoft");
  b.node("Flatten", {"c"}, {"f"});
  b.integers<std::int8_t>("w", {16, 3}, Numbers::bytes(4, 48))
      .floats("ws", {}, {0.01F})
      .integers<std::int8_t>("wz", {}, {0});
  b.node("QLinearMatMul", {"f", "s2", "z", "w", "ws", "wz", "s", "z"}, {"g"});
  b.node("DequantizeLinear", {"g", "s", "z"}, {"y"});
  const std::string made = ops(optimize(import(b)));
  CHECK(made ==
        "LayoutTransform Quantize QuantizedAveragePool Pool2d Requantize Concat LayoutTransform Reshape "
        "QuantizedGemm Dequantize");
}

TEST_CASE("convolutions of rows are quantised as those of images") {
  OnnxBuilder b(13);
  b.input("x", {kDynamic, 2, 8}).output("y");
  b.floats("s", {}, {0.1F}).integers<std::int8_t>("z", {}, {1});
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  b.node("DequantizeLinear", {"q", "s", "z"}, {"real"});
  b.integers<std::int8_t>("wq", {3, 2, 3}, Numbers::bytes(5, 18)).floats("ws", {3}, {0.1F, 0.2F, 0.3F});
  b.node("DequantizeLinear", {"wq", "ws"}, {"w"}).attr("axis", 0);
  b.node("Conv", {"real", "w"}, {"y"});
  const std::string made = ops(optimize(import(b)));
  CAPTURE(made);
  CHECK(made.find("QuantizedConv2d") != std::string::npos);
}

TEST_CASE("a large weight of integers is read, and by nothing that works with numbers of shapes") {
  constexpr std::int64_t kFeatures = 70000;
  OnnxBuilder b(13);
  b.input("x", {kDynamic, kFeatures}).output("y");
  b.floats("s", {}, {0.1F}).floats("ws", {}, {0.01F});
  b.integers<std::int8_t>("wq", {1, kFeatures}, std::vector<std::int8_t>(kFeatures, 1));
  b.node("QuantizeLinear", {"x", "s"}, {"q"});
  b.node("DequantizeLinear", {"q", "s"}, {"real"});
  b.node("DequantizeLinear", {"wq", "ws"}, {"w"});
  b.node("Gemm", {"real", "w"}, {"y"}).attr("transB", 1);
  CHECK(ops(optimize(import(b))) == "Quantize QuantizedGemm");
  b.node("Cast", {"wq"}, {"wf"}).attr("to", std::int64_t{Tensor::FLOAT});
  b.graph().mutable_node(3)->set_input(1, "wf");
  std::swap(*b.graph().mutable_node(3), *b.graph().mutable_node(4));
  require_refused(b, ErrorCode::unsupported, {"(Cast)", "70000 integer elements", "DequantizeLinear"});
}

TEST_CASE("sums that an int32 might not hold are refused, naming the node") {
  constexpr std::int64_t kFeatures = 70000;
  OnnxBuilder b(13);
  b.input("x", {kDynamic, kFeatures}).output("y");
  b.floats("s", {}, {0.1F}).floats("ws", {}, {0.01F});
  b.integers<std::int8_t>("wq", {1, kFeatures}, std::vector<std::int8_t>(kFeatures, -128));
  b.node("QuantizeLinear", {"x", "s"}, {"q"});
  b.node("DequantizeLinear", {"q", "s"}, {"real"});
  b.node("DequantizeLinear", {"wq", "ws"}, {"w"});
  b.node("Gemm", {"real", "w"}, {"y"}, "classifier").attr("transB", 1);
  try {
    static_cast<void>(optimize(import(b)));
    FAIL("the sum was accepted");
  } catch (const Error& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(error.code() == ErrorCode::unsupported);
    for (const char* word : {"'classifier' (Gemm)", "output channel 0", "2284800000", "floating point"}) {
      CHECK(text.find(word) != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace mobicuda::test
