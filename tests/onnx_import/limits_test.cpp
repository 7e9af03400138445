// ImportLimits: each accepts what is just within and refuses what is just over, by number.

#include "import_support.h"
#include "support/repeated.h"
#include "support/sanitizer.h"
#include "support/temporary_folder.h"
#include "support/texts.h"

using namespace mobicuda;
using namespace mobicuda::test;
using onnx_import::ImportLimits;

namespace {

// Accepts the model at that value of the limit, and refuses it at one less.
void check_limit(const OnnxBuilder& builder, std::int64_t ImportLimits::*limit, std::int64_t value,
                 const std::string& word) {
  onnx_import::ImportOptions options;
  options.limits.*limit = value;
  CHECK_NOTHROW(import(builder, options));
  options.limits.*limit = value - 1;
  require_refused(builder, ErrorCode::unsupported, {word, "limit", std::to_string(value - 1)}, options);
}

OnnxBuilder convolution() {
  OnnxBuilder builder = network(13, {kDynamic, 2, 9, 9});
  builder.floats("w", {3, 2, 2, 2}, std::vector<float>(24, 1));
  builder.node("Conv", {"x", "w"}, {"y"});
  return builder;
}

}  // namespace

TEST_CASE("limit: bytes of the file") {
  const OnnxBuilder builder = convolution();
  const auto size = static_cast<std::int64_t>(builder.bytes().size());
  check_limit(builder, &ImportLimits::file_bytes, size, "bytes");
  const TemporaryFolder folder;
  folder.write("m.onnx", builder.bytes());
  onnx_import::ImportOptions options;
  options.limits.file_bytes = size - 1;
  CHECK_THROWS_AS(onnx_import::load(folder.path() / "m.onnx", options), Error);
}

TEST_CASE("limit: nodes") {
  OnnxBuilder builder = network(13);
  builder.node("Relu", {"x"}, {"a0"});
  for (int i = 0; i < 8; ++i) builder.node("Relu", {"a" + std::to_string(i)}, {"a" + std::to_string(i + 1)});
  builder.node("Relu", {"a8"}, {"y"});
  check_limit(builder, &ImportLimits::nodes, 10, "number of nodes: 10");
}

TEST_CASE("limit: a chain of 100,000 nodes is refused, one of 20,000 read") {
  const auto chain = [](int nodes) {
    OnnxBuilder builder = network(13, {kDynamic, 1});
    std::string value = "x";
    for (int i = 1; i < nodes; ++i) {
      const std::string next = "v" + std::to_string(i);
      builder.node("Relu", {value}, {next});
      value = next;
    }
    builder.node("Relu", {value}, {"y"});
    return builder;
  };
  CHECK(import(chain(20000)).nodes().size() == 20000);
  require_refused(chain(100000), ErrorCode::unsupported, {"number of nodes: 100000", "65536"});
}

TEST_CASE("limit: memory that fields would take, before they are parsed, wherever they are") {
  constexpr std::size_t kTooMany = 2000000;
  const auto nested = [](std::initializer_list<char> path, const std::string& field) {
    std::string content = repeated(field, kTooMany);
    for (const char tag : path) {
      std::string length;
      for (std::size_t rest = content.size(); rest > 0; rest >>= 7U) {
        length += static_cast<char>((rest & 0x7FU) | (rest > 0x7FU ? 0x80U : 0U));
      }
      content = tag + length + content;
    }
    return content;
  };
  constexpr char kGraph = 7 << 3 | 2;
  constexpr char kNode = 1 << 3 | 2;
  constexpr char kInputInfo = 11 << 3 | 2;
  const std::string empty_node{kNode, 0};
  const std::string empty_name{kNode, 0};  // NodeProto.input has the same number
  const std::string group{1 << 3 | 3, 1 << 3 | 4};
  for (const std::string& bytes :
       {group + nested({}, empty_node), nested({}, std::string{8 << 3 | 2, 0}),  // opset imports
        nested({kGraph}, empty_node),                                            // nodes
        nested({kNode, kGraph}, empty_name),                                     // inputs of a node
        nested({2 << 3 | 2, 1 << 3 | 2, 2 << 3 | 2, kInputInfo, kGraph}, std::string{1 << 3 | 2, 0})}) {  // dims
    try {
      onnx_import::load_from_memory(as_bytes(bytes), "test.onnx");
      FAIL_CHECK("the model was accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::unsupported);
      CHECK(contains(error.message(), "has so many small fields that they would take more than "));
    }
  }
}

TEST_CASE("limit: initializers") {
  OnnxBuilder builder = convolution();
  for (int i = 0; i < 4; ++i) builder.floats("unused" + std::to_string(i), {1}, {0});
  check_limit(builder, &ImportLimits::initializers, 5, "number of initializers: 5");
}

TEST_CASE("limit: elements of a tensor, in the file and in the network") {
  OnnxBuilder weights = network(13, {kDynamic, 1, 1, 1});
  weights.floats("w", {64, 1, 1, 1}, std::vector<float>(64, 1)).node("Conv", {"x", "w"}, {"a"});
  weights.node("GlobalAveragePool", {"a"}, {"y"});
  check_limit(weights, &ImportLimits::elements_per_tensor, 64, "initializer 'w'");
  check_limit(convolution(), &ImportLimits::elements_per_tensor, 192, "node #0 (Conv)");  // 3x8x8 a picture
  OnnxBuilder input = network(13, {kDynamic, 2, 9, 9});
  input.node("GlobalAveragePool", {"x"}, {"y"});
  check_limit(input, &ImportLimits::elements_per_tensor, 162, "input 'x'");
  OnnxBuilder constant = network(13, {kDynamic, 1});
  constant.node("Constant", {}, {"c"}).attr("value", tensor("", {50}, std::vector<float>(50, 1)));
  constant.ints("i", {}, {0}).node("Gather", {"c", "i"}, {"s"});
  constant.node("Add", {"x", "s"}, {"y"});
  check_limit(constant, &ImportLimits::elements_per_tensor, 50, "attribute 'value'");
}

TEST_CASE("limit: bytes of all weights") {
  OnnxBuilder builder = convolution();
  builder.floats("unused", {10}, std::vector<float>(10, 0));
  check_limit(builder, &ImportLimits::weight_bytes, 4 * (24 + 10), "weights");
}

TEST_CASE("limit: memory of constants, as they are in memory") {
  OnnxBuilder builder = network(13, {kDynamic, 4});
  builder.floats("w", {4, 4}, from_one(16)).floats("b", {}, {1});
  builder.node("MatMul", {"x", "w"}, {"a"});
  builder.node("MatMul", {"a", "w"}, {"c"});
  builder.node("Gemm", {"c", "w", "b"}, {"y"});
  // The initializers, three transposed copies of the matrix, and a bias for each output.
  check_limit(builder, &ImportLimits::memory_bytes, 4 * (16 + 1 + 3 * 16 + 4), "node #2 (Gemm)");
}

TEST_CASE("limit: copies that nodes have of one initializer, against the bytes of the file") {
  constexpr std::int64_t kExtent = 1024;
  const auto chain = [](int nodes) {
    OnnxBuilder builder = network(13, {kDynamic, kExtent});
    builder.floats("w", {kExtent, kExtent}, std::vector<float>(kExtent * kExtent, 1));
    std::string value = "x";
    for (int i = 0; i < nodes; ++i) {
      const std::string next = i == nodes - 1 ? "y" : "v" + std::to_string(i);
      builder.node("MatMul", {value, "w"}, {next});
      value = next;
    }
    return builder;
  };
  CHECK(import(chain(22)).nodes().size() == 22);
  // 64 MiB and 8 times the matrix of 4 MiB are 24 of it, of which one is the initializer.
  require_refused(chain(26), ErrorCode::unsupported,
                  {"node #23 (MatMul)", "constants up to here take 104857600 bytes of memory", "share large"});
}

TEST_CASE("limit: bytes of a name") {
  const std::string name(100, 'n');
  OnnxBuilder node = network(13);
  node.node("Relu", {"x"}, {"y"}, name);
  check_limit(node, &ImportLimits::name_bytes, 100, "node #0");
  OnnxBuilder value = network(13);
  value.node("Relu", {"x"}, {name});
  value.node("Relu", {name}, {"y"});
  check_limit(value, &ImportLimits::name_bytes, 100, "node #0");
  OnnxBuilder initializer = network(13);
  initializer.floats(name, {}, {1}).node("Add", {"x", name}, {"y"});
  check_limit(initializer, &ImportLimits::name_bytes, 100, "initializer");
  OnnxBuilder graph = network(13);
  graph.graph().set_name(name);
  graph.node("Relu", {"x"}, {"y"});
  check_limit(graph, &ImportLimits::name_bytes, 100, "graph");
  OnnxBuilder input(13);
  input.input(name, {kDynamic, 2}).output("y").node("Relu", {name}, {"y"});
  check_limit(input, &ImportLimits::name_bytes, 100, "input");
}

TEST_CASE("limit: entries of an attribute") {
  OnnxBuilder ints = network(13, {kDynamic, 4});
  ints.node("Constant", {}, {"c"}).ints("value_ints", {0, -1, 1, 1, 1});
  ints.node("Reshape", {"x", "c"}, {"y"});
  check_limit(ints, &ImportLimits::attribute_entries, 5, "attribute 'value_ints'");
  OnnxBuilder floats = network(13, {kDynamic, 4});
  floats.node("Constant", {}, {"c"}).floats("value_floats", {1, 2, 3, 4});
  floats.node("Add", {"x", "c"}, {"y"});
  check_limit(floats, &ImportLimits::attribute_entries, 4, "attribute 'value_floats'");
}

TEST_CASE("limit: extents of a window") {
  const auto with = [](const std::string& name, const Dims& values) {
    OnnxBuilder builder = network(13, {kDynamic, 1, 40, 40});
    builder.floats("w", {1, 1, 1, 1}, {1}).node("Conv", {"x", "w"}, {"y"}).ints(name, values);
    return builder;
  };
  check_limit(with("strides", {1, 7}), &ImportLimits::window, 7, "attribute 'strides'");
  check_limit(with("dilations", {7, 1}), &ImportLimits::window, 7, "attribute 'dilations'");
  check_limit(with("pads", {0, 7, 0, 0}), &ImportLimits::window, 7, "attribute 'pads'");
  OnnxBuilder weight = network(13, {kDynamic, 1, 40, 40});
  weight.floats("w", {1, 1, 1, 7}, std::vector<float>(7, 1)).node("Conv", {"x", "w"}, {"y"});
  check_limit(weight, &ImportLimits::window, 7, "input #1 'w'");
  OnnxBuilder pool = network(13, {kDynamic, 1, 40, 40});
  pool.node("MaxPool", {"x"}, {"y"}).ints("kernel_shape", {1, 7});
  check_limit(pool, &ImportLimits::window, 7, "attribute 'kernel_shape'");
  OnnxBuilder pad = network(13, {kDynamic, 1, 40, 40});
  pad.ints("p", {8}, {0, 0, 7, 0, 0, 0, 0, 0}).node("Pad", {"x", "p"}, {"y"});
  check_limit(pad, &ImportLimits::window, 7, "(Pad)");
}

TEST_CASE("limit: constants that nodes make out of nothing, all together") {
  OnnxBuilder builder = network(13, {kDynamic, 1});
  builder.ints("n", {1}, {1000});
  builder.ints("i", {}, {0});
  std::string sum = "x";
  for (int i = 0; i < 3; ++i) {
    const std::string id = std::to_string(i);
    builder.node("ConstantOfShape", {"n"}, {"big" + id});
    builder.node("Gather", {"big" + id, "i"}, {"one" + id});
    builder.node("Add", {sum, "one" + id}, {i == 2 ? "y" : "sum" + id});
    sum = "sum" + id;
  }
  // Each turn makes 1000 elements, gathers one, and adds it by a scale and a shift.
  check_limit(builder, &ImportLimits::generated_elements, 3 * (1000 + 1 + 2), "raise ImportLimits::generated_elements");
  onnx_import::ImportOptions options;
  options.limits.generated_elements = 2500;
  require_refused(builder, ErrorCode::unsupported,
                  {"node #6 (ConstantOfShape)", "1000 elements", "made 2006", "limit of all of them is 2500"}, options);
}

TEST_CASE("weights of a ConstantOfShape may have 16 million elements, or as many as the caller says") {
  const auto with = [](std::int64_t rows) {
    OnnxBuilder builder = network(13, {kDynamic, 4096});
    builder.ints("n", {2}, {4096, rows}).ints("one", {2}, {rows, 1});
    builder.node("ConstantOfShape", {"n"}, {"w"}).attr("value", tensor("", {1}, std::vector<float>{0.5F}));
    builder.node("ConstantOfShape", {"one"}, {"v"}).attr("value", tensor("", {1}, std::vector<float>{2}));
    builder.node("MatMul", {"x", "w"}, {"a"});
    builder.node("MatMul", {"a", "v"}, {"y"});
    return builder;
  };
  CHECK(ops(import(with(4000))) == "Gemm Gemm");
  require_refused(with(4097), ErrorCode::unsupported,
                  {"node #0 (ConstantOfShape)", "16781312", "16777216", "ImportLimits::generated_elements"});
  onnx_import::ImportOptions options;
  options.limits.generated_elements = 2 * 4096 * 4097;
  CHECK(ops(import(with(4097), options)) == "Gemm Gemm");
}

TEST_CASE("limit: a scalar operand is not written out for billions of channels") {
  const auto refuses = [](const std::string& op, const Dims& input, bool flatten) {
    OnnxBuilder builder = network(13, input);
    builder.floats("s", {}, {2});
    if (flatten) builder.node("Flatten", {"x"}, {"flat"});
    const std::string from = flatten ? "flat" : "x";
    builder.node(op, op == "HardSigmoid" ? std::vector<std::string>{from} : std::vector<std::string>{from, "s"}, {"y"});
    require_refused(builder, ErrorCode::unsupported,
                    {flatten ? "node #1 (" + op + ")" : "node #0 (" + op + ")", "2000000000", "16777216",
                     "before the Flatten or Reshape"});
  };
  for (const char* op : {"Mul", "Add", "Sub", "Div", "HardSigmoid"}) {
    refuses(op, {kDynamic, 2000000000}, false);
    refuses(op, {kDynamic, 2000000000, 1, 1}, false);
    refuses(op, {kDynamic, 20, 10000, 10000}, true);
  }
  OnnxBuilder fits = network(13, {kDynamic, std::int64_t{1} << 22});
  fits.floats("s", {}, {2}).node("Mul", {"x", "s"}, {"y"});
  CHECK(ops(import(fits)) == "ScaleShift");
}

TEST_CASE("limit: constants for each channel that many nodes make of few initializers") {
  constexpr std::int64_t kChannels = 1024;
  const std::vector<float> values = from_one(static_cast<std::size_t>(kChannels));
  OnnxBuilder builder = network(13, {kDynamic, kChannels});
  builder.floats("v", {kChannels}, values);
  std::string value = "x";
  for (int i = 0; i < 9; ++i) {
    const std::string next = i == 8 ? "y" : "v" + std::to_string(i);
    if (i % 2 == 0) {
      builder.node("Mul", {value, "v"}, {next});
    } else {
      builder.node("BatchNormalization", {value, "v", "v", "v", "v"}, {next});
    }
    value = next;
  }
  onnx_import::ImportOptions options;
  options.limits.generated_elements = 9 * 2 * kChannels - 1;
  require_refused(builder, ErrorCode::unsupported, {"node #8 (Mul)", "2048", "18431"}, options);
}

namespace {

// A chain of that many nodes between constants, of a million elements each, whose last element is added.
OnnxBuilder constant_chain(const std::string& op, int nodes, bool all_needed) {
  constexpr std::int64_t kElements = std::int64_t{1} << 20;
  OnnxBuilder builder = network(13, {kDynamic, 1});
  builder.floats("c0", {kElements}, std::vector<float>(kElements, 1)).ints("i", {}, {0}).ints("s", {2}, {1, -1});
  std::vector<std::string> parts;
  for (int i = 0; i < nodes; ++i) {
    const std::string from = "c" + std::to_string(i);
    const std::string to = "c" + std::to_string(i + 1);
    builder.node(op, op == "Reshape" ? std::vector<std::string>{from, "s"} : std::vector<std::string>{from}, {to});
    if (all_needed) parts.push_back(to);
  }
  const std::string last = "c" + std::to_string(nodes);
  std::string sum = last;
  for (const std::string& part : parts) {
    builder.node("Add", {sum, part}, {sum + "+"});
    sum += "+";
  }
  builder.node("ReduceMax", {sum}, {"most"});
  builder.node("Add", {"x", "most"}, {"y"});
  return builder;
}

}  // namespace

TEST_CASE("constants that nothing reads any more are let go, and count no longer") {
  // 64 MiB and 8 times the initializer of 4 MiB are 24 of its size.
  for (const std::string op : {"Neg", "Reshape", "Transpose", "Identity"}) {
    if (kThreadSanitized && op != "Neg") continue;
    CAPTURE(op);
    CHECK(import(constant_chain(op, 60, false)).nodes().size() == 1);
  }
  require_refused(constant_chain("Neg", 60, true), ErrorCode::unsupported,
                  {"(Neg)", "constants up to here take", "bytes of memory"});
}

TEST_CASE("limit: a chain of constants that keeps the importer at work for ever") {
  const std::string op = kThreadSanitized ? "Reshape" : "Neg";  // it takes bytes, not numbers, to the limit
  require_refused(constant_chain(op, 400, false), ErrorCode::unsupported,
                  {"(" + op + ")", "bytes to compute", "fold constant sub-graphs"});
}
