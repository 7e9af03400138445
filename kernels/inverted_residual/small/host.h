// What the host does for a kernel of any Config: which ones there are for a block, whether they fit, packing, launch.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/common/launch.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/inverted_residual/small/shape.cuh"

namespace mobicuda::kernels::inverted_small {

/// small_kernel<Shape<config>>.
using Kernel = void (*)(Arguments, const unsigned char* x, const unsigned char* packed, unsigned char* y);

/// The same with blocks that walk over the tiles. Packed weights and the bits of y are equal.
constexpr Config walking(Config config) {
  config.walks = 1;
  return config;
}

/// As kernels::supports(), for parameters with expand and with the stride of the configuration, which is valid.
bool supports(const Config& config, const InvertedResidualParams& params, const DeviceTraits& gpu);

std::size_t packed_bytes(const Config& config);
/// Writes packed_bytes().
void pack(const Config& config, const InvertedResidualWeights& weights, void* packed);

/// `kernel` is of this configuration, which supports the parameters; at least one image. Where blocks walk, as many as
/// the GPU holds at once; else one for each tile.
cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& params, const void* x,
                   const void* packed, void* y, const Launch& where);

/// The kernel's name for NVRTC.
std::string kernel_expression(const Config& config);

/// Configurations for these parameters on this GPU, the one expected to be the fastest first, by the model in
/// README.md: at most six, valid and supported; none where the family does not run the block.
std::vector<Config> configurations(const InvertedResidualParams& params, const DeviceTraits& gpu);

}  // namespace mobicuda::kernels::inverted_small
