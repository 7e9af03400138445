// Plans of the custom engine for pairs of pointwise convolutions that are added, whose steps run on the emulator:
// against the fp64 engine, without a GPU.
#include <algorithm>

#include <mobicuda/mobicuda.h>

#include "emulator/plans/run_plan.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/network_oracle.h"

namespace mobicuda {
namespace {

TEST_CASE("plans: pointwise convolutions that are added equal the oracle, in one launch and apart") {
  constexpr std::int64_t kImages = 2;
  constexpr std::int64_t kLongestSum = 9 * 136;
  const Graph graph = test::summed_convolutions();
  const auto image = static_cast<std::size_t>(graph.input_desc().shape.elements());
  const auto input = test::random_uniform(6, kImages * image);
  const test::NetworkOracle oracle(graph, input, kImages, kLongestSum);
  const Graph optimized = optimize(graph);
  std::size_t apart = 0;
  for (const char* form : {"layers", "fused"}) {
    CAPTURE(form);
    EngineOptions options;
    options.max_batch = kImages;
    options.precision = Precision::Fp16;
    options.kernel_variants["projection"] = form;
    const plans::Run run = plans::run_plan(optimized, options, input);
    CHECK(oracle.compare(run.output, Precision::Fp16));
    if (std::string(form) == "layers") apart = run.kernels.size();
    // One of the five pairs has an activation between its convolutions; another reader sees a part of one.
    if (std::string(form) == "fused") CHECK(run.kernels.size() == apart - 3);
  }
}

TEST_CASE("plans: what brings weights into L2 ahead of their turn changes no bit") {
  const Graph graph = optimize(test::summed_convolutions());
  const auto input = test::random_uniform(7, static_cast<std::size_t>(graph.input_desc().shape.elements()));
  EngineOptions options;
  options.precision = Precision::Fp16;
  kernels::DeviceTraits small = plans::kGpu;
  small.l2_bytes = 8192;
  CHECK(plans::run_plan(graph, options, input, small).output == plans::run_plan(graph, options, input).output);
}

}  // namespace
}  // namespace mobicuda
