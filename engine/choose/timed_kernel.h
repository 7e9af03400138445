#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/common/kernel_table.h"
#include "kernels/common/launch.h"
#include "kernels/streaming/pooling.h"
#include "specialise/specialiser.h"

namespace mobicuda {

using kernels::VariantOf;

/// Device memory that a timed kernel works on; all of it zeros before the first pass over the kernels.
struct TimedOperands {
  const void* x = nullptr;
  std::vector<const void*> weights;
  const void* residual = nullptr;
  void* y = nullptr;
};

/// A kernel to be timed: what it needs and how it is enqueued.
struct TimedKernel {
  std::string name;  ///< as LayerInfo::kernel
  std::int64_t x_bytes = 0;
  std::vector<std::int64_t> weight_bytes{};  ///< packed weights and biases, one allocation each
  std::int64_t residual_bytes = 0;
  std::int64_t y_bytes = 0;
  std::function<cudaError_t(const TimedOperands&, const kernels::Launch&)> enqueue{};
  std::optional<WantedKernel> wanted{};  ///< what has to be compiled before
};

/// "gemm/mma_64x64x64", as LayerInfo::kernel.
template <class Params>
std::string kernel_name(VariantOf<Params> variant, const Params& params) {
  const auto& kernel = kernel_of(params);
  return std::string(kernel.name) + "/" + std::string(kernel.variant_name(variant));
}

/// What a variant needs compiled; nothing where the library has its code.
template <class Params, class Variant>
std::optional<WantedKernel> wanted_kernel(const kernels::KernelTable<Params, Variant>& kernel, Variant variant) {
  if (kernel.code == nullptr) return std::nullopt;
  auto code = kernel.code(variant);
  if (!code) return std::nullopt;
  return WantedKernel{std::move(*code), [&kernel, variant](int capability, const void* made) {
                        kernel.provide(variant, capability, made);
                      }};
}

/// A variant, which supports the parameters, as something to be timed.
template <class Params>
TimedKernel timed(VariantOf<Params> variant, const Params& params) {
  const auto& table = kernel_of(params);
  const kernels::OperandBytes bytes = table.operands(variant, params);
  TimedKernel kernel{kernel_name(variant, params)};
  kernel.x_bytes = bytes.x;
  kernel.residual_bytes = bytes.residual;
  kernel.y_bytes = bytes.y;
  for (const std::int64_t weight : bytes.weights) {
    if (weight > 0) kernel.weight_bytes.push_back(weight);
  }
  kernel.enqueue = [&table, variant, params](const TimedOperands& at, const kernels::Launch& where) {
    kernels::Operands operands{at.x, {}, at.residual, at.y};
    std::copy(at.weights.begin(), at.weights.end(), operands.weights);
    return table.launch(variant, params, operands, where);
  };
  kernel.wanted = wanted_kernel(table, variant);
  return kernel;
}

/// Kernels without variants.
TimedKernel timed(const kernels::GlobalAveragePoolParams& params);
/// Of dense pixels.
TimedKernel timed(const kernels::PoolingParams& params);

}  // namespace mobicuda
