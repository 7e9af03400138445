#include "kernels/multiply.h"

#include <limits>

#include "bench_support.h"

namespace mobicuda::bench {
namespace {

/// Gates of MobileNetV3-Large and EfficientNet-B0: side of the square picture, channels.
constexpr int kGates[][2] = {{112, 32}, {28, 120}, {14, 672}, {7, 960}};

void register_gate(Elem elem, int n, int side, int c, bool repeats) {
  const std::int64_t pixels = static_cast<std::int64_t>(side) * side;
  const std::int64_t elements = n * pixels * c;
  const std::int64_t elements_b = repeats ? static_cast<std::int64_t>(n) * c : elements;
  const kernels::MultiplyParams params{
      elem, kernels::Activation(), 3, {n, pixels, c}, {repeats ? c : pixels * c, repeats ? 0 : c, 1}};
  add(std::string("multiply/") + (repeats ? "gate/" : "equal/") + to_string(elem) + "/" + shape_name(n, side, side, c),
      [=](benchmark::State& state) {
        const DeviceArray a(elem, elements);
        const DeviceArray b(elem, elements_b);
        const DeviceArray y(elem, elements);
        const auto size = static_cast<std::int64_t>(kernels::size_of(elem));
        measure(state, {size * (2 * elements + elements_b), elements}, [&](const kernels::Launch& where) {
          return kernels::multiply(params, a.data(), b.data(), y.data(), where);
        });
      });
}

const bool kRegistered = [] {
  for (const Elem elem : kElems) {
    for (const int n : {1, 32}) {
      for (const auto& [side, c] : kGates) {
        for (const bool repeats : {true, false}) register_gate(elem, n, side, c, repeats);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
