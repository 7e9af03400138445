// Which values are written straight into the concatenation that reads them.
//
// A concatenation along channels of NHWC pixels has a wide buffer; where the producer of an input can write rows that
// lie apart, and every reader of that input can read them, the input is a slice of the wide buffer and needs no copy.
// From the last concatenation to the first: one that is itself a slice of a wider one hands its part of that to its
// inputs, so that a chain of concatenations (DenseNet) has one buffer.
#include "lower/lowering.h"

#include <algorithm>
#include "lower/ops.h"

namespace mobicuda {

namespace {

bool joins_channels(const Graph& graph, const Node& node) {
  const auto* op = std::get_if<Concat>(&node.op);
  const TensorDesc& desc = graph.value(node.output).desc;
  return op != nullptr && op->axis == 1 && desc.shape.rank() == 4 && desc.layout == Layout::NHWC;
}

}  // namespace

void Lowering::place_joined() {
  const auto nodes = graph_.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (!joins_channels(graph_, *node)) continue;
    find_prefix(*node);
    const auto own = places_.find(node->output);
    const Place whole = own != places_.end() ? own->second : Place{node->output, 0, as_int(shape(node->output)[1])};
    int first = whole.first;
    for (const ValueId id : node->inputs) {
      if (can_be_placed(id, first, whole.pitch)) places_[id] = {whole.root, first, whole.pitch};
      first += as_int(shape(id)[1]);
    }
  }
}

// Where all inputs stand side by side in a later concatenation already, this one is there as well: exporters that
// concatenate anew for each layer what they had before.
void Lowering::find_prefix(const Node& concat) {
  if (places_.contains(concat.output) || !read_by_rows(concat.output)) return;
  std::optional<Place> whole;
  int next = 0;
  for (const ValueId id : concat.inputs) {
    const auto place = places_.find(id);
    if (place == places_.end()) return;
    if (!whole) {
      whole = place->second;
      next = whole->first;
    }
    if (place->second.root != whole->root || place->second.first != next) return;
    next += as_int(shape(id)[1]);
  }
  places_[concat.output] = *whole;
}

bool Lowering::can_be_placed(ValueId id, int first, int pitch) const {
  const int packet = static_cast<int>(16 / size_of(elem_));
  const bool aligned = first % packet == 0 && pitch % packet == 0 && shape(id)[1] % packet == 0;
  return aligned && !places_.contains(id) && written_by_rows(id, pitch) && read_by_rows(id);
}

// Beside the pointwise ones: those of half on tensor cores, but not of the network's input, which they may read as
// float.
bool Lowering::writes_rows(const Node& node, const Conv2d& conv, int pitch) const {
  const Shape& weight = shape(node.inputs[Conv2d::kWeight]);
  if (is_pointwise(conv, weight)) return true;
  const auto source = graph_.producer(node.inputs[Conv2d::kInput]);
  if (is_depthwise(conv, weight) || !source || std::holds_alternative<LayoutTransform>(graph_.nodes()[*source].op)) {
    return false;
  }
  kernels::Conv2dParams params = conv2d_params(*this, node, conv);
  params.y_pitch = pitch;
  return rules().runs(params);
}

bool Lowering::written_by_rows(ValueId id, int pitch) const {
  const auto producer = graph_.producer(id);
  if (!producer) return false;
  const Node& node = graph_.nodes()[*producer];
  if (is_claimed(&node)) return false;
  if (const auto* conv = std::get_if<Conv2d>(&node.op)) return writes_rows(node, *conv, pitch);
  return std::holds_alternative<Pool2d>(node.op) || joins_channels(graph_, node);
}

bool Lowering::read_by_rows(ValueId id) const {
  const auto readers = graph_.consumers(id);
  return id != graph_.output() && std::all_of(readers.begin(), readers.end(), [&](std::size_t reader) {
           const Node& node = graph_.nodes()[reader];
           if (is_claimed(&node)) return false;
           if (const auto* conv = std::get_if<Conv2d>(&node.op)) {
             return is_pointwise(*conv, shape(node.inputs[Conv2d::kWeight])) && node.inputs[Conv2d::kResidual] != id;
           }
           return std::holds_alternative<ScaleShift>(node.op) || std::holds_alternative<Pool2d>(node.op) ||
                  joins_channels(graph_, node);
         });
}

int Lowering::pitch_of(ValueId id) const {
  const auto place = places_.find(id);
  return place == places_.end() ? 0 : place->second.pitch;
}

Storage Lowering::make_rows(const Node& node, bool can_write_float) {
  const auto place = places_.find(node.output);
  if (place == places_.end()) {
    Storage& storage = storage_of(node.output);
    return storage.buffer == kNoBuffer ? make_output(node, can_write_float) : storage;
  }
  const auto [root, first, pitch] = place->second;
  if (storage_of(root).buffer == kNoBuffer) make_output(graph_.nodes()[*graph_.producer(root)], false);
  Storage storage = storage_of(root);
  storage.first = first;
  storage.pitch = pitch;
  storage_of(node.output) = storage;
  return storage;
}

}  // namespace mobicuda
