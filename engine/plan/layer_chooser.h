#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/engine.h>

#include "plan/block_timer.h"
#include "plan/choose_variant.h"
#include "plan/timing_cache.h"

namespace mobicuda {

template <class Variant>
struct Rival {
  Variant variant{};
  std::string reason;  ///< LayerInfo::reason, should it take the chosen one's place
};

template <class Variant>
struct Chosen {
  Variant variant{};
  std::string reason;                     ///< LayerInfo::reason
  std::optional<Rival<Variant>> rival{};  ///< TimedAnswer::rival
};

struct ChosenBlock {
  BlockForm form = BlockForm::Layers;
  kernels::InvertedResidualVariant fused{};               ///< of BlockForm::Fused
  kernels::ExpandDepthwiseVariant expand_depthwise{};     ///< of BlockForm::ExpandDepthwise
  std::optional<Chosen<kernels::GemmVariant>> project{};  ///< of the other forms, where it was chosen with the block
  std::string reason;
  std::optional<Rival<kernels::InvertedResidualVariant>> fused_rival{};     ///< of BlockForm::Fused
  std::optional<kernels::ExpandDepthwiseVariant> expand_depthwise_rival{};  ///< of BlockForm::ExpandDepthwise
};

/// The first fields of a line in a timing cache: GPU, its multiprocessors, version of the library, precision, way of
/// launching.
std::string machine_fields(const EngineOptions& options, const kernels::DeviceTraits& gpu);

/// Decides how each layer runs and says why: by name where the user gave one, by measured time where there is a timing
/// cache, else by VariantChooser's rule. `layer` is the name that messages use.
class LayerChooser {
 public:
  LayerChooser(const EngineOptions& options, const kernels::DeviceTraits& gpu);
  ~LayerChooser();
  LayerChooser(const LayerChooser&) = delete;
  LayerChooser& operator=(const LayerChooser&) = delete;

  /// For batches other than max_batch.
  const VariantChooser& rule() const { return rule_; }

  Chosen<kernels::GemmVariant> choose(const std::string& layer, const kernels::GemmParams& params);
  Chosen<kernels::DepthwiseConvVariant> choose(const std::string& layer, const kernels::DepthwiseConvParams& params);
  Chosen<kernels::Conv2dVariant> choose(const std::string& layer, const kernels::Conv2dParams& params);
  /// Which of the two runs a pointwise convolution.
  PointwiseKernel pointwise(const std::string& layer, const kernels::GemmParams& gemm,
                            const kernels::Conv2dParams& conv2d);

  /// `may_fuse`: the block's residual, if it has one, is its own input. `expand_depthwise` is null without expand.
  ChosenBlock block(const std::string& layer, const kernels::InvertedResidualParams& params, bool may_fuse,
                    const kernels::ExpandDepthwiseParams* expand_depthwise);
  /// No variant: two steps.
  Chosen<std::optional<kernels::StemBlockVariant>> stem_block(const std::string& layer,
                                                              const kernels::StemBlockParams& params);
  Chosen<std::optional<kernels::PointwisePoolVariant>> pointwise_pool(const std::string& layer,
                                                                      const kernels::PointwisePoolParams& params);

  /// By the rule also where there is a timing cache. No variant: four steps.
  Chosen<std::optional<kernels::SqueezeExciteVariant>> squeeze_excite(const kernels::SqueezeExciteParams& params) const;

  /// Writes what was measured to the timing cache's file, and says so to the log.
  void finish();

 private:
  using Kernels = std::vector<TimedKernel>;

  // Another choice than the rule's has to be so much faster, because what is faster among its own copies need not be
  // in a network; little where the neighbours are the network's.
  static constexpr double kMargin = 0.05;
  static constexpr double kMarginInPlace = 0.01;

  bool named(std::initializer_list<const char*> kernels) const;
  template <class Params>
  auto choose_kernel(const char* kernel, const std::string& layer, const Params& params);
  /// The last layer of a block behind the kernels that run before it.
  Chosen<kernels::GemmVariant> project_behind(const Kernels& before, const std::string& layer,
                                              const kernels::InvertedResidualParams& block);
  struct Layers {
    Kernels kernels;
    Chosen<kernels::GemmVariant> project;
  };
  Layers layers_of(const std::string& layer, const kernels::InvertedResidualParams& block);
  TimedAnswer fastest(const std::string& layer, const std::string& shape, const std::vector<Kernels>& candidates,
                      std::size_t expected, std::size_t exchangeable, double margin = kMargin);
  ChosenBlock block_by_rule(const kernels::InvertedResidualParams& params, bool may_fuse,
                            const kernels::ExpandDepthwiseParams* expand_depthwise) const;

  const EngineOptions& options_;
  kernels::DeviceTraits gpu_;
  VariantChooser rule_;
  std::string machine_;  ///< the fields of a timing cache before the shape
  std::optional<TimingCache> cache_;
  std::unique_ptr<BlockTimer> timer_;  ///< there from the first measurement on
  int asked_ = 0;                      ///< questions that took the cache
};

}  // namespace mobicuda
