// Plans of the custom engine for blocks of split products, whose steps run on the emulator: against the fp64 engine,
// without a GPU.
#include <algorithm>
#include <string>

#include <mobicuda/mobicuda.h>

#include "emulator/plans/run_plan.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/network_oracle.h"

namespace mobicuda {
namespace {

/// An entry whose outputs are bounded by a clip, and a block of stride 1 or 2.
Graph block_network(int stride) {
  test::TestNetwork network(Shape{1, 3, 30, 22});
  const int channels = stride == 1 ? 24 : 16;
  network.conv(channels, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6(), "entry");
  const ValueId x = network.last();
  network.conv(6 * channels, 1, 1, {}, 1, Activation::relu6(), "expand");
  network.conv(6 * channels, 3, stride, {1, 1, 1, 1}, 0, Activation::relu6(), "depthwise");
  const ValueId y = network.conv(24, 1, 1, {}, 1, {}, "project");
  if (stride == 1) network.add(Add{}, {y, x}, "sum");
  network.head(5);
  return std::move(network).build();
}

TEST_CASE("plans: blocks of split products equal the oracle") {
  constexpr std::int64_t kImages = 3;
  constexpr std::int64_t kLongestSum = 144;
  for (const int stride : {1, 2}) {
    const Graph graph = block_network(stride);
    const auto image = static_cast<std::size_t>(graph.input_desc().shape.elements());
    const auto input = test::random_uniform(5, kImages * image);
    const test::NetworkOracle oracle(graph, input, kImages, kLongestSum);
    EngineOptions options;
    options.max_batch = kImages;
    options.precision = Precision::Fp32Split;
    const std::string variant = stride == 1 ? "split_s1_14x14_c16_n24" : "split_s2_7x8_c32_n24";
    options.kernel_variants["inverted_residual"] = variant;
    CAPTURE(stride);
    const plans::Run run = plans::run_plan(optimize(graph), options, input);
    CHECK(oracle.compare(run.output, Precision::Fp32));
    CHECK(std::ranges::count(run.variants, "inverted_residual/" + variant) == 1);
    options.precision = Precision::Fp32;  // asked for by name or not, it never splits
    for (const std::string& name : plans::run_plan(optimize(graph), options, input).variants) {
      CHECK(name.find("split") == std::string::npos);
    }
  }
}

}  // namespace
}  // namespace mobicuda
