#pragma once

#include "kernels/common/kernel_table.h"
#include "kernels/gemm/gemm.h"

namespace mobicuda::kernels {

const KernelTable<GemmParams, GemmVariant>& kernel_of(const GemmParams&);

}  // namespace mobicuda::kernels
