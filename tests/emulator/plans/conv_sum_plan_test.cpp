// Plans of the custom engine for pairs of pointwise convolutions that are added, whose steps run on the emulator:
// against the fp64 engine, without a GPU.
#include <algorithm>
#include <cstdint>
#include <set>

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

TEST_CASE("plans: weights that do not stay in L2 are brought there ahead, which changes no bit") {
  const Graph graph = optimize(test::summed_convolutions());
  const auto input = test::random_uniform(7, static_cast<std::size_t>(graph.input_desc().shape.elements()));
  EngineOptions options;
  options.precision = Precision::Fp16;
  const plans::Run without = plans::run_plan(graph, options, input);
  CHECK(without.lines.empty());
  const auto with_l2 = [&](std::size_t bytes) {
    kernels::DeviceTraits gpu = plans::kGpu;
    gpu.l2_bytes = bytes;
    const plans::Run run = plans::run_plan(graph, options, input, gpu);
    CHECK(run.output == without.output);
    return run.lines;
  };
  CHECK(with_l2(std::size_t{1} << 30).empty());
  // All of the second and later products' weights, but for lines of threads that only copy.
  const std::set<std::int64_t> whole = with_l2(128 << 10);
  CHECK(whole.size() > 200);
  CHECK(std::ranges::all_of(whole, [](std::int64_t offset) { return offset % 128 == 0; }));
  // No more of a piece than half of L2, which here is a line.
  const std::set<std::int64_t> first_lines = with_l2(256);
  CHECK(!first_lines.empty());
  CHECK(first_lines.size() < 20);
  CHECK(std::ranges::all_of(first_lines, [](std::int64_t offset) { return offset % 256 == 0; }));
}

}  // namespace
}  // namespace mobicuda
