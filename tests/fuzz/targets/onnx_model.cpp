#include "fuzz/target.h"

namespace mobicuda::fuzz {
namespace {

bool run(Bytes input) {
  return returns([&] {
    onnx_import::ImportOptions options;
    options.limits = small_limits();
    const Graph graph = onnx_import::load_from_memory(std::as_bytes(input), "input", options);
    print(graph);
  });
}

}  // namespace

Target onnx_model() { return {run, mutate_message}; }

}  // namespace mobicuda::fuzz
