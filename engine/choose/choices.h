// What is chosen for a layer.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "choose/forms.h"
#include "choose/kernels.h"

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

/// No variant: several kernels.
template <class Params>
using ChosenFused = Chosen<std::optional<VariantOf<Params>>>;

/// How a pointwise convolution runs, where kernel and variant are chosen at once.
using ChosenPointwise = std::variant<Chosen<kernels::GemmVariant>, Chosen<kernels::Conv2dVariant>>;

struct ChosenBlock {
  BlockForm form = BlockForm::Layers;
  kernels::InvertedResidualVariant fused{};            ///< of BlockForm::Fused
  kernels::ExpandDepthwiseVariant expand_depthwise{};  ///< of BlockForm::ExpandDepthwise
  std::optional<ChosenPointwise> project{};            ///< of the other forms, where it was chosen with the block
  std::string reason;
  std::optional<Rival<kernels::InvertedResidualVariant>> fused_rival{};     ///< of BlockForm::Fused
  std::optional<kernels::ExpandDepthwiseVariant> expand_depthwise_rival{};  ///< of BlockForm::ExpandDepthwise
};

}  // namespace mobicuda
