#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <mobicuda/cpu_backend.h>

#include "baselines/engine_runs.h"
#include "support/catch.h"
#include "support/tolerance.h"

namespace mobicuda::test {

inline std::shared_ptr<const Engine> compile(const Graph& graph, Precision precision, std::int64_t max_batch = 1,
                                             int threads = 1) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  options.threads = threads;
  return make_cpu_backend()->compile(graph, options);
}

/// fp32 against fp64, for one thread and for several, which must give the same bits. `products` are those of all sums
/// that an output goes back to, one after the other.
inline void check_fp32(const Graph& graph, std::int64_t products) {
  constexpr std::int64_t kPictures = 3;
  const Floats input = input_for(graph, kPictures);
  const Floats expected = run(*compile(graph, Precision::Fp64, kPictures), input);
  const Floats actual = run(*compile(graph, Precision::Fp32, kPictures), input);
  CHECK(
      compare_rel_l2(actual, std::vector<double>(expected.begin(), expected.end()), rel_l2_alarm(products, kStoreF32)));
  CHECK(compare_bits(run(*compile(graph, Precision::Fp32, kPictures, 3), input), actual));
  const auto picture = static_cast<std::ptrdiff_t>(input.size() / kPictures);
  const Floats last = run(*compile(graph, Precision::Fp32), {input.end() - picture, input.end()});
  CHECK(compare_bits(last, {actual.end() - static_cast<std::ptrdiff_t>(last.size()), actual.end()}));
}

}  // namespace mobicuda::test
