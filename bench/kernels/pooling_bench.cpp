#include "kernels/pooling.h"

#include "bench_support.h"

namespace mobicuda::bench {
namespace {

/// Heads of MobileNetV2 (224 pixels, width 1.0 and 1.4) and of a larger input.
constexpr int kHeads[][2] = {{7, 1280}, {7, 1792}, {10, 1280}};

void register_global(Elem elem, int n, int side, int c) {
  const kernels::GlobalAveragePoolParams p{elem, n, side, side, c};
  const std::int64_t outputs = static_cast<std::int64_t>(n) * c;
  const std::int64_t elements = outputs * side * side;
  add("global_average_pool/" + to_string(elem) + "/" + shape_name(n, side, side, c), [=](benchmark::State& state) {
    const DeviceArray x(elem, elements);
    const DeviceArray y(elem, outputs);
    const auto bytes = static_cast<std::int64_t>(kernels::size_of(elem)) * (elements + outputs);
    measure(state, {bytes, elements},
            [&](const kernels::Launch& where) { return kernels::global_average_pool(p, x.data(), y.data(), where); });
  });
}

/// A 3x3 window with stride 2 and padding 1 over 112x112x64.
void register_window(Elem elem, kernels::PoolingKind kind, int n) {
  kernels::PoolingParams p;
  p.elem = elem;
  p.kind = kind;
  p.n = n;
  p.h = p.w = 112;
  p.c = 64;
  p.kernel_h = p.kernel_w = 3;
  p.stride_h = p.stride_w = 2;
  p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = 1;
  p.out_h = p.out_w = 56;
  const std::int64_t inputs = static_cast<std::int64_t>(n) * p.h * p.w * p.c;
  const std::int64_t outputs = static_cast<std::int64_t>(n) * p.out_h * p.out_w * p.c;
  const std::string name = kind == kernels::PoolingKind::Max ? "max_pooling/" : "average_pooling/";
  add(name + to_string(elem) + "/" + shape_name(n, p.h, p.w, p.c), [=](benchmark::State& state) {
    const DeviceArray x(elem, inputs);
    const DeviceArray y(elem, outputs);
    const auto bytes = static_cast<std::int64_t>(kernels::size_of(elem)) * (inputs + outputs);
    measure(state, {bytes, outputs * p.kernel_h * p.kernel_w},
            [&](const kernels::Launch& where) { return kernels::pooling(p, x.data(), y.data(), where); });
  });
}

const bool kRegistered = [] {
  for (const Elem elem : kElems) {
    for (const int n : kBatches) {
      for (const auto& [side, c] : kHeads) register_global(elem, n, side, c);
      register_window(elem, kernels::PoolingKind::Max, n);
      register_window(elem, kernels::PoolingKind::Average, n);
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
