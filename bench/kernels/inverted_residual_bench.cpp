#include "kernels/inverted_residual/inverted_residual.h"

#include <optional>

#include "block_params.h"

namespace mobicuda::bench {
namespace {

/// The engine takes a variant where it makes one step of the block.
void register_all(const Selection& selection) {
  using kernels::InvertedResidualParams;
  for_each_case(selection, LayerKind::Block, [](const LayerCase& at) {
    const bool expand = at.layer.shape.expand;
    const kernels::ExpandDepthwiseParams two_phase = expand_depthwise_params(at);
    const auto rule = [=](const Rules& rules, const InvertedResidualParams& p) {
      const BlockForm form = rules.block_form(&p, expand ? &two_phase : nullptr).form;
      return form == BlockForm::Fused ? std::optional(rules.variant(p).variant) : std::nullopt;
    };
    add_variants(at, block_params(at), rule);
  });
}

const Benchmarks kBenchmarks(kernels::kernel_of(kernels::InvertedResidualParams{}).name, register_all, true);

}  // namespace

}  // namespace mobicuda::bench
