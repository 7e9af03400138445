#include "kernels/streaming/local_response_norm.h"

#include "layer_bench.h"
#include "layer_finding.h"

namespace mobicuda::bench {
namespace {

const LayerKind kKind({.name = "local_response_norm", .find = find_op<LocalResponseNorm>});

/// With the power that has square roots only, and with one that takes pow().
void register_all(const Selection& selection) {
  for_each_case(selection, kKind, [](const LayerCase& at) {
    constexpr std::pair<float, const char*> kPowers[] = {{0.75F, "roots"}, {0.7F, "power"}};
    for (const auto& [beta, power] : kPowers) {
      const LayerShape& shape = at.layer.shape;
      const kernels::LocalResponseNormParams p{
          at.elem, std::int64_t{at.batch} * shape.h * shape.w, shape.c_in, 5, 1e-4F, beta, 1.0F};
      const auto make = [p, bytes = input_bytes(at)] {
        TimedKernel kernel{"local_response_norm"};
        kernel.x_bytes = kernel.y_bytes = bytes;
        kernel.enqueue = [p](const TimedOperands& on, const kernels::Launch& where) {
          return kernels::local_response_norm(p, on.x, on.y, where);
        };
        return kernel;
      };
      add_layer(std::string(kKind.name()) + "/" + power, at, make, {});
    }
  });
}

const Benchmarks kBenchmarks(kKind.name(), register_all, false);

}  // namespace

}  // namespace mobicuda::bench
