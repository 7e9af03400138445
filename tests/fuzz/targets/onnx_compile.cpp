// What the importer accepts is optimised, compiled for the CPU and run, in fp32 and fp64. The engine of a plan file
// must answer the same bits.
#include <mobicuda/cpu_backend.h>
#include <mobicuda/error.h>
#include <mobicuda/plan_file.h>

#include <cstring>

#include "fuzz/target.h"

namespace mobicuda::fuzz {
namespace {

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void check_plan_file(const Backend& backend, const Engine& engine, const std::vector<float>& expected) {
  const auto bytes = plan_file::save_to_memory(engine.saved());
  const SavedEngine saved = plan_file::read_from_memory(bytes, "plan");
  const auto restored = backend.restore(saved, small_options());
  if (!equal_bits(run_once(*restored), expected)) fail("a plan file answers otherwise than its model");
  if (plan_file::save_to_memory(restored->saved()) != bytes) fail("a plan file is saved otherwise than it was read");
}

bool run(Bytes input) {
  return returns([&] {
    onnx_import::ImportOptions import;
    import.limits = small_limits();
    const Graph graph = onnx_import::load_from_memory(std::as_bytes(input), "input", import);
    if (!is_small(graph)) return;
    const Graph optimized = optimize(graph);
    print(optimized);
    const auto backend = make_cpu_backend();
    EngineOptions options = small_options();
    const auto engine = backend->compile(graph, options);
    const std::vector<float> output = run_once(*engine);
    if (!equal_bits(run_once(*engine), output)) fail("two runs answer otherwise");
    check_plan_file(*backend, *engine, output);
    options.precision = Precision::Fp64;
    run_once(*backend->compile(graph, options));
  });
}

}  // namespace

Target onnx_compile() { return {run, mutate_message}; }

}  // namespace mobicuda::fuzz
