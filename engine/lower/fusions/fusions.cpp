#include "lower/fusions.h"

namespace mobicuda {

std::vector<std::unique_ptr<Fusion>> make_fusions() {
  std::vector<std::unique_ptr<Fusion>> fusions;
  fusions.push_back(make_stem_block_fusion());
  fusions.push_back(make_inverted_residual_fusion());
  fusions.push_back(make_pointwise_pool_fusion());
  fusions.push_back(make_squeeze_excite_fusion());
  return fusions;
}

}  // namespace mobicuda
