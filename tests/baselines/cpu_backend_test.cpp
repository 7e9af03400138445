// What the CPU engine promises through the public interface: determinism, exact memory, no allocation.
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "baselines/allocation_count.h"
#include "baselines/cpu_runs.h"
#include "baselines/test_graphs.h"
#include "support/catch.h"
#include "support/random.h"
#include "support/tolerance.h"

namespace mobicuda::test {
namespace {

TEST_CASE("a small MobileNetV2 in fp32 agrees with the oracle") {
  constexpr double kNetworkRelL2 = 1e-5;  // docs/cpu_engine.md
  for (const auto& [h, w] : {std::pair<std::int64_t, std::int64_t>{32, 32}, {33, 47}}) {
    const Graph graph = small_mobilenet(h, w, 11);
    const Floats input = input_for(graph, 3);
    const Floats actual = run(*compile(graph, Precision::Fp32, 3, 2), input);
    const Floats expected = run(*compile(graph, Precision::Fp64, 3, 2), input);
    CHECK(compare_rel_l2(actual, std::vector<double>(expected.begin(), expected.end()), kNetworkRelL2));
  }
}

TEST_CASE("results are bitwise equal for every number of threads") {
  const Graph graph = small_mobilenet(40, 36, 12);
  const Floats input = input_for(graph, 3);
  for (const Precision precision : {Precision::Fp32, Precision::Fp64}) {
    const Floats one = run(*compile(graph, precision, 3, 1), input);
    for (const int threads : {2, 3, 7}) {
      CAPTURE(to_string(precision), threads);
      const auto engine = compile(graph, precision, 3, threads);
      for (int repeat = 0; repeat < 5; ++repeat) CHECK(compare_bits(run(*engine, input), one));
    }
  }
}

TEST_CASE("a picture gives the same bits alone and at any place in a batch") {
  constexpr std::int64_t kBatch = 9;
  const Graph graph = small_mobilenet(32, 28, 13);
  const Floats input = input_for(graph, kBatch);
  const auto engine = compile(graph, Precision::Fp32, kBatch, 2);
  const Floats together = run(*engine, input);
  const auto in = static_cast<std::ptrdiff_t>(engine->input().shape.elements());
  const auto out = static_cast<std::ptrdiff_t>(engine->output().shape.elements());
  for (std::ptrdiff_t n = 0; n < kBatch; ++n) {
    const Floats alone = run(*engine, Floats(input.begin() + n * in, input.begin() + (n + 1) * in));
    CHECK(compare_bits(alone, Floats(together.begin() + n * out, together.begin() + (n + 1) * out)));
  }
}

TEST_CASE("the memory report is what an engine and a session allocate, to the byte") {
  const Graph graph = small_mobilenet(32, 32, 15);
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp64);
  const auto batch = GENERATE(as<std::int64_t>{}, 1, 4);
  const AllocationCount before_compile = aligned_allocations();
  const auto engine = compile(graph, precision, batch, 2);
  const MemoryReport report = engine->memory();
  CHECK(aligned_allocations().bytes - before_compile.bytes == report.weight_bytes);
  CHECK(report.io_bytes == batch * (3 * 32 * 32 + 101) * (precision == Precision::Fp32 ? 4 : 8));
  CHECK(report.weight_bytes > 0);
  std::int64_t layer_weights = 0;
  for (const LayerInfo& layer : engine->layers()) layer_weights += layer.weight_bytes;
  CHECK(report.weight_bytes == layer_weights);
  const AllocationCount before = aligned_allocations();
  const auto session = engine->create_session();
  CHECK(aligned_allocations().bytes - before.bytes == report.arena_bytes + report.workspace_bytes + report.io_bytes);
}

TEST_CASE("running a session allocates nothing") {
  const Graph graph = small_mobilenet(32, 32, 16);
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp64);
  const auto threads = GENERATE(1, 3);
  const auto engine = compile(graph, precision, 2, threads);
  const auto session = engine->create_session();
  const Floats input = input_for(graph, 2);
  Floats output(2 * 101);
  const AllocationCount before = all_allocations();
  session->run(input, output);
  const AllocationCount after = all_allocations();
  CHECK(after.calls == before.calls);
}

TEST_CASE("layers carry the nodes' names, kernels and counts") {
  const auto engine = compile(small_mobilenet(32, 32, 17), Precision::Fp32, 1, 1);
  const auto layers = engine->layers();
  REQUIRE(layers.size() > 10);
  CHECK(layers[0].kernel.starts_with("layout_transform/"));
  CHECK(layers[1].name == "node0+node1");
  CHECK(layers[1].kernel.starts_with("conv2d/"));
  CHECK(layers[1].flops == 2 * 16 * 16 * 16 * 27);
  CHECK(layers[2].kernel.starts_with("gemm/"));
  CHECK(layers[3].kernel.starts_with("depthwise_conv/"));
  for (const LayerInfo& layer : layers) CHECK(layer.activation_bytes > 0);
  const auto session = engine->create_session();
  CHECK(session->profile(1, 3).layers.size() == layers.size());
  for (const double ms : session->time_executions(1, 4)) CHECK(ms > 0.0);
  CHECK(session->time_executions(1, 4, 2).size() == 4);
}

TEST_CASE("precisions that the CPU engine lacks are named at compile time") {
  const Graph graph = small_mobilenet(32, 32, 18);
  for (const Precision precision : {Precision::Fp16, Precision::Tf32}) {
    try {
      compile(graph, precision);
      FAIL("compiled");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::unsupported);
      CHECK(std::string(error.what()).find("fp32 or fp64") != std::string::npos);
    }
  }
}

TEST_CASE("one engine serves several threads, each with its session") {
  const Graph graph = small_mobilenet(32, 32, 19);
  const auto engine = compile(graph, Precision::Fp32, 1, 2);
  const Floats input = input_for(graph, 1);
  const Floats expected = run(*engine, input);
  std::vector<Floats> results(4);
  {
    std::vector<std::jthread> threads;
    for (Floats& result : results) {
      threads.emplace_back([&] {
        for (int i = 0; i < 5; ++i) result = run(*engine, input);
      });
    }
  }
  for (const Floats& result : results) CHECK(compare_bits(result, expected));
}

}  // namespace
}  // namespace mobicuda::test
