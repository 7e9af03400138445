// Engines with specialised kernels on a GPU: near the CPU's logits, and the same bits from the compiler, the cache on
// disk and a plan file.
#include <filesystem>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "plan_file/plan_networks.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/tolerance.h"

namespace mobicuda {
namespace {

constexpr double kFp16Limit = 1e-2;  // docs/numerics.md

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

TEST_CASE("specialised engines are as near the CPU's logits as others") {
  struct Case {
    double width;
    std::int64_t height, picture_width;
  };
  for (const Case& one :
       {Case{0.35, 224, 224}, {0.5, 96, 160}, {0.75, 224, 224}, {1.0, 256, 320}, {1.3, 192, 128}, {1.4, 224, 224}}) {
    const Graph graph = mobilenet(one.width, one.height, one.picture_width);
    for (const std::int64_t n : {1, 6, 40}) {
      const auto engine = compile(graph, options_for(n));
      if (engine == nullptr) MOBICUDA_SKIP("no NVRTC");
      EngineOptions exact;
      exact.max_batch = n;
      const auto cpu = make_cpu_backend()->compile(graph, exact);
      INFO("width " << one.width << ", " << one.height << "x" << one.picture_width << ", batch " << n);
      for (const LayerInfo& layer : engine->layers()) UNSCOPED_INFO(layer.kernel);
      const std::vector<float> exact_outputs = test::outputs_of(*cpu, n);
      const std::vector<double> expected(exact_outputs.begin(), exact_outputs.end());
      CHECK(test::compare_rel_l2(test::outputs_of(*engine, n), expected, kFp16Limit));
      CHECK(specialised_layers(*engine) > 0);
    }
  }
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
