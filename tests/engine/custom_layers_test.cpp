// What the custom engine computes between input and output: each tensor that one of its layers finishes, against the
// CPU.
#include <algorithm>
#include <map>

#include <mobicuda/mobicuda.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/networks.h"
#include "models/zoo/onnx_writer.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/layer_walk.h"
#include "support/wrong_backend.h"

namespace mobicuda {
namespace {

using bench::default_layer_threshold;
using bench::LayerComparison;
using test::compare_layers;
using test::TestNetwork;
using test::Walker;
using test::WrongBackend;

constexpr std::int64_t kPictures = 3;

struct Form {
  Precision precision = Precision::Fp32;
  std::map<std::string, std::string> variants{};
};

EngineOptions options_of(const Form& form) {
  EngineOptions options;
  options.precision = form.precision;
  options.max_batch = kPictures + 1;
  options.kernel_variants = form.variants;
  return options;
}

LayerComparison compare(const Graph& graph, const Backend& backend, const Form& form) {
  const auto input = test::random_uniform(5, static_cast<std::size_t>(kPictures * graph.input_desc().shape.elements()));
  const Walker custom(backend, graph, options_of(form), input);
  const Precision other = form.precision == Precision::Fp64 ? Precision::Fp64 : Precision::Fp32;
  const Walker cpu(*make_cpu_backend(), graph, options_of({other}), input);
  return compare_layers(custom, cpu, kPictures, default_layer_threshold(form.precision, other));
}

// All tensors agree, and each layer was compared but conversions.
void check_all(const Graph& graph, const Form& form) {
  CAPTURE(to_string(form.precision));
  const LayerComparison result = compare(graph, *make_custom_backend(), form);
  CHECK_FALSE(result.layers.empty());
  CHECK(missed_layers(result, "custom") == "");
  for (const auto& left_out : result.not_compared) {
    CAPTURE(left_out.layer, left_out.reason);
    CHECK(left_out.layer.substr(0, 3) == "to_");
  }
}

Graph small_mobilenet() {
  zoo::MobileNetV2Options options;
  options.width = 0.35;
  options.height = options.picture_width = 96;
  options.classes = 50;
  options.blocks = 4;
  const std::string bytes = zoo::build_mobilenet_v2(options).SerializeAsString();
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "generated");
}

const Form kForms[] = {{Precision::Fp32},
                       {Precision::Fp32Split},
                       {Precision::Fp16},
                       {Precision::Fp64},
                       {Precision::Fp32, {{"block", "layers"}, {"stem", "layers"}, {"head", "layers"}}},
                       {Precision::Fp32Split, {{"block", "layers"}, {"stem", "layers"}, {"head", "layers"}}},
                       {Precision::Fp16, {{"block", "layers"}, {"stem", "layers"}, {"head", "layers"}}},
                       {Precision::Fp16, {{"block", "expand_depthwise"}, {"stem", "layers"}, {"head", "layers"}}},
                       {Precision::Fp16, {{"block", "fused"}, {"stem", "fused"}, {"head", "fused"}}}};

TEST_CASE("custom: all tensors of MobileNetV2 equal the CPU's, however its layers are fused", "[layers]") {
  const Graph graph = small_mobilenet();
  for (const Form& form : kForms) check_all(graph, form);
}

TEST_CASE("custom: all tensors of blocks with windows of 5x5 equal the CPU's, however they are fused", "[layers]") {
  const Graph graph = test::wide_window_blocks();
  for (const Precision precision : {Precision::Fp32, Precision::Fp16}) check_all(graph, {precision});
  for (const std::string form : {"layers", "expand_depthwise"}) {
    CAPTURE(form);
    check_all(graph, {Precision::Fp16, {{"block", form}}});
  }
}

TEST_CASE("custom: tensors that are slices of a joined one equal the CPU's", "[layers]") {
  TestNetwork network(Shape{1, 3, 10, 9});
  const ValueId entry = network.conv(16, 3, 1, {1, 1, 1, 1}, 1, Activation::relu(), "entry");
  const ValueId left = network.conv(24, 1, 1, {}, 1, Activation::relu(), "left");
  Pool2d pool;
  pool.kernel = {3, 3};
  pool.pads = {1, 1, 1, 1};
  const ValueId right = network.add(pool, {entry}, "right");
  network.add(Concat{}, {left, right}, "join");
  network.conv(8, 1, 1, {}, 1, {}, "last");
  network.head(5);
  const Graph graph = std::move(network).build();
  for (const Precision precision : {Precision::Fp32, Precision::Fp16, Precision::Fp64}) {
    check_all(graph, {precision});
    const LayerComparison result = compare(graph, *make_custom_backend(), {precision});
    const auto has = [&](const std::string& tensor) {
      return std::any_of(result.layers.begin(), result.layers.end(),
                         [&](const auto& layer) { return layer.tensor == tensor; });
    };
    CHECK((has("left.out") && has("right.out")));
    CHECK_FALSE(has("join.out"));  // no step joins what is in its place
  }
}

TEST_CASE("custom: a layer in two steps shows its tensor after the second", "[layers]") {
  TestNetwork network(Shape{1, 16, 6, 5});
  const ValueId entry = network.conv(16, 1, 1, {}, 1, {}, "entry");
  const ValueId depthwise = network.conv(16, 3, 1, {1, 1, 1, 1}, 0, {}, "depthwise");
  network.add(Add{}, {depthwise, entry}, "sum");
  network.head(5);
  const Graph graph = std::move(network).build();
  for (const Precision precision : {Precision::Fp32, Precision::Fp16}) check_all(graph, {precision});
}

TEST_CASE("custom: all tensors of networks with gates and branches equal the CPU's", "[layers]") {
  for (const char* name : {"mobilenet_v3_large", "squeezenet1_1"}) {
    CAPTURE(name);
    zoo::NetworkOptions options;
    options.height = options.picture_width = 96;
    options.classes = 20;
    const std::string bytes = zoo::build_network(name, options).SerializeAsString();
    const Graph graph = onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), name);
    for (const Precision precision : {Precision::Fp32, Precision::Fp16}) check_all(graph, {precision});
  }
}

TEST_CASE("custom: a layer that computes wrong is the first that diverges", "[layers]") {
  const Graph graph = small_mobilenet();
  for (const Form& form : kForms) {
    for (const Node& node : graph.nodes()) {
      if (!std::holds_alternative<Conv2d>(node.op) && !std::holds_alternative<Gemm>(node.op)) continue;
      const std::string label = node.origin.label();
      CAPTURE(to_string(form.precision), label);
      const LayerComparison result = compare(graph, WrongBackend(make_custom_backend(), label), form);
      REQUIRE(result.first_diverging() != nullptr);
      const std::string found = "+" + result.first_diverging()->layer + "+";
      CAPTURE(found);
      CHECK(found.find("+" + label + "+") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace mobicuda
