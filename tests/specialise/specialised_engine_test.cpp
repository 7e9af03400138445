// Engines with specialised kernels on a GPU: near the CPU's logits, and the same bits from the compiler, the cache on
// disk and a plan file.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "plan_file/plan_networks.h"
#include "support/catch.h"
#include "support/network_oracle.h"
#include "support/random.h"
#include "support/temporary_folder.h"

namespace mobicuda {
namespace {

constexpr std::int64_t kLongestSum = 1792;  // the classifier's, at width 1.4

Graph mobilenet(double width, std::int64_t height, std::int64_t picture_width) {
  zoo::MobileNetV2Options options;
  options.width = width;
  options.height = height;
  options.picture_width = picture_width;
  options.classes = 50;
  const std::string bytes = zoo::build_mobilenet_v2(options).SerializeAsString();
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "generated");
}

EngineOptions options_for(std::int64_t max_batch) {
  EngineOptions options;
  options.precision = Precision::Fp16;
  options.max_batch = max_batch;
  options.plan_batches.emplace();
  options.specialise = Specialise::Always;
  options.code_cache.emplace();  // none
  return options;
}

/// Null, with a reason, where the machine has no NVRTC.
std::shared_ptr<const Engine> compile(const Graph& graph, const EngineOptions& options) {
  try {
    return make_custom_backend()->compile(graph, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::device_unavailable || error.where() != "specialised kernels") throw;
    return nullptr;
  }
}

int specialised_layers(const Engine& engine) {
  int count = 0;
  for (const LayerInfo& layer : engine.layers()) {
    for (const char* const family : {"small_", "cluster_", "strip_", "image_", "image7_"}) {
      const std::string prefix = std::string("inverted_residual/") + family;
      // The library's own variants go on with a letter: "small_s1_...", "image7_p1_...".
      if (layer.kernel.starts_with(prefix) && layer.kernel[prefix.size()] <= '9') ++count;
    }
  }
  return count;
}

/// The first pictures again and again.
std::vector<float> repeated(const std::vector<float>& values, std::size_t count) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = values[i % values.size()];
  return all;
}

TEST_CASE("specialised engines are as near the exact logits as others") {
  struct Case {
    double width;
    std::int64_t height, picture_width;
  };
  constexpr std::int64_t kPictures = 2;
  for (const Case& one : {Case{0.35, 224, 224},
                          {0.5, 96, 160},
                          {0.75, 224, 224},
                          {1.0, 256, 320},
                          {1.0, 128, 128},
                          {1.3, 192, 128},
                          {1.4, 224, 224}}) {
    const Graph graph = mobilenet(one.width, one.height, one.picture_width);
    const auto elements = static_cast<std::size_t>(graph.input_desc().shape.elements());
    const auto pictures = test::random_uniform(5, kPictures * elements);
    const test::NetworkOracle oracle(graph, pictures, kPictures, kLongestSum);
    int specialised = 0;
    for (const std::int64_t n : {1, 6, 40, 128}) {
      const auto engine = compile(graph, options_for(n));
      if (engine == nullptr) MOBICUDA_SKIP("no NVRTC");
      INFO("width " << one.width << ", " << one.height << "x" << one.picture_width << ", batch " << n);
      for (const LayerInfo& layer : engine->layers()) UNSCOPED_INFO(layer.kernel);
      const auto outputs = static_cast<std::size_t>(engine->output().shape.elements());
      std::vector<float> logits(static_cast<std::size_t>(n) * outputs);
      engine->create_session()->run(repeated(pictures, static_cast<std::size_t>(n) * elements), logits);
      const std::size_t compared = std::min<std::size_t>(n, kPictures) * outputs;
      CHECK(oracle.compare(std::span(logits).first(compared), Precision::Fp16));
      CHECK(test::compare_bits(
          logits, repeated({logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(compared)}, logits.size())));
      specialised += specialised_layers(*engine);
    }
    CHECK(specialised > 0);
  }
}

/// Runs a test case of this program in another process, which has a variable in its environment; whether it passed.
bool passes_elsewhere(std::string test_case, const char* variable, const std::string& value) {
  std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  char* const arguments[] = {program.data(), test_case.data(), nullptr};
  ::setenv(variable, value.c_str(), 1);
  pid_t child = 0;
  const int failure = ::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, ::environ);
  ::unsetenv(variable);
  int status = 0;
  return failure == 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("specialised engines are chosen by times that another process measured") {
  constexpr const char* kFile = "MOBICUDA_TEST_TIMES";
  const Graph graph = mobilenet(0.45, 64, 64);
  EngineOptions options = options_for(2);
  if (const char* file = std::getenv(kFile)) {
    options.timing_cache = file;
    compile(graph, options);
    return;
  }
  if (compile(graph, options) == nullptr) MOBICUDA_SKIP("no NVRTC");
  const TemporaryFolder folder;
  options.timing_cache = folder.path() / "times";
  REQUIRE(passes_elsewhere("specialised engines are chosen by times that another process measured", kFile,
                           options.timing_cache.string()));
  // Without the network's own times these are measured again, of engines with kernels that this process has not timed.
  std::string kept;
  std::ifstream file(options.timing_cache);
  for (std::string line; std::getline(file, line);) {
    if (line.find("|network ") == std::string::npos) kept += line + "\n";
  }
  file.close();
  std::ofstream(options.timing_cache) << kept;
  const auto engine = compile(graph, options);
  const auto input = test::random_uniform(6, static_cast<std::size_t>(2 * graph.input_desc().shape.elements()));
  std::vector<float> logits(static_cast<std::size_t>(2 * engine->output().shape.elements()));
  engine->create_session()->run(input, logits);
  CHECK(test::NetworkOracle(graph, input, 2, kLongestSum).compare(logits, Precision::Fp16));
  std::ifstream after(options.timing_cache);
  const std::string times{std::istreambuf_iterator<char>(after), {}};
  if (times.find("|network ") == std::string::npos) MOBICUDA_SKIP("no kernels were close enough to compare networks");
}

TEST_CASE("specialised engines give the same bits from the compiler, the cache and a plan file without NVRTC") {
  const TemporaryFolder folder;
  const Graph graph = mobilenet(0.6, 160, 160);
  EngineOptions options = options_for(2);
  std::string said;
  options.code_cache = folder.path() / "code";
  options.log = [&](LogLevel, std::string_view text) { said += std::string(text) + "\n"; };
  const auto engine = compile(graph, options);
  if (engine == nullptr) MOBICUDA_SKIP("no NVRTC");
  REQUIRE(specialised_layers(*engine) > 0);
  const auto outputs = test::outputs_of(*engine, 2);
  CHECK(said.find("specialised kernels: ") != std::string::npos);
  CHECK(std::filesystem::exists(folder.path() / "code"));
  CHECK(test::outputs_of(*compile(graph, options), 2) == outputs);

  plan_file::save(*engine, folder.path() / "net.plan");
  options.nvrtc_library = "/absent/libnvrtc.so";
  options.code_cache.emplace();
  const auto restored = plan_file::load(*make_custom_backend(), folder.path() / "net.plan", options);
  CHECK(test::outputs_of(*restored, 2) == outputs);
  CHECK(restored->layers().size() == engine->layers().size());
}

TEST_CASE("without NVRTC engines take the library's kernels and say so, or are refused where that was asked for") {
  const Graph graph = mobilenet(0.55, 64, 64);
  EngineOptions options = options_for(1);
  options.nvrtc_library = "/absent/libnvrtc.so";
  try {
    make_custom_backend()->compile(graph, options);
    FAIL("compiled without a compiler");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::device_unavailable);
    CHECK(std::string(error.what()).find("/absent/libnvrtc.so") != std::string::npos);
  }
  std::string warned;
  options.specialise = Specialise::Auto;
  options.log = [&](LogLevel level, std::string_view text) {
    if (level == LogLevel::Warning) warned += text;
  };
  const auto engine = make_custom_backend()->compile(graph, options);
  CHECK(specialised_layers(*engine) == 0);
  CHECK(warned.find("/absent/libnvrtc.so") != std::string::npos);
  options.specialise = Specialise::Never;
  warned.clear();
  CHECK(specialised_layers(*make_custom_backend()->compile(graph, options)) == 0);
  CHECK(warned.empty());
}

}  // namespace
}  // namespace mobicuda
