// Inverted residual blocks: whole pictures, half.

#include "inverted_residual_families.h"

namespace mobicuda::kernels {

std::span<const InvertedResidualEntry> inverted_residual_image_entries() { return {}; }

}  // namespace mobicuda::kernels
