#pragma once

#include "kernels/common/kernel_table.h"
#include "kernels/inverted_residual/inverted_residual.h"

namespace mobicuda::kernels {

const KernelTable<InvertedResidualParams, InvertedResidualVariant>& kernel_of(const InvertedResidualParams&);

}  // namespace mobicuda::kernels
