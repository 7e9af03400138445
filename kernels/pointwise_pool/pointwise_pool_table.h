#pragma once

#include "kernels/common/kernel_table.h"
#include "kernels/pointwise_pool/pointwise_pool.h"

namespace mobicuda::kernels {

const KernelTable<PointwisePoolParams, PointwisePoolVariant>& kernel_of(const PointwisePoolParams&);

}  // namespace mobicuda::kernels
