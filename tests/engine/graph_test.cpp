#include <limits>

#include <mobicuda/graph.h>

#include "support/catch.h"
#include "support/graphs.h"

namespace mobicuda {
namespace {

using test::TestNetwork;

std::string message_of(const std::function<void()>& action, ErrorCode code) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  FAIL("no Error was thrown");
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::size_t> readers_of(const Graph& graph, ValueId id) {
  const auto readers = graph.consumers(id);
  return {readers.begin(), readers.end()};
}

TEST_CASE("Shape counts elements and refuses overflow, negative extents and rank 9") {
  CHECK(Shape{1, 3, 224, 224}.elements() == 150528);
  CHECK(Shape{}.elements() == 1);
  CHECK(Shape{2, 0}.elements() == 0);
  CHECK(to_string(Shape{1, 3}) == "1x3");
  const std::int64_t huge = std::int64_t{1} << 62;
  CHECK_THROWS_AS(Shape({huge, 4}), Error);
  CHECK_THROWS_AS(Shape({1, -1}), Error);
  CHECK_THROWS_AS(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
}

TEST_CASE("convolution output extents follow ONNX for all four pads") {
  TestNetwork network(Shape{1, 8, 112, 96});
  network.conv(16, 3, 2, {0, 0, 1, 1});
  CHECK(network.builder().value(network.last()).desc.shape == Shape{1, 16, 56, 48});
  network.conv(16, 3, 2, {1, 1, 1, 1}, 0);
  CHECK(network.builder().value(network.last()).desc.shape == Shape{1, 16, 28, 24});
  network.conv(4, 1);
  CHECK(network.builder().value(network.last()).desc.shape == Shape{1, 4, 28, 24});
}

TEST_CASE("pooling output extents follow ONNX with ceil_mode") {
  struct Case {
    Pool2d op;
    std::int64_t in, out;
  };
  const auto extent = [](Pool2d op, std::int64_t in) {
    const TensorDesc desc{DType::F32, Shape{1, 1, in, in}, Layout::NCHW};
    const std::vector<const TensorDesc*> inputs{&desc};
    return infer_output(op, inputs).shape[2];
  };
  Pool2d pool{PoolKind::Max, {3, 3}, {2, 2}, {}, false, false};
  CHECK(extent(pool, 6) == 2);
  pool.ceil_mode = true;
  CHECK(extent(pool, 6) == 3);
  pool.kernel = {2, 2};
  pool.strides = {3, 3};
  pool.pads = {0, 0, 1, 1};
  CHECK(extent(pool, 5) == 2);  // the third window would start in the padding
}

TEST_CASE("a malformed node is refused with node, attribute and value") {
  TestNetwork network(Shape{1, 8, 10, 10});
  const ValueId x = network.last();
  const ValueId weight = network.constant(Shape{8, 8, 3, 3});
  const auto add_conv = [&](auto change) {
    return message_of(
        [&] {
          Conv2d op;
          change(op);
          network.add(op, {x, weight, kNoValue, kNoValue}, "features.3");
        },
        ErrorCode::invalid_model);
  };
  const std::string stride = add_conv([](Conv2d& op) { op.strides[0] = 0; });
  CHECK(contains(stride, "'features.3' (Conv2d)"));
  CHECK(contains(stride, "attribute 'strides': must be > 0, got 0"));
  CHECK(contains(add_conv([](Conv2d& op) { op.dilations[1] = -1; }), "'dilations': must be > 0, got -1"));
  CHECK(contains(add_conv([](Conv2d& op) { op.groups = 0; }), "'group': must be > 0, got 0"));
  CHECK(contains(add_conv([](Conv2d& op) { op.groups = 3; }), "must divide 8 input and 8 output channels, got 3"));
  CHECK(contains(add_conv([](Conv2d& op) { op.groups = 2; }), "has 8 channels a group, but the input has 4"));
  CHECK(contains(add_conv([](Conv2d& op) { op.pads.left = -2; }), "'pads'"));
  CHECK(contains(add_conv([](Conv2d& op) { op.dilations = {9, 9}; }), "does not fit"));
  CHECK(contains(message_of([&] { network.add(Gemm{}, {x, weight, kNoValue}); }, ErrorCode::invalid_model), "rank 2"));
  CHECK(contains(message_of([&] { network.add(Clip{}, {}); }, ErrorCode::invalid_model), "input positions"));
  CHECK(contains(message_of([&] { network.add(Transpose{{1, 0, 2, 3}}, {x}); }, ErrorCode::invalid_model), "perm"));
  CHECK(contains(message_of([&] { network.add(Reshape{Shape{1, 7}}, {x}); }, ErrorCode::invalid_model), "got 1x7"));
}

TEST_CASE("windows beyond the limit are refused with node, attribute, value and remedy, at any size") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  TestNetwork network(Shape{1, 8, 10, 10});
  const ValueId x = network.last();
  const auto refused = [&](const Op& op, std::vector<ValueId> inputs) {
    return message_of([&] { network.add(op, inputs, "features.3"); }, ErrorCode::unsupported);
  };
  const auto pool = [&](auto change) {
    Pool2d op;
    op.kernel = {2, 2};
    op.ceil_mode = true;
    change(op);
    return refused(op, {x});
  };
  const std::string stride = pool([](Pool2d& op) { op.strides[1] = kMost; });
  CHECK(contains(stride, "'features.3' (Pool2d): attribute 'strides': must be <= 65536, got 9223372036854775807; "));
  CHECK(contains(stride, "kernel, stride, dilation and padding"));
  CHECK(contains(pool([](Pool2d& op) { op.strides = {65537, 1}; }), "'strides': must be <= 65536, got 65537"));
  CHECK(contains(pool([](Pool2d& op) { op.dilations[0] = kMost; }), "'dilations': must be <= 65536, got 92233"));
  CHECK(contains(pool([](Pool2d& op) { op.kernel[0] = kMost; }), "'kernel_shape': must be <= 65536, got 92233"));
  CHECK(contains(pool([](Pool2d& op) { op.kernel[0] = kMost / 7 + 1, op.dilations[0] = 7; }), "'kernel_shape'"));
  CHECK(contains(pool([](Pool2d& op) { op.pads.bottom = kMost; }), "'pads': must be <= 65536, got 92233"));
  CHECK(contains(refused(Pad{{0, kMost, 0, 0}}, {x}), "'features.3' (Pad): attribute 'pads': must be <= 65536"));
  const ValueId weight = network.constant(Shape{8, 8, 3, 2});
  const auto conv = [&](auto change) {
    Conv2d op;
    change(op);
    return refused(op, {x, weight, kNoValue, kNoValue});
  };
  CHECK(contains(conv([](Conv2d& op) { op.dilations = {1, kMost}; }), "'dilations': must be <= 65536, got 92233"));
  CHECK(contains(conv([](Conv2d& op) { op.strides = {kMost, 1}; }), "'strides': must be <= 65536, got 92233"));
  CHECK(contains(conv([](Conv2d& op) { op.pads.left = 65537; }), "'pads': must be <= 65536, got 65537"));
  const ValueId wide = network.constant(Shape{1, 8, 1, 65537});
  CHECK(contains(refused(Conv2d{}, {x, wide, kNoValue, kNoValue}), "'kernel_shape': must be <= 65536, got 65537"));
  CHECK(contains(refused(LocalResponseNorm{kMost}, {x}), "attribute 'size': must be <= 65536, got 92233"));
  network.add(Pool2d{PoolKind::Max, {1, 1}, {65536, 65536}, {}, true}, {x});  // the limit itself
  CHECK(network.builder().value(network.last()).desc.shape == Shape{1, 8, 1, 1});
}

TEST_CASE("values of more elements than an engine can index are refused, also where one extent is 0") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto inferred = [](const Op& op, const Shape& shape, std::size_t inputs) {
    const TensorDesc desc{DType::F32, shape, Layout::NCHW};
    return message_of([&] { infer_output(op, std::vector<const TensorDesc*>(inputs, &desc)); },
                      ErrorCode::invalid_model);
  };
  CHECK(contains(inferred(Pad{{1, 1, 1, 1}}, Shape{1, 1, kMost, 1}, 1), "the limit is 2147483647"));
  CHECK(contains(inferred(Pool2d{}, Shape{1, 1, 1, kMost}, 1), "the limit is 2147483647"));
  CHECK(contains(inferred(Concat{2}, Shape{1, 0, kMost}, 2), "overflow"));
  GraphBuilder builder("huge");
  CHECK(contains(message_of(
                     [&] {
                       builder.set_input("x", {DType::F32, Shape{1, kMost}, Layout::NCHW});
                     },
                     ErrorCode::invalid_model),
                 "input 'x': has 9223372036854775807 elements a picture; the limit is 2147483647"));
}

TEST_CASE("Concat adds up one axis and refuses what does not fit beside it") {
  TestNetwork network(Shape{1, 8, 10, 10});
  const ValueId x = network.last();
  const ValueId pooled = network.add(GlobalAveragePool{}, {x});
  network.add(Concat{}, {x, x, x}, "join");
  CHECK(network.builder().value(network.last()).desc.shape == Shape{1, 24, 10, 10});
  network.add(Concat{3}, {x, x});
  CHECK(network.builder().value(network.last()).desc.shape == Shape{1, 8, 10, 20});
  const auto refused = [&](std::int64_t axis, std::vector<ValueId> inputs) {
    return message_of([&] { network.add(Concat{axis}, std::move(inputs), "join"); }, ErrorCode::invalid_model);
  };
  CHECK(contains(refused(0, {x, x}), "'join' (Concat): attribute 'axis': must be 1 to 3 for 1x8x10x10, got 0"));
  CHECK(contains(refused(4, {x, x}), "got 4"));
  CHECK(contains(refused(1, {x, pooled}), "input '1': of shape 1x8x1x1 cannot be joined to 1x8x10x10 along axis 1"));
  CHECK(contains(refused(1, {}), "Concat has 1 input positions or more, got 0"));
  CHECK(contains(refused(1, {x, kNoValue}), "input '1': is missing"));
}

TEST_CASE("Slice takes a part of an axis, and no more than there is") {
  TestNetwork network(Shape{1, 8, 10, 10});
  const ValueId x = network.last();
  network.add(Slice{1, 6, 2}, {x});
  CHECK(network.builder().value(network.last()).desc.shape == Shape{1, 2, 10, 10});
  const auto refused = [&](Slice op) {
    return message_of([&] { network.add(op, {x}, "part"); }, ErrorCode::invalid_model);
  };
  CHECK(contains(refused({1, 7, 2}), "'part' (Slice): attributes 'first' and 'extent': must lie within 0..8, got 7"));
  CHECK(contains(refused({1, -1, 2}), "got -1 and 2"));
  CHECK(contains(refused({2, 0, 0}), "within 0..10, got 0 and 0"));
  CHECK(contains(refused({0, 0, 1}), "attribute 'axis': must be 1 to 3"));
  CHECK(contains(refused({1, 1, std::numeric_limits<std::int64_t>::max()}), "within 0..8"));
}

TEST_CASE("Mul repeats its second input where that has extent 1") {
  TestNetwork network(Shape{1, 8, 10, 10});
  const ValueId x = network.last();
  const ValueId pooled = network.add(GlobalAveragePool{}, {x});
  network.add(Mul{}, {x, pooled});
  CHECK(network.builder().value(network.last()).desc.shape == Shape{1, 8, 10, 10});
  CHECK(contains(message_of(
                     [&] {
                       network.add(Mul{}, {pooled, x}, "gate");
                     },
                     ErrorCode::invalid_model),
                 "'gate' (Mul): input 'B': must have the extents of 'A', 1x8x1x1, or 1 in their place, got 1x8x10x10"));
}

TEST_CASE("activations are refused where their numbers are not finite or only clips fit") {
  TestNetwork network(Shape{1, 8, 10, 10});
  const ValueId x = network.last();
  const Activation endless = Activation::of(ActivationKind::Elu, std::numeric_limits<float>::infinity());
  const auto refused = [&](Op op, std::vector<ValueId> inputs) {
    return message_of([&] { network.add(op, inputs, "act"); }, ErrorCode::invalid_model);
  };
  CHECK(contains(refused(Add{endless}, {x, x}), "attribute 'alpha': must be finite, got inf"));
  CHECK(contains(refused(Clip{Activation::of(ActivationKind::Silu)}, {x}), "must be a clip, got silu"));
}

TEST_CASE("kinds that do not exist are refused by number, and have a name all the same") {
  TestNetwork network(Shape{1, 8, 10, 10});
  const ValueId x = network.last();
  const auto refused = [&](Op op, std::vector<ValueId> inputs) {
    return message_of([&] { network.add(op, inputs, "act"); }, ErrorCode::invalid_model);
  };
  const Unary unary{static_cast<UnaryKind>(99)};
  CHECK(op_name(unary) == "Unary");
  CHECK(contains(refused(unary, {x}), "have a choice that does not exist, number 99 of those from 0 to 12"));
  Pool2d pool;
  pool.kind = static_cast<PoolKind>(2);
  CHECK(contains(refused(pool, {x}), "number 2 of those from 0 to 1"));
  CHECK(
      contains(refused(Add{Activation::of(static_cast<ActivationKind>(7))}, {x, x}), "number 7 of those from 0 to 6"));
  CHECK(contains(refused(LayoutTransform{static_cast<Layout>(5)}, {x}), "number 5 of those from 0 to "));
}

TEST_CASE("activations are printed by name, with their numbers") {
  CHECK(to_string(Activation::of(ActivationKind::Sigmoid)) == "sigmoid");
  CHECK(to_string(Activation::of(ActivationKind::Silu)) == "silu");
  CHECK(to_string(Activation::of(ActivationKind::HardSwish)) == "hardswish");
  CHECK(to_string(Activation::of(ActivationKind::Tanh)) == "tanh");
  CHECK(to_string(Activation::of(ActivationKind::LeakyRelu, 0.25F)) == "leaky_relu(0.25)");
  CHECK(to_string(Activation::of(ActivationKind::Elu, 1.5F)) == "elu(1.5)");
}

TEST_CASE("a node of several kinds is printed by its kind") {
  TestNetwork network(Shape{1, 8, 10, 10});
  network.add(Unary{UnaryKind::HardSwish}, {network.last()}, "act");
  network.add(Concat{}, {network.last(), network.last()}, "join");
  const std::string text = print(std::move(network).build());
  CHECK(contains(text, "HardSwish(%0:1x8x10x10 NCHW)  # act"));
  CHECK(contains(text, "axis=1  # join"));
}

TEST_CASE("weights must be constants and activations must not") {
  TestNetwork network(Shape{1, 8, 10, 10});
  const ValueId x = network.last();
  CHECK_THROWS_AS(network.add(Conv2d{}, {x, x, kNoValue, kNoValue}), Error);
  CHECK_THROWS_AS(network.add(Clip{}, {network.constant(Shape{1, 8})}), Error);
}

TEST_CASE("build drops what the output does not need and keeps topological order") {
  TestNetwork network(Shape{1, 8, 10, 10});
  const ValueId kept = network.conv(8, 1, 1, {}, 1, {}, "kept");
  network.conv(8, 1, 1, {}, 1, {}, "dropped");
  const Graph graph = std::move(network).build(kept);
  REQUIRE(graph.nodes().size() == 1);
  CHECK(graph.nodes()[0].origin.label() == "kept");
  CHECK(graph.values().size() == 4);  // input, weight, bias, output
  CHECK(graph.producer(graph.output()) == 0U);
  CHECK(readers_of(graph, graph.input()) == std::vector<std::size_t>{0});
}

TEST_CASE("consumers are the nodes that read a value, each once and in order") {
  TestNetwork network(Shape{1, 8, 10, 10});
  const ValueId x = network.last();
  network.conv(8, 1, 1, {}, 1, {}, "dropped");
  const ValueId a = network.add(Unary{}, {x});
  const ValueId twice = network.add(Add{}, {a, a});
  network.add(Concat{}, {x, twice, x, a});
  const Graph graph = std::move(network).build();
  REQUIRE(graph.nodes().size() == 3);
  CHECK(readers_of(graph, graph.input()) == std::vector<std::size_t>{0, 2});
  CHECK(readers_of(graph, graph.nodes()[0].output) == std::vector<std::size_t>{1, 2});
  CHECK(readers_of(graph, graph.nodes()[1].output) == std::vector<std::size_t>{2});
  CHECK(readers_of(graph, graph.output()).empty());
  CHECK(readers_of(graph, kNoValue).empty());
  CHECK(readers_of(graph, 1000).empty());
  const Graph copy = graph;  // NOLINT(performance-unnecessary-copy-initialization): what a copy knows
  CHECK(readers_of(copy, copy.input()) == std::vector<std::size_t>{0, 2});
}

TEST_CASE("flops count multiply-adds twice") {
  TestNetwork network(Shape{1, 8, 10, 10});
  network.conv(16, 3, 1, {1, 1, 1, 1});
  const Graph graph = std::move(network).build();
  CHECK(flops_per_picture(graph, graph.nodes()[0]) == 2 * 16 * 100 * 8 * 9);
}

TEST_CASE("an unnamed node is called by type and index") {
  const Origin origin{{{17, "", "Conv"}, {18, "act", "Clip"}}};
  CHECK(origin.label() == "Conv#17+act");
  CHECK(origin.describe() == "node #17 (Conv) and 1 more");
}

}  // namespace
}  // namespace mobicuda
