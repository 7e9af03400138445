#pragma once

#include "kernels/common/kernel_table.h"
#include "kernels/conv2d/conv2d.h"

namespace mobicuda::kernels {

const KernelTable<Conv2dParams, Conv2dVariant>& kernel_of(const Conv2dParams&);

}  // namespace mobicuda::kernels
