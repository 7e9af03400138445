#include "layer_bench.h"

#include <limits>

#include "runtime/cuda_check.h"

namespace mobicuda::bench {

std::string name_of(const LayerCase& at) {
  const std::string type(at.type.empty() ? std::string_view(to_string(at.elem)) : at.type);
  return to_string(at.layer.shape) + at.suffix + "/" + type + "/b" + std::to_string(at.batch);
}

std::int64_t input_bytes(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  return static_cast<std::int64_t>(size_of(at.elem)) * at.batch * shape.h * shape.w * shape.c_in;
}

std::int64_t output_bytes(const LayerCase& at) {
  const LayerShape& shape = at.layer.shape;
  return static_cast<std::int64_t>(size_of(at.elem)) * at.batch * shape.out_h * shape.out_w * shape.c_out;
}

void add_kernel(Registry& registry, const std::string& kernel, const NamedCase& at, const MakeKernel& make) {
  const std::string name = kernel + "/" + at.shape + "/" + to_string(at.elem) + "/b" + std::to_string(at.batch);
  for (const Cache cache : kCaches) {
    registry.add(name + "/" + to_string(cache), [=, elem = at.elem](benchmark::State& state) {
      const TimedKernel timed = make();
      measure(state, timed, work_of(timed, 0, Pipe::Fma), elem, cache);
    });
  }
}

void add_layer(const std::string& kernel, const LayerCase& at, const MakeKernel& make, const MakeNote& note) {
  const std::int64_t flops = at.batch * flops_of(at.layer.shape);
  const Pipe pipe = LayerKind::named(at.layer.shape.kind).traits().products ? matrix_pipe(at.elem) : Pipe::Fma;
  const std::string name = kernel + "/" + name_of(at);
  for (const Cache cache : kCaches) {
    at.registry.add(name + "/" + to_string(cache), [=, layer = &at.layer, elem = at.elem](benchmark::State& state) {
      const TimedKernel timed = make();
      measure(state, timed, work_of(timed, flops, pipe), elem, cache);
      const std::string more = note ? note() : std::string();
      state.SetLabel(to_string(layer->uses) + (more.empty() ? "" : " | " + more));
    });
  }
}

void add_layer(const LayerCase& at, const MakeKernel& make) {
  add_layer(std::string(at.layer.shape.kind), at, make, {});
}

const Rules& engine_rule() {
  static const Rules rule(gpu_traits(), {});
  return rule;
}

kernels::Activation activation_of(LayerActivation activation) {
  using kernels::ActivationKind;
  constexpr float kAlpha = 0.1F;
  switch (activation) {
    case LayerActivation::Sigmoid:
      return kernels::Activation(ActivationKind::Sigmoid);
    case LayerActivation::Silu:
      return kernels::Activation(ActivationKind::Silu);
    case LayerActivation::HardSwish:
      return kernels::Activation(ActivationKind::HardSwish);
    case LayerActivation::Tanh:
      return kernels::Activation(ActivationKind::Tanh);
    case LayerActivation::LeakyRelu:
      return kernels::Activation(ActivationKind::LeakyRelu, kAlpha);
    case LayerActivation::Elu:
      return kernels::Activation(ActivationKind::Elu, kAlpha);
    default:
      return kernels::Activation(clip_of(activation));
  }
}

kernels::Clip clip_of(LayerActivation activation) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (activation) {
    case LayerActivation::Relu:
      return {0.0F, kInfinity};
    case LayerActivation::Relu6:
      return {0.0F, 6.0F};
    case LayerActivation::Clip:
      return {-1.0F, 1.0F};
    default:
      return {-kInfinity, kInfinity};
  }
}

}  // namespace mobicuda::bench
