// Inverted residual blocks: few pictures, late blocks, half.

#include "inverted_residual_families.h"

namespace mobicuda::kernels {

std::span<const InvertedResidualEntry> inverted_residual_cluster_entries() { return {}; }

}  // namespace mobicuda::kernels
