#pragma once

#include "kernels/common/kernel_table.h"
#include "kernels/squeeze_excite/squeeze_excite.h"

namespace mobicuda::kernels {

const KernelTable<SqueezeExciteParams, SqueezeExciteVariant>& kernel_of(const SqueezeExciteParams&);

}  // namespace mobicuda::kernels
