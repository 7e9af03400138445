#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include <mobicuda/mobicuda.h>

#include "choose/block_timer.h"
#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "runtime/device_buffer.h"
#include "support/catch.h"
#include "support/gpu_traits.h"
#include "support/graphs.h"
#include "support/network_oracle.h"
#include "support/pictures.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include "support/texts.h"
#include "support/tolerance.h"

namespace mobicuda {
namespace {

constexpr std::int64_t kFewBlocks = 3;  // the fewer choices the shorter

Graph small_mobilenet(std::int64_t blocks = 17) {
  zoo::MobileNetV2Options options;
  options.blocks = blocks;
  options.height = options.picture_width = 64;
  options.classes = 20;
  const std::string bytes = zoo::build_mobilenet_v2(options).SerializeAsString();
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "generated");
}

// With one plan.
EngineOptions options_with(const std::filesystem::path& cache, Precision precision, std::int64_t max_batch) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  options.plan_batches.emplace();
  options.timing_cache = cache;
  return options;
}

std::vector<float> run(const Engine& engine, std::span<const float> input, std::int64_t n) {
  std::vector<float> output(static_cast<std::size_t>(n * engine.output().shape.elements()));
  engine.create_session()->run(input, output);
  return output;
}

struct TimingLine {
  std::string subject, kernels, time;
};

std::vector<TimingLine> lines_of(const std::filesystem::path& file) {
  std::vector<TimingLine> lines;
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);  // the header
  while (std::getline(in, line)) {
    const std::size_t time = line.rfind('|');
    const std::size_t kernels = line.rfind('|', time - 1);
    lines.push_back({line.substr(0, kernels), line.substr(kernels + 1, time - kernels - 1), line.substr(time + 1)});
  }
  return lines;
}

void write_lines(const TemporaryFolder& folder, const std::vector<TimingLine>& lines) {
  std::string text = "mobicuda timing cache, format 1\n";
  for (const TimingLine& line : lines) text += line.subject + "|" + line.kernels + "|" + line.time + "\n";
  folder.write("times", text);
}

// The position of the choice that a line of a network is about.
std::optional<int> position_of(const TimingLine& line) {
  const std::string before = " choice ";
  const std::size_t at = line.subject.find(before);
  if (line.subject.find("|network ") == std::string::npos || at == std::string::npos) return std::nullopt;
  int position = 0;
  std::from_chars(line.subject.data() + at + before.size(), line.subject.data() + line.subject.size(), position);
  return position;
}

// Times by which all candidates of a layer are equal, so that the network has to tell wherever there are two. Equal
// times change what runs beside a candidate, so that others are asked for.
void make_all_contested(const TemporaryFolder& folder, const Graph& graph, EngineOptions options) {
  options.require_timing_cache = false;
  for (bool done = false; !done;) {
    make_custom_backend()->compile(graph, options);
    std::vector<TimingLine> lines = lines_of(options.timing_cache);
    std::erase_if(lines, [](const TimingLine& line) { return position_of(line).has_value(); });
    done = std::ranges::all_of(lines, [](const TimingLine& line) { return line.time == "2.000"; });
    for (TimingLine& line : lines) line.time = "2.000";
    write_lines(folder, lines);
  }
}

TEST_CASE("custom: choices by time are kept in the file, and give the oracle's logits") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16);
  CAPTURE(to_string(precision));
  const TemporaryFolder folder;
  const Graph graph = small_mobilenet();
  EngineOptions options = options_with(folder.path() / "times", precision, 3);
  std::string said;
  options.log = [&](LogLevel, std::string_view text) { said += text; };
  const auto first = make_custom_backend()->compile(graph, options);
  CAPTURE(said);
  CHECK(said.find(" 0 times measured") == std::string::npos);
  const std::string times = text_of(folder.path() / "times");
  said.clear();
  options.require_timing_cache = true;
  const auto second = make_custom_backend()->compile(graph, options);
  CHECK(said.find(" 0 times measured") != std::string::npos);
  CHECK(text_of(folder.path() / "times") == times);

  REQUIRE(first->layers().size() == second->layers().size());
  bool measured = false;
  for (std::size_t i = 0; i < first->layers().size(); ++i) {
    CHECK(first->layers()[i].kernel == second->layers()[i].kernel);
    CHECK(first->layers()[i].reason == second->layers()[i].reason);
    measured = measured || first->layers()[i].reason.starts_with("measured ");
  }
  CHECK(measured);

  const std::int64_t n = GENERATE(1, 3);
  constexpr std::int64_t kLongestSum = 1280;
  const auto input = test::random_uniform(7, static_cast<std::size_t>(n * graph.input_desc().shape.elements()));
  const auto logits = run(*first, input, n);
  CHECK(test::NetworkOracle(graph, input, n, kLongestSum).compare(logits, precision));
  CHECK(test::compare_bits(run(*second, input, n), logits));
}

TEST_CASE("custom: every plan is chosen by times for its own batch, and those that a file lacks are named with it") {
  MOBICUDA_SKIP_BELOW(80);
  const TemporaryFolder folder;
  const Graph graph = small_mobilenet(kFewBlocks);
  EngineOptions options = options_with(folder.path() / "times", Precision::Fp16, 4);
  options.plan_batches.reset();
  const auto first = make_custom_backend()->compile(graph, options);
  std::vector<TimingLine> lines = lines_of(options.timing_cache);
  const auto is_of = [](const TimingLine& line, const std::string& n) {
    return line.subject.find(" n=" + n + " h=") != std::string::npos;
  };
  for (const std::string n : {"1", "2", "4"}) {
    CAPTURE(n);
    CHECK(std::ranges::any_of(lines, [&](const TimingLine& line) { return is_of(line, n); }));
  }
  options.require_timing_cache = true;
  const auto second = make_custom_backend()->compile(graph, options);
  for (const std::int64_t n : {1, 2, 3, 4}) {
    REQUIRE(first->layers(n).size() == second->layers(n).size());
    for (std::size_t i = 0; i < first->layers(n).size(); ++i) {
      CHECK(first->layers(n)[i].kernel == second->layers(n)[i].kernel);
      CHECK(first->layers(n)[i].reason == second->layers(n)[i].reason);
    }
  }

  std::erase_if(lines, [&](const TimingLine& line) { return is_of(line, "2"); });
  write_lines(folder, lines);
  try {
    make_custom_backend()->compile(graph, options);
    FAIL("no error");
  } catch (const Error& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(message.find("plan for a batch of 2") != std::string::npos);
    CHECK(message.find(" n=2 h=") != std::string::npos);
  }
}

TEST_CASE("custom: an engine of bytes is timed with bytes") {
  MOBICUDA_SKIP_BELOW(80);
  const TemporaryFolder folder;
  const Graph graph = small_mobilenet();
  EngineOptions options = options_with(folder.path() / "times", Precision::Fp16, 2);
  options.picture_input = test::exact_picture_input();
  const auto engine = make_custom_backend()->compile(graph, options);
  CHECK(text_of(options.timing_cache).find("|stem_block input=1 n=2 ") != std::string::npos);
  const auto pictures = test::random_pictures(graph, 2);
  std::vector<float> logits(2 * 20);
  engine->create_session()->run(pictures, logits);
  const test::NetworkOracle oracle(graph, test::floats_of(graph, pictures), 2, 1280);
  CHECK(oracle.compare(logits, Precision::Fp16));
}

TEST_CASE("custom: a required timing cache without the times names layer and shape, and writes nothing") {
  MOBICUDA_SKIP_BELOW(80);
  const TemporaryFolder folder;
  EngineOptions options = options_with(folder.path() / "times", Precision::Fp16, 1);
  options.require_timing_cache = true;
  try {
    make_custom_backend()->compile(small_mobilenet(), options);
    FAIL("no error");
  } catch (const Error& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(message.find((folder.path() / "times").string()) != std::string::npos);
    CHECK(message.find("layer '") != std::string::npos);
    CHECK(message.find(" n=1 h=64 ") != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(options.timing_cache));
}

TEST_CASE("custom: a kernel asked for by name wins over the timing cache") {
  const TemporaryFolder folder;
  EngineOptions options = options_with(folder.path() / "times", Precision::Fp16, 1);
  options.kernel_variants = {{"block", "layers"}, {"gemm", "simt_32x32x32_k4"}};
  const auto engine = make_custom_backend()->compile(small_mobilenet(), options);
  int named = 0;
  for (const LayerInfo& layer : engine->layers()) {
    CHECK_FALSE(layer.kernel.starts_with("inverted_residual/"));
    if (!layer.kernel.starts_with("gemm/")) continue;
    CHECK(layer.kernel == "gemm/simt_32x32x32_k4");
    CHECK(layer.reason.starts_with("named"));
    CHECK(layer.reason.find("in the network") == std::string::npos);
    ++named;
  }
  CHECK(named > 30);
  for (const TimingLine& line : lines_of(options.timing_cache)) {
    CHECK_FALSE((position_of(line) && line.kernels.starts_with("gemm/")));
  }
}

TEST_CASE("custom: what chains do not decide is decided in the network, once") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16);
  CAPTURE(to_string(precision));
  const TemporaryFolder folder;
  const Graph graph = small_mobilenet(kFewBlocks);
  EngineOptions options = options_with(folder.path() / "times", precision, 2);
  make_all_contested(folder, graph, options);

  options.require_timing_cache = true;
  const std::string chains = text_of(options.timing_cache);
  try {
    make_custom_backend()->compile(graph, options);
    FAIL("no error");
  } catch (const Error& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(message.find("has no times of the network with ") != std::string::npos);
    CHECK(message.find("layer '") != std::string::npos);
  }
  CHECK(text_of(options.timing_cache) == chains);

  std::string said;
  options.log = [&](LogLevel level, std::string_view text) {
    CHECK(level == LogLevel::Info);
    said += std::string(text) + "\n";
  };
  options.require_timing_cache = false;
  const auto first = make_custom_backend()->compile(graph, options);
  CAPTURE(said);
  CHECK(said.find(" 0 times measured") != std::string::npos);
  CHECK(said.find(" 0 confirmations measured") == std::string::npos);
  const auto asked = [](const LayerInfo& layer) { return layer.reason.find("; in the network ") != std::string::npos; };
  CHECK(std::ranges::count_if(first->layers(), asked) > 2);

  said.clear();
  options.require_timing_cache = true;
  const std::string times = text_of(options.timing_cache);
  const auto second = make_custom_backend()->compile(graph, options);
  CHECK(said.find(" 0 confirmations measured") != std::string::npos);
  CHECK(text_of(options.timing_cache) == times);
  REQUIRE(first->layers().size() == second->layers().size());
  for (std::size_t i = 0; i < first->layers().size(); ++i) {
    CHECK(first->layers()[i].kernel == second->layers()[i].kernel);
    CHECK(first->layers()[i].reason == second->layers()[i].reason);
  }
  const auto input = test::random_uniform(7, static_cast<std::size_t>(2 * graph.input_desc().shape.elements()));
  const auto logits = run(*first, input, 2);
  CHECK(test::NetworkOracle(graph, input, 2, 1280).compare(logits, precision));
  CHECK(test::compare_bits(run(*second, input, 2), logits));
}

TEST_CASE("custom: the kernel with which the network is faster is the one that runs") {
  const TemporaryFolder folder;
  const Graph graph = small_mobilenet(kFewBlocks);
  const EngineOptions options = options_with(folder.path() / "times", Precision::Fp16, 2);
  make_all_contested(folder, graph, options);
  make_custom_backend()->compile(graph, options);
  // The first question, which does not depend on other answers.
  std::vector<TimingLine> lines = lines_of(options.timing_cache);
  std::optional<int> first;
  for (const TimingLine& line : lines) {
    if (const auto at = position_of(line); at && (!first || *at < *first)) first = at;
  }
  REQUIRE(first);
  std::vector<TimingLine*> answers;
  for (TimingLine& line : lines) {
    if (position_of(line) == first && line.kernels != "noise") answers.push_back(&line);
  }
  REQUIRE(answers.size() == 2);
  if (GENERATE(false, true)) std::swap(answers[0], answers[1]);  // one of the two was chosen by chains
  const auto [fast, slow] = std::pair(answers[0]->kernels, answers[1]->kernels);
  answers[0]->time = "6000.000";
  answers[1]->time = "7000.000";
  write_lines(folder, lines);
  const auto engine = make_custom_backend()->compile(graph, options);
  const auto layers = engine->layers();
  const std::string reason = "; in the network 6000.0 us, with " + slow + " 7000.0 us";
  const auto found = std::ranges::find_if(
      layers, [&](const LayerInfo& layer) { return layer.reason.find(reason) != std::string::npos; });
  REQUIRE(found != layers.end());
  CHECK(found->kernel == fast);
  const auto input = test::random_uniform(7, static_cast<std::size_t>(2 * graph.input_desc().shape.elements()));
  CHECK(test::NetworkOracle(graph, input, 2, 1280).compare(run(*engine, input, 2), Precision::Fp16));
}

TEST_CASE("custom: an engine of bytes is confirmed with bytes") {
  const TemporaryFolder folder;
  const Graph graph = small_mobilenet(kFewBlocks);
  EngineOptions options = options_with(folder.path() / "times", Precision::Fp16, 2);
  options.picture_input = test::exact_picture_input();
  make_all_contested(folder, graph, options);
  make_custom_backend()->compile(graph, options);
  const auto lines = lines_of(options.timing_cache);
  CHECK(std::ranges::any_of(lines, [](const TimingLine& line) {
    return position_of(line) && line.subject.find(" n=2 bytes=1 choice ") != std::string::npos;
  }));
}

TEST_CASE("custom: a block whose pointwise layers conv2d may run is timed with both kernels") {
  if (!test::gpu_traits().wgmma_code) MOBICUDA_SKIP("no code for wgmma is loaded");
  constexpr std::int64_t kImages = 64;  // many tiles, for which the rule takes wgmma
  test::TestNetwork network(Shape{1, 3, 28, 28});
  const ValueId x = network.conv(112, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
  network.conv(672, 1, 1, {}, 1, Activation::relu6(), "expand");
  network.conv(672, 5, 1, {2, 2, 2, 2}, 0, Activation::relu6(), "depthwise");
  network.conv(112, 1, 1, {}, 1, {}, "project");
  network.add(Add{}, {network.last(), x});
  network.head(10);
  const Graph graph = std::move(network).build();
  const TemporaryFolder folder;
  EngineOptions options = options_with(folder.path() / "times", Precision::Fp16, kImages);
  const auto first = make_custom_backend()->compile(graph, options);
  const auto is_of_block = [](const TimingLine& line, const std::string& last) {
    return line.subject.find("|inverted_residual n=64 ") != std::string::npos &&
           line.kernels.find("+" + last) != std::string::npos;
  };
  const std::vector<TimingLine> lines = lines_of(options.timing_cache);
  for (const std::string last : {"gemm/mma_", "conv2d/wgmma_"}) {
    CAPTURE(last);
    CHECK(std::ranges::any_of(lines, [&](const TimingLine& line) { return is_of_block(line, last); }));
  }
  options.require_timing_cache = true;
  const auto second = make_custom_backend()->compile(graph, options);
  const auto input = test::random_uniform(8, static_cast<std::size_t>(kImages * graph.input_desc().shape.elements()));
  const auto logits = run(*first, input, kImages);
  CHECK(test::NetworkOracle(graph, input, kImages, 672).compare(logits, Precision::Fp16));
  CHECK(test::compare_bits(run(*second, input, kImages), logits));
  const EngineOptions chosen = options_with({}, Precision::Fp16, kImages);  // a saved engine asks no file
  CHECK(test::compare_bits(run(*make_custom_backend()->restore(first->saved(), chosen), input, kImages), logits));
}

TEST_CASE("custom: without a timing cache every choice names its rule") {
  const auto engine = make_custom_backend()->compile(small_mobilenet(), options_with({}, Precision::Fp16, 1));
  for (const LayerInfo& layer : engine->layers()) {
    CAPTURE(layer.name, layer.kernel, layer.reason);
    const bool chosen = layer.kernel.starts_with("gemm/") || layer.kernel.starts_with("inverted_residual/") ||
                        layer.kernel.starts_with("stem_block/") || layer.kernel.starts_with("pointwise_pool/");
    CHECK((!chosen || layer.reason.find("rule: ") != std::string::npos));
  }
}

TEST_CASE("kernels are timed with weights of zeros, whatever other kernels left in memory") {
  constexpr std::int64_t kStained = 1 << 16;
  constexpr std::int64_t kWeights = 256;
  BlockTimer timer(false);
  TimedKernel stains{"stains"};
  stains.x_bytes = stains.y_bytes = kStained;
  stains.enqueue = [](const TimedOperands& at, const kernels::Launch& where) {
    return cudaMemsetAsync(at.y, 0x55, kStained, where.stream);
  };
  timer.microseconds(std::span(&stains, 1), std::numeric_limits<double>::infinity());
  TimedKernel copies{"copies"};
  copies.x_bytes = kWeights;
  copies.y_bytes = kStained;
  copies.weight_bytes = {kWeights};
  const PinnedBuffer seen(kWeights, "a copy of weights");
  copies.enqueue = [&](const TimedOperands& at, const kernels::Launch& where) {
    return cudaMemcpyAsync(seen.data(), at.weights.front(), kWeights, cudaMemcpyDeviceToHost, where.stream);
  };
  std::memset(seen.data(), 1, kWeights);
  timer.microseconds(std::span(&copies, 1), std::numeric_limits<double>::infinity());
  CHECK(std::all_of(seen.data(), seen.data() + kWeights, [](std::byte byte) { return byte == std::byte{0}; }));
}

}  // namespace
}  // namespace mobicuda
