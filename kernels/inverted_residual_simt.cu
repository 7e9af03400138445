// Inverted residual blocks: exact float.

#include "inverted_residual_families.h"

namespace mobicuda::kernels {

std::span<const InvertedResidualEntry> inverted_residual_simt_entries() { return {}; }

}  // namespace mobicuda::kernels
