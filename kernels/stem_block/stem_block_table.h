#pragma once

#include "kernels/common/kernel_table.h"
#include "kernels/stem_block/stem_block.h"

namespace mobicuda::kernels {

const KernelTable<StemBlockParams, StemBlockVariant>& kernel_of(const StemBlockParams&);

}  // namespace mobicuda::kernels
