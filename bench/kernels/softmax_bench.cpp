#include "kernels/softmax.h"

#include "bench_support.h"

namespace mobicuda::bench {
namespace {

void register_shape(Elem elem, int rows, int columns) {
  const kernels::SoftmaxParams p{elem, Elem::F32, rows, columns};
  const std::int64_t elements = static_cast<std::int64_t>(rows) * columns;
  const std::string name = "softmax/" + to_string(elem) + "/n" + std::to_string(rows) + "_" + std::to_string(columns);
  add(name, [=](benchmark::State& state) {
    const DeviceArray x(elem, elements);
    const DeviceArray y(Elem::F32, elements);
    const auto bytes = static_cast<std::int64_t>(kernels::size_of(elem) + sizeof(float)) * elements;
    measure(state, {bytes, 0},
            [&](const kernels::Launch& where) { return kernels::softmax(p, x.data(), y.data(), where); });
  });
}

const bool kRegistered = [] {
  for (const Elem elem : kElems) {
    for (const int rows : kBatches) {
      for (const int columns : {1000, 21843}) register_shape(elem, rows, columns);
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
