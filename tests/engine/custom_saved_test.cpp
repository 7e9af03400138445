// Engines of custom that were saved and restored: the same kernels, the same bits, and no other GPU's.
#include <map>
#include <set>

#include <mobicuda/mobicuda.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/networks.h"
#include "models/zoo/onnx_writer.h"
#include "plan_file/plan_networks.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

namespace mobicuda {
namespace {

using test::contains;
using test::every_operation;
using test::outputs_of;
using test::refusal;

Graph imported(const onnx_schema::ModelProto& model) {
  const std::string bytes = model.SerializeAsString();
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "generated");
}

Graph mobilenet() {
  zoo::MobileNetV2Options options;
  options.height = options.picture_width = 64;
  options.classes = 20;
  return imported(zoo::build_mobilenet_v2(options));
}

Graph network(std::string_view name) {
  zoo::NetworkOptions options;
  options.height = options.picture_width = 64;
  options.classes = 20;
  return imported(zoo::build_network(name, options));
}

EngineOptions options_for(Precision precision, std::int64_t max_batch) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  return options;
}

// Through a file, as programs do it. Gives the restored engine.
std::shared_ptr<const Engine> check_restored(const Engine& engine, EngineOptions options) {
  const TemporaryFolder folder;
  plan_file::save(engine, folder.path() / "net.plan");
  options.timing_cache.clear();
  options.kernel_variants.clear();
  const auto restored = plan_file::load(*make_custom_backend(), folder.path() / "net.plan", options);
  CHECK(restored->memory().total() == engine.memory().total());
  CHECK(restored->upload_ms() > 0);
  REQUIRE(restored->layers().size() == engine.layers().size());
  for (std::size_t i = 0; i < engine.layers().size(); ++i) {
    CHECK(restored->layers()[i].name == engine.layers()[i].name);
    CHECK(restored->layers()[i].kernel == engine.layers()[i].kernel);
    CHECK(restored->layers()[i].reason == engine.layers()[i].reason);
    CHECK(restored->layers()[i].weight_bytes == engine.layers()[i].weight_bytes);
  }
  for (std::int64_t n = 1; n <= options.max_batch; ++n) {
    CAPTURE(n);
    CHECK(outputs_of(*restored, n) == outputs_of(engine, n));
  }
  return restored;
}

TEST_CASE("custom: a restored engine has the saved one's kernels and gives its bits") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp32Split, Precision::Fp16, Precision::Fp64);
  const std::int64_t max_batch = GENERATE(1, 3);
  CAPTURE(to_string(precision), max_batch);
  const EngineOptions options = options_for(precision, max_batch);
  for (const Graph& graph : {mobilenet(), every_operation()}) {
    check_restored(*make_custom_backend()->compile(graph, options), options);
  }
}

TEST_CASE("custom: networks with gates, branches and groups are restored") {
  const std::string name = GENERATE("mobilenet_v3_large", "squeezenet1_1", "inception_bn");
  CAPTURE(name);
  const EngineOptions options = options_for(Precision::Fp16, 2);
  check_restored(*make_custom_backend()->compile(network(name), options), options);
}

TEST_CASE("custom: an engine of bytes is restored") {
  EngineOptions options = options_for(Precision::Fp16, 2);
  options.picture_input = PictureInput{{1 / 127.5F, 1 / 127.5F, 1 / 127.5F}, {-1, -1, -1}};
  check_restored(*make_custom_backend()->compile(mobilenet(), options), options);
}

TEST_CASE("custom: choices by time and by name are restored without the file of times") {
  const TemporaryFolder folder;
  EngineOptions options = options_for(Precision::Fp16, 2);
  options.timing_cache = folder.path() / "times";
  options.kernel_variants = {{"depthwise_conv", "direct"}};
  if (GENERATE(false, true)) options.kernel_variants = {{"block", "layers"}, {"stem", "layers"}, {"head", "layers"}};
  const auto engine = make_custom_backend()->compile(mobilenet(), options);
  const auto restored = check_restored(*engine, options);
  CHECK(restored->options().kernel_variants == options.kernel_variants);
}

TEST_CASE("custom: a restored engine can be saved again") {
  const EngineOptions options = options_for(Precision::Fp16, 1);
  const auto engine = make_custom_backend()->compile(mobilenet(), options);
  const auto bytes = plan_file::save_to_memory(engine->saved());
  const auto restored = make_custom_backend()->restore(plan_file::read_from_memory(bytes, "plan"), options);
  CHECK(plan_file::save_to_memory(restored->saved()) == bytes);
}

TEST_CASE("custom: saved engines of another GPU, with other choices or other weights are refused") {
  const EngineOptions options = options_for(Precision::Fp16, 1);
  const SavedEngine good = make_custom_backend()->compile(mobilenet(), options)->saved();
  const auto says = [&](const SavedEngine& saved) {
    return refusal([&] { make_custom_backend()->restore(saved, options); }).second;
  };
  SavedEngine saved = good;
  saved.processor = "NVIDIA Imaginary, compute capability 7.0, 4 multiprocessors";
  CHECK(contains(says(saved), "was made for NVIDIA Imaginary, compute capability 7.0"));
  saved = good;
  saved.backend = "cudnn";
  CHECK(contains(says(saved), "implementation 'cudnn'"));
  saved = good;
  saved.plans.back().choices.front().variant = "imaginary";
  CHECK(contains(says(saved), "no variant 'imaginary'"));
  saved = good;
  saved.plans.back().choices.erase(saved.plans.back().choices.begin());
  CHECK(contains(says(saved), "should be of '"));
  saved = good;
  saved.plans.back().choices.pop_back();
  CHECK(contains(says(saved), "no choice is left"));
  saved = good;
  saved.plans.back().choices.push_back({"gemm", "gemv", ""});
  CHECK(contains(says(saved), "belongs to no layer"));
  saved = good;
  saved.pieces.back().bytes += 2;
  CHECK(contains(says(saved), "should have"));
}

// Kernels that a layer does not run must be refused before they are launched.
TEST_CASE("custom: exchanged choices give an engine or an Error") {
  const EngineOptions options = options_for(Precision::Fp16, 2);
  const SavedEngine good = make_custom_backend()->compile(mobilenet(), options)->saved();
  std::map<std::string, std::set<std::string>> variants;
  for (const SavedChoice& choice : good.plans.back().choices) variants[choice.kernel].insert(choice.variant);
  for (std::size_t i = 0; i < good.plans.back().choices.size(); ++i) {
    for (const std::string& variant : variants[good.plans.back().choices[i].kernel]) {
      CAPTURE(i, good.plans.back().choices[i].kernel, variant);
      SavedEngine saved = good;
      saved.plans.back().choices[i].variant = variant;
      const auto [code, text] =
          refusal([&] { outputs_of(*make_custom_backend()->restore(saved, options), options.max_batch); });
      const bool ran = contains(text, "nothing was refused");
      CHECK((ran || code == ErrorCode::invalid_model || code == ErrorCode::unsupported));
    }
  }
}

}  // namespace
}  // namespace mobicuda
