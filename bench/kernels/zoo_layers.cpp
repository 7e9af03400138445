#include "zoo_layers.h"

#include <algorithm>
#include <stdexcept>

namespace mobicuda::bench {
namespace {

struct Row {
  const char* network;
  int count;
  LayerShape shape;
};

constexpr Row kRows[] = {
#include "zoo_layers.inc"
};

}  // namespace

std::vector<std::string> zoo_network_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    if (names.empty() || names.back() != row.network) names.emplace_back(row.network);
  }
  return names;
}

std::vector<Layer> zoo_layers(std::span<const std::string> networks) {
  const std::vector<std::string> known = zoo_network_names();
  for (const std::string& network : networks) {
    if (std::ranges::find(known, network) != known.end()) continue;
    std::string text = "no network '" + network + "'; there are";
    for (const std::string& name : known) text += " " + name;
    throw std::invalid_argument(text);
  }
  std::vector<Layer> layers;
  for (const Row& row : kRows) {
    if (std::ranges::find(networks, row.network) != networks.end()) {
      add_use(layers, row.shape, row.network, row.count);
    }
  }
  return layers;
}

}  // namespace mobicuda::bench
