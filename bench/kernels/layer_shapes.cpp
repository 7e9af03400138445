#include "layer_shapes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

namespace mobicuda::bench {
namespace {

std::int64_t pixels_in(const LayerShape& s) { return std::int64_t{s.h} * s.w; }
std::int64_t pixels_out(const LayerShape& s) { return std::int64_t{s.out_h} * s.out_w; }

std::int64_t flops_of_products(const LayerShape& s) { return 2 * pixels_in(s) * s.c_in * s.c_out; }

std::int64_t flops_of_convolution(const LayerShape& s) {
  return 2 * pixels_out(s) * s.c_out * (s.c_in / s.groups) * s.vertical.size * s.horizontal.size;
}

constexpr std::int64_t kTaps = 9;  // of the depthwise part of fused layers

std::int64_t flops_of_block(const LayerShape& s) {
  return 2 * ((s.expand ? pixels_in(s) * s.c_in * s.hidden : 0) + pixels_out(s) * s.hidden * (kTaps + s.c_out));
}

std::int64_t flops_of_stem(const LayerShape& s) {
  return 2 * pixels_out(s) * s.hidden * (kTaps * s.c_in + kTaps + s.c_out);
}

std::int64_t flops_of_squeeze_excite(const LayerShape& s) {
  return 4 * std::int64_t{s.c_in} * s.hidden + 2 * pixels_in(s) * s.c_in;
}

int as_int(std::int64_t value) { return static_cast<int>(value); }

LayerActivation activation_of(const Activation& activation) {
  switch (activation.kind) {
    case ActivationKind::Sigmoid:
      return LayerActivation::Sigmoid;
    case ActivationKind::Silu:
      return LayerActivation::Silu;
    case ActivationKind::HardSwish:
      return LayerActivation::HardSwish;
    case ActivationKind::Tanh:
      return LayerActivation::Tanh;
    case ActivationKind::LeakyRelu:
      return LayerActivation::LeakyRelu;
    case ActivationKind::Elu:
      return LayerActivation::Elu;
    case ActivationKind::Clip:
      break;
  }
  if (activation == Activation::none()) return LayerActivation::None;
  if (activation == Activation::relu()) return LayerActivation::Relu;
  return activation == Activation::relu6() ? LayerActivation::Relu6 : LayerActivation::Clip;
}

bool is_clip(const Conv2d& op) { return op.activation.is_clip(); }

/// Finds the layers of a graph whose activations are NHWC.
class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph) {}

  std::vector<LayerShape> run() {
    for (const Node& node : graph_.nodes()) {
      std::visit([&](const auto& op) { add(node, op); }, node.op);
    }
    return std::move(found_);
  }

 private:
  const Shape& shape(ValueId id) const { return graph_.value(id).desc.shape; }
  const Node* producer(ValueId id) const {
    const auto position = graph_.producer(id);
    return position ? &graph_.nodes()[*position] : nullptr;
  }
  const Node* sole_reader(ValueId id) const {
    const auto readers = graph_.consumers(id);
    return readers.size() == 1 && id != graph_.output() ? &graph_.nodes()[readers.front()] : nullptr;
  }
  template <class Wanted>
  static const Wanted* as(const Node* node) {
    return node == nullptr ? nullptr : std::get_if<Wanted>(&node->op);
  }

  bool reads_input(ValueId id) const {
    const Node* node = producer(id);
    while (node != nullptr && (as<LayoutTransform>(node) != nullptr || as<Identity>(node) != nullptr)) {
      id = node->inputs[0];
      node = producer(id);
    }
    return id == graph_.input();
  }

  bool makes_output(ValueId id) const {
    if (id == graph_.output()) return true;
    const Node* reader = sole_reader(id);
    return as<Softmax>(reader) != nullptr || (as<Reshape>(reader) != nullptr && makes_output(reader->output));
  }

  LayerShape between(LayerKind kind, ValueId x, ValueId y) const {
    const auto extent = [](const Shape& of, std::size_t axis) { return axis < of.rank() ? as_int(of[axis]) : 1; };
    LayerShape layer;
    layer.kind = kind;
    layer.c_in = extent(shape(x), 1);
    layer.h = extent(shape(x), 2);
    layer.w = extent(shape(x), 3);
    layer.c_out = extent(shape(y), 1);
    layer.out_h = extent(shape(y), 2);
    layer.out_w = extent(shape(y), 3);
    layer.last = makes_output(y);
    return layer;
  }

  static bool is_pointwise(const Conv2d& op, const Shape& weight) {
    return weight[2] == 1 && weight[3] == 1 && op.strides == std::array<std::int64_t, 2>{1, 1} && !op.pads.any() &&
           op.groups == 1;
  }
  static bool is_depthwise(const Conv2d& op, const Shape& weight) {
    return op.groups == weight[0] && weight[1] == 1 && op.groups > 1;
  }
  const Shape& weight_of(const Node& conv) const { return shape(conv.inputs[Conv2d::kWeight]); }
  static bool has(const Node& node, std::size_t position) { return node.inputs[position] != kNoValue; }

  LayerShape convolution(const Node& node, const Conv2d& op) const {
    const Shape& weight = weight_of(node);
    const LayerKind kind = is_pointwise(op, weight)   ? LayerKind::Gemm
                           : is_depthwise(op, weight) ? LayerKind::DepthwiseConv
                                                      : LayerKind::Conv2d;
    LayerShape layer = between(kind, node.inputs[Conv2d::kInput], node.output);
    layer.vertical = {as_int(weight[2]), as_int(op.strides[0]), as_int(op.dilations[0]), as_int(op.pads.top),
                      as_int(op.pads.bottom)};
    layer.horizontal = {as_int(weight[3]), as_int(op.strides[1]), as_int(op.dilations[1]), as_int(op.pads.left),
                        as_int(op.pads.right)};
    layer.groups = as_int(op.groups);
    layer.bias = has(node, Conv2d::kBias);
    layer.residual = has(node, Conv2d::kResidual) && kind != LayerKind::DepthwiseConv;  // there the sum is a step
    layer.first = kind == LayerKind::Conv2d && reads_input(node.inputs[Conv2d::kInput]);
    layer.activation = activation_of(op.activation);
    return layer;
  }

  void add(const Node& node, const Conv2d& op) {
    const LayerShape layer = convolution(node, op);
    found_.push_back(layer);
    add_unfused(node, has(node, Conv2d::kResidual), op.activation);
    if (layer.kind == LayerKind::DepthwiseConv) add_block(node, op, layer);
  }

  /// What a convolution's sum and activation are as steps of their own.
  void add_unfused(const Node& node, bool residual, const Activation& activation) {
    LayerShape step = between(LayerKind::Add, node.output, node.output);
    step.last = false;
    if (residual) {
      step.activation = activation_of(activation);
      found_.push_back(step);
    }
    if (activation.is_clip()) return;
    step.activation = activation_of(activation);
    step.kind = LayerKind::Unary;
    found_.push_back(step);
    if (activation.kind != ActivationKind::Silu && activation.kind != ActivationKind::HardSwish) return;
    step.activation = LayerActivation::None;  // x times a gate of its own
    step.kind = LayerKind::Multiply;
    found_.push_back(step);
  }

  /// The pointwise convolution at `node`, if it is one without another input and clips.
  const Conv2d* pointwise(const Node* node) const {
    const auto* op = as<Conv2d>(node);
    return op != nullptr && is_pointwise(*op, weight_of(*node)) && is_clip(*op) ? op : nullptr;
  }

  void add_block(const Node& node, const Conv2d& op, const LayerShape& depthwise) {
    const Window& window = depthwise.vertical;
    const Node* project = sole_reader(node.output);
    if (window.size != 3 || depthwise.horizontal.size != 3 || window.stride > 2 || window.dilation != 1 ||
        window.stride != depthwise.horizontal.stride || depthwise.horizontal.dilation != 1 || !is_clip(op) ||
        has(node, Conv2d::kResidual) || pointwise(project) == nullptr || makes_output(project->output)) {
      return;
    }
    const Node* before = producer(node.inputs[Conv2d::kInput]);
    const bool alone = before != nullptr && sole_reader(before->output) == &node;
    const bool expand = alone && pointwise(before) != nullptr && !has(*before, Conv2d::kResidual);
    const ValueId x = expand ? before->inputs[Conv2d::kInput] : node.inputs[Conv2d::kInput];
    LayerShape block = between(LayerKind::Block, x, project->output);
    block.vertical = depthwise.vertical;
    block.horizontal = depthwise.horizontal;
    block.hidden = depthwise.c_in;
    block.expand = expand;
    block.bias = true;
    block.residual = has(*project, Conv2d::kResidual);
    block.activation = activation_of(std::get<Conv2d>(project->op).activation);
    if (block.residual && project->inputs[Conv2d::kResidual] != x) return;
    found_.push_back(block);
    if (alone && !expand && !block.residual && window.stride == 1) add_stem(*before, block);
  }

  void add_stem(const Node& node, LayerShape block) {
    const auto* op = as<Conv2d>(&node);
    if (op == nullptr || !is_clip(*op)) return;
    const LayerShape first = convolution(node, *op);
    if (!first.first || first.c_in != 3 || first.vertical.size != 3 || first.horizontal.size != 3 ||
        first.vertical.stride != 2 || first.horizontal.stride != 2) {
      return;
    }
    block.kind = LayerKind::Stem;
    block.h = first.h;
    block.w = first.w;
    block.c_in = first.c_in;
    block.vertical = first.vertical;  // the depthwise window's pads are 1 where its stride is 1
    block.horizontal = first.horizontal;
    block.first = true;
    found_.push_back(block);
  }

  void add(const Node& node, const Gemm& op) {
    LayerShape layer = between(LayerKind::Gemm, node.inputs[Gemm::kInput], node.output);
    layer.bias = has(node, Gemm::kBias);
    layer.activation = activation_of(op.activation);
    found_.push_back(layer);
    add_unfused(node, false, op.activation);
  }

  void add(const Node& node, const GlobalAveragePool&) {
    found_.push_back(between(LayerKind::GlobalAveragePool, node.inputs[0], node.output));
    const Node* conv = producer(node.inputs[0]);
    if (pointwise(conv) == nullptr || has(*conv, Conv2d::kResidual) || sole_reader(conv->output) != &node) return;
    LayerShape head = between(LayerKind::Head, conv->inputs[Conv2d::kInput], node.output);
    head.bias = has(*conv, Conv2d::kBias);
    head.last = false;
    head.activation = activation_of(std::get<Conv2d>(conv->op).activation);
    found_.push_back(head);
  }

  void add(const Node& node, const Mul& op) {
    const Shape& a = shape(node.inputs[Mul::kLeft]);
    const Shape& b = shape(node.inputs[Mul::kRight]);
    if (a.rank() != 4) return;
    const bool equal = a == b;
    if (!equal && (b[1] != a[1] || b[2] != 1 || b[3] != 1)) return;
    LayerShape layer = between(equal ? LayerKind::Multiply : LayerKind::Gate, node.inputs[Mul::kLeft], node.output);
    layer.activation = activation_of(op.activation);
    found_.push_back(layer);
    add_squeeze_excite(node);
  }

  void add_squeeze_excite(const Node& mul) {
    const auto product_before = [&](ValueId id) -> const Node* {
      const Node* node = producer(id);
      const auto* op = as<Conv2d>(node);
      const bool fits = op != nullptr && is_pointwise(*op, weight_of(*node)) && !has(*node, Conv2d::kResidual);
      return fits ? node : nullptr;
    };
    const ValueId x = mul.inputs[Mul::kLeft];
    const Node* expand = product_before(mul.inputs[Mul::kRight]);
    const Node* reduce = expand == nullptr ? nullptr : product_before(expand->inputs[Conv2d::kInput]);
    const Node* pool = reduce == nullptr ? nullptr : producer(reduce->inputs[Conv2d::kInput]);
    if (as<GlobalAveragePool>(pool) == nullptr || pool->inputs[0] != x) return;
    LayerShape layer = between(LayerKind::SqueezeExcite, x, mul.output);
    layer.hidden = as_int(shape(reduce->output)[1]);
    layer.activation = activation_of(std::get<Conv2d>(reduce->op).activation);
    found_.push_back(layer);
  }

  void add(const Node& node, const Pool2d& op) {
    const LayerKind kind = op.kind == PoolKind::Max ? LayerKind::MaxPool : LayerKind::AveragePool;
    LayerShape layer = between(kind, node.inputs[0], node.output);
    layer.vertical = {as_int(op.kernel[0]), as_int(op.strides[0]), as_int(op.dilations[0]), as_int(op.pads.top),
                      as_int(op.pads.bottom)};
    layer.horizontal = {as_int(op.kernel[1]), as_int(op.strides[1]), as_int(op.dilations[1]), as_int(op.pads.left),
                        as_int(op.pads.right)};
    found_.push_back(layer);
  }

  void add_activated(LayerKind kind, const Node& node, const Activation& activation) {
    LayerShape layer = between(kind, node.inputs[0], node.output);
    layer.activation = activation_of(activation);
    found_.push_back(layer);
  }
  void add(const Node& node, const Add& op) { add_activated(LayerKind::Add, node, op.activation); }
  void add(const Node& node, const ScaleShift& op) { add_activated(LayerKind::ScaleShift, node, op.activation); }
  void add(const Node& node, const Unary& op) { add_activated(LayerKind::Unary, node, mobicuda::activation_of(op)); }
  void add(const Node& node, const LocalResponseNorm&) {
    found_.push_back(between(LayerKind::LocalResponseNorm, node.inputs[0], node.output));
  }
  void add(const Node& node, const Softmax&) {
    found_.push_back(between(LayerKind::Softmax, node.inputs[0], node.output));
  }

  // They move data, if that: their shapes do not say what a kernel has to do.
  void add(const Node&, const Clip&) {}
  void add(const Node&, const Concat&) {}
  void add(const Node&, const Slice&) {}
  void add(const Node&, const Reshape&) {}
  void add(const Node&, const Transpose&) {}
  void add(const Node&, const Pad&) {}
  void add(const Node&, const LayoutTransform&) {}
  void add(const Node&, const Identity&) {}

  const Graph& graph_;
  std::vector<LayerShape> found_;
};

}  // namespace

LayerTraits traits_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::Gemm:
      return {.kernel = "gemm", .products = true, .bias = true, .flops = flops_of_products};
    case LayerKind::DepthwiseConv:
      return {.kernel = "depthwise_conv", .window = true, .bias = true, .flops = flops_of_convolution};
    case LayerKind::Conv2d:
      return {.kernel = "conv2d", .products = true, .window = true, .bias = true, .flops = flops_of_convolution};
    case LayerKind::Block:
      return {.kernel = "inverted_residual", .products = true, .window = true, .bias = true, .flops = flops_of_block};
    case LayerKind::Stem:
      return {.kernel = "stem_block", .products = true, .window = true, .bias = true, .flops = flops_of_stem};
    case LayerKind::Head:
      return {.kernel = "pointwise_pool", .products = true, .bias = true, .flops = flops_of_products};
    case LayerKind::SqueezeExcite:
      return {.kernel = "squeeze_excite", .flops = flops_of_squeeze_excite};
    case LayerKind::MaxPool:
      return {.kernel = "max_pooling", .window = true};
    case LayerKind::AveragePool:
      return {.kernel = "average_pooling", .window = true};
    case LayerKind::GlobalAveragePool:
      return {.kernel = "global_average_pool"};
    case LayerKind::Add:
      return {.kernel = "add"};
    case LayerKind::Multiply:
      return {.kernel = "multiply/equal"};
    case LayerKind::Gate:
      return {.kernel = "multiply/gate"};
    case LayerKind::ScaleShift:
      return {.kernel = "scale_shift"};
    case LayerKind::Unary:
      return {.kernel = "unary"};
    case LayerKind::LocalResponseNorm:
      return {.kernel = "local_response_norm"};
    case LayerKind::Softmax:
      return {.kernel = "softmax"};
  }
  throw std::logic_error("no such kind of layers");
}

std::int64_t flops_of(const LayerShape& shape) {
  const LayerTraits traits = traits_of(shape.kind);
  return traits.flops == nullptr ? 0 : traits.flops(shape);
}

std::vector<LayerShape> layers_of(const Graph& graph) { return Finder(optimize(graph)).run(); }

void add_use(std::vector<Layer>& layers, const LayerShape& shape, const std::string& network, int count) {
  auto layer = std::ranges::find(layers, shape, &Layer::shape);
  if (layer == layers.end()) layer = layers.insert(layers.end(), Layer{shape, {}});
  auto use = std::ranges::find(layer->uses, network, &LayerUse::network);
  if (use == layer->uses.end()) use = layer->uses.insert(layer->uses.end(), LayerUse{network, 0});
  use->count += count;
}

}  // namespace mobicuda::bench
