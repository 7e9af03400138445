#include "passes/passes.h"

#include <array>
#include "graph/memory_errors.h"

namespace mobicuda {

std::span<const Pass> standard_passes() {
  static constexpr std::array<Pass, 8> kPasses{{{"remove_noops", passes::remove_noops},
                                                {"fold_pad", passes::fold_pad},
                                                {"recognise_activation", passes::recognise_activation},
                                                {"fold_scale_shift", passes::fold_scale_shift},
                                                {"fuse_activation", passes::fuse_activation},
                                                {"use_integers", passes::use_integers},
                                                {"fuse_residual", passes::fuse_residual},
                                                {"choose_layout", passes::choose_layout}}};
  return kPasses;
}

Graph optimize(const Graph& graph) {
  return with_memory_errors("optimize", [&] {
    Graph result = graph;
    for (const Pass& pass : standard_passes()) result = pass.run(result);
    return result;
  });
}

}  // namespace mobicuda
