#include <sstream>

#include <mobicuda/mobicuda.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "support/catch.h"
#include "support/compute_capability.h"
#include "support/network_oracle.h"
#include "support/pictures.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include "support/tolerance.h"

namespace mobicuda {
namespace {

Graph small_mobilenet() {
  zoo::MobileNetV2Options options;
  options.height = options.picture_width = 64;
  options.classes = 20;
  const std::string bytes = zoo::build_mobilenet_v2(options).SerializeAsString();
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "generated");
}

EngineOptions options_with(const std::filesystem::path& cache, Precision precision, std::int64_t max_batch) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  options.timing_cache = cache;
  return options;
}

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<float> run(const Engine& engine, std::span<const float> input, std::int64_t n) {
  std::vector<float> output(static_cast<std::size_t>(n * engine.output().shape.elements()));
  engine.create_session()->run(input, output);
  return output;
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
    ++named;
  }
  CHECK(named > 30);
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

}  // namespace
}  // namespace mobicuda
