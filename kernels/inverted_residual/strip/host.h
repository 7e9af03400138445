// What the host does for a kernel of any Config: which ones there are for a block, whether one fits, packing, launch.
#pragma once

#include <string>
#include <vector>

#include "kernels/common/launch.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/inverted_residual/strip/shape.cuh"

namespace mobicuda::kernels::inverted_strip {

/// strip_kernel<Shape<config>>.
using Kernel = void (*)(Arguments, const unsigned char* x, const unsigned char* packed, unsigned char* y);

/// As kernels::supports(); the configuration is valid.
bool supports(const Config& config, const InvertedResidualParams& params, const DeviceTraits& gpu);

std::size_t packed_bytes(const Config& config);

/// Writes packed_bytes().
void pack(const Config& config, const InvertedResidualWeights& weights, void* packed);

/// `kernel` is of this configuration, which supports the parameters.
cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& params, const void* x,
                   const void* packed, void* y, const Launch& where);

/// The kernel's name expression for NVRTC.
std::string kernel_expression(const Config& config);

/// Up to six configurations for a block, valid and supported, the one expected to be the fastest first; none where
/// there is none. How they are ranked: README.md.
std::vector<Config> configurations(const InvertedResidualParams& params, const DeviceTraits& gpu);

}  // namespace mobicuda::kernels::inverted_strip
