#include "kernels/squeeze_excite.h"

#include <limits>

#include "bench_support.h"

namespace mobicuda::bench {
namespace {

using kernels::SqueezeExciteParams;
using kernels::SqueezeExciteVariant;

/// Of MobileNetV3-Large and EfficientNet-B0: side of the square picture, channels, squeezed channels.
constexpr int kBlocks[][3] = {{112, 32, 8},  {56, 96, 4},   {56, 144, 6},   {28, 120, 32}, {28, 240, 10},
                              {14, 480, 20}, {14, 672, 28}, {14, 672, 168}, {7, 960, 240}, {7, 1152, 48}};

void run(benchmark::State& state, SqueezeExciteVariant variant, const SqueezeExciteParams& p) {
  const std::vector<float> weight(static_cast<std::size_t>(p.c) * static_cast<std::size_t>(p.squeezed), 0.125F);
  std::vector<std::byte> packed(kernels::squeeze_excite_packed_bytes(variant, p));
  kernels::squeeze_excite_pack(variant, p, {weight.data(), nullptr, weight.data(), nullptr}, packed.data());
  const DeviceArray w(packed);
  const std::int64_t elements = std::int64_t{p.n} * p.pixels * p.c;
  const DeviceArray x(p.elem, elements);
  const DeviceArray y(p.elem, elements);
  const auto size = static_cast<std::int64_t>(kernels::size_of(p.elem));
  measure(state, {2 * elements * size + static_cast<std::int64_t>(packed.size()), 2 * elements},
          [&](const kernels::Launch& where) {
            return kernels::squeeze_excite(variant, p, x.data(), w.data(), y.data(), where);
          });
}

const bool kRegistered = [] {
  for (const Elem elem : kElems) {
    for (const int n : {1, 32}) {
      for (const auto& [side, c, squeezed] : kBlocks) {
        const SqueezeExciteParams p{elem,
                                    n,
                                    side * side,
                                    c,
                                    squeezed,
                                    kernels::Activation(kernels::ActivationKind::Silu),
                                    kernels::Activation(kernels::ActivationKind::Sigmoid)};
        for (const SqueezeExciteVariant variant : kernels::squeeze_excite_variants()) {
          if (!kernels::supports(variant, p, std::numeric_limits<int>::max())) continue;
          add("squeeze_excite/" + to_string(elem) + "/" + shape_name(n, side, side, c) + "_" +
                  std::to_string(squeezed) + "/" + std::string(name(variant)),
              [=](benchmark::State& state) { run(state, variant, p); });
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
