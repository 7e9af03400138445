// Quantised networks through the custom engine: the CPU engine's bits, at every precision, which is that of the rest.
#include <mobicuda/mobicuda.h>

#include "baselines/engine_runs.h"
#include "support/catch.h"
#include "support/int8_network.h"
#include "support/tolerance.h"

namespace mobicuda {
namespace {

void check(const Graph& graph, Precision precision, const char* blocks = "layers") {
  constexpr std::int64_t kImages = 3;
  const auto image = static_cast<std::size_t>(graph.input_desc().shape.elements());
  const std::vector<float> input = test::random_uniform(9, kImages * image);
  EngineOptions options;
  options.max_batch = kImages + 1;
  const std::vector<float> expected = test::run(*make_cpu_backend()->compile(graph, options), input);
  options.precision = precision;
  options.guarded_arena = true;
  options.kernel_variants["int8_block"] = blocks;
  CHECK(test::compare_bits(test::run(*make_custom_backend()->compile(graph, options), input), expected));
}

constexpr DType kTypes[] = {DType::I8, DType::U8};

TEST_CASE("custom: a quantised MobileNetV2 has the CPU engine's bits", "[sanitize]") {
  for (const DType dtype : kTypes) {
    for (const Precision precision : {Precision::Fp32, Precision::Fp16, Precision::Fp64}) {
      CAPTURE(to_string(precision), static_cast<int>(dtype));
      for (const char* blocks : {"layers", "fused"}) check(test::int8_mobilenet(dtype), precision, blocks);
    }
  }
}

TEST_CASE("custom: other quantised operations have the CPU engine's bits", "[sanitize]") {
  for (const DType dtype : kTypes) {
    CAPTURE(static_cast<int>(dtype));
    check(test::int8_mixture(dtype), Precision::Fp32);
  }
}

}  // namespace
}  // namespace mobicuda
