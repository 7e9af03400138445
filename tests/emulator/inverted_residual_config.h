// What the tests of inverted_residual's families share that run configurations which no variant has.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/inverted_residual_case.h"

namespace mobicuda::test::inverted_residual_case {

/// Runs the kernel of a Config as the launcher of a variant would. The family's host functions are found by `config`.
template <class Config, class Kernel>
std::vector<float> run_config(const Config& config, Kernel kernel, const InvertedResidualParams& p, const Data& data) {
  REQUIRE(supports(config, p, gpu_traits()));
  std::vector<std::byte> bytes(packed_bytes(config));
  pack(config, data.weights(p), bytes.data());
  const GuardedBuffer packed(bytes);
  const DeviceTensor x(p.elem, data.x);
  std::vector<float> y = run_kernel(p.elem, output_count(p), 0, [&](void* out, const kernels::Launch& where) {
    return launch(config, kernel, p, x.data(), packed.data(), out, where);
  });
  CHECK(x.check_unchanged());
  CHECK(packed.check_unchanged());
  return y;
}

/// HardSwish where the configuration is for it.
template <class Config>
void set_activations(InvertedResidualParams& p, const Config& config) {
  if (config.hard_swish == 0) return;
  p.expand_activation = p.depthwise_activation = kernels::Activation(kernels::ActivationKind::HardSwish);
}

/// Whether the window of an output sees the pixel.
inline bool sees(const InvertedResidualParams& p, int oy, int ox, int y, int x) {
  const int dy = y - (oy * p.stride - p.pad_top);
  const int dx = x - (ox * p.stride - p.pad_left);
  return dy >= 0 && dy < 3 && dx >= 0 && dx < 3;
}

}  // namespace mobicuda::test::inverted_residual_case
