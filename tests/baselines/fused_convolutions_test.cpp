// Convolutions that are one step: the same bits as each by itself, and close to the oracle.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "baselines/allocation_count.h"
#include "baselines/cpu/cpu_engine.h"
#include "baselines/cpu/plan_maker.h"
#include "baselines/cpu_runs.h"
#include "baselines/test_graphs.h"
#include "support/catch.h"

namespace mobicuda::test {
namespace {

constexpr std::int64_t kPictures = 3;

// The engine of a graph whose fp32 is computed as `choices` say.
std::shared_ptr<const Engine> engine_for(const Graph& graph, const cpu::Fp32Choices& choices, int threads) {
  EngineOptions options;
  options.max_batch = kPictures;
  options.threads = threads;
  const Graph optimized = optimize(graph);
  cpu::Plan plan = cpu::make_plan(optimized, options, nullptr, choices);
  return std::make_shared<const cpu::CpuEngine<float>>(options, optimized.input_desc(), optimized.output_desc(),
                                                       std::move(plan));
}

std::string with_widest_isa(const std::string& loops) { return loops + "/" + cpu::fp32_kernels().name; }

// A convolution, where there is one, a depthwise one and a pointwise one, where there is one.
struct BlockCase {
  std::int64_t c, h, w;
  std::int64_t hidden;             ///< channels of the depthwise convolution
  std::int64_t outputs;            ///< of the pointwise convolution, 0 for none
  std::int64_t expand_kernel = 1;  ///< of the first convolution, 0 for none
  std::int64_t expand_stride = 1;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  Padding pads{1, 1, 1, 1};
  bool residual = false;
  Activation activation = Activation::relu6();

  std::int64_t products() const {
    return c * std::max<std::int64_t>(expand_kernel * expand_kernel, 1) * kernel * kernel * hidden;
  }
  std::string loops() const {
    return std::string(expand_kernel == 0   ? ""
                       : expand_kernel == 1 ? "gemm+"
                                            : "conv2d+") +
           "depthwise_conv" +
           (outputs == 0                                         ? ""
            : activation == Activation::relu6() && outputs >= 32 ? "+gemm_nonzero"
                                                                 : "+gemm");
  }
};

Graph build(const BlockCase& test) {
  TestGraph net({DType::F32, Shape{1, test.c, test.h, test.w}, Layout::NCHW}, 11);
  net.add(Clip{{-0.9F, 0.9F}}, {net.last()});  // so that a residual has a producer
  const ValueId entry = net.last();
  if (test.expand_kernel > 0) {
    Conv2d expand;
    expand.strides = {test.expand_stride, test.expand_stride};
    const std::int64_t pad = test.expand_kernel / 2;
    expand.pads = {pad, pad, pad, pad};
    expand.activation = test.activation;
    net.conv(expand, test.hidden, test.expand_kernel, test.expand_kernel);
  }
  Conv2d depthwise;
  depthwise.groups = test.hidden;
  depthwise.strides = {test.stride, test.stride};
  depthwise.dilations = {test.dilation, test.dilation};
  depthwise.pads = test.pads;
  depthwise.activation = test.activation;
  net.conv(depthwise, test.hidden, test.kernel, test.kernel);
  if (test.outputs > 0) net.pointwise(test.outputs);
  if (test.residual) net.add(Add{}, {net.last(), entry});
  return net.build();
}

const BlockCase kBlocks[] = {
    {.c = 8, .h = 9, .w = 11, .hidden = 24, .outputs = 8},
    {.c = 8, .h = 9, .w = 11, .hidden = 24, .outputs = 8, .residual = true},
    {.c = 16, .h = 14, .w = 14, .hidden = 96, .outputs = 24, .stride = 2},
    {.c = 5, .h = 17, .w = 13, .hidden = 37, .outputs = 19, .stride = 2},
    {.c = 5, .h = 17, .w = 13, .hidden = 37, .outputs = 5, .residual = true},
    {.c = 3, .h = 23, .w = 21, .hidden = 20, .outputs = 7, .expand_kernel = 3, .expand_stride = 2},
    {.c = 6, .h = 10, .w = 7, .hidden = 33, .outputs = 40, .expand_kernel = 3},
    {.c = 7, .h = 12, .w = 12, .hidden = 30, .outputs = 0},
    {.c = 7, .h = 13, .w = 12, .hidden = 30, .outputs = 0, .stride = 2},
    {.c = 9, .h = 12, .w = 9, .hidden = 9, .outputs = 0, .residual = true},
    {.c = 18, .h = 15, .w = 8, .hidden = 18, .outputs = 26, .expand_kernel = 0},
    {.c = 18, .h = 15, .w = 8, .hidden = 18, .outputs = 18, .expand_kernel = 0, .residual = true},
    {.c = 4, .h = 19, .w = 19, .hidden = 12, .outputs = 6, .kernel = 5, .stride = 2, .pads = {2, 2, 2, 2}},
    {.c = 4, .h = 19, .w = 19, .hidden = 12, .outputs = 6, .dilation = 3, .pads = {3, 3, 3, 3}},
    {.c = 4, .h = 15, .w = 15, .hidden = 12, .outputs = 6, .stride = 4, .pads = {0, 0, 1, 1}},
    {.c = 4, .h = 6, .w = 9, .hidden = 12, .outputs = 6, .pads = {7, 0, 8, 3}},  // rows with no input at all
    {.c = 4, .h = 1, .w = 1, .hidden = 3, .outputs = 2},
    {.c = 8, .h = 9, .w = 11, .hidden = 24, .outputs = 8, .activation = Activation::of(ActivationKind::HardSwish)},
    {.c = 8, .h = 9, .w = 11, .hidden = 25, .outputs = 8, .activation = Activation::of(ActivationKind::Silu)},
};

TEST_CASE("fused convolutions give the bits of single ones, for every instruction set, number of threads and band") {
  for (const BlockCase& test : kBlocks) {
    const Graph graph = build(test);
    const Floats input = input_for(graph, kPictures);
    for (const cpu::Fp32Kernels* kernels : cpu::supported_fp32_kernels()) {
      const Floats expected = run(*engine_for(graph, {kernels, cpu::FusionLimits::never(), {}}, 1), input);
      for (const std::int64_t band_bytes : {0, 6'000, 1'000'000}) {
        for (const int threads : {1, 2}) {
          CAPTURE(kernels->name, test.loops(), test.h, test.w, test.hidden, test.stride, band_bytes, threads);
          const auto engine = engine_for(graph, {kernels, {0, band_bytes}, {}}, threads);
          REQUIRE(std::ranges::count(engine->layers(), test.loops() + "/" + std::string(kernels->name),
                                     &LayerInfo::kernel) == 1);
          REQUIRE(compare_bits(run(*engine, input), expected));
        }
      }
    }
  }
}

TEST_CASE("fused convolutions stay close to the oracle") {
  for (const BlockCase& test : kBlocks) {
    const Graph graph = build(test);
    const Floats input = input_for(graph, kPictures);
    const Floats expected = run(*compile(graph, Precision::Fp64, kPictures), input);
    for (const cpu::Fp32Kernels* kernels : cpu::supported_fp32_kernels()) {
      CAPTURE(kernels->name, test.loops(), test.h, test.w, test.hidden, test.stride);
      const Floats actual = run(*engine_for(graph, {kernels, {0, 6'000}, {}}, 2), input);
      CHECK(compare_rel_l2(actual, std::vector<double>(expected.begin(), expected.end()),
                           rel_l2_alarm(test.products(), kStoreF32)));
    }
  }
}

TEST_CASE("a whole network has the same bits with and without fused steps") {
  const Graph graph = small_mobilenet(61, 45, 3);
  const Floats input = input_for(graph, kPictures);
  for (const cpu::Fp32Kernels* kernels : cpu::supported_fp32_kernels()) {
    const auto single = engine_for(graph, {kernels, cpu::FusionLimits::never(), {}}, 2);
    const auto fused = engine_for(graph, {kernels, {0, 4'096}, {}}, 2);
    CHECK(fused->layers().size() + 8 == single->layers().size());  // four blocks of three layers
    CHECK(fused->memory().arena_bytes < single->memory().arena_bytes);
    CHECK(compare_bits(run(*fused, input), run(*single, input)));
  }
}

TEST_CASE("a fused step tells all that it stands for") {
  const Graph graph = build(kBlocks[1]);
  const auto single = engine_for(graph, {&cpu::fp32_kernels(), cpu::FusionLimits::never(), {}}, 1);
  const auto fused = engine_for(graph, {&cpu::fp32_kernels(), {0, 6'000}, {}}, 1);
  const auto total = [](const Engine& engine, std::int64_t LayerInfo::*member) {
    std::int64_t sum = 0;
    for (const LayerInfo& layer : engine.layers()) sum += layer.*member;
    return sum;
  };
  CHECK(total(*fused, &LayerInfo::flops) == total(*single, &LayerInfo::flops));
  CHECK(total(*fused, &LayerInfo::weight_bytes) == total(*single, &LayerInfo::weight_bytes));
  CHECK(fused->memory().weight_bytes == single->memory().weight_bytes);
  // Neither written nor read: what the two inner convolutions computed.
  const std::int64_t inner = 24 * 9 * 11 * std::int64_t{sizeof(float)};
  CHECK(total(*fused, &LayerInfo::activation_bytes) == total(*single, &LayerInfo::activation_bytes) - 4 * inner);
  const LayerInfo& layer = *std::ranges::find(fused->layers(), "node1+node2+node3+node4", &LayerInfo::name);
  CHECK(layer.value == "node4");
  CHECK(layer.output == Shape{1, 8, 9, 11});
}

TEST_CASE("engines fuse large convolutions, with exact memory, no allocation in a run, and from a saved engine too") {
  const BlockCase large{.c = 8, .h = 96, .w = 96, .hidden = 64, .outputs = 8, .residual = true};
  const Graph graph = build(large);
  const Floats input = input_for(graph, kPictures);
  Floats output(input.size());
  const AllocationCount before_compile = aligned_allocations();
  const auto engine = compile(graph, Precision::Fp32, kPictures, 2);
  const MemoryReport report = engine->memory();
  CHECK(aligned_allocations().bytes - before_compile.bytes == report.weight_bytes);
  CHECK(std::ranges::count(engine->layers(), with_widest_isa(large.loops()), &LayerInfo::kernel) == 1);

  const AllocationCount before_session = aligned_allocations();
  const auto session = engine->create_session();
  CHECK(aligned_allocations().bytes - before_session.bytes ==
        report.arena_bytes + report.workspace_bytes + report.io_bytes);
  session->run(input, output);
  const AllocationCount before_run = all_allocations();
  session->run(input, output);
  CHECK(all_allocations().calls == before_run.calls);

  CHECK(
      compare_bits(run(*engine_for(graph, {&cpu::fp32_kernels(), cpu::FusionLimits::never(), {}}, 1), input), output));
  const auto restored = make_cpu_backend()->restore(engine->saved(), engine->options());
  CHECK(restored->layers().size() == engine->layers().size());
  CHECK(compare_bits(run(*restored, input), output));
}

TEST_CASE("what else is read, or too small, stays a layer by itself") {
  const auto steps = [](const Graph& graph, std::int64_t least_elements) {
    return cpu::fused_steps(optimize(graph), {least_elements, 0}).size();
  };
  const Graph block = build(kBlocks[0]);
  const std::size_t single = optimize(block).nodes().size();
  CHECK(steps(block, 24 * 9 * 11) == single - 2);
  CHECK(steps(block, 24 * 9 * 11 + 1) == single);

  // The expansion is read by the depthwise convolution and by an addition.
  TestGraph net({DType::F32, Shape{1, 8, 9, 11}, Layout::NCHW}, 11);
  net.pointwise(24);
  const ValueId expanded = net.last();
  net.depthwise3x3(1).add(Add{}, {net.last(), expanded}).pointwise(8);
  const Graph read_twice = net.build();
  CHECK(steps(read_twice, 0) == optimize(read_twice).nodes().size() - 1);  // the depthwise one adds, and is projected
}

}  // namespace
}  // namespace mobicuda::test
