// What the host knows of a configuration of the int8 inverted residual kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/common/device_traits.h"
#include "kernels/int8_inverted_residual/int8_inverted_residual.h"
#include "kernels/int8_inverted_residual/shape.cuh"

namespace mobicuda::kernels::int8_block {

/// Of outputs; at least those of one image.
std::int64_t tiles_of(const Config& config, const Int8InvertedResidualParams& params);

/// As kernels::supports(); the configuration is valid, the parameters are sane.
bool supports(const Config& config, const Int8InvertedResidualParams& params, const DeviceTraits& gpu);

/// Cycles that a launch is expected to take by the model that ranks configurations. The configuration supports the
/// parameters.
double expected_cycles(const Config& config, const Int8InvertedResidualParams& params, const DeviceTraits& gpu);

/// At most six that run the parameters on this GPU, the one expected to be the fastest first. The parameters are sane.
std::vector<Config> configurations(const Int8InvertedResidualParams& params, const DeviceTraits& gpu);

}  // namespace mobicuda::kernels::int8_block
