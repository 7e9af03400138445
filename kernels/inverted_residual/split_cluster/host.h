// What the host does for a kernel of any Config: whether it fits, packing, launch.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/common/launch.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/inverted_residual/split_cluster/arguments.cuh"

namespace mobicuda::kernels::inverted_split_cluster {

/// split_cluster_kernel<Shape<config>>.
using Kernel = void (*)(Arguments, const float* x, const unsigned char* packed, float* y);

/// As kernels::supports(); the configuration is valid.
bool supports(const Config& config, const InvertedResidualParams& params, const DeviceTraits& gpu);

std::size_t packed_bytes(const Config& config);

/// `packed` has packed_bytes().
void pack(const Config& config, const InvertedResidualWeights& weights, void* packed);

/// `kernel` is of this configuration, which supports the parameters.
cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& params, const void* x,
                   const void* packed, void* y, const Launch& where);

/// C++ name of the kernel.
std::string kernel_expression(const Config& config);

/// For these parameters on that GPU, the one that is expected to be the fastest first (README.md has the model); at
/// most six. The parameters are sane.
std::vector<Config> configurations(const InvertedResidualParams& params, const DeviceTraits& gpu);

}  // namespace mobicuda::kernels::inverted_split_cluster
