#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "choose/rules.h"
#include "choose/timed_kernel.h"
#include "measure.h"
#include "selection.h"

namespace mobicuda::bench {

/// A layer at a batch size and in a type.
struct LayerCase {
  const Layer& layer;  ///< of the Selection
  kernels::Elem elem;
  int batch;
  Registry& registry;
  std::string suffix{};     ///< of the shape's name: what the network leaves open
  std::string_view type{};  ///< what names say instead of elem: int8
};

/// "m49_n320_k960/fp16/b1"
std::string name_of(const LayerCase& at);

/// Of the whole batch, in the case's type.
std::int64_t input_bytes(const LayerCase& at);
std::int64_t output_bytes(const LayerCase& at);

/// What a benchmark's name says behind the kernel's.
struct NamedCase {
  std::string shape;
  kernels::Elem elem;
  int batch;
};

/// Makes the kernel when its benchmark runs; throws where the GPU at hand has no such kernel.
using MakeKernel = std::function<TimedKernel()>;
/// What the label says behind the networks' names; may be empty.
using MakeNote = std::function<std::string()>;

/// Registers "<kernel>/56x56x24/fp16/b1/warm" and ".../cold", for data movement.
void add_kernel(Registry& registry, const std::string& kernel, const NamedCase& at, const MakeKernel& make);

/// The same for a layer: "<kernel>/m49_n320_k960/fp16/b1/warm".
void add_layer(const std::string& kernel, const LayerCase& at, const MakeKernel& make, const MakeNote& note);
/// The same for one whose kind has one kernel, named as the kind.
void add_layer(const LayerCase& at, const MakeKernel& make);

/// The rule of the custom engine on the GPU at hand.
const Rules& engine_rule();

/// For the layers of one kind, each type and batch size: body(LayerCase).
template <class Body>
void for_each_case(const Selection& selection, const LayerKind& kind, Body&& body) {
  for (const Layer& layer : selection.layers) {
    if (layer.shape.kind != kind.name()) continue;
    for (const kernels::Elem elem : selection.elems) {
      for (const int batch : selection.batches) body(LayerCase{layer, elem, batch, *selection.registry});
    }
  }
}

/// The same in int8, once for each batch size: beside the cases in half.
template <class Body>
void for_each_int8_case(const Selection& selection, const LayerKind& kind, Body&& body) {
  for_each_case(selection, kind, [&](LayerCase at) {
    if (at.elem != kernels::Elem::F16) return;
    at.type = "int8";
    body(at);
  });
}

/// Registers all variants that the newest GPUs support of the kernel that takes `params`. `rule(rules, params)` is the
/// one that the engine takes, or nothing. `wanted(variant, gpu)`: whether the variant is to be registered.
template <class Params, class Rule, class Wanted>
void add_variants(const LayerCase& at, const Params& params, const Rule& rule, const Wanted& wanted) {
  static constexpr kernels::DeviceTraits kNewest = kernels::traits_of(90, 132);
  const auto& kernel = kernels::kernel_of(params);
  for (const auto variant : kernel.variants) {
    if (!kernel.supports(variant, params, kNewest) || !wanted(variant, kNewest)) continue;
    const auto make = [variant, params, &kernel] {
      if (!kernel.supports(variant, params, gpu_traits())) throw std::runtime_error("this GPU is too old");
      return timed(variant, params);
    };
    const auto note = [variant, params, rule] {
      return rule(engine_rule(), params) == variant ? std::string("chosen") : std::string();
    };
    add_layer(mobicuda::kernel_name(variant, params), at, make, note);
  }
}

template <class Params, class Rule>
void add_variants(const LayerCase& at, const Params& params, const Rule& rule) {
  add_variants(at, params, rule, [](auto, const kernels::DeviceTraits&) { return true; });
}

/// For add_variants(): the engine's rule for a kernel of one layer.
inline constexpr auto kByRule = [](const Rules& rules, const auto& params) { return rules.variant(params).variant; };
/// The same for a kernel of several layers.
inline constexpr auto kFusedByRule = [](const Rules& rules, const auto& params) {
  const auto found = rules.fused(params);
  return found ? std::optional(found->variant) : std::nullopt;
};

/// The kernels' own form of an activation.
kernels::Activation activation_of(LayerActivation activation);
/// For the kernels that clip only.
kernels::Clip clip_of(LayerActivation activation);

template <class Params>
void set_window(Params& params, const LayerShape& shape) {
  params.kernel_h = shape.vertical.size;
  params.kernel_w = shape.horizontal.size;
  params.stride_h = shape.vertical.stride;
  params.stride_w = shape.horizontal.stride;
  params.dilation_h = shape.vertical.dilation;
  params.dilation_w = shape.horizontal.dilation;
  params.pad_top = shape.vertical.pad_before;
  params.pad_left = shape.horizontal.pad_before;
}

}  // namespace mobicuda::bench
