#pragma once

#include <span>
#include <string>
#include <vector>

#include "layer_shapes.h"

namespace mobicuda::bench {

/// "mobilenet_v2", then the names of zoo::networks().
std::vector<std::string> zoo_network_names();

/// The layers of these networks; equal ones once. Throws std::invalid_argument that lists the names where one is
/// unknown.
std::vector<Layer> zoo_layers(std::span<const std::string> networks);

}  // namespace mobicuda::bench
