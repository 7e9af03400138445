#pragma once

#include "kernels/common/kernel_table.h"
#include "kernels/depthwise_conv/depthwise_conv.h"

namespace mobicuda::kernels {

const KernelTable<DepthwiseConvParams, DepthwiseConvVariant>& kernel_of(const DepthwiseConvParams&);

}  // namespace mobicuda::kernels
