#include "bench/kernels/layer_shapes.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include <mobicuda/onnx_import.h>
#include <mobicuda_onnx.pb.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/networks.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/network_shapes.h"

using namespace mobicuda;
using namespace mobicuda::bench;

namespace {

std::vector<Layer> layers_in(const Graph& graph) {
  std::vector<Layer> layers;
  for (const LayerShape& shape : bench::layers_of(graph)) add_use(layers, shape, "test", 1);
  return layers;
}

std::vector<Layer> layers_of(const onnx_schema::ModelProto& model) {
  const std::string bytes = model.SerializeAsString();
  return layers_in(onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "test"));
}

int count_of(const std::vector<Layer>& layers, std::string_view kind) {
  int count = 0;
  for (const Layer& layer : layers) {
    if (layer.shape.kind == kind) count += layer.uses.front().count;
  }
  return count;
}

std::string uses_of(const std::vector<Layer>& layers, std::string_view kind, const std::string& name) {
  for (const Layer& layer : layers) {
    if (layer.shape.kind == kind && to_string(layer.shape) == name) return to_string(layer.uses);
  }
  return "none";
}

}  // namespace

TEST_CASE("layers of MobileNetV2: every convolution, and the blocks that they make", "[kernel_bench]") {
  const std::vector<Layer> layers = layers_of(zoo::build_mobilenet_v2({}));
  CHECK(count_of(layers, "depthwise_conv") == 17);
  CHECK(count_of(layers, "gemm") == 16 + 17 + 2);  // expansions, projections, head and classifier
  CHECK(count_of(layers, "conv2d") == 1);
  CHECK(count_of(layers, "inverted_residual") == 17);
  CHECK(count_of(layers, "stem_block") == 1);
  CHECK(count_of(layers, "pointwise_pool") == 1);
  CHECK(count_of(layers, "global_average_pool") == 1);
  CHECK(count_of(layers, "add") == 10);  // the projections' residuals, as steps of their own
  CHECK(uses_of(layers, "gemm", "m196_n384_k64_relu6") == "test*4");
  CHECK(uses_of(layers, "gemm", "m196_n64_k384_residual") == "test*3");
  CHECK(uses_of(layers, "gemm", "m1_n1000_k1280_last") == "test*1");
  CHECK(uses_of(layers, "inverted_residual", "14x14x64_by384_to64_k3_s1_p1_residual") == "test*3");
  CHECK(uses_of(layers, "inverted_residual", "112x112x32_to16_k3_s1_p1") == "test*1");
  CHECK(uses_of(layers, "stem_block", "224x224x3_by32_to16_k3_s2_p1") == "test*1");
  CHECK(uses_of(layers, "conv2d", "224x224x3_to32_k3_s2_p1_relu6") == "test*1");
}

TEST_CASE("layers padded as TensorFlow does have another name", "[kernel_bench]") {
  zoo::MobileNetV2Options options;
  options.padding = zoo::PaddingStyle::Tf;
  const std::vector<Layer> layers = layers_of(zoo::build_mobilenet_v2(options));
  CHECK(uses_of(layers, "depthwise_conv", "112x112x96_k3_s2_p0_q1_relu6") == "test*1");
  CHECK(uses_of(layers, "depthwise_conv", "14x14x384_k3_s1_p1_relu6") == "test*4");
}

TEST_CASE("layers of MobileNetV3-Large: gates as one kernel and as single ones", "[kernel_bench]") {
  const std::vector<Layer> layers = layers_of(zoo::build_network("mobilenet_v3_large", {}));
  CHECK(count_of(layers, "squeeze_excite") == 8);
  CHECK(count_of(layers, "gated_pointwise") == 8);
  CHECK(count_of(layers, "multiply/gate") == 8);
  CHECK(count_of(layers, "unary") > 0);
  CHECK(count_of(layers, "unary") == count_of(layers, "multiply/equal"));  // all of them HardSwish
  CHECK(count_of(layers, "global_average_pool") == 9);
  CHECK(count_of(layers, "depthwise_conv") == 15);
}

TEST_CASE("blocks with windows of 5x5 are found", "[kernel_bench]") {
  const std::vector<Layer> layers = layers_in(test::wide_window_blocks());
  CHECK(count_of(layers, "inverted_residual") == 3);
  CHECK(uses_of(layers, "inverted_residual", "28x28x24_by96_to24_k5_s1_p2_residual") == "test*1");
  CHECK(uses_of(layers, "inverted_residual", "28x28x24_by144_to40_k5_s2_p2") == "test*1");
}

TEST_CASE("layers of ResNet-50: strides, residuals and counts", "[kernel_bench]") {
  const std::vector<Layer> layers = layers_of(zoo::build_network("resnet50", {}));
  CHECK(count_of(layers, "gemm") + count_of(layers, "conv2d") == 54);
  CHECK(count_of(layers, "inverted_residual") == 0);
  CHECK(uses_of(layers, "conv2d", "14x14x256_to256_k3_s1_p1_relu") == "test*5");
  CHECK(uses_of(layers, "max_pooling", "112x112x64_k3_s2_p1") == "test*1");
}

TEST_CASE("the shapes that kernels are tested on are those of MobileNetV2", "[kernel_bench]") {
  std::set<std::array<int, 6>> blocks;
  std::vector<test::PointwiseLayer> pointwise;
  std::vector<test::DepthwiseLayer> depthwise;
  for (const Layer& layer : layers_of(zoo::build_mobilenet_v2({}))) {
    const LayerShape& s = layer.shape;
    if (s.kind == "inverted_residual") {
      blocks.insert({s.h, s.c_in, s.hidden, s.c_out, s.vertical.stride, s.residual ? 1 : 0});
    } else if (s.kind == "gemm") {
      pointwise.push_back({s.h, s.c_in, s.c_out, s.residual, s.activation == LayerActivation::Relu6});
    } else if (s.kind == "depthwise_conv") {
      depthwise.push_back({s.h, s.c_in, s.vertical.stride, s.vertical.size});
    } else if (s.kind == "conv2d") {
      const test::StemLayer& stem = test::kMobileNetV2Stem;
      CHECK((s.h == stem.size && s.c_in == stem.c_in && s.c_out == stem.c_out && s.vertical.stride == stem.stride));
    }
  }
  std::set<std::array<int, 6>> tested;
  for (const test::InvertedResidualLayer& b : test::kMobileNetV2Blocks) {
    tested.insert({b.size, b.c_in, b.c_hidden, b.c_out, b.stride, b.has_residual() ? 1 : 0});
  }
  CHECK((blocks == tested));
  CHECK(std::ranges::is_permutation(pointwise, test::mobilenet_v2_pointwise()));
  CHECK(std::ranges::is_permutation(depthwise, test::mobilenet_v2_depthwise()));
}

TEST_CASE("other networks have the shapes that kernels are tested on", "[kernel_bench]") {
  std::set<std::array<int, 4>> depthwise;
  std::set<std::array<int, 3>> gates;
  std::set<std::array<int, 4>> gated;
  std::set<std::array<int, 5>> blocks;
  for (const char* network : {"mobilenet_v3_large", "efficientnet_b0"}) {
    for (const Layer& layer : layers_of(zoo::build_network(network, {}))) {
      const LayerShape& s = layer.shape;
      if (s.kind == "depthwise_conv") depthwise.insert({s.h, s.c_in, s.vertical.stride, s.vertical.size});
      if (s.kind == "squeeze_excite") gates.insert({s.h * s.w, s.c_in, s.hidden});
      if (s.kind == "gated_pointwise") gated.insert({s.h * s.w, s.c_in, s.hidden, s.c_out});
      if (s.kind == "inverted_residual") blocks.insert({s.h, s.c_in, s.hidden, s.c_out, s.vertical.stride});
    }
  }
  for (const test::DepthwiseLayer& d : test::kDepthwise5x5) {
    CAPTURE(d.size, d.channels);
    CHECK(depthwise.contains({d.size, d.channels, d.stride, d.window}));
  }
  for (const test::GateLayer& g : test::kGates) {
    CAPTURE(g.pixels, g.channels, g.squeezed);
    CHECK(gates.contains({g.pixels, g.channels, g.squeezed}));
  }
  for (const test::GatedLayer& g : test::kGatedProjections) {
    CAPTURE(g.pixels, g.channels, g.squeezed, g.out);
    CHECK(gated.contains({g.pixels, g.channels, g.squeezed, g.out}));
  }
  for (const test::InvertedResidualLayer& b : test::kMobileNetV3Blocks) {
    CAPTURE(b.name);
    CHECK(blocks.contains({b.size, b.c_in, b.c_hidden, b.c_out, b.stride}));
  }
}

TEST_CASE("unlike layers of a network have unlike names", "[kernel_bench]") {
  for (const char* network : {"squeezenet1_1", "mobilenet_v3_large", "resnet34_cifar", "efficientnet_b0"}) {
    const std::vector<Layer> layers = layers_of(zoo::build_network(network, {}));
    std::vector<std::string> names;
    for (const Layer& layer : layers) {
      names.push_back(std::string(layer.shape.kind) + "/" + to_string(layer.shape));
    }
    std::ranges::sort(names);
    CAPTURE(network);
    CHECK(std::ranges::adjacent_find(names) == names.end());
  }
}

TEST_CASE("equal shapes of several networks are one layer", "[kernel_bench]") {
  std::vector<Layer> layers;
  LayerShape shape;
  shape.c_in = 16;
  add_use(layers, shape, "a", 2);
  add_use(layers, shape, "b", 1);
  add_use(layers, shape, "a", 1);
  shape.residual = true;
  add_use(layers, shape, "a", 1);
  REQUIRE(layers.size() == 2);
  CHECK(to_string(layers[0].uses) == "a*3 b*1");
}

TEST_CASE("operations are counted", "[kernel_bench]") {
  LayerShape shape;
  shape.kind = "conv2d";
  shape.h = shape.w = shape.out_h = shape.out_w = 4;
  shape.c_in = shape.c_out = 8;
  shape.groups = 2;
  shape.vertical.size = shape.horizontal.size = 3;
  CHECK(flops_of(shape) == 2 * 16 * 8 * 4 * 9);
  shape.kind = "max_pooling";
  CHECK(flops_of(shape) == 0);
}
