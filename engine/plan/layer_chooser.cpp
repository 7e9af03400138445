#include "plan/layer_chooser.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>

#include "plan/choose_products.h"
#include "plan/timed_kernels.h"
#include "runtime/cuda_check.h"

namespace mobicuda {
namespace {

using namespace kernels;

std::string each_gets(double count, const char* what, const kernels::DeviceTraits& gpu) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "rule: %.3g %s for each multiprocessor", count / gpu.multiprocessors, what);
  return text.data();
}

std::string rule_of(GemmVariant variant, const GemmParams& params, const kernels::DeviceTraits& gpu) {
  if (variant == GemmVariant::Gemv) return "rule: few rows";
  const GemmTile tile = gemm_tile(variant);
  return each_gets(static_cast<double>(ceil_div(params.m, tile.bm)) * ceil_div(params.n, tile.bn), "tiles", gpu);
}

std::string rule_of(DepthwiseConvVariant variant, const DepthwiseConvParams& params, const kernels::DeviceTraits& gpu) {
  const DepthwiseConvTile t = tile(variant, params.elem);
  const double threads = static_cast<double>(params.n) * ceil_div(params.out_h, t.rows) *
                         ceil_div(params.out_w, t.columns) * ceil_div(params.c, t.channels);
  return each_gets(threads, "threads", gpu);
}

std::string rule_of(Conv2dVariant variant, const Conv2dParams& params, const kernels::DeviceTraits& gpu) {
  const auto products = products_by_time(params, gpu);
  if (!products.empty() && products.front() == variant) {
    return each_gets(static_cast<double>(conv2d_work(variant, params).blocks), "blocks", gpu);
  }
  if (variant >= Conv2dVariant::Simt128x128x16 && variant <= Conv2dVariant::Dmma16x32x64K4) {
    return "rule: many channels, the largest tiles that fill the GPU";
  }
  return "rule: the most special variant that runs this shape";
}

auto variants_for(const GemmParams&) { return gemm_variants(); }
auto variants_for(const DepthwiseConvParams&) { return depthwise_conv_variants(); }
auto variants_for(const Conv2dParams&) { return conv2d_variants(); }
auto variants_for(const InvertedResidualParams&) { return inverted_residual_variants(); }
auto variants_for(const ExpandDepthwiseParams&) { return expand_depthwise_variants(); }
auto variants_for(const PointwisePoolParams&) { return pointwise_pool_variants(); }
auto variants_for(const StemBlockParams&) { return stem_block_variants(); }

auto by_rule(const VariantChooser& rule, const GemmParams& params) { return rule.gemm(params); }
auto by_rule(const VariantChooser& rule, const DepthwiseConvParams& params) { return rule.depthwise_conv(params); }
auto by_rule(const VariantChooser& rule, const Conv2dParams& params) { return rule.conv2d(params); }

template <class Params>
auto supported(const Params& params, const kernels::DeviceTraits& gpu) {
  const auto all = variants_for(params);
  std::vector<std::remove_cv_t<typename decltype(all)::element_type>> found;
  for (const auto variant : all) {
    if (supports(variant, params, gpu)) found.push_back(variant);
  }
  return found;
}

template <class Value>
std::size_t position_of(const Value& value, const std::vector<Value>& values) {
  return static_cast<std::size_t>(std::find(values.begin(), values.end(), value) - values.begin());
}

std::string names_of(const std::vector<TimedKernel>& kernels) {
  std::string text;
  for (const TimedKernel& kernel : kernels) text += (text.empty() ? "" : "+") + kernel.name;
  return text;
}

// `variants` are the first candidates.
template <class Variant>
std::optional<Rival<Variant>> rival_of(const TimedAnswer& answer, const std::vector<Variant>& variants) {
  if (!answer.rival) return std::nullopt;
  return Rival<Variant>{variants.at(answer.rival->candidate), answer.rival->reason};
}

// `variants` are the first candidates; the one behind them is another form.
template <class Variant>
Chosen<std::optional<Variant>> variant_or_none(const TimedAnswer& answer, const std::vector<Variant>& variants) {
  if (answer.candidate == variants.size()) return {std::nullopt, answer.reason};
  Chosen<std::optional<Variant>> chosen{variants[answer.candidate], answer.reason};
  if (const auto rival = rival_of(answer, variants)) {
    chosen.rival = Rival<std::optional<Variant>>{rival->variant, rival->reason};
  }
  return chosen;
}

}  // namespace

// What measures and remembers differently from GPU to GPU and from version to version.
std::string machine_fields(const EngineOptions& options, const kernels::DeviceTraits& gpu) {
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, options.device), "asking for the GPU's name");
  const std::string older = gpu.code < gpu.capability ? " compute_" + std::to_string(gpu.code) : "";
  return timing_field(properties.name) + "|" + std::to_string(gpu.multiprocessors) + "|" + MOBICUDA_VERSION + older +
         "|" + std::string(to_string(options.precision)) + "|" +
         (options.programmatic_launch ? "programmatic" : "one by one");
}

LayerChooser::LayerChooser(const EngineOptions& options, const kernels::DeviceTraits& gpu)
    : options_(options), gpu_(gpu), rule_(gpu, options.kernel_variants) {
  if (options.timing_cache.empty()) return;
  machine_ = machine_fields(options, gpu);
  cache_.emplace(options.timing_cache);
}

LayerChooser::~LayerChooser() = default;

bool LayerChooser::named(std::initializer_list<const char*> kernels) const {
  return std::any_of(kernels.begin(), kernels.end(),
                     [&](const char* kernel) { return options_.kernel_variants.contains(kernel); });
}

TimedAnswer LayerChooser::fastest(const std::string& layer, const std::string& shape,
                                  const std::vector<Kernels>& candidates, std::size_t expected,
                                  std::size_t exchangeable, double margin) {
  std::vector<std::string> names;
  for (const Kernels& kernels : candidates) names.push_back(names_of(kernels));
  ++asked_;
  return choose_fastest(*cache_, {layer, machine_ + "|" + shape, names, expected, margin, exchangeable},
                        options_.require_timing_cache, [&](std::size_t candidate, double give_up_us) {
                          if (!timer_) timer_ = std::make_unique<BlockTimer>(options_.programmatic_launch);
                          return timer_->microseconds(candidates[candidate], give_up_us);
                        });
}

template <class Params>
auto LayerChooser::choose_kernel(const char* kernel, const std::string& layer, const Params& params) {
  using Variant = decltype(by_rule(rule_, params));
  const Variant expected = by_rule(rule_, params);
  if (named({kernel})) return Chosen<Variant>{expected, "named"};
  if (!cache_) return Chosen<Variant>{expected, rule_of(expected, params, gpu_)};
  const auto variants = supported(params, gpu_);
  std::vector<Kernels> candidates;
  for (const Variant variant : variants) candidates.push_back({timed(variant, params)});
  const TimedAnswer answer =
      fastest(layer, timed_shape(params), candidates, position_of(expected, variants), candidates.size());
  return Chosen<Variant>{variants[answer.candidate], answer.reason, rival_of(answer, variants)};
}

Chosen<GemmVariant> LayerChooser::choose(const std::string& layer, const GemmParams& params) {
  return choose_kernel("gemm", layer, params);
}

Chosen<DepthwiseConvVariant> LayerChooser::choose(const std::string& layer, const DepthwiseConvParams& params) {
  return choose_kernel("depthwise_conv", layer, params);
}

Chosen<Conv2dVariant> LayerChooser::choose(const std::string& layer, const Conv2dParams& params) {
  return choose_kernel("conv2d", layer, params);
}

PointwiseKernel LayerChooser::pointwise(const std::string& layer, const GemmParams& gemm, const Conv2dParams& conv2d) {
  const PointwiseKernel expected = rule_.pointwise(conv2d);
  if (!cache_ || expected == PointwiseKernel::Gemm || named({"pointwise"})) return expected;
  const std::vector<Kernels> candidates{{timed(choose(layer, gemm).variant, gemm)},
                                        {timed(choose(layer, conv2d).variant, conv2d)}};
  const std::size_t fast = fastest(layer, timed_shape(conv2d), candidates, 1, 0).candidate;
  return fast == 0 ? PointwiseKernel::Gemm : PointwiseKernel::Conv2d;
}

Chosen<GemmVariant> LayerChooser::project_behind(const Kernels& before, const std::string& layer,
                                                 const InvertedResidualParams& block) {
  const GemmParams project = project_layer(block);
  if (named({"gemm"})) return choose(layer, project);
  const auto variants = supported(project, gpu_);
  std::vector<Kernels> candidates;
  for (const auto variant : variants) candidates.emplace_back(before).push_back(timed(variant, project));
  const TimedAnswer answer = fastest(layer, timed_shape(block), candidates, position_of(rule_.gemm(project), variants),
                                     candidates.size(), kMarginInPlace);
  return {variants[answer.candidate], answer.reason, rival_of(answer, variants)};
}

LayerChooser::Layers LayerChooser::layers_of(const std::string& layer, const InvertedResidualParams& block) {
  Layers layers;
  if (block.expand) {
    const GemmParams expand = expand_layer(block);
    layers.kernels.push_back(timed(choose(layer, expand).variant, expand));
  }
  const DepthwiseConvParams depthwise = depthwise_layer(block);
  layers.kernels.push_back(timed(choose(layer, depthwise).variant, depthwise));
  layers.project = project_behind(layers.kernels, layer, block);
  layers.kernels.push_back(timed(layers.project.variant, project_layer(block)));
  return layers;
}

ChosenBlock LayerChooser::block_by_rule(const InvertedResidualParams& params, bool may_fuse,
                                        const ExpandDepthwiseParams* expand_depthwise) const {
  const FormChoice choice = rule_.block_form(may_fuse ? &params : nullptr, expand_depthwise);
  ChosenBlock chosen;
  chosen.form = choice.form;
  chosen.reason = choice.why;
  if (choice.form == BlockForm::Fused) chosen.fused = rule_.inverted_residual(params);
  if (choice.form == BlockForm::ExpandDepthwise) chosen.expand_depthwise = rule_.expand_depthwise(*expand_depthwise);
  return chosen;
}

ChosenBlock LayerChooser::block(const std::string& layer, const InvertedResidualParams& params, bool may_fuse,
                                const ExpandDepthwiseParams* expand_depthwise) {
  const ChosenBlock expected = block_by_rule(params, may_fuse, expand_depthwise);
  if (!cache_ || named({"block", "inverted_residual", "expand_depthwise"})) return expected;
  std::vector<ChosenBlock> blocks;
  std::vector<Kernels> candidates;
  std::size_t position = 0;
  const auto add = [&](ChosenBlock block, Kernels kernels) {
    if (block.form == expected.form && block.fused == expected.fused) position = blocks.size();
    blocks.push_back(std::move(block));
    candidates.push_back(std::move(kernels));
  };
  const auto fused = may_fuse ? supported(params, gpu_) : std::vector<InvertedResidualVariant>();
  for (const auto variant : fused) add({BlockForm::Fused, variant, {}, {}, {}}, {timed(variant, params)});
  const Layers layers = layers_of(layer, params);
  if (const auto variants =
          expand_depthwise == nullptr ? std::vector<ExpandDepthwiseVariant>() : supported(*expand_depthwise, gpu_);
      !variants.empty()) {
    std::vector<Kernels> pairs;
    for (const auto variant : variants) pairs.push_back({timed(variant, *expand_depthwise), layers.kernels.back()});
    const std::size_t by_rule = position_of(rule_.expand_depthwise(*expand_depthwise), variants);
    const TimedAnswer pair = fastest(layer, timed_shape(params), pairs, by_rule, pairs.size(), kMarginInPlace);
    ChosenBlock block{BlockForm::ExpandDepthwise, {}, variants[pair.candidate], {}, {}};
    if (const auto rival = rival_of(pair, variants)) block.expand_depthwise_rival = rival->variant;
    Kernels kernels{timed(block.expand_depthwise, *expand_depthwise)};
    block.project = project_behind(kernels, layer, params);
    kernels.push_back(timed(block.project->variant, project_layer(params)));
    add(std::move(block), std::move(kernels));
  }
  add({BlockForm::Layers, {}, {}, layers.project, expected.reason}, layers.kernels);
  if (blocks.size() == 1) return blocks.front();
  const TimedAnswer answer = fastest(layer, timed_shape(params), candidates, position, fused.size());
  ChosenBlock chosen = blocks[answer.candidate];
  chosen.reason = answer.reason;
  chosen.fused_rival = rival_of(answer, fused);
  return chosen;
}

Chosen<std::optional<StemBlockVariant>> LayerChooser::stem_block(const std::string& layer,
                                                                 const StemBlockParams& params) {
  const auto variants = supported(params, gpu_);
  if (variants.empty()) return {std::nullopt, "no fused variant runs this shape"};
  const auto expected = rule_.stem_block(params);
  if (named({"stem_block", "stem", "block"})) return {expected, "named"};
  if (!cache_) return {expected, "rule: one launch for the first three layers"};
  std::vector<Kernels> candidates;
  for (const auto variant : variants) candidates.push_back({timed(variant, params)});
  const Conv2dParams first = first_layer(params);
  const InvertedResidualParams second = block_after(params);
  Kernels& apart = candidates.emplace_back(Kernels{timed(choose(layer, first).variant, first)});
  const ChosenBlock after = block(layer, second, true, nullptr);
  if (after.form == BlockForm::Fused) {
    apart.push_back(timed(after.fused, second));
  } else {
    for (TimedKernel& kernel : layers_of(layer, second).kernels) apart.push_back(std::move(kernel));
  }
  const std::size_t position = expected ? position_of(*expected, variants) : variants.size();
  return variant_or_none(fastest(layer, timed_shape(params), candidates, position, variants.size()), variants);
}

Chosen<std::optional<PointwisePoolVariant>> LayerChooser::pointwise_pool(const std::string& layer,
                                                                         const PointwisePoolParams& params) {
  const auto variants = supported(params, gpu_);
  if (variants.empty()) return {std::nullopt, "no fused variant runs this shape"};
  const auto expected = rule_.pointwise_pool(params);
  if (named({"pointwise_pool", "head"})) return {expected, "named"};
  if (!cache_) {
    return {expected,
            expected ? "rule: one launch pays for this batch" : "rule: two kernels are faster for this batch"};
  }
  std::vector<Kernels> candidates;
  for (const auto variant : variants) candidates.push_back({timed(variant, params)});
  const GemmParams pointwise = pointwise_layer(params);
  candidates.push_back({timed(choose(layer, pointwise).variant, pointwise), timed(pool_layer(params))});
  const std::size_t position = expected ? position_of(*expected, variants) : variants.size();
  return variant_or_none(fastest(layer, timed_shape(params), candidates, position, variants.size()), variants);
}

Chosen<std::optional<SqueezeExciteVariant>> LayerChooser::squeeze_excite(const SqueezeExciteParams& params) const {
  const auto chosen = rule_.squeeze_excite(params);
  if (named({"squeeze_excite", "gate"})) return {chosen, "named"};
  return {chosen, chosen ? "rule: one launch for mean, products and gates" : "no fused variant runs this shape"};
}

void LayerChooser::finish() {
  if (!cache_) return;
  const std::size_t measured = cache_->added();
  cache_->save();
  if (!options_.log) return;
  options_.log(LogLevel::Info, "timing cache " + cache_->file().string() + ": " + std::to_string(asked_) +
                                   " choices by time, " + std::to_string(measured) + " times measured");
}

}  // namespace mobicuda
