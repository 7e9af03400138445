#include <cmath>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/graph.h>

#include "support/bounded_graph.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/tolerance.h"

namespace mobicuda {
namespace {

using test::count_of;
using test::TestNetwork;

// Folding rounds a weight twice (product, then float): the difference to the unfolded graph stays near one
// float rounding for each product, far below this.
constexpr double kFoldedRelL2 = 1e-6;

Graph run_pass(std::string_view name, const Graph& graph) {
  for (const Pass& pass : standard_passes()) {
    if (pass.name == name) return pass.run(graph);
  }
  FAIL("no pass " << name);
  return graph;
}

std::vector<float> image_for(const Graph& graph) {
  return test::random_uniform(7, static_cast<std::size_t>(graph.input_desc().shape.elements()));
}

std::vector<float> logits(const Graph& graph) {
  EngineOptions options;
  options.precision = Precision::Fp64;
  options.threads = 1;
  const auto engine = make_cpu_backend()->compile(graph, options);
  std::vector<float> output(static_cast<std::size_t>(engine->output().shape.elements()));
  engine->create_session()->run(image_for(graph), output);
  return output;
}

// An engine of `original` would run the passes itself, and be as wrong as they are.
void check_same(const Graph& original, const Graph& graph) {
  const auto expected =
      test::run_bounded(original, image_for(original), test::arithmetic_of(Precision::Fp64, "cpu")).value;
  CHECK(test::compare_rel_l2(logits(graph), expected, kFoldedRelL2));
}

TEST_CASE("remove_noops drops neutral nodes and keeps the network's output name") {
  TestNetwork network(Shape{1, 8, 6, 6});
  network.add(Identity{}, {network.last()});
  network.conv(8, 1);
  network.add(Clip{}, {network.last()});
  network.add(Pad{}, {network.last()});
  network.add(Slice{1, 0, 8}, {network.last()});
  network.add(Transpose{{0, 2, 3, 1}}, {network.last()});
  network.add(Transpose{{0, 3, 1, 2}}, {network.last()});
  network.add(Clip{Activation::relu()}, {network.last()});
  const Graph graph = run_pass("remove_noops", std::move(network).build());
  CHECK(graph.nodes().size() == 2);
  CHECK(count_of<Conv2d>(graph) == 1);
  CHECK(count_of<Clip>(graph) == 1);
}

TEST_CASE("a network of neutral nodes keeps one: its input is not its own output") {
  const int kind = GENERATE(range(0, 3));
  TestNetwork network(Shape{1, 2, 3, 4});
  for (int i = 0; i < 3; ++i) {
    if (kind == 0) network.add(Identity{}, {network.last()});
    if (kind == 1) network.add(Transpose{{0, 2, 3, 1}}, {network.last()});
    if (kind == 2) network.add(Reshape{i % 2 == 0 ? Shape{1, 24} : Shape{1, 2, 3, 4}}, {network.last()});
  }
  if (kind == 2) network.add(Reshape{Shape{1, 2, 3, 4}}, {network.last()});
  const Graph original = std::move(network).build();
  const Graph graph = optimize(original);
  CHECK(!graph.nodes().empty());
  CHECK(graph.output() != graph.input());
  CHECK(graph.output_desc().shape == original.output_desc().shape);
  check_same(original, graph);
}

TEST_CASE("several ScaleShifts fold into one convolution or Gemm together, up to an activation") {
  const bool behind = GENERATE(true, false);
  TestNetwork network(Shape{1, 4, 5, 5});
  const auto scales = [&] {
    network.scale_shift({}, "bn");
    network.scale_shift({}, "mul");
    network.scale_shift({}, "add");
  };
  if (!behind) scales();
  network.conv(4, 3, 1, {}, 2, {}, "conv");
  if (behind) {
    scales();
    network.scale_shift(Activation::relu(), "last");
    network.scale_shift({}, "after");
  }
  const Graph original = std::move(network).build();
  const Graph graph = run_pass("fold_scale_shift", original);
  check_same(original, graph);
  REQUIRE(graph.nodes().size() == (behind ? 2U : 1U));
  CHECK(graph.nodes()[0].origin.label() == (behind ? "conv+bn+mul+add+last" : "bn+mul+add+conv"));
  CHECK(std::get<Conv2d>(graph.nodes()[0].op).activation == (behind ? Activation::relu() : Activation::none()));
  if (behind) CHECK(graph.nodes()[1].origin.label() == "after");
}

TEST_CASE("a convolution with padding takes the ScaleShifts in front of it up to the first that shifts") {
  TestNetwork network(Shape{1, 2, 5, 5});
  const ValueId zeros = network.constant(Shape{2}, 0.0F, 0.0F);
  network.scale_shift({}, "shifts");
  network.add(ScaleShift{}, {network.last(), network.constant(Shape{2}), zeros}, "a");
  network.add(ScaleShift{}, {network.last(), network.constant(Shape{2}), zeros}, "b");
  network.conv(2, 3, 1, {1, 1, 1, 1}, 1, {}, "conv");
  const Graph original = std::move(network).build();
  const Graph graph = run_pass("fold_scale_shift", original);
  check_same(original, graph);
  REQUIRE(graph.nodes().size() == 2);
  CHECK(graph.nodes()[0].origin.label() == "shifts");
  CHECK(graph.nodes()[1].origin.label() == "a+b+conv");
}

TEST_CASE("a chain of ScaleShifts whose middle is read twice folds up to there") {
  TestNetwork network(Shape{1, 2, 5, 5});
  network.conv(2, 1, 1, {}, 1, {}, "conv");
  network.scale_shift({}, "a");
  const ValueId middle = network.scale_shift({}, "b");
  const ValueId end = network.scale_shift({}, "c");
  network.add(Add{}, {middle, end}, "sum");
  const Graph original = std::move(network).build();
  const Graph graph = run_pass("fold_scale_shift", original);
  check_same(original, graph);
  REQUIRE(graph.nodes().size() == 3);
  CHECK(graph.nodes()[0].origin.label() == "conv+a+b");
}

TEST_CASE("a zero Pad stays where a convolution may not have so much padding") {
  TestNetwork network(Shape{1, 1, 1, 1});
  network.add(Pad{{0, 40000, 0, 0}}, {network.last()}, "pad");
  network.conv(1, 1, 1, {0, 40000, 0, 0}, 1, {}, "conv");
  const Graph after = run_pass("fold_pad", std::move(network).build());
  CHECK(count_of<Pad>(after) == 1);
}

TEST_CASE("a Transpose of the NHWC input becomes the input's layout") {
  TestNetwork network(Shape{1, 6, 7, 3});
  network.add(Transpose{{0, 3, 1, 2}}, {network.last()});
  network.conv(8, 3);
  const Graph graph = optimize(std::move(network).build());
  CHECK(graph.input_desc() == TensorDesc{DType::F32, Shape{1, 3, 6, 7}, Layout::NHWC});
  CHECK(count_of<Transpose>(graph) == 0);
}

TEST_CASE("an average pool over the whole map is GlobalAveragePool") {
  TestNetwork network(Shape{1, 8, 6, 7});
  network.add(Pool2d{PoolKind::Average, {6, 7}, {1, 1}, {}, false, false}, {network.last()});
  const Graph graph = run_pass("remove_noops", std::move(network).build());
  CHECK(count_of<GlobalAveragePool>(graph) == 1);

  TestNetwork padded(Shape{1, 8, 6, 7});
  padded.add(Pool2d{PoolKind::Average, {6, 7}, {1, 1}, {1, 0, 0, 0}, false, false}, {padded.last()});
  const Graph kept = run_pass("remove_noops", std::move(padded).build());
  CHECK(count_of<GlobalAveragePool>(kept) == 0);
}

TEST_CASE("fold_pad moves zeros into the convolution, and only zeros") {
  for (const float value : {0.0F, 1.0F}) {
    TestNetwork network(Shape{1, 8, 6, 6});
    network.add(Pad{{0, 0, 1, 1}, value}, {network.last()}, "pad");
    network.conv(8, 3, 2, {1, 1, 0, 0}, 0, {}, "conv");
    const Graph graph = run_pass("fold_pad", std::move(network).build());
    if (value != 0.0F) {
      CHECK(count_of<Pad>(graph) == 1);
      continue;
    }
    REQUIRE(graph.nodes().size() == 1);
    CHECK(std::get<Conv2d>(graph.nodes()[0].op).pads == Padding{1, 1, 1, 1});
    CHECK(graph.nodes()[0].origin.label() == "pad+conv");
  }
}

TEST_CASE("batch norm behind convolutions and classifiers folds into the weights") {
  const auto make = [](bool folded) {
    TestNetwork network(Shape{1, 8, 6, 6});
    network.conv(12, 3, 1, {1, 1, 1, 1}, 4, {}, "conv");
    network.scale_shift({}, "bn");
    network.add(Clip{Activation::relu6()}, {network.last()}, "act");
    network.scale_shift({}, "kept");  // behind an activation: stays
    network.head(5);
    network.scale_shift({}, "bn2");
    const Graph graph = std::move(network).build();
    return folded ? run_pass("fold_scale_shift", graph) : graph;
  };
  const Graph folded = make(true);
  CHECK(count_of<ScaleShift>(folded) == 1);
  CHECK(folded.nodes()[0].origin.label() == "conv+bn");
  check_same(make(false), folded);
}

TEST_CASE("a scale in front folds into the weights, a shift only without padding") {
  const auto make = [](Padding pads) {
    TestNetwork network(Shape{1, 6, 6, 6});
    network.scale_shift({}, "input_norm");
    network.conv(4, 3, 1, pads, 2, {}, "conv");
    return std::move(network).build();
  };
  const Graph plain = run_pass("fold_scale_shift", make({}));
  CHECK(count_of<ScaleShift>(plain) == 0);
  const Graph padded = run_pass("fold_scale_shift", make({1, 1, 1, 1}));
  CHECK(count_of<ScaleShift>(padded) == 1);

  // The same affine map written as a depthwise 1x1 convolution, which no pass folds.
  TestNetwork apart(Shape{1, 6, 6, 6});
  Conv2d affine;
  affine.groups = 6;
  const auto scale = test::random_uniform(1, 6, 0.5F, 1.5F);
  const ValueId x = apart.last();
  static_cast<void>(apart.constant(Shape{6}, 0.5F, 1.5F));  // takes the scale's seed
  const ValueId shift = apart.constant(Shape{6});
  const ValueId weight = apart.builder().add_constant("scale", HostTensor::of<float>(Shape{6, 1, 1, 1}, scale));
  apart.add(affine, {x, weight, shift, kNoValue});
  apart.conv(4, 3, 1, {}, 2, {}, "conv");
  check_same(std::move(apart).build(), plain);
}

TEST_CASE("a Pad with other pixels than zeros stays in front of its convolution") {
  for (const Pad& pad : {Pad{{1, 1, 1, 1}, 0.0F, PadMode::Reflect}, Pad{{1, 1, 1, 1}, 1.0F}}) {
    TestNetwork network(Shape{1, 6, 6, 6});
    network.add(pad, {network.last()});
    network.conv(4, 3);
    const Graph after = run_pass("fold_pad", std::move(network).build());
    CHECK(count_of<Pad>(after) == 1);
  }
}

TEST_CASE("chains of affine nodes fold completely") {
  TestNetwork network(Shape{1, 6, 6, 6});
  network.conv(4, 3);
  network.scale_shift();
  network.scale_shift();
  network.scale_shift(Activation::relu());
  const Graph graph = run_pass("fold_scale_shift", std::move(network).build());
  REQUIRE(graph.nodes().size() == 1);
  CHECK(std::get<Conv2d>(graph.nodes()[0].op).activation == Activation::relu());
}

TEST_CASE("fuse_activation joins Relu and Min into the producer's ReLU6") {
  TestNetwork network(Shape{1, 6, 6, 6});
  network.conv(4, 3, 1, {}, 1, {}, "conv");
  network.add(Clip{Activation::relu()}, {network.last()}, "relu");
  network.add(Clip{{-std::numeric_limits<float>::infinity(), 6.0F}}, {network.last()}, "min");
  const Graph graph = run_pass("fuse_activation", std::move(network).build());
  REQUIRE(graph.nodes().size() == 1);
  CHECK(std::get<Conv2d>(graph.nodes()[0].op).activation == Activation::relu6());
  CHECK(graph.nodes()[0].origin.label() == "conv+relu+min");
}

TEST_CASE("a Clip goes into the product before it") {
  TestNetwork network(Shape{1, 6, 6, 6});
  const ValueId x = network.last();
  network.add(GlobalAveragePool{}, {x});
  network.add(Mul{}, {x, network.last()}, "gate");
  network.add(Clip{Activation::relu()}, {network.last()}, "relu");
  const Graph before = std::move(network).build();
  const Graph graph = run_pass("fuse_activation", before);
  REQUIRE(graph.nodes().size() == 2);
  CHECK(std::get<Mul>(graph.nodes()[1].op).activation == Activation::relu());
  CHECK(graph.nodes()[1].origin.label() == "gate+relu");
  check_same(before, graph);
}

TEST_CASE("a Unary goes into the op before it, and nothing goes in behind it") {
  for (const UnaryKind kind : {UnaryKind::Sigmoid, UnaryKind::HardSwish, UnaryKind::Tanh, UnaryKind::LeakyRelu,
                               UnaryKind::Elu, UnaryKind::Silu}) {
    const Unary unary{kind, 0.25F};
    CAPTURE(op_name(Op{unary}));
    TestNetwork network(Shape{1, 6, 6, 6});
    const ValueId x = network.last();
    const auto activate = [&] { return network.add(unary, {network.last()}); };
    network.conv(6, 3, 1, {1, 1, 1, 1}, 2);
    network.add(Add{}, {activate(), x});
    network.add(Mul{}, {activate(), x});
    network.add(Extremum{}, {activate(), x});
    activate();
    network.scale_shift();
    activate();
    network.add(Clip{{-0.125F, 0.5F}}, {network.last()});
    network.head(5);
    activate();
    const Graph before = std::move(network).build();
    const Graph graph = run_pass("fuse_activation", before);
    CHECK(count_of<Unary>(graph) == 0);
    CHECK(count_of<Clip>(graph) == 1);
    const auto fused = [&]<class T>(std::type_identity<T>) {
      for (const Node& node : graph.nodes()) {
        if (const auto* op = std::get_if<T>(&node.op)) return op->activation == *activation_of(unary);
      }
      return false;
    };
    CHECK(fused(std::type_identity<Conv2d>{}));
    CHECK(fused(std::type_identity<Add>{}));
    CHECK(fused(std::type_identity<Mul>{}));
    CHECK(fused(std::type_identity<Extremum>{}));
    CHECK(fused(std::type_identity<ScaleShift>{}));
    CHECK(fused(std::type_identity<Gemm>{}));
    check_same(before, graph);
  }
}

TEST_CASE("a Unary stays behind what already has an activation") {
  TestNetwork network(Shape{1, 6, 6, 6});
  network.conv(6, 1, 1, {}, 1, Activation::relu());
  network.add(Unary{UnaryKind::Sigmoid}, {network.last()});
  network.add(Unary{UnaryKind::Tanh}, {network.last()});
  network.add(Clip{Activation::relu()}, {network.last()});
  network.add(Unary{UnaryKind::Tanh}, {network.last()});
  const Graph graph = run_pass("fuse_activation", std::move(network).build());
  CHECK(count_of<Unary>(graph) == 3);
  CHECK(count_of<Clip>(graph) == 1);
}

ValueId hard_sigmoid(TestNetwork& network, float scale, float shift, Activation clip = {0.0F, 1.0F}) {
  const auto constant = [&](float value) {
    return network.builder().add_constant("k", HostTensor::of<float>(Shape{6}, std::vector<float>(6, value)));
  };
  network.add(ScaleShift{}, {network.last(), constant(scale), constant(shift)}, "affine");
  return network.add(Clip{clip}, {network.last()}, "clip");
}

TEST_CASE("x * Sigmoid(x) is Silu and x * HardSigmoid(x) HardSwish, in either order") {
  for (const bool swapped : {false, true}) {
    TestNetwork network(Shape{1, 6, 6, 6});
    const ValueId x = network.conv(6, 1, 1, {}, 1, {}, "conv");
    const ValueId gate = network.add(Unary{UnaryKind::Sigmoid}, {x}, "sigmoid");
    const ValueId y = network.add(Mul{}, swapped ? std::vector{gate, x} : std::vector{x, gate}, "mul");
    const ValueId hard = hard_sigmoid(network, 0x1.555556p-3F, 0.5F);
    network.add(Mul{}, swapped ? std::vector{hard, y} : std::vector{y, hard}, "product");
    const Graph before = std::move(network).build();
    const Graph graph = run_pass("recognise_activation", before);
    REQUIRE(graph.nodes().size() == 3);
    CHECK(std::get<Unary>(graph.nodes()[1].op).kind == UnaryKind::Silu);
    CHECK(graph.nodes()[1].origin.label() == "sigmoid+mul");
    CHECK(std::get<Unary>(graph.nodes()[2].op).kind == UnaryKind::HardSwish);
    CHECK(graph.nodes()[2].origin.label() == "affine+clip+product");
    check_same(before, graph);
  }
}

TEST_CASE("products that only look like activations stay") {
  const auto check_kept = [](auto make) {
    TestNetwork network(Shape{1, 6, 6, 6});
    const ValueId x = network.conv(6, 1);
    network.add(Mul{}, {x, make(network, x)});
    const Graph graph = run_pass("recognise_activation", std::move(network).build());
    CHECK(count_of<Mul>(graph) == 1);
  };
  check_kept([](TestNetwork& network, ValueId) { return hard_sigmoid(network, 0.2F, 0.5F); });
  check_kept([](TestNetwork& network, ValueId) { return hard_sigmoid(network, 1.0F / 6.0F, 0.25F); });
  check_kept([](TestNetwork& network, ValueId) { return hard_sigmoid(network, 1.0F / 6.0F, 0.5F, {0.0F, 2.0F}); });
  check_kept([](TestNetwork& network, ValueId x) { return network.add(Unary{UnaryKind::Tanh}, {x}); });
  check_kept([](TestNetwork& network, ValueId x) {  // the gate of another value
    network.add(GlobalAveragePool{}, {x});
    return network.add(Unary{UnaryKind::Sigmoid}, {network.last()});
  });
}

TEST_CASE("branches in different layouts are joined in one") {
  // The first branch follows the transposed input's layout, the second one's channels were shuffled in NCHW.
  TestNetwork network(Shape{1, 5, 5, 4});
  const ValueId picture = network.add(Transpose{{0, 3, 1, 2}}, {network.last()});
  network.add(Reshape{Shape{1, 2, 2, 5, 5}}, {picture});
  network.add(Transpose{{0, 2, 1, 3, 4}}, {network.last()});
  const ValueId shuffled = network.add(Reshape{Shape{1, 4, 5, 5}}, {network.last()});
  network.add(Concat{}, {picture, shuffled});
  const ValueId joined = network.last();
  network.add(GlobalAveragePool{}, {joined});
  network.add(Mul{}, {joined, network.last()});
  const Graph graph = optimize(std::move(network).build());
  for (const Node& node : graph.nodes()) {
    if (!std::holds_alternative<Concat>(node.op) && !std::holds_alternative<Mul>(node.op)) continue;
    for (const ValueId id : node.inputs) CHECK(graph.value(id).desc.layout == Layout::NHWC);
  }
  CHECK(count_of<Concat>(graph) == 1);
  CHECK_NOTHROW(logits(graph));
}

TEST_CASE("a value with two readers keeps its activation apart") {
  TestNetwork network(Shape{1, 6, 6, 6});
  const ValueId conv = network.conv(6, 1);
  const ValueId clipped = network.add(Clip{Activation::relu()}, {conv});
  network.add(Add{}, {conv, clipped});
  const Graph after = run_pass("fuse_activation", std::move(network).build());
  CHECK(count_of<Clip>(after) == 1);
}

TEST_CASE("fuse_residual feeds the addition to the later convolution") {
  TestNetwork network(Shape{1, 8, 6, 6});
  const ValueId first = network.conv(8, 1, 1, {}, 1, {}, "first");
  const ValueId second = network.conv(8, 3, 1, {1, 1, 1, 1}, 0, {}, "second");
  network.add(Add{Activation::relu()}, {second, first}, "add");
  const Graph before = std::move(network).build();
  const Graph graph = run_pass("fuse_residual", before);
  REQUIRE(graph.nodes().size() == 2);
  CHECK(graph.nodes()[1].origin.label() == "second+add");
  CHECK(graph.nodes()[1].inputs[Conv2d::kResidual] == graph.nodes()[0].output);
  CHECK(std::get<Conv2d>(graph.nodes()[1].op).activation == Activation::relu());
  CHECK(graph.value(graph.output()).name == "add.out");
}

TEST_CASE("fuse_residual takes the later of two convolutions, whichever side it is on") {
  for (const bool swapped : {false, true}) {
    TestNetwork network(Shape{1, 8, 6, 6});
    const ValueId x = network.last();
    const ValueId earlier = network.conv(8, 1, 1, {}, 1, {}, "earlier");
    network.add(Identity{}, {x});
    const ValueId later = network.conv(8, 1, 1, {}, 1, {}, "later");
    network.add(Add{}, {swapped ? later : earlier, swapped ? earlier : later}, "add");
    const Graph before = std::move(network).build();
    const Graph graph = run_pass("fuse_residual", before);
    CHECK(graph.nodes().back().origin.label() == "later+add");
    check_same(before, graph);
  }
}

TEST_CASE("fuse_residual leaves x + x and activated convolutions alone") {
  TestNetwork doubled(Shape{1, 8, 6, 6});
  doubled.conv(8, 1);
  doubled.add(Add{}, {doubled.last(), doubled.last()});
  const Graph after_doubled = run_pass("fuse_residual", std::move(doubled).build());
  CHECK(count_of<Add>(after_doubled) == 1);

  TestNetwork activated(Shape{1, 8, 6, 6});
  const ValueId x = activated.last();
  activated.conv(8, 1, 1, {}, 1, Activation::relu());
  activated.add(Add{}, {activated.last(), x});
  const Graph after_activated = run_pass("fuse_residual", std::move(activated).build());
  CHECK(count_of<Add>(after_activated) == 1);
}

TEST_CASE("choose_layout makes activations NHWC and keeps the meaning of a flatten") {
  TestNetwork network(Shape{1, 3, 6, 6});
  network.conv(8, 3);
  network.add(Reshape{Shape{1, 8 * 4 * 4}}, {network.last()}, "flatten");
  network.gemm(5);
  const Graph graph = optimize(std::move(network).build());
  // One into NHWC at the input, one back for the flatten.
  CHECK(count_of<LayoutTransform>(graph) == 2);
  for (const Node& node : graph.nodes()) {
    if (std::holds_alternative<Conv2d>(node.op)) CHECK(graph.value(node.output).desc.layout == Layout::NHWC);
  }
}

TEST_CASE("choose_layout adds nothing behind a global pool") {
  TestNetwork network(Shape{1, 3, 6, 6});
  network.conv(8, 3);
  network.head(5);
  const Graph after = optimize(std::move(network).build());
  CHECK(count_of<LayoutTransform>(after) == 1);
}

TEST_CASE("a 4-D output comes back in the input's NCHW order") {
  TestNetwork network(Shape{1, 3, 6, 6});
  network.conv(8, 3);
  const Graph graph = optimize(std::move(network).build());
  CHECK(graph.output_desc().layout == Layout::NCHW);
}

TEST_CASE("a 4-D output of a network with NHWC input comes out in the order of the file") {
  TestNetwork network(Shape{1, 6, 7, 3});
  network.add(Transpose{{0, 3, 1, 2}}, {network.last()});
  network.conv(8, 3);
  const Graph graph = optimize(std::move(network).build());
  CHECK(graph.output_desc() == TensorDesc{DType::F32, Shape{1, 8, 4, 5}, Layout::NCHW});
}

// Of a map of one channel the order does not matter, of what a Transpose makes of it it does.
TEST_CASE("a Transpose of one channel comes out in the order that it is told in") {
  TestNetwork network(Shape{1, 3, 12, 5});
  network.conv(1, 1);
  network.add(Transpose{{0, 3, 1, 2}}, {network.last()});
  const Graph graph = optimize(std::move(network).build());
  CHECK(graph.output_desc() == TensorDesc{DType::F32, Shape{1, 5, 1, 12}, Layout::NCHW});
  CHECK(std::holds_alternative<Transpose>(graph.nodes().back().op));
}

TEST_CASE("passes run in the documented order") {
  std::string names;
  for (const Pass& pass : standard_passes()) names += std::string(pass.name) + " ";
  CHECK(names ==
        "remove_noops fold_pad recognise_activation fold_scale_shift fuse_activation use_integers fuse_residual "
        "choose_layout ");
}

}  // namespace
}  // namespace mobicuda
