#include "kernels/elementwise.h"

#include "bench_support.h"

namespace mobicuda::bench {
namespace {

/// Where MobileNetV2 adds a residual: side of the square picture, channels.
constexpr int kResiduals[][2] = {{56, 24}, {28, 32}, {14, 64}, {14, 96}, {7, 160}};
constexpr kernels::Clip kRelu6{0.0F, 6.0F};

void register_shape(Elem elem, int n, int side, int c) {
  const std::int64_t rows = static_cast<std::int64_t>(n) * side * side;
  const std::int64_t elements = rows * c;
  const auto bytes = static_cast<std::int64_t>(kernels::size_of(elem)) * elements;
  const std::string suffix = "/" + to_string(elem) + "/" + shape_name(n, side, side, c);
  add("add" + suffix, [=](benchmark::State& state) {
    const DeviceArray a(elem, elements);
    const DeviceArray b(elem, elements);
    const DeviceArray y(elem, elements);
    measure(state, {3 * bytes, elements}, [&](const kernels::Launch& where) {
      return kernels::add(elem, elements, kRelu6, a.data(), b.data(), y.data(), where);
    });
  });
  add("clip" + suffix, [=](benchmark::State& state) {
    const DeviceArray x(elem, elements);
    const DeviceArray y(elem, elements);
    measure(state, {2 * bytes, 0}, [&](const kernels::Launch& where) {
      return kernels::clip(elem, elements, kRelu6, x.data(), y.data(), where);
    });
  });
  add("scale_shift" + suffix, [=](benchmark::State& state) {
    const DeviceArray x(elem, elements);
    const DeviceArray y(elem, elements);
    const DeviceArray scale(Elem::F32, c);
    const DeviceArray shift(Elem::F32, c);
    measure(state, {2 * bytes, 2 * elements}, [&](const kernels::Launch& where) {
      return kernels::scale_shift(elem, rows, c, kRelu6, x.data(), scale.floats(), shift.floats(), y.data(), where);
    });
  });
}

const bool kRegistered = [] {
  for (const Elem elem : kElems) {
    for (const int n : kBatches) {
      for (const auto& [side, c] : kResiduals) register_shape(elem, n, side, c);
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
