#include "kernels/expand_depthwise/expand_depthwise.h"

#include <optional>

#include "block_params.h"

namespace mobicuda::bench {
namespace {

/// The first two layers of a block: what the engine runs in front of its projection where it makes two steps of it.
void register_all(const Selection& selection) {
  using kernels::ExpandDepthwiseParams;
  for_each_case(selection, blocks(), [](const LayerCase& at) {
    if (!at.layer.shape.expand) return;
    const kernels::InvertedResidualParams block = block_params(at);
    const auto rule = [=](const Rules& rules, const ExpandDepthwiseParams& p) {
      const BlockForm form = rules.block_form(&block, &p).form;
      return form == BlockForm::ExpandDepthwise ? std::optional(rules.variant(p).variant) : std::nullopt;
    };
    add_variants(at, expand_depthwise_params(at), rule);
  });
}

const Benchmarks kBenchmarks(kernels::kernel_of(kernels::ExpandDepthwiseParams{}).name, register_all, true);

}  // namespace

}  // namespace mobicuda::bench
