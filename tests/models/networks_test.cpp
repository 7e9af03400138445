#include "models/zoo/networks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/error.h>
#include <mobicuda/onnx_import.h>
#include <mobicuda_onnx.pb.h>

#include "models/network_summary.h"
#include "models/zoo/random.h"
#include "support/catch.h"
#include "support/sanitizer.h"

namespace {

using namespace mobicuda;
using namespace mobicuda::zoo;
using mobicuda::test::NetworkSummary;
using mobicuda::test::summarize;
using onnx_schema::ModelProto;

/// Parameters and billions of multiply-adds. Unless another source is named, torchvision publishes both with its
/// weights; convolutions were counted in its modules.
struct Published {
  const char* name;
  std::int64_t parameters;
  int convolutions;
  double giga_multiply_adds;
};

constexpr std::array<Published, 16> kPublished{{
    // MXNet's LeNet has 431,080; the course's convolutions lack the 20 + 50 biases.
    {"lenet", 431010, 2, 0.00229},
    // BVLC's reference model.
    {"caffenet", 60965224, 5, 0.724},
    // The authors' Caffe model for ImageNet, 29 MB.
    {"network_in_network", 7595176, 12, 1.10},
    {"vgg16", 138357544, 13, 15.47},
    {"vgg19", 143667240, 16, 19.632},
    {"squeezenet1_1", 1235496, 26, 0.349},
    // The network of the "pytorch-cifar" collection.
    {"resnet34_cifar", 21282122, 36, 1.16},
    {"resnet50", 25557032, 53, 4.089},
    {"resnet152", 60192808, 155, 11.514},
    {"resnext101_64x4d", 83455272, 104, 15.46},
    {"densenet201", 20013928, 200, 4.291},
    // "BNInception" of the "pretrained-models" collection, which took over the authors' Caffe model.
    {"inception_bn", 11295240, 69, 2.03},
    // 27,161,264 with the auxiliary classifier, which has 3,326,696.
    {"inception_v3", 27161264 - 3326696, 94, 5.713},
    // The trainable parameters that Keras prints; the paper rounds to 4.2 million and 569 million multiply-adds.
    {"mobilenet_v1", 4231976, 27, 0.569},
    {"mobilenet_v3_large", 5483032, 62, 0.217},
    {"efficientnet_b0", 5288548, 81, 0.386},
}};

/// With BatchNormalization as layers of its own, as parameters are counted; the network's own form where it has none.
ModelProto build_unfolded(const NetworkInfo& info) {
  NetworkOptions options;
  options.fold_batchnorm = !info.batchnorm;
  return build_network(info.name, options);
}

/// Those that a sanitizer has no time for: deeper than a neighbour of the same code, or with more weights;
/// ThreadSanitizer, which takes longest, for fewer. Tells which.
bool left_to_neighbours(std::string_view name) {
  constexpr std::array<std::string_view, 4> kLarge{"vgg19", "caffenet", "resnet152", "resnext101_64x4d"};
  constexpr std::array<std::string_view, 6> kSlow{"vgg16",        "resnet50",        "densenet201",
                                                  "inception_v3", "efficientnet_b0", "network_in_network"};
  const bool left = (test::kSanitized && std::find(kLarge.begin(), kLarge.end(), name) != kLarge.end()) ||
                    (test::kThreadSanitized && std::find(kSlow.begin(), kSlow.end(), name) != kSlow.end());
  if (left) std::cout << "left out under this sanitizer: " << name << '\n';
  return left;
}

/// Logits of `kPictures` random pictures.
constexpr std::int64_t kPictures = 2;
std::vector<float> logits_of(const ModelProto& model) {
  const std::string bytes = model.SerializeAsString();
  const Graph graph = onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "test.onnx");
  EngineOptions options;
  options.max_batch = kPictures;
  const auto engine = make_cpu_backend()->compile(graph, options);
  Random random(5);
  std::vector<float> input(static_cast<std::size_t>(kPictures * engine->input().shape.elements()));
  for (float& value : input) value = static_cast<float>(random.normal());
  std::vector<float> output(static_cast<std::size_t>(kPictures * engine->output().shape.elements()));
  engine->create_session()->run(input, output);
  return output;
}

void check_logits(std::string_view name, const NetworkOptions& options) {
  if (left_to_neighbours(name)) return;
  constexpr double kLargestLogit = 60.0;
  constexpr double kLeastDifference = 0.05;
  CAPTURE(name);
  const std::vector<float> logits = logits_of(build_network(name, options));
  const std::size_t classes = logits.size() / kPictures;
  REQUIRE(classes == static_cast<std::size_t>(find_network(name)->classes));
  double squares = 0.0;
  for (std::size_t k = 0; k < classes; ++k) {
    CHECK(std::fabs(double{logits[k]}) < kLargestLogit);
    const double difference = double{logits[k]} - double{logits[k + classes]};
    squares += difference * difference;
  }
  CHECK(std::sqrt(squares / static_cast<double>(classes)) > kLeastDifference);
}

std::string refusal(std::string_view name, const NetworkOptions& options) {
  try {
    build_network(name, options);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

std::uint64_t fnv1a(const std::string& bytes) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  return hash;
}

}  // namespace

TEST_CASE("every network has the published parameters, convolutions and multiply-adds") {
  REQUIRE(networks().size() == kPublished.size());
  for (const Published& published : kPublished) {
    if (left_to_neighbours(published.name)) continue;
    CAPTURE(published.name);
    const NetworkInfo* info = find_network(published.name);
    REQUIRE(info != nullptr);
    const ModelProto model = build_unfolded(*info);
    NetworkSummary summary = summarize(model);
    CHECK(summary.parameters == published.parameters);
    CHECK(summary.operators["Conv"] == published.convolutions);
    CHECK((summary.operators["BatchNormalization"] > 0) == info->batchnorm);
    // 1 %: sources round, and some count biases or pooling.
    CHECK(static_cast<double>(summary.multiply_adds) * 1e-9 == Approx(published.giga_multiply_adds).epsilon(0.01));
    CHECK(summary.output == std::vector<std::int64_t>{1, info->classes});
    const auto& declared = model.graph().output(0).type().tensor_type().shape();
    CHECK(declared.dim(0).dim_param() == "N");
    CHECK(declared.dim(1).dim_value() == info->classes);
    CHECK(model.graph().input(0).type().tensor_type().shape().dim(2).dim_value() == info->resolution);
  }
}

TEST_CASE("names of nodes and weights are unique, and every weight is read") {
  for (const NetworkInfo& info : networks()) {
    if (info.fixed_resolution() && info.input_channels == 3) continue;  // half a gigabyte each, of the simplest names
    if (left_to_neighbours(info.name)) continue;
    CAPTURE(info.name);
    const ModelProto model = build_unfolded(info);
    std::multiset<std::string> nodes;
    std::set<std::string> read;
    for (const auto& node : model.graph().node()) {
      nodes.insert(node.name());
      read.insert(node.input().begin(), node.input().end());
    }
    CHECK(std::all_of(nodes.begin(), nodes.end(), [&](const std::string& name) { return nodes.count(name) == 1; }));
    std::set<std::string> weights;
    for (const auto& tensor : model.graph().initializer()) {
      CAPTURE(tensor.name());
      CHECK(weights.insert(tensor.name()).second);
      CHECK(read.count(tensor.name()) == 1);
    }
  }
}

TEST_CASE("networks that end with global pooling take other resolutions, class counts and batches") {
  for (const NetworkInfo& info : networks()) {
    if (info.fixed_resolution() || left_to_neighbours(info.name)) continue;
    CAPTURE(info.name);
    NetworkOptions options;
    options.height = info.least_resolution;
    options.picture_width = 2 * info.least_resolution + 1;
    options.classes = 7;
    options.batch = 3;
    options.softmax = true;
    const ModelProto model = build_network(info.name, options);
    NetworkSummary summary = summarize(model);
    CHECK(summary.output == std::vector<std::int64_t>{1, 7});
    CHECK(summary.operators["Softmax"] == 1);
    CHECK(model.graph().output(0).type().tensor_type().shape().dim(0).dim_value() == 3);
  }
}

TEST_CASE("what does not apply to a network is refused by name") {
  NetworkOptions options;
  CHECK(refusal("resnet51", options).find("no network of this name") != std::string::npos);
  options.height = 200;
  CHECK(refusal("vgg16", options).find("fix the picture at 224x224, got 200") != std::string::npos);
  options.height = 31;
  CHECK(refusal("resnet50", options).find("height must be in 32..1024, got 31") != std::string::npos);
  options = {};
  options.opset = 13;
  CHECK(refusal("mobilenet_v3_large", options).find("opset must be in 14..23, got 13") != std::string::npos);
  CHECK(refusal("squeezenet1_1", options) == "accepted");
  options = {};
  options.fold_batchnorm = false;
  CHECK(refusal("squeezenet1_1", options).find("no BatchNormalization to keep") != std::string::npos);
  options = {};
  options.classes = -1;
  CHECK(refusal("resnet50", options).find("classes") != std::string::npos);
}

TEST_CASE("the same options give the same bytes of a network everywhere") {
  struct Pinned {
    const char* name;
    std::uint64_t hash;
  };
  // Between them they draw from every rule for the moments.
  constexpr std::array<Pinned, 4> kPinned{{{"lenet", 0x626A46833B86E954U},
                                           {"squeezenet1_1", 0xCDF1D16754667C4EU},
                                           {"mobilenet_v3_large", 0x87D41DA393132F1AU},
                                           {"inception_bn", 0xC7325078B101A3E6U}}};
  for (const Pinned& pinned : kPinned) {
    // ThreadSanitizer looks at this test's hashing alone, byte by byte: the builders are compiled without it.
    if (test::kThreadSanitized && find_network(pinned.name)->batchnorm) continue;
    CAPTURE(pinned.name);
    NetworkOptions options;
    options.classes = 10;
    CHECK(fnv1a(build_network(pinned.name, options).SerializeAsString()) == pinned.hash);
    options.seed = 2;
    CHECK(fnv1a(build_network(pinned.name, options).SerializeAsString()) != pinned.hash);
  }
}

TEST_CASE("logits of the networks of one path stay in range and depend on the picture") {
  for (const char* name : {"resnet34_cifar", "resnet50", "resnet152", "resnext101_64x4d", "mobilenet_v1"}) {
    NetworkOptions options;
    options.height = options.picture_width = std::min<std::int64_t>(64, find_network(name)->resolution);
    for (options.seed = 1; options.seed <= (test::kSanitized ? 1U : 2U); ++options.seed) check_logits(name, options);
  }
  NetworkOptions options;
  options.height = options.picture_width = 100;
  check_logits("network_in_network", options);
}

TEST_CASE("logits of the networks with branches, gates and norms stay in range and depend on the picture") {
  for (const char* name : {"squeezenet1_1", "densenet201", "inception_bn", "mobilenet_v3_large", "efficientnet_b0"}) {
    NetworkOptions options;
    options.height = options.picture_width = std::max<std::int64_t>(96, find_network(name)->least_resolution);
    check_logits(name, options);
  }
  NetworkOptions options;
  options.height = options.picture_width = 139;
  check_logits("inception_v3", options);
  for (const char* name : {"lenet", "caffenet"}) check_logits(name, {});
}

TEST_CASE("logits of VGG stay in range and depend on the picture") {
  if (test::kSanitized) MOBICUDA_SKIP("a sanitizer looks at 138 million weights for a minute");
  for (const char* name : {"vgg16", "vgg19"}) check_logits(name, {});
}

TEST_CASE("keeping BatchNormalization changes a network's logits by rounding only") {
  NetworkOptions options;
  options.height = options.picture_width = 64;
  const char* const name = test::kSanitized ? "mobilenet_v1" : "resnet50";
  const std::vector<float> folded = logits_of(build_network(name, options));
  options.fold_batchnorm = false;
  const std::vector<float> kept = logits_of(build_network(name, options));
  double differences = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < folded.size(); ++i) {
    const double difference = double{folded[i]} - double{kept[i]};
    differences += difference * difference;
    squares += double{folded[i]} * double{folded[i]};
  }
  CHECK(std::sqrt(differences / squares) < 1e-4);
}
