#pragma once

#include "kernels/common/kernel_table.h"
#include "kernels/expand_depthwise/expand_depthwise.h"

namespace mobicuda::kernels {

const KernelTable<ExpandDepthwiseParams, ExpandDepthwiseVariant>& kernel_of(const ExpandDepthwiseParams&);

}  // namespace mobicuda::kernels
