#include "kernels/local_response_norm.h"

#include "bench_support.h"

namespace mobicuda::bench {
namespace {

/// CaffeNet's, behind its pools: side of the square picture, channels.
constexpr int kShapes[][2] = {{27, 96}, {13, 256}};

const bool kRegistered = [] {
  for (const Elem elem : kElems) {
    for (const int n : {1, 32}) {
      for (const auto& [side, c] : kShapes) {
        for (const float beta : {0.75F, 0.7F}) {
          const kernels::LocalResponseNormParams params{
              elem, static_cast<std::int64_t>(n) * side * side, c, 5, 1e-4F, beta, 1.0F};
          add(std::string("local_response_norm/") + (beta == 0.75F ? "roots/" : "power/") + to_string(elem) + "/" +
                  shape_name(n, side, side, c),
              [=](benchmark::State& state) {
                const std::int64_t elements = params.pixels * params.c;
                const DeviceArray x(elem, elements);
                const DeviceArray y(elem, elements);
                const auto size = static_cast<std::int64_t>(kernels::size_of(elem));
                measure(state, {2 * size * elements, 0}, [&](const kernels::Launch& where) {
                  return kernels::local_response_norm(params, x.data(), y.data(), where);
                });
              });
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
