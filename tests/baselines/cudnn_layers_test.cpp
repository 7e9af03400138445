// What the cuDNN baseline computes between input and output: each tensor that one of its steps finishes, against the
// CPU.
#include <algorithm>
#include <string>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/cudnn_backend.h>

#include "support/catch.h"
#include "support/graphs.h"
#include "support/layer_walk.h"
#include "support/wrong_backend.h"

namespace mobicuda {
namespace {

using bench::default_layer_threshold;
using bench::LayerComparison;
using test::TestNetwork;
using test::Walker;
using test::WrongBackend;

constexpr std::int64_t kPictures = 3;

// Branches that are joined, a depthwise convolution, a residual and a head.
Graph branches() {
  TestNetwork network(Shape{1, 3, 10, 9});
  const ValueId entry = network.conv(16, 3, 2, {1, 1, 1, 1}, 1, Activation::relu(), "entry");
  const ValueId left = network.conv(8, 1, 1, {}, 1, Activation::relu(), "left");
  Pool2d pool;
  pool.kernel = {3, 3};
  pool.pads = {1, 1, 1, 1};
  const ValueId right = network.add(pool, {entry}, "right");
  network.add(Concat{}, {left, right}, "join");
  const ValueId shifted = network.scale_shift(Activation::relu(), "shift");
  network.conv(24, 3, 1, {1, 1, 1, 1}, 0, Activation::relu6(), "depthwise");
  const ValueId projected = network.conv(24, 1, 1, {}, 1, {}, "project");
  network.add(Add{}, {projected, shifted}, "residual");
  network.head(5);
  return std::move(network).build();
}

LayerComparison compare(const Graph& graph, const Backend& backend, Precision precision) {
  const auto input = test::random_uniform(5, static_cast<std::size_t>(kPictures * graph.input_desc().shape.elements()));
  EngineOptions options;
  options.max_batch = kPictures + 1;
  const Precision other = precision == Precision::Fp64 ? Precision::Fp64 : Precision::Fp32;
  options.precision = other;
  const Walker cpu(*make_cpu_backend(), graph, options, input);
  options.precision = precision;
  const Walker cudnn(backend, graph, options, input);
  return test::compare_layers(cudnn, cpu, kPictures, default_layer_threshold(precision, other));
}

TEST_CASE("cudnn: all tensors of a network with branches equal the CPU's") {
  const Graph graph = branches();
  for (const Precision precision : {Precision::Fp32, Precision::Fp16, Precision::Fp64}) {
    CAPTURE(to_string(precision));
    const LayerComparison result = compare(graph, *make_cudnn_backend(), precision);
    CHECK(missed_layers(result, "cudnn") == "");
    for (const std::string tensor :
         {"entry.out", "left.out", "right.out", "depthwise.out", "residual.out", "pool.out"}) {
      CAPTURE(tensor);
      CHECK(std::any_of(result.layers.begin(), result.layers.end(),
                        [&](const auto& layer) { return layer.tensor == tensor; }));
    }
  }
}

TEST_CASE("cudnn: a layer that computes wrong is the first that diverges") {
  const Graph graph = branches();
  for (const std::string label : {"shift", "project"}) {
    CAPTURE(label);
    const LayerComparison result = compare(graph, WrongBackend(make_cudnn_backend(), label), Precision::Fp32);
    REQUIRE(result.first_diverging() != nullptr);
    CHECK(result.first_diverging()->layer.substr(0, label.size()) == label);
  }
}

}  // namespace
}  // namespace mobicuda
