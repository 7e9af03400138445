// Several nodes that one kernel computes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/expand_depthwise/expand_depthwise.h"
#include "lower/lowering.h"

namespace mobicuda {

/// Finds its nodes before anything is lowered, and makes their step when the last of them is met.
class Fusion {
 public:
  Fusion() = default;
  Fusion(const Fusion&) = delete;
  Fusion& operator=(const Fusion&) = delete;
  virtual ~Fusion() = default;

  /// Looks among the nodes that no fusion has claimed, chooses how they run, and claims those that become one step.
  virtual void find(Lowering& to) = 0;
  /// Makes the step of the match whose last node this is; does nothing where there is none.
  virtual void lower(Lowering& to, const Node& last) = 0;
};

/// A fusion whose matches have a member `nodes`, in the order of the graph.
template <class Match>
class FusionOf : public Fusion {
 public:
  void find(Lowering& to) final {
    for (const Node& node : to.graph().nodes()) {
      std::optional<Match> found = match(to, node);
      if (!found || !choose(to, *found)) continue;
      for (const Node* part : found->nodes) to.claim(part);
      const Node* last = found->nodes.back();
      matches_.emplace(last, std::move(*found));
    }
  }

  void lower(Lowering& to, const Node& last) final {
    if (const auto found = matches_.find(&last); found != matches_.end()) emit(to, found->second);
  }

 private:
  /// The nodes around the one that the pattern is anchored at.
  virtual std::optional<Match> match(Lowering& to, const Node& anchor) const = 0;
  /// Whether they become one step, and by which variant; nodes that do not are told why (Lowering::keep_apart).
  virtual bool choose(Lowering& to, Match& found) const = 0;
  virtual void emit(Lowering& to, const Match& found) const = 0;

  std::map<const Node*, Match> matches_;  ///< by their last node
};

/// FusionOf::choose() of a match whose kernel runs all of its nodes, or is not taken. `layer`: the node whose name
/// messages use.
template <class Match>
bool choose_all(Lowering& to, const Node& layer, Match& found) {
  const auto chosen = to.chooser().choose_fused(layer.origin.label(), found.params);
  if (!chosen.variant) {
    to.keep_apart(found.nodes, chosen.reason);
    return false;
  }
  found.variant = *chosen.variant;
  found.reason = chosen.reason;
  return true;
}

/// Each in fusions/<name>.cpp.
std::unique_ptr<Fusion> make_stem_block_fusion();
std::unique_ptr<Fusion> make_inverted_residual_fusion();
std::unique_ptr<Fusion> make_expand_depthwise_fusion();
std::unique_ptr<Fusion> make_pointwise_pool_fusion();
std::unique_ptr<Fusion> make_conv_pool_fusion();
std::unique_ptr<Fusion> make_gated_pointwise_fusion();
std::unique_ptr<Fusion> make_squeeze_excite_fusion();
std::unique_ptr<Fusion> make_conv_sum_fusion();
std::unique_ptr<Fusion> make_int8_stem_block_fusion();
std::unique_ptr<Fusion> make_int8_block_fusion();
std::unique_ptr<Fusion> make_int8_sum_fusion();
std::unique_ptr<Fusion> make_int8_dequantize_fusion();

/// All, in the order in which they look for nodes: the stem comes before the blocks, because the block behind the first
/// convolution is one of theirs too; expansions with their depthwise convolution, heads, gates and sums take
/// convolutions that are in no block; a gate comes with the convolution behind it first, then by itself.
inline std::vector<std::unique_ptr<Fusion>> make_fusions() {
  std::vector<std::unique_ptr<Fusion>> fusions;
  fusions.push_back(make_stem_block_fusion());
  fusions.push_back(make_inverted_residual_fusion());
  fusions.push_back(make_expand_depthwise_fusion());
  fusions.push_back(make_pointwise_pool_fusion());
  fusions.push_back(make_conv_pool_fusion());
  fusions.push_back(make_gated_pointwise_fusion());
  fusions.push_back(make_squeeze_excite_fusion());
  fusions.push_back(make_conv_sum_fusion());
  fusions.push_back(make_int8_stem_block_fusion());
  fusions.push_back(make_int8_block_fusion());
  fusions.push_back(make_int8_sum_fusion());
  fusions.push_back(make_int8_dequantize_fusion());
  return fusions;
}

/// [pointwise ->] depthwise -> pointwise, each the only reader of the one before.
struct BlockNodes {
  const Node* expand = nullptr;  ///< absent in the first block of MobileNetV2
  const Node* depthwise = nullptr;
  const Node* project = nullptr;

  const Node& first() const { return expand != nullptr ? *expand : *depthwise; }
};
/// Of nodes that no fusion has claimed, with depthwise windows of kernel x kernel.
std::optional<BlockNodes> block_around(const Lowering& to, const Node& depthwise, int kernel);

/// Whether a depthwise convolution is one of such blocks, but for what stands around it.
bool is_block_depthwise(const Conv2d& op, const Shape& weight, int kernel);
/// BlockNodes::expand of a depthwise convolution; null where there is none.
const Node* expansion_before(const Lowering& to, const Node& depthwise);

/// The first two layers of a block, as expand_depthwise runs them.
kernels::ExpandDepthwiseParams pair_params(const Lowering& to, const Node& expand, const Node& depthwise);
void emit_pair(Lowering& to, const Node& expand, const Node& depthwise, const kernels::ExpandDepthwiseParams& params,
               kernels::ExpandDepthwiseVariant variant, const std::string& reason);

/// x * fc(fc(mean of x)), each fc a pointwise convolution of one pixel and each value but x with one reader.
struct GateNodes {
  const Node* pool = nullptr;
  const Node* reduce = nullptr;
  const Node* expand = nullptr;
  const Node* mul = nullptr;
  ValueId x = kNoValue;
};
/// The one that ends in `mul`, whose values are NHWC. Of nodes that no fusion has claimed.
std::optional<GateNodes> gate_before(const Lowering& to, const Node& mul);

}  // namespace mobicuda
