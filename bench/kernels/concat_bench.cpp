#include "kernels/streaming/concat.h"

#include <vector>

#include "layer_bench.h"

namespace mobicuda::bench {
namespace {

struct Join {
  int side;
  std::vector<std::int64_t> columns;
};

/// Of SqueezeNet's fire modules, Inception v3's mixed layers, DenseNet-201's last block.
const Join kJoins[] = {{56, {64, 64}}, {35, {64, 64, 96, 64}}, {17, {192, 192, 192, 192}}, {7, {1888, 32}}};

void register_join(const Selection& selection, Elem elem, int batch, const Join& join) {
  kernels::ConcatParams params;
  params.elem = elem;
  params.rows = static_cast<std::int64_t>(batch) * join.side * join.side;
  for (const std::int64_t columns : join.columns) {
    params.part[params.parts++] = {columns, columns, params.pitch};
    params.pitch += columns;
  }
  const NamedCase at{extents(join.side, join.side, static_cast<int>(params.pitch)), elem, batch};
  add_kernel(*selection.registry, "concat", at, [params] {
    const std::int64_t column_bytes = static_cast<std::int64_t>(size_of(params.elem)) * params.rows;
    TimedKernel kernel{"concat"};
    for (int i = 0; i < params.parts; ++i) kernel.weight_bytes.push_back(column_bytes * params.part[i].columns);
    kernel.y_bytes = column_bytes * params.pitch;
    kernel.enqueue = [params](const TimedOperands& on, const kernels::Launch& where) {
      return kernels::concat(params, on.weights.data(), on.y, where);
    };
    return kernel;
  });
}

void register_all(const Selection& selection) {
  for (const Elem elem : selection.elems) {
    for (const int batch : selection.batches) {
      for (const Join& join : kJoins) register_join(selection, elem, batch, join);
    }
  }
}

const Benchmarks kBenchmarks("concat", register_all, false);

}  // namespace

}  // namespace mobicuda::bench
