#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/saved_engine.h>

#include "plan/confirm_choices.h"
#include "plan/layer_chooser.h"

namespace mobicuda {

/// The choices that lowering asks for: LayerChooser's, which are kept, or those made before (SavedEngine::choices) in
/// the same order. One of these that does not exist or does not run its layer throws Error(invalid_model).
class RecordedChoices {
 public:
  /// `saved` is null where they are made now.
  RecordedChoices(const EngineOptions& options, const kernels::DeviceTraits& gpu, const std::vector<SavedChoice>* saved)
      : chooser_(options, gpu), gpu_(gpu), saved_(saved) {}

  /// For batches other than max_batch.
  const VariantChooser& rule() const { return chooser_.rule(); }

  Chosen<kernels::GemmVariant> choose(const std::string& layer, const kernels::GemmParams& params);
  Chosen<kernels::DepthwiseConvVariant> choose(const std::string& layer, const kernels::DepthwiseConvParams& params);
  Chosen<kernels::Conv2dVariant> choose(const std::string& layer, const kernels::Conv2dParams& params);
  PointwiseKernel pointwise(const std::string& layer, const kernels::GemmParams& gemm,
                            const kernels::Conv2dParams& conv2d);
  ChosenBlock block(const std::string& layer, const kernels::InvertedResidualParams& params, bool may_fuse,
                    const kernels::ExpandDepthwiseParams* expand_depthwise);
  Chosen<std::optional<kernels::StemBlockVariant>> stem_block(const std::string& layer,
                                                              const kernels::StemBlockParams& params);
  Chosen<std::optional<kernels::PointwisePoolVariant>> pointwise_pool(const std::string& layer,
                                                                      const kernels::PointwisePoolParams& params);
  Chosen<std::optional<kernels::SqueezeExciteVariant>> squeeze_excite(const std::string& layer,
                                                                      const kernels::SqueezeExciteParams& params);

  /// After the last choice: LayerChooser::finish(), or the check that no saved choice is left.
  void finish();
  ChosenLayers take() && { return std::move(made_); }

 private:
  // The next saved choice, which must be of `kernel`.
  const SavedChoice& next(const char* kernel, const std::string& layer);
  [[noreturn]] void refuse(const std::string& layer, const std::string& why) const;
  template <class Variants, class Params>
  auto find(const SavedChoice& choice, const std::string& layer, const Variants& variants, const Params& params) const;
  template <class Variants, class Params>
  auto replay(const char* kernel, const std::string& layer, const Variants& variants, const Params& params);
  template <class Variants, class Params>
  auto replay_optional(const char* kernel, const std::string& layer, const Variants& variants, const Params& params);
  template <class Answer>
  Answer keep(const char* kernel, const std::string& layer, Answer answer);
  ChosenBlock keep_block(const std::string& layer, ChosenBlock chosen);
  // The last choice, a variant of `kernel`, has a rival. `reason_at`: see ContestedChoice.
  void contest(const std::string& layer, const char* kernel, std::string rival, std::string reason,
               std::size_t reason_at);
  ChosenBlock replay_block(const std::string& layer, const kernels::InvertedResidualParams& params, bool may_fuse,
                           const kernels::ExpandDepthwiseParams* expand_depthwise);

  LayerChooser chooser_;
  kernels::DeviceTraits gpu_;
  const std::vector<SavedChoice>* saved_;
  std::size_t position_ = 0;
  ChosenLayers made_;
};

}  // namespace mobicuda
