// Inverted residual blocks: few pictures, early blocks, half.

#include "inverted_residual_families.h"

namespace mobicuda::kernels {

std::span<const InvertedResidualEntry> inverted_residual_small_entries() { return {}; }

}  // namespace mobicuda::kernels
