// The published MobileNetV2 with its trained weights, where the machine has it.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/onnx_import.h>

#include "support/catch.h"
#include "support/folders.h"
#include "support/random.h"
#include "support/sanitizer.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

using Floats = std::vector<float>;

constexpr std::int64_t kPictures = kSanitized ? 1 : 2;
constexpr double kNetworkRelL2 = 1e-5;  // docs/cpu_engine.md

Floats run(const Graph& graph, Precision precision, int threads, const Floats& input) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = kPictures;
  options.threads = threads;
  const auto engine = make_cpu_backend()->compile(graph, options);
  Floats output(static_cast<std::size_t>(kPictures * engine->output().shape.elements()));
  engine->create_session()->run(input, output);
  return output;
}

TEST_CASE("the real MobileNetV2 in fp32 agrees with the oracle and is the same for every number of threads") {
  const std::filesystem::path model = test::shared_folder() / "models/mobilenetv2_imagenet_fp32.onnx";
  if (!std::filesystem::exists(model)) MOBICUDA_SKIP("no " + model.string());
  const Graph graph = onnx_import::load(model);
  const auto pictures = static_cast<std::size_t>(kPictures);
  const Floats input = random_uniform(2024, pictures * static_cast<std::size_t>(graph.input_desc().shape.elements()));
  const Floats actual = run(graph, Precision::Fp32, 2, input);
  const Floats expected = run(graph, Precision::Fp64, 2, input);
  CHECK(compare_rel_l2(actual, std::vector<double>(expected.begin(), expected.end()), kNetworkRelL2));
  for (const int threads : {1, 3}) CHECK(compare_bits(run(graph, Precision::Fp32, threads, input), actual));
}

}  // namespace
}  // namespace mobicuda::test
