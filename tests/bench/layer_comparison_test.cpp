#include "bench_engine/layers/layer_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include <mobicuda/cpu_backend.h>

#include "bench_engine/command_line/parse_command_line.h"
#include "bench_engine/model/exit_codes.h"
#include "bench_engine/run.h"
#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/graphs.h"
#include "support/layer_walk.h"
#include "support/temporary_folder.h"
#include "support/wrong_backend.h"

using namespace mobicuda;
using namespace mobicuda::bench;
using mobicuda::test::compare_layers;
using mobicuda::test::TestNetwork;
using mobicuda::test::Walker;
using mobicuda::test::WrongBackend;

namespace {

const ComparedLayer* worst(const LayerComparison& comparison) {
  const auto found = std::max_element(
      comparison.layers.begin(), comparison.layers.end(),
      [](const auto& a, const auto& b) { return a.difference.relative_l2 < b.difference.relative_l2; });
  return found == comparison.layers.end() ? nullptr : &*found;
}

constexpr std::int64_t kPictures = 2;

// A convolution, two branches that are joined, and a head.
Graph branches() {
  TestNetwork network(Shape{1, 3, 8, 8});
  const ValueId entry = network.conv(8, 3, 1, {1, 1, 1, 1}, 1, Activation::relu(), "entry");
  const ValueId left = network.conv(4, 1, 1, {}, 1, {}, "left");
  const Conv2d window{{1, 1}, {1, 1}, {1, 1, 1, 1}, 1, {}};
  const ValueId weight = network.constant(Shape{4, 8, 3, 3});
  const ValueId right = network.add(window, {entry, weight, network.constant(Shape{4}), kNoValue}, "right");
  network.add(Concat{}, {left, right}, "join");
  network.head(5);
  return std::move(network).build();
}

EngineOptions options(Precision precision = Precision::Fp32) {
  EngineOptions result;
  result.precision = precision;
  result.max_batch = kPictures;
  result.threads = 1;
  return result;
}

std::vector<float> input_of(const Graph& graph) {
  return test::random_uniform(3, static_cast<std::size_t>(kPictures * graph.input_desc().shape.elements()));
}

Walker walker(const Graph& graph, const Backend& backend, Precision precision = Precision::Fp32) {
  return Walker(backend, graph, options(precision), input_of(graph));
}

Walker right(const Graph& graph, Precision precision = Precision::Fp32) {
  return walker(graph, *make_cpu_backend(), precision);
}

double threshold() { return default_layer_threshold(Precision::Fp32, Precision::Fp32); }

}  // namespace

TEST_CASE("two implementations that are right agree in every tensor", "[layers]") {
  const Graph graph = branches();
  const LayerComparison result = compare_layers(right(graph), right(graph, Precision::Fp64), kPictures, threshold());
  std::vector<std::string> tensors;
  for (const ComparedLayer& one : result.layers) tensors.push_back(one.tensor);
  CHECK(tensors == std::vector<std::string>{"x.NHWC", "entry.out", "left.out", "right.out", "join.out", "pool.out",
                                            "flatten.out", "classifier.out"});
  CHECK(result.not_compared.empty());
  CHECK(result.first_diverging() == nullptr);
  CHECK(result.diverging() == 0);
  REQUIRE(worst(result) != nullptr);
  CHECK(worst(result)->difference.relative_l2 > 0);
  CHECK(worst(result)->difference.cosine > 0.999999);
  CHECK(missed_layers(result, "cpu fp32").empty());
}

TEST_CASE("a layer that computes wrong is the first that diverges", "[layers]") {
  const Graph graph = branches();
  for (const std::string node : {"entry", "left", "right", "classifier"}) {
    CAPTURE(node);
    const LayerComparison result =
        compare_layers(walker(graph, WrongBackend(make_cpu_backend(), node)), right(graph), kPictures, threshold());
    REQUIRE(result.first_diverging() != nullptr);
    CHECK(result.first_diverging()->layer == node);
    CHECK(result.first_diverging()->tensor == node + ".out");
    CHECK(result.first_diverging()->shape == to_string(result.first_diverging()->tensor == "classifier.out"
                                                           ? Shape{1, 5}
                                                           : Shape{1, node == "entry" ? 8 : 4, 8, 8}));
    CHECK_THAT(missed_layers(result, "cpu fp32"), contains("layer '" + node + "'"));
  }
}

TEST_CASE("NaN diverges whatever the threshold", "[layers]") {
  const Graph graph = branches();
  const WrongBackend wrong(make_cpu_backend(), "left", std::numeric_limits<float>::quiet_NaN());
  const LayerComparison result = compare_layers(walker(graph, wrong), right(graph), kPictures, 1e30);
  REQUIRE(result.first_diverging() != nullptr);
  CHECK(result.first_diverging()->layer == "left");
  CHECK(std::isinf(worst(result)->difference.relative_l2));
}

TEST_CASE("a large difference that is allowed is reported and not judged", "[layers]") {
  const Graph graph = branches();
  const LayerComparison result =
      compare_layers(walker(graph, WrongBackend(make_cpu_backend(), "left")), right(graph), kPictures, 1);
  CHECK(result.first_diverging() == nullptr);
  CHECK(worst(result)->difference.relative_l2 > 0.05);
}

TEST_CASE("an order of its own is no obstacle, and what one lacks is left out with a reason", "[layers]") {
  const auto network = [](bool turned, std::int64_t channels, const std::string& last) {
    TestNetwork builder(Shape{1, 8, 4, 4});
    const ValueId x = builder.last();
    std::vector<ValueId> out(2);
    for (const std::uint32_t i : {turned ? 1U : 0U, turned ? 0U : 1U}) {
      const ValueId weight = builder.builder().add_constant(
          "w" + std::to_string(i), HostTensor::of<float>(Shape{8, 8, 1, 1}, test::random_uniform(7 + i, 64)));
      out[i] = builder.add(Conv2d{}, {x, weight, kNoValue, kNoValue}, i == 0 ? "first" : "second");
    }
    builder.add(Mul{}, out, "product");
    builder.conv(channels, 1, 1, {}, 1, {}, "other");
    builder.conv(3, 1, 1, {}, 1, {}, last);
    return std::move(builder).build();
  };
  const Graph graph = network(false, 4, "one");
  const Graph other = network(true, 5, "another");
  const LayerComparison result = compare_layers(right(graph), right(other), kPictures, threshold());
  std::vector<std::string> tensors;
  for (const ComparedLayer& one : result.layers) tensors.push_back(one.tensor);
  CHECK(tensors == std::vector<std::string>{"x.NHWC", "first.out", "second.out", "product.out"});
  CHECK(result.first_diverging() == nullptr);
  REQUIRE(result.not_compared.size() == 3);
  CHECK_THAT(result.not_compared[0].reason, contains("is 1x4x4x4, the reference's is 1x5x4x4"));
  CHECK_THAT(result.not_compared[1].reason, contains("the reference has no tensor 'one.out"));
}

TEST_CASE("a comparison that is stopped is none", "[layers]") {
  const Graph graph = branches();
  const Walker one = right(graph);
  const Walker other = right(graph);
  int layers = 0;
  CHECK_FALSE(bench::compare_layers(one.source(), other.source(), kPictures, 1, [&] { return ++layers > 3; }));
}

TEST_CASE("thresholds go by the coarser of two precisions", "[layers]") {
  for (const Precision other : {Precision::Fp32, Precision::Fp64, Precision::Tf32, Precision::Fp16}) {
    CHECK(default_layer_threshold(Precision::Fp16, other) == 0.0625);
    CHECK(default_layer_threshold(other, Precision::Tf32) == 0.0625);
  }
  CHECK(default_layer_threshold(Precision::Fp32, Precision::Fp64) == 0x1p-14);
  CHECK(default_layer_threshold(Precision::Fp64, Precision::Fp32) == 0x1p-14);
  CHECK(default_layer_threshold(Precision::Fp64, Precision::Fp64) == 0x1p-23);
}

namespace {

constexpr const char* kWrongNode = "features.1.conv.0.0";

std::unique_ptr<Backend> make_wrong() { return std::make_unique<WrongBackend>(make_cpu_backend(), kWrongNode); }

// What a run on a small MobileNetV2 comes to, its implementations "custom" and "cpu".
struct Judged {
  explicit Judged(std::unique_ptr<Backend> (*make_custom)(), const std::vector<std::string>& arguments) {
    zoo::MobileNetV2Options small;
    small.width = 0.35;
    small.height = small.picture_width = 32;
    small.classes = 10;
    small.blocks = 2;
    folder.write("m.onnx", zoo::build_mobilenet_v2(small).SerializeAsString());
    const std::string model = (folder.path() / "m.onnx").string();
    std::vector<const char*> argv{"bench_engine", "--model", model.c_str(),  "--warmUp", "0",
                                  "--duration",   "0",       "--iterations", "1",        "--quiet"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    ParsedCommandLine parsed = parse_command_line(static_cast<int>(argv.size()), argv.data(), out, err);
    REQUIRE_FALSE(parsed.exit_code);
    const std::vector<Implementation> implementations{
        {"custom", Processor::Cpu, {Precision::Fp32, Precision::Fp64}, {}, make_custom},
        {"gone", Processor::Gpu, {Precision::Fp32}, "its device is lost", make_cpu_backend},
        {"cpu", Processor::Cpu, {Precision::Fp32, Precision::Fp64}, {}, make_cpu_backend}};
    code = run_and_judge(parsed.options, implementations, out, err, report);
  }

  TemporaryFolder folder;
  std::ostringstream out;
  std::ostringstream err;
  Report report;
  int code = -1;
};

}  // namespace

TEST_CASE("a wrong layer ends a run in exit code 3, with its name", "[layers]") {
  const Judged wrong(make_wrong, {"--impl", "custom", "--compare", "cpu", "--batch", "1,2"});
  CHECK(wrong.code == kExitThresholdMissed);
  REQUIRE(wrong.report.missed.size() == 2);
  CHECK_THAT(wrong.report.missed[0], contains("custom fp32, batch 1: layer '" + std::string(kWrongNode)));
  CHECK_THAT(wrong.report.missed[1], contains("custom fp32, batch 2: layer '" + std::string(kWrongNode)));
  CHECK_THAT(wrong.report.missed[0], contains("differs from cpu fp32"));

  CHECK(Judged(make_wrong, {"--impl", "custom", "--compare", "cpu", "--compareThreshold", "1"}).code == kExitOk);
  CHECK(Judged(make_wrong, {"--impl", "custom"}).code == kExitOk);
  CHECK(Judged(make_cpu_backend, {"--impl", "custom", "--compare", "cpu"}).code == kExitOk);
}

TEST_CASE("every case is compared with every reference but itself", "[layers]") {
  const Judged judged(make_cpu_backend, {"--impl", "custom:fp64,cpu:fp32", "--compare", "cpu,cpu:fp64,custom"});
  CHECK(judged.code == kExitOk);
  REQUIRE(judged.report.cases.size() == 2);
  const auto references = [&](std::size_t index) {
    std::vector<std::string> names;
    for (const LayerComparison& one : judged.report.cases[index].layer_comparisons) names.push_back(one.reference);
    return names;
  };
  CHECK(references(0) == std::vector<std::string>{"cpu fp64"});
  CHECK(references(1) == std::vector<std::string>{"cpu fp64", "custom fp32"});
  CHECK(judged.report.cases[0].layer_comparisons[0].threshold == 0x1p-23);
}

TEST_CASE("references that cannot be are refused before anything runs", "[layers]") {
  const auto refused = [](const std::vector<std::string>& arguments, int code, const std::string& message) {
    const Judged judged(make_cpu_backend, arguments);
    CHECK(judged.code == code);
    CHECK(judged.report.cases.empty());
    CHECK_THAT(judged.err.str(), contains(message));
  };
  refused({"--impl", "cpu", "--compare", "cpu"}, kExitUsage, "--compare cpu names nothing but what runs itself");
  refused({"--impl", "cpu", "--compare", "tpu"}, kExitUsage, "unknown implementation 'tpu'");
  refused({"--impl", "cpu", "--compare", "cpu:fp16"}, kExitUsage, "--compare: cpu has no fp16");
  refused({"--impl", "cpu", "--compare", "gone"}, kExitNoDevice, "--compare gone: its device is lost");
}
