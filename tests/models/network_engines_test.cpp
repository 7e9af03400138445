// Every network of the zoo, at its published size, on every GPU implementation.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/custom_backend.h>
#include <mobicuda/onnx_import.h>
#include <mobicuda_onnx.pb.h>
#ifdef MOBICUDA_WITH_CUDNN
#include <mobicuda/cudnn_backend.h>
#endif

#include "models/random_photographs.h"
#include "models/zoo/networks.h"
#include "support/catch.h"
#include "support/network_oracle.h"

namespace mobicuda::test {
namespace {

// docs/numerics.md, "Networks of the zoo".
constexpr double kFp32Limit = 1e-5;
constexpr double kFp16Limit = 1e-2;
constexpr double kLeastAgreement = 0.99;

constexpr std::int64_t kCpuPictures = 2;
constexpr std::int64_t kPictures = 500;
constexpr std::size_t kLeastClasses = kPhotographs / 2;  // agreement about one class would say nothing

struct Implementation {
  std::string_view name;
  std::unique_ptr<Backend> (*make)();
  std::int64_t batch;  ///< of the 500 pictures
};
constexpr Implementation kCustom{"custom", make_custom_backend, 50};
#ifdef MOBICUDA_WITH_CUDNN
// Small: the search over all layers takes longer for larger batches.
constexpr Implementation kCudnn{"cudnn", make_cudnn_backend, 4};
#endif

Graph build(std::string_view network) {
  const std::string bytes = zoo::build_network(network, {}).SerializeAsString();
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), std::string(network));
}

EngineOptions options_for(Precision precision, std::int64_t max_batch) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  return options;
}

/// Writes pictures first, first + 1, ... of a shape.
using PictureWriter = void (*)(std::int64_t first, const Shape& shape, std::span<float> pictures);

/// Logits of pictures 0 to n - 1, in batches of the engine's.
std::vector<float> logits_of(const Engine& engine, std::int64_t n, PictureWriter write) {
  const auto batch = std::min(engine.options().max_batch, n);
  const Shape& shape = engine.input().shape;
  const auto classes = engine.output().shape.elements();
  const auto session = engine.create_session();
  std::vector<float> pictures(static_cast<std::size_t>(batch * shape.elements()));
  std::vector<float> logits(static_cast<std::size_t>(n * classes));
  for (std::int64_t first = 0; first < n; first += batch) {
    const auto count = std::min(batch, n - first);
    const std::span input(pictures.data(), static_cast<std::size_t>(count * shape.elements()));
    write(first, shape, input);
    session->run(input, {logits.data() + first * classes, static_cast<std::size_t>(count * classes)});
  }
  return logits;
}

std::shared_ptr<const Engine> compile(const Implementation& implementation, const Graph& graph, Precision precision) {
  return implementation.make()->compile(graph, options_for(precision, implementation.batch));
}

std::vector<double> doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

/// A last layer that was trained, so to speak: tells by a network's logits which photograph a picture is most like.
/// With random weights alone the largest two of 1000 logits are near-ties in every few pictures.
class NearestPhotograph {
 public:
  NearestPhotograph(std::span<const float> logits, std::int64_t n)
      : photographs_(logits.begin(), logits.end()), size_(logits.size() / static_cast<std::size_t>(n)) {}

  std::vector<std::size_t> classify(std::span<const float> logits) const {
    std::vector<std::size_t> nearest;
    for (std::size_t row = 0; row < logits.size(); row += size_) {
      std::vector<double> distances;
      for (std::size_t at = 0; at < photographs_.size(); at += size_) {
        double squares = 0.0;
        for (std::size_t i = 0; i < size_; ++i) {
          const double difference = double{logits[row + i]} - double{photographs_[at + i]};
          squares += difference * difference;
        }
        distances.push_back(squares);
      }
      nearest.push_back(static_cast<std::size_t>(std::ranges::min_element(distances) - distances.begin()));
    }
    return nearest;
  }

 private:
  std::vector<float> photographs_;
  std::size_t size_;
};

double share_equal(std::span<const std::size_t> a, std::span<const std::size_t> b) {
  int equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? 1 : 0;
  return equal / static_cast<double>(a.size());
}

void check_network(const Implementation& implementation, std::string_view network) {
  const Graph graph = build(network);
  const auto fp32 = compile(implementation, graph, Precision::Fp32);
  const auto cpu = make_cpu_backend()->compile(graph, options_for(Precision::Fp32, kCpuPictures));
  const auto exact = doubles(logits_of(*cpu, kCpuPictures, blended_photographs));
  const auto logits32 = logits_of(*fp32, kPictures, blended_photographs);
  const NearestPhotograph classifier(logits_of(*fp32, kPhotographs, random_photographs), kPhotographs);
  const auto fp16 = compile(implementation, graph, Precision::Fp16);
  const auto logits16 = logits_of(*fp16, kPictures, blended_photographs);

  const auto fp32_against_cpu = compare_rel_l2(std::span(logits32).first(exact.size()), exact, kFp32Limit);
  const auto fp16_against_cpu = compare_rel_l2(std::span(logits16).first(exact.size()), exact, kFp16Limit);
  const auto fp16_against_fp32 = compare_rel_l2(logits16, doubles(logits32), kFp16Limit);
  const auto classes = classifier.classify(logits32);
  const double agreement = share_equal(classes, classifier.classify(logits16));
  const std::set<std::size_t> found(classes.begin(), classes.end());
  std::cout << implementation.name << ' ' << network << ": from cpu fp32 " << fp32_against_cpu.worst << ", fp16 "
            << fp16_against_cpu.worst << "; fp16 from fp32 " << fp16_against_fp32.worst << ", top-1 equal "
            << 100 * agreement << " % of " << found.size() << " classes\n";
  CHECK(fp32_against_cpu);
  CHECK(fp16_against_cpu);
  CHECK(fp16_against_fp32);
  CHECK(agreement >= kLeastAgreement);
  CHECK(found.size() >= kLeastClasses);
}

}  // namespace

TEST_CASE("custom: lenet", "[custom]") { check_network(kCustom, "lenet"); }
TEST_CASE("custom: caffenet", "[custom]") { check_network(kCustom, "caffenet"); }
TEST_CASE("custom: network_in_network", "[custom]") { check_network(kCustom, "network_in_network"); }
TEST_CASE("custom: vgg16", "[custom][large]") { check_network(kCustom, "vgg16"); }
TEST_CASE("custom: vgg19", "[custom][large]") { check_network(kCustom, "vgg19"); }
TEST_CASE("custom: squeezenet1_1", "[custom]") { check_network(kCustom, "squeezenet1_1"); }
TEST_CASE("custom: resnet34_cifar", "[custom]") { check_network(kCustom, "resnet34_cifar"); }
TEST_CASE("custom: resnet50", "[custom]") { check_network(kCustom, "resnet50"); }
TEST_CASE("custom: resnet152", "[custom][large]") { check_network(kCustom, "resnet152"); }
TEST_CASE("custom: resnext101_64x4d", "[custom][large]") { check_network(kCustom, "resnext101_64x4d"); }
TEST_CASE("custom: densenet201", "[custom][large]") { check_network(kCustom, "densenet201"); }
TEST_CASE("custom: inception_bn", "[custom]") { check_network(kCustom, "inception_bn"); }
TEST_CASE("custom: inception_v3", "[custom]") { check_network(kCustom, "inception_v3"); }
TEST_CASE("custom: mobilenet_v1", "[custom]") { check_network(kCustom, "mobilenet_v1"); }
TEST_CASE("custom: mobilenet_v3_large", "[custom]") { check_network(kCustom, "mobilenet_v3_large"); }
TEST_CASE("custom: efficientnet_b0", "[custom]") { check_network(kCustom, "efficientnet_b0"); }

#ifdef MOBICUDA_WITH_CUDNN
TEST_CASE("cudnn: lenet", "[cudnn]") { check_network(kCudnn, "lenet"); }
TEST_CASE("cudnn: caffenet", "[cudnn]") { check_network(kCudnn, "caffenet"); }
TEST_CASE("cudnn: network_in_network", "[cudnn]") { check_network(kCudnn, "network_in_network"); }
TEST_CASE("cudnn: vgg16", "[cudnn][large]") { check_network(kCudnn, "vgg16"); }
TEST_CASE("cudnn: vgg19", "[cudnn][large]") { check_network(kCudnn, "vgg19"); }
TEST_CASE("cudnn: squeezenet1_1", "[cudnn]") { check_network(kCudnn, "squeezenet1_1"); }
TEST_CASE("cudnn: resnet34_cifar", "[cudnn]") { check_network(kCudnn, "resnet34_cifar"); }
TEST_CASE("cudnn: resnet50", "[cudnn]") { check_network(kCudnn, "resnet50"); }
TEST_CASE("cudnn: resnet152", "[cudnn][large]") { check_network(kCudnn, "resnet152"); }
TEST_CASE("cudnn: resnext101_64x4d", "[cudnn][large]") { check_network(kCudnn, "resnext101_64x4d"); }
TEST_CASE("cudnn: densenet201", "[cudnn][large]") { check_network(kCudnn, "densenet201"); }
TEST_CASE("cudnn: inception_bn", "[cudnn]") { check_network(kCudnn, "inception_bn"); }
TEST_CASE("cudnn: inception_v3", "[cudnn]") { check_network(kCudnn, "inception_v3"); }
TEST_CASE("cudnn: mobilenet_v1", "[cudnn]") { check_network(kCudnn, "mobilenet_v1"); }
TEST_CASE("cudnn: mobilenet_v3_large", "[cudnn]") { check_network(kCudnn, "mobilenet_v3_large"); }
TEST_CASE("cudnn: efficientnet_b0", "[cudnn]") { check_network(kCudnn, "efficientnet_b0"); }
#endif

}  // namespace mobicuda::test
