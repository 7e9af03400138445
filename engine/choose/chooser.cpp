#include "choose/chooser.h"

namespace mobicuda {

using namespace kernels;

Chooser::Chooser(const EngineOptions& options, const DeviceTraits& gpu, const std::vector<SavedChoice>* saved)
    : rules_(gpu, options.kernel_variants), record_(saved) {
  if (saved == nullptr && !options.timing_cache.empty()) times_.emplace(options, gpu);
}

PointwiseKernel Chooser::pointwise(const std::string& layer, const GemmParams& gemm, const Conv2dParams& conv2d) {
  constexpr std::string_view kWhat = "pointwise";
  if (!record_.replays()) {
    const PointwiseKernel chosen = decide_pointwise(layer, gemm, conv2d);
    record_.keep(kWhat, name_of(chosen), {});
    return chosen;
  }
  // Whether the kernel runs the layer is checked when its variant is chosen.
  const std::string& kernel = record_.next(kWhat, layer).variant;
  if (kernel == name(PointwiseKernel::Gemm)) return PointwiseKernel::Gemm;
  if (kernel != name(PointwiseKernel::Conv2d)) {
    record_.refuse(layer, "no pointwise convolution runs in '" + kernel + "'");
  }
  return PointwiseKernel::Conv2d;
}

PointwiseKernel Chooser::decide_pointwise(const std::string& layer, const GemmParams& gemm,
                                          const Conv2dParams& conv2d) {
  const PointwiseKernel expected = rules_.pointwise(conv2d);
  if (!times_ || expected == PointwiseKernel::Gemm || rules_.named().find("pointwise") != nullptr) return expected;
  const std::vector<TimedKernels> candidates{{timed(decide(layer, gemm).variant, gemm)},
                                             {timed(decide(layer, conv2d).variant, conv2d)}};
  const std::size_t fast = times_->fastest(layer, kernel_of(conv2d).shape(conv2d), candidates, 1, 0).candidate;
  return fast == 0 ? PointwiseKernel::Gemm : PointwiseKernel::Conv2d;
}

TimedKernels Chooser::apart(const std::string& layer, const PointwisePoolParams& params) {
  const GemmParams pointwise = pointwise_layer(params);
  return {timed(decide(layer, pointwise).variant, pointwise), timed(pool_layer(params))};
}

TimedKernels Chooser::apart(const std::string& layer, const StemBlockParams& params) {
  const Conv2dParams first = first_layer(params);
  const InvertedResidualParams second = block_after(params);
  TimedKernels kernels{timed(decide(layer, first).variant, first)};
  const ChosenBlock after = decide_block(layer, second, true, nullptr);
  if (after.form == BlockForm::Fused) {
    kernels.push_back(timed(after.fused, second));
  } else {
    for (TimedKernel& kernel : apart(layer, second).kernels) kernels.push_back(std::move(kernel));
  }
  return kernels;
}

TimedKernels Chooser::apart(const std::string& layer, const SqueezeExciteParams& params) {
  const GemmParams squeeze = squeeze_layer(params);
  const GemmParams gate = gate_layer(params);
  return {timed(pool_layer(params)), timed(decide(layer, squeeze).variant, squeeze),
          timed(decide(layer, gate).variant, gate), timed_product(params)};
}

void Chooser::finish() {
  record_.finish();
  if (times_) times_->finish();
}

}  // namespace mobicuda
