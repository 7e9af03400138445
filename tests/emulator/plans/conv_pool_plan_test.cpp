// Plans of the custom engine for convolutions with a maximum behind them, whose steps run on the emulator: against the
// fp64 engine, without a GPU.
#include <algorithm>

#include <mobicuda/mobicuda.h>

#include "emulator/plans/run_plan.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/network_oracle.h"

namespace mobicuda {
namespace {

TEST_CASE("plans: convolutions and maxima over 2x2 behind them equal the oracle, in one launch and apart") {
  constexpr std::int64_t kImages = 2;
  constexpr std::int64_t kLongestSum = 9 * 136;
  const Graph graph = test::pooled_convolutions();
  const auto image = static_cast<std::size_t>(graph.input_desc().shape.elements());
  const auto input = test::random_uniform(5, kImages * image);
  const test::NetworkOracle oracle(graph, input, kImages, kLongestSum);
  for (const char* form : {"fused", "layers"}) {
    CAPTURE(form);
    EngineOptions options;
    options.max_batch = kImages;
    options.precision = Precision::Fp16;
    options.kernel_variants["pool"] = form;
    const plans::Run run = plans::run_plan(optimize(graph), options, input);
    CHECK(oracle.compare(run.output, Precision::Fp16));
    const auto pooled =
        std::ranges::count_if(run.variants, [](const std::string& name) { return name.ends_with("_pooled"); });
    const bool fused = std::string(form) == "fused";
    CHECK(pooled == (fused ? 2 : 0));
    CHECK(std::ranges::count(run.variants, "pooling/max") == (fused ? 3 : 5));
  }
}

}  // namespace
}  // namespace mobicuda
