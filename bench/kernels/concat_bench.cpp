#include "kernels/concat.h"

#include <vector>

#include "bench_support.h"
#include "selection.h"

namespace mobicuda::bench {
namespace {

struct Join {
  int side;
  std::vector<std::int64_t> columns;
};

/// Of SqueezeNet's fire modules, Inception v3's mixed layers, DenseNet-201's last block.
const Join kJoins[] = {{56, {64, 64}}, {35, {64, 64, 96, 64}}, {17, {192, 192, 192, 192}}, {7, {1888, 32}}};

void register_join(Registry& registry, Elem elem, int n, const Join& join) {
  kernels::ConcatParams params;
  params.elem = elem;
  params.rows = static_cast<std::int64_t>(n) * join.side * join.side;
  for (const std::int64_t columns : join.columns) {
    params.part[params.parts++] = {columns, columns, params.pitch};
    params.pitch += columns;
  }
  const std::int64_t elements = params.rows * params.pitch;
  const auto bytes = static_cast<std::int64_t>(kernels::size_of(elem)) * elements;
  registry.add("concat/" + to_string(elem) + "/" + shape_name(n, join.side, join.side, static_cast<int>(params.pitch)),
               [=](benchmark::State& state) {
                 std::vector<DeviceArray> parts;
                 std::vector<const void*> x;
                 for (int i = 0; i < params.parts; ++i) parts.emplace_back(elem, params.rows * params.part[i].columns);
                 for (const DeviceArray& part : parts) x.push_back(part.data());
                 const DeviceArray y(elem, elements);
                 measure(state, {2 * bytes, 0}, [&](const kernels::Launch& where) {
                   return kernels::concat(params, x.data(), y.data(), where);
                 });
               });
}

}  // namespace

void register_concat(const Selection& selection) {
  for (const Elem elem : kElems) {
    for (const int n : {1, 32}) {
      for (const Join& join : kJoins) register_join(*selection.registry, elem, n, join);
    }
  }
}

}  // namespace mobicuda::bench
