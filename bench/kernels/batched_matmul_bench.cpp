#include "kernels/batched_matmul/batched_matmul.h"

#include <string>

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

/// Pairs for each image, and their extents: scores and values of a ViT-Ti, the context of a GC-ResNeXt's first stage.
struct Product {
  int pairs;
  int m;
  int k;
  int p;
};
constexpr Product kProducts[] = {{3, 197, 64, 197}, {3, 197, 197, 64}, {1, 64, 4096, 1}};

void register_all(const Selection& selection) {
  for (const auto& [pairs, m, k, columns] : kProducts) {
    for (const Elem elem : selection.elems) {
      for (const int batch : selection.batches) {
        const kernels::BatchedMatMulParams p{elem, std::int64_t{batch} * pairs, m, k, columns};
        const auto size = static_cast<std::int64_t>(size_of(elem));
        const auto make = [p, size] {
          TimedKernel kernel{"batched_matmul"};
          kernel.x_bytes = p.batch * p.m * p.k * size;
          kernel.residual_bytes = p.batch * p.k * p.p * size;
          kernel.y_bytes = p.batch * p.m * p.p * size;
          kernel.enqueue = [p](const TimedOperands& on, const kernels::Launch& where) {
            return kernels::batched_matmul(p, on.x, on.residual, on.y, where);
          };
          return kernel;
        };
        const std::string shape =
            std::to_string(pairs) + "x" + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(columns);
        add_kernel(*selection.registry, "batched_matmul", {shape, elem, batch}, make);
      }
    }
  }
}

const Benchmarks kBenchmarks("batched_matmul", register_all, false);

}  // namespace

}  // namespace mobicuda::bench
