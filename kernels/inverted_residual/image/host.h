// What the host does for a kernel of any Config: whether it fits, packing, launch, and which ones to choose from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/common/launch.h"
#include "kernels/inverted_residual/image/shape.cuh"
#include "kernels/inverted_residual/inverted_residual.h"

namespace mobicuda::kernels::inverted_image {

/// image_kernel<Shape<config>> where the stride is 1, else down_kernel<Shape<config>>.
using Kernel = void (*)(Arguments, const unsigned char* x, const unsigned char* packed, unsigned char* y);

/// As kernels::supports(); the configuration is valid.
bool supports(const Config& config, const InvertedResidualParams& params, const DeviceTraits& gpu);

/// Of a launch.
std::int64_t blocks_of(const Config& config, int images);

/// Of packed weights.
std::size_t packed_bytes(const Config& config);

/// Writes packed_bytes().
void pack(const Config& config, const InvertedResidualWeights& weights, void* packed);

/// `kernel` is of this configuration, which supports the parameters.
cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& params, const void* x,
                   const void* packed, void* y, const Launch& where);

/// Name of the kernel for NVRTC.
std::string kernel_expression(const Config& config);

/// At most six that run the parameters on this GPU, the one expected to be the fastest first.
std::vector<Config> configurations(const InvertedResidualParams& params, const DeviceTraits& gpu);

}  // namespace mobicuda::kernels::inverted_image
