// Plans of the custom engine for blocks with gates, whose steps run on the emulator: against the fp64 engine, without a
// GPU.
#include <algorithm>

#include <mobicuda/mobicuda.h>

#include "emulator/plans/run_plan.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/network_oracle.h"

namespace mobicuda {
namespace {

TEST_CASE("plans: gates and the projections behind them equal the oracle, in one launch and apart") {
  constexpr std::int64_t kImages = 3;
  constexpr std::int64_t kLongestSum = 300;
  for (const bool smooth : {false, true}) {
    const Graph graph = test::gated_blocks(smooth);
    const auto image = static_cast<std::size_t>(graph.input_desc().shape.elements());
    const auto input = test::random_uniform(5, kImages * image);
    const test::NetworkOracle oracle(graph, input, kImages, kLongestSum);
    for (const char* form : {"fused", "layers"}) {
      CAPTURE(smooth, form);
      EngineOptions options;
      options.max_batch = kImages;
      options.precision = Precision::Fp16;
      options.kernel_variants["gated_project"] = form;
      const plans::Run run = plans::run_plan(optimize(graph), options, input);
      CHECK(oracle.compare(run.output, Precision::Fp16));
      const bool fused = std::string(form) == "fused";
      // The projection of the second one is the head's.
      CHECK(std::ranges::count(run.kernels, "gated_pointwise") == (fused ? 1 : 0));
      CHECK(std::ranges::count(run.kernels, "squeeze_excite") == (fused ? 1 : 2));
    }
  }
}

}  // namespace
}  // namespace mobicuda
