#include "models/zoo/mobilenet_v2.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/onnx_import.h>

#include "models/zoo/onnx_writer.h"
#include "models/zoo/random.h"
#include "support/catch.h"
#include "support/sanitizer.h"

namespace {

using namespace mobicuda;
using namespace mobicuda::zoo;
using onnx_schema::ModelProto;
using onnx_schema::NodeProto;
using onnx_schema::TensorProto;

std::vector<std::int64_t> ints_of(const NodeProto& node, const std::string& name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return {attribute.ints().begin(), attribute.ints().end()};
  }
  return {};
}

const NodeProto& node_named(const ModelProto& model, const std::string& name) {
  for (const NodeProto& node : model.graph().node()) {
    if (node.name() == name) return node;
  }
  FAIL("no node " << name);
  return model.graph().node(0);
}

const TensorProto& tensor_named(const ModelProto& model, const std::string& name) {
  for (const TensorProto& tensor : model.graph().initializer()) {
    if (tensor.name() == name) return tensor;
  }
  FAIL("no initializer " << name);
  return model.graph().initializer(0);
}

std::int64_t elements(const TensorProto& tensor) {
  return std::accumulate(tensor.dims().begin(), tensor.dims().end(), std::int64_t{1}, std::multiplies<>());
}

std::uint64_t fnv1a(const std::string& bytes) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  return hash;
}

Graph import(const ModelProto& model) {
  const std::string bytes = model.SerializeAsString();
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "test.onnx");
}

}  // namespace

TEST_CASE("make_divisible follows torchvision") {
  CHECK(make_divisible(32 * 0.35) == 16);  // 8 would be more than 10 % below 11.2
  CHECK(make_divisible(24 * 0.35) == 8);
  CHECK(make_divisible(96 * 0.75) == 72);
  CHECK(make_divisible(24 * 1.4) == 32);
  CHECK(make_divisible(1280 * 1.4) == 1792);
  CHECK(make_divisible(1) == 8);
}

TEST_CASE("the default network has torchvision's layers and weights") {
  MobileNetV2Options options;
  options.fold_batchnorm = false;
  const ModelProto model = build_mobilenet_v2(options);
  std::map<std::string, int> counts;
  for (const NodeProto& node : model.graph().node()) ++counts[node.op_type()];
  const std::map<std::string, int> expected{{"Conv", 52}, {"BatchNormalization", 52}, {"Clip", 35},
                                            {"Add", 10},  {"GlobalAveragePool", 1},   {"Flatten", 1},
                                            {"Gemm", 1}};
  CHECK(counts == expected);

  // What torchvision counts: no running statistics, and the Clip bounds are not parameters.
  std::int64_t parameters = 0;
  for (const TensorProto& tensor : model.graph().initializer()) {
    const std::string& name = tensor.name();
    if (name.find("running") == std::string::npos && name.find("relu6") == std::string::npos) {
      parameters += elements(tensor);
    }
  }
  CHECK(parameters == 3504872);
  CHECK(tensor_named(model, "features.3.conv.1.0.weight").dims(0) == 144);
  CHECK(tensor_named(model, "features.18.0.weight").dims(0) == 1280);
}

TEST_CASE("the last layer grows with the width multiplier and never shrinks") {
  MobileNetV2Options options;
  for (const auto& [width, channels] : {std::pair(0.35, 1280), std::pair(1.0, 1280), std::pair(1.4, 1792)}) {
    options.width = width;
    CHECK(tensor_named(build_mobilenet_v2(options), "classifier.1.weight").dims(1) == channels);
  }
}

TEST_CASE("padding follows the style and the parity of the extent") {
  MobileNetV2Options options;
  options.height = 97;
  options.picture_width = 128;
  ModelProto model = build_mobilenet_v2(options);
  const auto pads = [&](const std::string& name) { return ints_of(node_named(model, name), "pads"); };
  using Pads = std::vector<std::int64_t>;
  CHECK(pads("features.0.0") == Pads{1, 1, 1, 1});
  CHECK(pads("features.1.conv.1") == Pads{0, 0, 0, 0});
  options.padding = PaddingStyle::Tf;
  model = build_mobilenet_v2(options);
  CHECK(pads("features.0.0") == Pads{1, 0, 1, 1});
  CHECK(pads("features.1.conv.0.0") == Pads{1, 1, 1, 1});
  CHECK(pads("features.2.conv.1.0") == Pads{1, 0, 1, 1});  // 49 x 64
  CHECK(pads("features.7.conv.1.0") == Pads{1, 0, 1, 1});  // 13 x 16
}

TEST_CASE("the same options give the same bytes everywhere") {
  MobileNetV2Options options;
  options.width = 0.35;
  options.height = options.picture_width = 64;
  options.classes = 10;
  options.blocks = 4;
  constexpr std::uint64_t kHashOfTheseOptions = 0x13BF6C51D66C9070U;
  CHECK(fnv1a(build_mobilenet_v2(options).SerializeAsString()) == kHashOfTheseOptions);
  options.seed = 2;
  CHECK(fnv1a(build_mobilenet_v2(options).SerializeAsString()) != kHashOfTheseOptions);
}

TEST_CASE("folding BatchNormalization leaves the weights drawn unchanged") {
  MobileNetV2Options options;
  options.blocks = 2;
  const std::string folded = tensor_named(build_mobilenet_v2(options), "classifier.1.weight").raw_data();
  options.fold_batchnorm = false;
  options.opset = 9;
  CHECK(tensor_named(build_mobilenet_v2(options), "classifier.1.weight").raw_data() == folded);
}

TEST_CASE("options out of range are refused by name") {
  const auto message = [](const MobileNetV2Options& options) -> std::string {
    try {
      build_mobilenet_v2(options);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      return error.what();
    }
    return "accepted";
  };
  MobileNetV2Options options;
  options.opset = 6;
  CHECK(message(options).find("opset") != std::string::npos);
  options = {};
  options.width = 0.0;
  CHECK(message(options).find("width") != std::string::npos);
  options = {};
  options.height = 31;
  CHECK(message(options).find("31") != std::string::npos);
  options = {};
  options.blocks = 18;
  CHECK(message(options).find("blocks") != std::string::npos);
}

TEST_CASE("logits stay in range and depend on the picture, at every width") {
  constexpr double kLargestLogit = 40.0;  // far from half precision's 65504, where a scaling mistake would show
  constexpr double kLeastDeviation = 0.2;
  for (const double width : {0.35, 0.75, 1.0, 1.4}) {
    for (const PaddingStyle padding : {PaddingStyle::Torch, PaddingStyle::Tf}) {
      if (test::kThreadSanitized && padding == PaddingStyle::Tf && width > 0.35) continue;
      CAPTURE(width);
      MobileNetV2Options options;
      options.width = width;
      options.padding = padding;
      options.height = 96;
      options.picture_width = 64;
      options.classes = 100;
      constexpr std::int64_t kPictures = 2;
      EngineOptions engine_options;
      engine_options.max_batch = kPictures;
      const auto engine = make_cpu_backend()->compile(import(build_mobilenet_v2(options)), engine_options);
      Random random(5);
      std::vector<float> input(static_cast<std::size_t>(kPictures * engine->input().shape.elements()));
      for (float& value : input) value = static_cast<float>(random.normal());
      std::vector<float> output(static_cast<std::size_t>(kPictures * options.classes));
      engine->create_session()->run(input, output);

      double squares = 0.0;
      for (std::size_t k = 0; k < 100; ++k) {
        CHECK(std::fabs(double{output[k]}) < kLargestLogit);
        const double difference = double{output[k]} - double{output[k + 100]};
        squares += difference * difference;
      }
      CHECK(std::sqrt(squares / 100) > kLeastDeviation);
    }
  }
}
