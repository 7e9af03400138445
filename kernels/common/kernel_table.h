// What a planner knows of a kernel that has variants: the same for all of them, so that choosing, recording, timing and
// launching one exist once. kernel_of(params) is the table of the kernel that takes these parameters; it stands beside
// the kernel's launcher.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/common/code_name.h"
#include "kernels/common/device_traits.h"
#include "kernels/common/launch.h"

namespace mobicuda::kernels {

inline constexpr std::size_t kMostWeights = 4;

/// Bytes of what a launch reads and writes; 0 where it has no such operand.
struct OperandBytes {
  std::int64_t x = 0;
  std::int64_t weights[kMostWeights]{};  ///< packed weights and biases, without gaps; a bias also where there is none
  std::int64_t residual = 0;
  std::int64_t y = 0;
};

/// Where they lie on the device. A bias or residual that the parameters do not announce is not read.
struct Operands {
  const void* x = nullptr;
  const void* weights[kMostWeights]{};
  const void* residual = nullptr;
  void* y = nullptr;
};

template <class KernelParams, class KernelVariant>
struct KernelTable {
  using Params = KernelParams;
  using Variant = KernelVariant;

  /// As in EngineOptions::kernel_variants, LayerInfo::kernel, timing caches and plan files.
  std::string_view name;
  std::span<const Variant> variants;  ///< all of them
  std::string_view (*variant_name)(Variant);
  bool (*supports)(Variant, const Params&, const DeviceTraits&);
  /// The order of packed weights: variants that have it in common write the same bytes for the same shape. Null: all
  /// do.
  std::string_view (*packing)(Variant) = nullptr;
  /// Of a variant that supports the parameters.
  OperandBytes (*operands)(Variant, const Params&);
  cudaError_t (*launch)(Variant, const Params&, const Operands&, const Launch&);
  /// The parameters for `n` images, where those at hand are for `of`.
  Params (*with_batch)(Params, int n, int of);
  /// All that a time depends on besides variant and type of elements: "gemm m=49 n=320 ...".
  std::string (*shape)(const Params&);

  // Of a kernel that also has variants made for a shape; else null.
  /// Those for the parameters, the most promising of each family first. None where no code can be compiled.
  std::vector<Variant> (*specialised)(const Params&, const DeviceTraits&) = nullptr;
  /// The one of that name; nothing where no family could have given it.
  std::optional<Variant> (*specialised_by_name)(std::string_view) = nullptr;
  /// What has to be compiled before a launch; nothing of a variant that the library has code of.
  std::optional<CodeName> (*code)(Variant) = nullptr;
  /// Gives a specialised variant its kernel on GPUs of that capability: a cudaKernel_t, which stays loaded.
  void (*provide)(Variant, int capability, const void* kernel) = nullptr;
};

/// The variant of that name, a specialised one included.
template <class Params, class Variant>
std::optional<Variant> find_variant(const KernelTable<Params, Variant>& kernel, std::string_view name) {
  for (const Variant variant : kernel.variants) {
    if (kernel.variant_name(variant) == name) return variant;
  }
  return kernel.specialised_by_name != nullptr ? kernel.specialised_by_name(name) : std::nullopt;
}

/// The variants of the kernel that takes these parameters.
template <class Params>
using VariantOf = typename std::remove_cvref_t<decltype(kernel_of(std::declval<const Params&>()))>::Variant;

/// KernelTable::with_batch of parameters with a member n.
template <class Params>
Params with_images(Params params, int n, int /*of*/) {
  params.n = n;
  return params;
}

}  // namespace mobicuda::kernels
