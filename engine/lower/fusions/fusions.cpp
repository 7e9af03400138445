#include "lower/fusions.h"

namespace mobicuda {

// The stem comes before the blocks, because the block behind the first convolution is one of theirs too; heads and
// gates take convolutions that are in no block.
std::vector<std::unique_ptr<Fusion>> make_fusions() {
  std::vector<std::unique_ptr<Fusion>> fusions;
  fusions.push_back(make_stem_block_fusion());
  fusions.push_back(make_inverted_residual_fusion());
  fusions.push_back(make_pointwise_pool_fusion());
  fusions.push_back(make_squeeze_excite_fusion());
  return fusions;
}

}  // namespace mobicuda
