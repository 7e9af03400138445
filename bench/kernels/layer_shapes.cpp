#include "layer_shapes.h"

#include <algorithm>
#include <stdexcept>

#include "layer_finding.h"

namespace mobicuda::bench {

LayerKind::LayerKind(const LayerTraits& traits) : traits_(traits) { list().push_back(this); }

std::vector<const LayerKind*>& LayerKind::list() {
  static std::vector<const LayerKind*> kinds;
  return kinds;
}

std::vector<const LayerKind*> LayerKind::all() {
  std::vector<const LayerKind*> sorted = list();
  std::ranges::sort(sorted, {}, &LayerKind::name);
  return sorted;
}

const LayerKind& LayerKind::named(std::string_view name) {
  const auto kind = std::ranges::find(list(), name, &LayerKind::name);
  if (kind == list().end()) throw std::logic_error("no kind of layers is called '" + std::string(name) + "'");
  return **kind;
}

std::optional<LayerShape> LayerKind::find(const Network& network, const Node& node) const {
  std::optional<LayerShape> layer = traits_.find(network, node);
  if (layer) layer->kind = name();
  return layer;
}

std::int64_t flops_of(const LayerShape& shape) {
  const LayerTraits& traits = LayerKind::named(shape.kind).traits();
  return traits.flops == nullptr ? 0 : traits.flops(shape);
}

std::vector<LayerShape> layers_of(const Graph& graph) {
  const Network network(graph);
  const std::vector<const LayerKind*> kinds = LayerKind::all();
  std::vector<LayerShape> found;
  for (const Node& node : network.nodes()) {
    for (const LayerKind* kind : kinds) {
      if (const auto layer = kind->find(network, node)) found.push_back(*layer);
    }
  }
  return found;
}

void add_use(std::vector<Layer>& layers, const LayerShape& shape, const std::string& network, int count) {
  auto layer = std::ranges::find(layers, shape, &Layer::shape);
  if (layer == layers.end()) layer = layers.insert(layers.end(), Layer{shape, {}});
  auto use = std::ranges::find(layer->uses, network, &LayerUse::network);
  if (use == layer->uses.end()) use = layer->uses.insert(layer->uses.end(), LayerUse{network, 0});
  use->count += count;
}

}  // namespace mobicuda::bench
