// Plans chosen by a timing cache whose times are told, not measured: which kernels a block's layers get, and that the
// emulator's steps of such plans equal the oracle.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "emulator/plans/run_plan.h"
#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/networks.h"
#include "models/zoo/onnx_writer.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/network_oracle.h"
#include "support/temporary_folder.h"
#include "support/texts.h"

namespace mobicuda {
namespace {

constexpr std::int64_t kImages = 2;
constexpr std::int64_t kLongestSum = 196;  // the mean of an image
// So few multiprocessors that the rule takes wgmma for layers which the emulator runs soon.
constexpr kernels::DeviceTraits kSmall = kernels::traits_of(90, 2);

/// Microseconds of kernels by their names' beginnings, the longest that fits; those that run behind each other add up.
using Times = std::map<std::string, double>;
/// Of all that may run a layer or several, however many kernels that is.
const Times kAllEqual;

double time_of(const std::string& kernels, const Times& times) {
  if (times.empty()) return 2;
  double sum = 0;
  for (std::size_t at = 0; at < kernels.size();) {
    const std::size_t end = std::min(kernels.find('+', at), kernels.size());
    const std::string kernel = kernels.substr(at, end - at);
    const auto longest = std::max_element(times.begin(), times.end(), [&](const auto& a, const auto& b) {
      const auto fit = [&](const std::string& name) { return kernel.starts_with(name) ? name.size() : 0; };
      return fit(a.first) < fit(b.first);
    });
    REQUIRE(kernel.starts_with(longest->first));
    sum += longest->second;
    at = end + 1;
  }
  return sum;
}

/// A timing cache with all that choosing asks for: what it lacks is an error that says what.
class ToldTimes {
 public:
  ToldTimes(const Graph& graph, EngineOptions& options, const kernels::DeviceTraits& gpu, const Times& times) {
    options.timing_cache = folder_.path() / "times";
    options.require_timing_cache = true;
    while (!complete(graph, options, gpu, times)) folder_.write("times", text_);
  }

  const std::string& text() const { return text_; }
  const ChosenLayers& chosen() const { return chosen_; }
  /// "block/layers", ... in the order of the choices.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const SavedChoice& choice : chosen_.choices) names.push_back(choice.kernel + '/' + choice.variant);
    return names;
  }

 private:
  bool complete(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
                const Times& times) {
    std::string message;
    try {
      chosen_ = choose_layers(graph, options, gpu);
      return true;
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      message = error.what();
    }
    CAPTURE(message);
    const std::size_t told = message.find("has no time of ");
    REQUIRE(told != std::string::npos);
    const auto between = [&](const std::string& before, const std::string& behind) {
      const std::size_t from = message.find(before, told) + before.size();
      return message.substr(from, message.find(behind, from) - from);
    };
    const std::string kernels = between("has no time of ", " for layer '");
    const std::string subject = between("' (", "); ");
    const std::string time = subject + '|' + kernels + '|';
    REQUIRE_FALSE(contains(text_, time));
    text_ += time + std::to_string(time_of(kernels, times)) + '\n';
    return false;
  }

  TemporaryFolder folder_;
  std::string text_ = "mobicuda timing cache, format 1\n";
  ChosenLayers chosen_;
};

/// A block of 14x14 images, for both of whose pointwise layers the rule takes conv2d.
Graph one_block() {
  test::TestNetwork network(Shape{1, 3, 28, 28});
  const ValueId x = network.conv(72, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
  network.conv(192, 1, 1, {}, 1, Activation::relu6(), "expand");
  network.conv(192, 5, 1, {2, 2, 2, 2}, 0, Activation::relu6(), "depthwise");
  network.conv(72, 1, 1, {}, 1, {}, "project");
  network.add(Add{}, {network.last(), x});
  network.head(10);
  return optimize(std::move(network).build());
}

Graph network_of_zoo(const std::string& name) {
  const std::string bytes = name == "mobilenet_v2" ? zoo::build_mobilenet_v2({}).SerializeAsString()
                                                   : zoo::build_network(name, {}).SerializeAsString();
  return optimize(onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), name));
}

EngineOptions half() {
  EngineOptions options;
  options.precision = Precision::Fp16;
  options.max_batch = kImages;
  return options;
}

/// Of what may run the block.
Times times_of(double fused, double pair, double gemm, double conv2d) {
  return {{"", 1.0}, {"inverted_residual/", fused}, {"expand_depthwise/", pair}, {"gemm/", gemm}, {"conv2d/", conv2d}};
}

bool any_starts_with(const std::vector<std::string>& names, const std::string& beginning) {
  return std::ranges::any_of(names, [&](const std::string& name) { return name.starts_with(beginning); });
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

TEST_CASE("plans: a block's pointwise layers run by conv2d where times say so, and by gemm where they do not") {
  const Graph graph = one_block();
  const auto image = static_cast<std::size_t>(graph.input_desc().shape.elements());
  const auto input = test::random_uniform(11, kImages * image);
  const test::NetworkOracle oracle(graph, input, kImages, kLongestSum);
  for (const bool pair : {false, true}) {
    for (const bool by_conv2d : {false, true}) {
      CAPTURE(pair, by_conv2d);
      EngineOptions options = half();
      const ToldTimes told(graph, options, kSmall, times_of(90, pair ? 1 : 90, by_conv2d ? 5 : 4, by_conv2d ? 4 : 5));
      const std::vector<std::string> names = told.names();
      CAPTURE(names);
      CHECK(has(names, pair ? "block/expand_depthwise" : "block/layers"));
      CHECK(has(names, "project/conv2d") == by_conv2d);
      CHECK(any_starts_with(names, "conv2d/wgmma_") == by_conv2d);
      if (!pair) CHECK(has(names, by_conv2d ? "pointwise/conv2d" : "pointwise/gemm"));

      const plans::Run run = plans::run_plan(graph, options, input, kSmall);
      CAPTURE(run.variants);
      CHECK(oracle.compare(run.output, Precision::Fp16));
      // The first layer is conv2d's at any rate, the classifier gemm's.
      CHECK(std::ranges::count(run.kernels, "conv2d") == 1 + (by_conv2d ? (pair ? 1 : 2) : 0));
      CHECK(std::ranges::count(run.kernels, "gemm") == 1 + (by_conv2d ? 0 : (pair ? 1 : 2)));
    }
  }
}

TEST_CASE("plans: a block that ends in conv2d writes its part of joined values") {
  test::TestNetwork network(Shape{1, 3, 28, 28});
  const ValueId x = network.conv(72, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
  network.conv(192, 1, 1, {}, 1, Activation::relu6(), "expand");
  network.conv(192, 3, 1, {1, 1, 1, 1}, 0, Activation::relu6(), "depthwise");
  network.conv(72, 1, 1, {}, 1, {}, "project");
  network.add(Concat{1}, {x, network.last()});
  network.conv(16, 1);
  network.head(10);
  const Graph graph = optimize(std::move(network).build());
  const auto image = static_cast<std::size_t>(graph.input_desc().shape.elements());
  const auto input = test::random_uniform(12, kImages * image);
  EngineOptions options = half();
  const ToldTimes told(graph, options, kSmall, times_of(90, 90, 5, 4));
  CHECK(has(told.names(), "project/conv2d"));
  const plans::Run run = plans::run_plan(graph, options, input, kSmall);
  CAPTURE(run.variants);
  CHECK(std::ranges::count(run.kernels, "concat") <= 1);
  CHECK(test::NetworkOracle(graph, input, kImages, kLongestSum).compare(run.output, Precision::Fp16));
}

/// The kernels that choices name. A block's projection that is chosen with it is said otherwise.
std::vector<std::string> kernels_of(const std::vector<SavedChoice>& choices) {
  std::vector<std::string> kernels;
  for (const SavedChoice& choice : choices) {
    const bool projects = choice.kernel == "project";
    const bool forms = choice.variant.empty() || choice.variant == "conv2d";
    if (choice.kernel == "pointwise" || (projects && forms)) continue;
    kernels.push_back((projects ? "gemm" : choice.kernel) + '/' + choice.variant);
  }
  std::ranges::sort(kernels);
  return kernels;
}

TEST_CASE("plans: where all times are equal, choices by time are the rule's, so that each of these was a candidate") {
  struct Case {
    std::string network;
    kernels::DeviceTraits gpu;
    std::int64_t batch;
  };
  const auto [network, gpu, batch] =
      GENERATE(Case{"a block", kSmall, 2}, Case{"mobilenet_v2", plans::kGpu, 32},
               Case{"mobilenet_v3_large", plans::kGpu, 32}, Case{"efficientnet_b0", plans::kGpu, 32});
  CAPTURE(network);
  EngineOptions options = half();
  options.max_batch = batch;
  const Graph graph = network == "a block" ? one_block() : network_of_zoo(network);
  const auto by_rule = kernels_of(choose_layers(graph, options, gpu).choices);
  CHECK(kernels_of(ToldTimes(graph, options, gpu, kAllEqual).chosen().choices) == by_rule);
}

TEST_CASE("plans: a block is kept apart where conv2d makes its layers faster than a launch with both") {
  const Graph graph = one_block();
  EngineOptions options = half();
  const auto form = [&](double pair, double conv2d) {
    const auto names = ToldTimes(graph, options, kSmall, times_of(90, pair, 5, conv2d)).names();
    return *std::ranges::find_if(names, [](const std::string& name) { return name.starts_with("block/"); });
  };
  // Of three launches and of a pair with the last layer behind it, in us:
  CHECK(form(4, 6) == "block/expand_depthwise");    // 11, 9
  CHECK(form(4, 2.5) == "block/layers");            // 6, 6.5
  CHECK(form(3, 2.5) == "block/expand_depthwise");  // 6, 5.5
}

TEST_CASE("plans: the times of conv2d that a timing cache lacks are named with the block") {
  const Graph graph = one_block();
  EngineOptions options = half();
  const ToldTimes told(graph, options, kSmall, times_of(90, 90, 4, 5));
  CHECK(contains(told.text(), "|inverted_residual n=2 h=14 w=14 c_in=72 c_hidden=192 c_out=72 "));
  CHECK(contains(told.text(), "+depthwise_conv/"));
  CHECK(contains(told.text(), "+conv2d/wgmma_"));
  CHECK(contains(told.text(), "|conv2d input=0 n=2 h=14 w=14 c_in=192 c_out=72 "));
  CHECK(contains(told.text(), "|conv2d input=0 n=2 h=14 w=14 c_in=72 c_out=192 "));
}

TEST_CASE("plans: only what the rule may take is timed, and a name decides without") {
  const Graph graph = one_block();
  for (const auto& [what, wanted] : {std::pair<std::string, std::string>{}, {"pointwise", "gemm"}}) {
    CAPTURE(what);
    EngineOptions options = half();
    if (!what.empty()) options.kernel_variants[what] = wanted;
    // Of an H100 there are too few pixels for the rule to take conv2d.
    const ToldTimes told(graph, options, what.empty() ? plans::kGpu : kSmall, times_of(90, 90, 5, 4));
    CHECK_FALSE(contains(told.text(), "conv2d/wgmma_"));
    CHECK_FALSE(has(told.names(), "project/conv2d"));
  }
  EngineOptions options = half();
  options.kernel_variants["pointwise"] = "conv2d";
  const ToldTimes told(graph, options, kSmall, times_of(90, 90, 4, 5));
  CHECK(has(told.names(), "project/"));  // chosen by itself
  CHECK_FALSE(has(told.names(), "pointwise/gemm"));
}

TEST_CASE("plans: a variant of conv2d that cannot write among other channels ends no block of a saved engine") {
  const Graph graph = one_block();
  EngineOptions options = half();
  ChosenLayers chosen = ToldTimes(graph, options, kSmall, times_of(90, 90, 5, 4)).chosen();
  const auto project = std::ranges::find_if(
      chosen.choices, [](const SavedChoice& choice) { return choice.kernel + choice.variant == "projectconv2d"; });
  REQUIRE(project != chosen.choices.end());
  const auto message_with = [&](const std::string& variant) {
    (project + 1)->variant = variant;
    WeightPieces weights;
    return message_of([&] { lower(graph, options, kSmall, {kImages, chosen.choices}, weights, nullptr); });
  };
  CHECK(message_with("wgmma_128x64x64") == "no error");
  CHECK(contains(message_with("direct"), "conv2d variant 'direct' ends no block"));
  CHECK(contains(message_with("stem3x3_2x4"), "conv2d variant 'stem3x3_2x4' does not run this shape"));
  CHECK(contains(message_with("wgmma"), "conv2d has no variant 'wgmma'"));
}

TEST_CASE("plans: a rival of conv2d behind a block can take its place") {
  const Graph graph = one_block();
  EngineOptions options = half();
  Times times = times_of(90, 90, 5, 4);
  const bool writes_anywhere = GENERATE(false, true);
  // Else the rival is the first of all variants, which only writes dense pixels.
  if (writes_anywhere) times.insert({{"conv2d/direct", 5}, {"conv2d/simt_", 5}});
  const ToldTimes told(graph, options, kSmall, times);
  const std::vector<SavedChoice>& choices = told.chosen().choices;
  int projections = 0;
  for (const ContestedChoice& contested : told.chosen().contested) {
    CAPTURE(contested.position, contested.layer, contested.kernel, contested.rival);
    const SavedChoice& before = choices.at(contested.position - 1);
    if (before.kernel == "project" && before.variant == "conv2d") {
      CHECK(contested.kernel == "conv2d");
      CHECK(contested.reason_at == contested.position);
      ++projections;
    }
    std::vector<SavedChoice> with_rival = choices;
    with_rival.at(contested.position).variant = contested.rival;
    WeightPieces weights;
    CHECK_NOTHROW(lower(graph, options, kSmall, {kImages, with_rival}, weights, nullptr));
  }
  CHECK(projections == (writes_anywhere ? 1 : 0));
}

TEST_CASE("plans: conv2d runs the layers that gates, pairs and heads are compared with") {
  test::TestNetwork network(Shape{1, 3, 28, 28});
  network.conv(72, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
  network.conv(192, 1, 1, {}, 1, Activation::relu6(), "expand");
  const ValueId filtered = network.conv(192, 5, 1, {2, 2, 2, 2}, 0, Activation::relu6(), "depthwise");
  network.add(GlobalAveragePool{}, {filtered});
  network.conv(8, 1, 1, {}, 1, Activation::relu());
  network.conv(192, 1, 1, {}, 1, Activation{0.0F, 1.0F});
  network.add(Mul{}, {filtered, network.last()});
  network.conv(72, 1, 1, {}, 1, {}, "project");
  network.conv(192, 1, 1, {}, 1, Activation::relu6(), "head");
  network.head(10);
  const Graph graph = optimize(std::move(network).build());
  EngineOptions options = half();
  const ToldTimes told(graph, options, kSmall, times_of(90, 90, 5, 4));
  const auto compared = [&](const std::string& shape, const std::string& kernels) {
    const std::size_t line = told.text().find('|' + shape + ' ');
    REQUIRE(line != std::string::npos);
    for (std::size_t at = line; at != std::string::npos; at = told.text().find('|' + shape + ' ', at + 1)) {
      if (contains(told.text().substr(at, told.text().find('\n', at) - at), kernels)) return true;
    }
    return false;
  };
  CHECK(compared("expand_depthwise", "|conv2d/wgmma_"));
  CHECK(compared("gated_pointwise", "+conv2d/wgmma_"));
  CHECK(compared("pointwise_pool", "|conv2d/wgmma_"));
}

}  // namespace
}  // namespace mobicuda
