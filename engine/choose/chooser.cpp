#include "choose/chooser.h"

#include <algorithm>
#include <type_traits>

#include "choose/block_layers.h"
#include "choose/pointwise_layer.h"

namespace mobicuda {

using kernels::Conv2dParams;
using kernels::DeviceTraits;
using kernels::GemmParams;
using kernels::InvertedResidualParams;
using kernels::SplitGemmParams;
using kernels::SqueezeExciteParams;

Chooser::Chooser(const EngineOptions& options, const DeviceTraits& gpu, const std::vector<SavedChoice>* saved)
    : rules_(gpu, options.kernel_variants), record_(saved) {
  if (saved == nullptr && !options.timing_cache.empty()) times_.emplace(options, gpu);
}

PointwiseKernel Chooser::pointwise(const std::string& layer, const Conv2dParams& params) {
  if (!record_.replays()) {
    const PointwiseKernel chosen = decide_pointwise(layer, params);
    record_.keep(kPointwise, name_of(chosen), {});
    return chosen;
  }
  // Whether the kernel runs the layer is checked when its variant is chosen.
  const std::string& kernel = record_.next(kPointwise, layer).variant;
  if (kernel == name(PointwiseKernel::Gemm)) return PointwiseKernel::Gemm;
  if (kernel != name(PointwiseKernel::Conv2d)) {
    record_.refuse(layer, "no pointwise convolution runs in '" + kernel + "'");
  }
  return PointwiseKernel::Conv2d;
}

PointwiseKernel Chooser::decide_pointwise(const std::string& layer, const Conv2dParams& params) {
  const PointwiseKernel expected = rules_.pointwise(params);
  if (!times_ || expected == PointwiseKernel::Gemm || rules_.named().find(kPointwise) != nullptr) return expected;
  const GemmParams product = product_of(params);
  const std::vector<TimedKernels> candidates{{timed(decide(layer, product).variant, product)},
                                             {timed(decide(layer, params).variant, params)}};
  const std::size_t fast = times_->fastest(layer, kernel_of(params).shape(params), candidates, 1, 0).candidate;
  return fast == 0 ? PointwiseKernel::Gemm : PointwiseKernel::Conv2d;
}

bool Chooser::apart_runs(const std::vector<LayerApart>& layers) const {
  const auto pointwise_runs = [&](const Conv2dParams& one) {
    return rules_.pointwise(one) == PointwiseKernel::Conv2d || rules_.runs(product_of(one));
  };
  const auto runs = [&](const auto& one) {
    using Layer = std::remove_cvref_t<decltype(one)>;
    if constexpr (std::is_same_v<Layer, TimedKernel>) {
      return true;
    } else if constexpr (std::is_same_v<Layer, InvertedResidualParams>) {
      return (!one.expand || pointwise_runs(expand_layer(one))) && rules_.runs(depthwise_layer(one)) &&
             pointwise_runs(project_layer(one));
    } else if constexpr (std::is_same_v<Layer, SqueezeExciteParams>) {
      return apart_runs(layers_apart(one));
    } else if constexpr (std::is_same_v<Layer, Conv2dParams>) {
      return is_pointwise(one) ? pointwise_runs(one) : rules_.runs(one);
    } else {
      return rules_.runs(one);
    }
  };
  return std::all_of(layers.begin(), layers.end(), [&](const LayerApart& one) { return std::visit(runs, one); });
}

TimedKernel Chooser::pointwise_apart(const std::string& layer, const Conv2dParams& params, bool split) {
  if (decide_pointwise(layer, params) == PointwiseKernel::Conv2d) return timed(decide(layer, params).variant, params);
  const GemmParams product = product_of(params);
  if (split) {
    const SplitGemmParams shared = split_layer(product);
    if (const auto chosen = decide_fused(layer, shared, true); chosen.variant) return timed(*chosen.variant, shared);
  }
  return timed(decide(layer, product).variant, product);
}

TimedKernels Chooser::apart(const std::string& layer, const std::vector<LayerApart>& layers) {
  TimedKernels found;
  const auto append = [&](const auto& one) {
    using Layer = std::remove_cvref_t<decltype(one)>;
    if constexpr (std::is_same_v<Layer, TimedKernel>) {
      found.push_back(one);
    } else if constexpr (std::is_same_v<Layer, InvertedResidualParams>) {
      const ChosenBlock block = decide_block(layer, one, true, nullptr);
      if (block.form == BlockForm::Fused) {
        found.push_back(timed(block.fused, one));
      } else {
        for (TimedKernel& kernel : block_apart(layer, one).kernels) found.push_back(std::move(kernel));
      }
    } else if constexpr (std::is_same_v<Layer, SqueezeExciteParams>) {
      if (const auto gate = decide_fused(layer, one, true); gate.variant) {
        found.push_back(timed(*gate.variant, one));
      } else {
        for (TimedKernel& kernel : apart(layer, layers_apart(one))) found.push_back(std::move(kernel));
      }
    } else if constexpr (std::is_same_v<Layer, Conv2dParams>) {
      found.push_back(is_pointwise(one) ? pointwise_apart(layer, one) : timed(decide(layer, one).variant, one));
    } else {
      found.push_back(timed(decide(layer, one).variant, one));
    }
  };
  for (const LayerApart& one : layers) std::visit(append, one);
  return found;
}

void Chooser::finish() {
  record_.finish();
  if (times_) times_->finish();
}

}  // namespace mobicuda
