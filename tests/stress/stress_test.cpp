// What the stress programs are made of, on the CPU: engines in text form, and the comparison of outputs.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/engine.h>

#include "stress/engine_load.h"
#include "stress/engine_spec.h"
#include "support/catch.h"
#include "support/graphs.h"

namespace mobicuda::stress {
namespace {

std::shared_ptr<const Engine> small_engine(const EngineSpec& spec) {
  test::TestNetwork network(Shape{1, 3, 8, 8});
  network.conv(4, 3);
  network.head(5);
  EngineOptions options;
  options.max_batch = spec.max_batch;
  return make_cpu_backend()->compile(std::move(network).build(), options);
}

TEST_CASE("engine specs: all keys are read") {
  const EngineSpec spec = parse_engine_spec(
      "impl=cudnn,network=resnet50,resolution=96,precision=fp64,input=bytes,max_batch=7,sessions=3,batches=eighths,"
      "calls=any,renew=200,reload=4,graph=0,programmatic=0,variants=head:layers+gemm:mma_64x64x64");
  CHECK(spec.implementation == "cudnn");
  CHECK(spec.network == "resnet50");
  CHECK(spec.resolution == 96);
  CHECK(spec.precision == Precision::Fp64);
  CHECK(spec.bytes);
  CHECK(spec.max_batch == 7);
  CHECK(spec.sessions == 3);
  CHECK(spec.batches == Batches::Eighths);
  CHECK(spec.calls == Calls::Any);
  CHECK(spec.renew == 200);
  CHECK(spec.reload == 4);
  CHECK_FALSE(spec.cuda_graph);
  CHECK_FALSE(spec.programmatic_launch);
  CHECK(spec.kernel_variants == std::map<std::string, std::string>{{"head", "layers"}, {"gemm", "mma_64x64x64"}});
  CHECK(parse_engine_spec("impl=cpu").precision == Precision::Fp32);
}

TEST_CASE("engine specs: what makes no sense is refused") {
  for (const char* text : {"fast", "speed=1", "max_batch=0", "max_batch=4x", "sessions=65", "graph=yes", "batches=all",
                           "variants=head", "variants=:layers", "precision=", "graph=1,graph=0",
                           "model=a.onnx,network=resnet50", "reload=2", "impl=cpu,calls=device"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_engine_spec(text), UsageError);
  }
}

TEST_CASE("one bit of an output that differs is a wrong output") {
  EngineSpec spec = parse_engine_spec("impl=cpu,max_batch=3");
  const auto engine = small_engine(spec);
  const Expected expected(*engine, spec, 7);
  CHECK(expected.batches() == std::vector<std::int64_t>{1, 2, 3});
  const auto session = engine->create_session();
  constexpr std::int64_t kFirst = 2;
  for (const std::int64_t n : expected.batches()) {
    std::vector<float> outputs(static_cast<std::size_t>(n) * expected.output_elements());
    session->run(std::span(expected.floats(kFirst), static_cast<std::size_t>(n) * expected.input_elements()), outputs);
    CHECK(expected.compare(n, kFirst, outputs.data()).empty());
    CHECK_FALSE(expected.compare(n, kFirst + 1, outputs.data()).empty());  // other pictures
    std::uint32_t bits = 0;
    std::memcpy(&bits, &outputs.back(), sizeof bits);
    bits ^= 1U;
    std::memcpy(&outputs.back(), &bits, sizeof bits);
    const std::string wrong = expected.compare(n, kFirst, outputs.data());
    CHECK(wrong.find("1 of " + std::to_string(outputs.size()) + " outputs") == 0);
    CHECK(wrong.find("output 4 of its picture " + std::to_string(n - 1)) != std::string::npos);
  }
}

TEST_CASE("engines: which n are called") {
  EngineSpec spec = parse_engine_spec("impl=cpu,max_batch=16,batches=eighths");
  CHECK(Expected(*small_engine(spec), spec, 1).batches() == std::vector<std::int64_t>{2, 4, 6, 8, 10, 12, 14, 16});
  spec.batches = Batches::Whole;
  CHECK(Expected(*small_engine(spec), spec, 1).batches() == std::vector<std::int64_t>{16});
}

}  // namespace
}  // namespace mobicuda::stress
