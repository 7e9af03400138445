#include <mobicuda/plan_file.h>

#include "baselines/cpu_runs.h"
#include "ops/op_runs.h"

namespace mobicuda::test {

void check_engines(const Graph& graph, std::int64_t products) {
  check_fp32(graph, products);
  EngineOptions options;
  options.threads = 1;
  const auto backend = make_cpu_backend();
  const auto engine = backend->compile(graph, options);
  const SavedEngine saved = engine->saved();
  const auto bytes = plan_file::save_to_memory(saved);
  const SavedEngine read = plan_file::read_from_memory(bytes, "plan");
  CHECK(print(read.graph) == print(saved.graph));
  const auto restored = backend->restore(read, options);
  const Floats input = input_for(graph, 1);
  CHECK(compare_bits(run(*restored, input), run(*engine, input)));
  CHECK(plan_file::save_to_memory(restored->saved()) == bytes);
}

}  // namespace mobicuda::test
