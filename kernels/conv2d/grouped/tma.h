// The other file of this family: its launcher, for the table in grouped.cu.
#pragma once

#include "kernels/conv2d/families.h"

namespace mobicuda::kernels {

/// What both of the family's variants compute.
bool supports_groups(const Conv2dParams& p);

bool supports_grouped_tma(const Conv2dParams& p, const DeviceTraits& gpu);
cudaError_t launch_grouped_tma(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where);

}  // namespace mobicuda::kernels
