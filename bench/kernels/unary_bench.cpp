#include "kernels/unary.h"

#include "bench_support.h"

namespace mobicuda::bench {
namespace {

using kernels::UnaryFunction;

struct Function {
  const char* name;
  UnaryFunction function;
};
constexpr Function kFunctions[] = {{"sigmoid", UnaryFunction::Sigmoid},
                                   {"hard_swish", UnaryFunction::HardSwish},
                                   {"tanh", UnaryFunction::Tanh},
                                   {"leaky_relu", UnaryFunction::LeakyRelu},
                                   {"elu", UnaryFunction::Elu}};

/// Side of the square picture, channels.
constexpr int kShapes[][2] = {{112, 32}, {14, 672}, {1, 960}};

const bool kRegistered = [] {
  for (const Elem elem : kElems) {
    for (const int n : {1, 32}) {
      for (const auto& [side, c] : kShapes) {
        for (const auto& [name, function] : kFunctions) {
          const kernels::UnaryParams params{elem, function, 0.01F, static_cast<std::int64_t>(n) * side * side * c};
          add(std::string("unary/") + name + "/" + to_string(elem) + "/" + shape_name(n, side, side, c),
              [=](benchmark::State& state) {
                const DeviceArray x(elem, params.elements);
                const DeviceArray y(elem, params.elements);
                const auto size = static_cast<std::int64_t>(kernels::size_of(elem));
                measure(state, {2 * size * params.elements, 0}, [&](const kernels::Launch& where) {
                  return kernels::unary(params, x.data(), y.data(), where);
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
