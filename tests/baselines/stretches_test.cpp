// Steps that run for a few images before they run for the next ones: the same bits as for all at once.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "baselines/allocation_count.h"
#include "baselines/cpu/cpu_engine.h"
#include "baselines/cpu/plan_maker.h"
#include "baselines/cpu_runs.h"
#include "baselines/test_graphs.h"
#include "support/catch.h"

namespace mobicuda::test {
namespace {

constexpr std::int64_t kMostPictures = 7;

cpu::Plan plan_for(const Graph& optimized, const cpu::StretchLimits& limits, int threads) {
  EngineOptions options;
  options.max_batch = kMostPictures;
  options.threads = threads;
  return cpu::make_plan(optimized, options, nullptr, {&cpu::fp32_kernels(), {}, limits});
}

std::shared_ptr<const Engine> engine_for(const Graph& graph, const cpu::StretchLimits& limits, int threads) {
  EngineOptions options;
  options.max_batch = kMostPictures;
  options.threads = threads;
  const Graph optimized = optimize(graph);
  return std::make_shared<const cpu::CpuEngine<float>>(options, optimized.input_desc(), optimized.output_desc(),
                                                       plan_for(optimized, limits, threads));
}

// Branches of light and heavy weights, whose tensors live through several stretches, and an output of its own size.
Graph branches() {
  TestGraph net({DType::F32, Shape{1, 5, 12, 10}, Layout::NCHW}, 31);
  net.pointwise(24, Activation::relu());
  const ValueId early = net.last();
  net.depthwise3x3(1).pointwise(7);
  const ValueId narrow = net.last();
  net.pointwise(40).depthwise3x3(1).pointwise(24).add(Add{}, {net.last(), early});
  const ValueId sum = net.last();
  net.add(GlobalAveragePool{}, {sum}).pointwise(24, Activation::of(ActivationKind::Sigmoid));
  net.add(Mul{}, {sum, net.last()}).depthwise3x3(1, Activation::relu6()).pointwise(48);
  net.add(Concat{1}, {net.last(), narrow, sum, early}).pointwise(30).depthwise3x3(2);
  net.add(GlobalAveragePool{}, {net.last()}).flatten().gemm(70).gemm(9);
  return net.build();
}

// Weights of some bytes are heavy, and fill blocks of some rows: every step alone or with its neighbours, one image or
// several.
constexpr std::array<cpu::StretchLimits, 5> kLimits{{{-1, 1}, {1000, 96}, {3000, 250}, {3000, 400}, {1 << 20, 1}}};

TEST_CASE("the bits do not depend on how many images steps take together, threads and images in a run") {
  for (const Graph& graph : {branches(), small_mobilenet(32, 28, 13)}) {
    const Floats input = input_for(graph, kMostPictures);
    const Floats expected = run(*engine_for(graph, cpu::StretchLimits::never(), 1), input);
    const auto in = static_cast<std::ptrdiff_t>(input.size()) / kMostPictures;
    const auto out = static_cast<std::ptrdiff_t>(expected.size()) / kMostPictures;
    for (const cpu::StretchLimits& limits : kLimits) {
      for (const int threads : {1, 2, 3, 8}) {
        const auto engine = engine_for(graph, limits, threads);
        const auto session = engine->create_session();
        for (const std::ptrdiff_t n : {7, 1, 2, 3, 4, 5, 6, 7}) {
          CAPTURE(limits.light_weights, limits.block_rows, threads, n);
          Floats output(static_cast<std::size_t>(n * out));
          session->run(Floats(input.end() - n * in, input.end()), output);
          REQUIRE(compare_bits(output, Floats(expected.end() - n * out, expected.end())));
        }
      }
    }
  }
}

TEST_CASE("stretches follow each other, and share no memory with what lives beside them") {
  const Graph graph = optimize(branches());
  std::size_t most = 0;
  for (const cpu::StretchLimits& limits : kLimits) {
    for (const int threads : {1, 3, 8}) {
      CAPTURE(limits.light_weights, limits.block_rows, threads);
      const cpu::Plan plan = plan_for(graph, limits, threads);
      std::size_t step = 0;
      for (const cpu::Stretch& stretch : plan.stretches) {
        CHECK(stretch.first_step == step);
        CHECK(stretch.last_step > step);
        step = stretch.last_step;
        // Slots are for threads that all find images.
        CHECK((stretch.slots == 1 || (stretch.slots == threads && stretch.images * threads <= kMostPictures)));
        const std::int64_t end = stretch.offset + stretch.slots * stretch.slot_bytes;
        CHECK(end <= plan.arena_bytes);
        for (const int i : stretch.crossing) {
          const cpu::Buffer& buffer = plan.buffers[static_cast<std::size_t>(i)];
          if (buffer.place != cpu::Buffer::Place::Arena || stretch.slot_bytes == 0) continue;
          CHECK((buffer.run_offset + buffer.bytes <= stretch.offset || end <= buffer.run_offset));
        }
      }
      CHECK(step == plan.steps.size());
      most = std::max(most, plan.stretches.size());
    }
  }
  CHECK(most >= 5);
}

TEST_CASE("late layers take as many images as fill a block of rows, others one") {
  TestGraph net({DType::F32, Shape{1, 8, 14, 14}, Layout::NCHW}, 3);
  net.pointwise(64).depthwise3x3(2);                              // 14x14, light
  net.pointwise(64).depthwise3x3(1).pointwise(64);                // 7x7, heavy but for the depthwise one
  net.add(GlobalAveragePool{}, {net.last()}).flatten().gemm(64);  // one row of an image
  const cpu::Plan plan = plan_for(optimize(net.build()), {16'000, 102}, 2);
  REQUIRE(plan.stretches.size() == 3);
  CHECK(plan.stretches[0].images == 1);
  CHECK(plan.stretches[0].slots == 2);
  CHECK(plan.steps[plan.stretches[1].first_step].info.output == Shape{1, 64, 7, 7});
  CHECK(plan.stretches[1].images == 2);
  CHECK(plan.stretches[1].slots == 2);
  CHECK(plan.steps[plan.stretches[2].first_step].info.output == Shape{1, 64});
  CHECK(plan.stretches[2].images == kMostPictures);
  CHECK(plan.stretches[2].slots == 1);
}

TEST_CASE("the oracle takes all images at once") {
  EngineOptions options;
  options.precision = Precision::Fp64;
  options.max_batch = kMostPictures;
  options.threads = 2;
  const cpu::Plan plan = cpu::make_plan(optimize(branches()), options, nullptr);
  REQUIRE(plan.stretches.size() == 1);
  CHECK(plan.stretches[0].images == kMostPictures);
}

TEST_CASE("layer by layer all images of each are there, also between runs") {
  const Graph graph = branches();
  const Floats input = input_for(graph, kMostPictures);
  const auto all = engine_for(graph, cpu::StretchLimits::never(), 1);
  const auto engine = engine_for(graph, {3000, 250}, 2);
  const auto expected_session = all->create_session();
  const auto session = engine->create_session();
  Floats expected_output(static_cast<std::size_t>(kMostPictures * engine->output().shape.elements()));
  expected_session->run(input, expected_output);
  Floats output(expected_output.size());
  session->run(input, output);
  for (std::size_t layer = 0; layer < engine->layers().size(); ++layer) {
    CAPTURE(layer);
    expected_session->execute_layer(kMostPictures, layer);
    session->execute_layer(kMostPictures, layer);
    Floats expected(static_cast<std::size_t>(kMostPictures * engine->layers()[layer].output.elements()));
    Floats actual(expected.size());
    expected_session->get_layer_output(expected);
    session->get_layer_output(actual);
    REQUIRE(compare_bits(actual, expected));
  }
  session->get_output(output);
  CHECK(compare_bits(output, expected_output));
  session->execute(kMostPictures);
  session->get_output(output);
  CHECK(compare_bits(output, expected_output));
}

TEST_CASE("a profile's layers add up to the run, whoever ran them") {
  const Graph graph = small_mobilenet(32, 32, 3);  // a run is shorter than a slice of a busy processor's time
  for (const int threads : {1, 2}) {
    const auto engine = engine_for(graph, {1 << 20, 1}, threads);
    const auto session = engine->create_session();
    bool add_up = false;
    double sum = 0;
    LayerTimes times;
    for (int attempt = 0; attempt < 50 && !add_up; ++attempt) {  // other programs may take cores away from either side
      times = session->profile(kMostPictures, 9);
      REQUIRE(times.layers.size() == engine->layers().size());
      REQUIRE(std::ranges::all_of(times.layers, [](double layer) { return layer > 0; }));
      sum = std::accumulate(times.layers.begin(), times.layers.end(), 0.0);
      add_up = sum < 4 * times.whole && sum > times.whole / 4;
    }
    CAPTURE(threads, sum, times.whole);
    CHECK(add_up);
  }
}

TEST_CASE("memory is exact and a run allocates nothing, whatever steps take together") {
  const Graph graph = branches();
  const Floats input = input_for(graph, kMostPictures);
  for (const cpu::StretchLimits& limits : kLimits) {
    for (const int threads : {1, 2, 8}) {
      const auto engine = engine_for(graph, limits, threads);
      const MemoryReport report = engine->memory();
      const AllocationCount before_session = aligned_allocations();
      const auto session = engine->create_session();
      CHECK(aligned_allocations().bytes - before_session.bytes ==
            report.arena_bytes + report.workspace_bytes + report.io_bytes);
      Floats output(static_cast<std::size_t>(kMostPictures * engine->output().shape.elements()));
      const AllocationCount before_run = all_allocations();
      session->run(input, output);
      CHECK(all_allocations().calls == before_run.calls);
    }
  }
}

}  // namespace
}  // namespace mobicuda::test
