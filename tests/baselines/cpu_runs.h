#pragma once

#include <cstdint>
#include <memory>

#include <mobicuda/cpu_backend.h>

#include "baselines/engine_runs.h"

namespace mobicuda::test {

inline std::shared_ptr<const Engine> compile(const Graph& graph, Precision precision, std::int64_t max_batch = 1,
                                             int threads = 1) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = max_batch;
  options.threads = threads;
  return make_cpu_backend()->compile(graph, options);
}

}  // namespace mobicuda::test
