// What the host does for a kernel of any Config: whether it fits, packing, launch.
#pragma once

#include <cuda_fp16.h>

#include "kernels/common/launch.h"
#include "kernels/inverted_residual/cluster/arguments.cuh"
#include "kernels/inverted_residual/inverted_residual.h"

namespace mobicuda::kernels::inverted_cluster {

/// cluster_kernel<Shape<config>>.
using Kernel = void (*)(Arguments, const __half* x, const unsigned char* packed, __half* y);

/// As kernels::supports(); the configuration is valid.
bool supports(const Config& config, const InvertedResidualParams& params, const DeviceTraits& gpu);

/// Writes Sizes::packed_bytes.
void pack(const Config& config, const InvertedResidualWeights& weights, void* packed);

/// `kernel` is of this configuration, which supports the parameters.
cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& params, const void* x,
                   const void* packed, void* y, const Launch& where);

}  // namespace mobicuda::kernels::inverted_cluster
