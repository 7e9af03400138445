// What the host does for a kernel of any Config: whether it fits, packing, launch, and which are expected to be fast.
#pragma once

#include <string>
#include <vector>

#include "kernels/common/launch.h"
#include "kernels/inverted_residual/image7/shape.cuh"
#include "kernels/inverted_residual/inverted_residual.h"

namespace mobicuda::kernels::inverted_image7 {

/// image7_kernel<Shape<config>>.
using Kernel = void (*)(Arguments, const unsigned char* x, const unsigned char* packed, unsigned char* y);

/// As kernels::supports(); the configuration is valid.
bool supports(const Config& config, const InvertedResidualParams& params, const DeviceTraits& gpu);

std::size_t packed_bytes(const Config& config);
void pack(const Config& config, const InvertedResidualWeights& weights, void* packed);

/// `kernel` is of this configuration, which supports the parameters.
cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& params, const void* x,
                   const void* packed, void* y, const Launch& where);

/// The kernel's name for NVRTC, which compiles it for sm_90a.
std::string kernel_expression(const Config& config);

/// Configurations for these parameters on this GPU, the one expected to be the fastest first: at most six, all of them
/// supported. README.md has the model.
std::vector<Config> configurations(const InvertedResidualParams& params, const DeviceTraits& gpu);

}  // namespace mobicuda::kernels::inverted_image7
