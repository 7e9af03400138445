#include <algorithm>

#include <mobicuda/custom_backend.h>
#ifdef MOBICUDA_WITH_CUDNN
#include <mobicuda/cudnn_backend.h>
#endif

#include "baselines/engine_runs.h"
#include "ops/op_runs.h"
#include "support/catch.h"
#include "support/network_oracle.h"

namespace mobicuda::test {
namespace {

constexpr std::int64_t kPictures = 3;

/// Three pictures in an engine for four, and each by itself, which must give the same bits in any place of the batch.
void check_custom(const Graph& graph, const NetworkOracle& oracle, const Floats& input, Precision precision) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = kPictures + 1;
  options.guarded_arena = true;
  const auto engine = make_custom_backend()->compile(graph, options);
  Floats output = run(*engine, input);
  CHECK(oracle.compare(output, precision));
  Floats turned = input;
  std::rotate(turned.begin(), turned.begin() + graph.input_desc().shape.elements(), turned.end());
  std::rotate(output.begin(), output.begin() + graph.output_desc().shape.elements(), output.end());
  CHECK(compare_bits(run(*engine, turned), output));
}

}  // namespace

void check_engines(const Graph& graph, std::int64_t products) {
  const Floats input = input_for(graph, kPictures);
  const NetworkOracle oracle(graph, input, kPictures, products);
  for (const Precision precision : {Precision::Fp32, Precision::Fp16, Precision::Fp64}) {
    CAPTURE(to_string(precision));
    check_custom(graph, oracle, input, precision);
#ifdef MOBICUDA_WITH_CUDNN
    EngineOptions options;
    options.precision = precision;
    options.max_batch = kPictures;
    CHECK(oracle.compare(run(*make_cudnn_backend()->compile(graph, options), input), precision));
#endif
  }
}

}  // namespace mobicuda::test
