#include "support/random_graph.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/graphs.h"

namespace mobicuda::test {
namespace {

constexpr std::int64_t kMostElements = 1 << 13;
constexpr std::int64_t kMostProducts = 1 << 12;
constexpr std::int64_t kMostOperations = 1 << 18;
constexpr int kMostAttempts = 200;
// Of an input, of a Gemm's weights, of a block's pointwise convolution: nothing exceeds them, unless they are shrunk.
constexpr std::int64_t kMostInputs = 40 * 16 * 16;
constexpr std::int64_t kMostWeights = 1 << 19;
constexpr std::int64_t kMostBlockOperations = 1 << 20;

class Maker {
 public:
  Maker(Choices& choices, std::uint32_t most_nodes, int shrink)
      : choices_(choices),
        shrink_(shrink),
        nodes_left_(1 + choices.below(most_nodes)),
        network_(first_shape(choices, shrink)) {
    values_.push_back(network_.last());
  }

  Graph make() && {
    // An operation that does not fit what was chosen for it makes no node; some always fit.
    for (int attempts = 0; nodes_left_ > 0 && attempts < kMostAttempts / shrink_; ++attempts) {
      if (const auto made = attempt()) {
        values_.push_back(*made);
        --nodes_left_;
      }
    }
    if (values_.size() == 1) values_.push_back(network_.add(Clip{Activation::relu6()}, {values_[0]}));
    return std::move(network_).build(values_.back());
  }

 private:
  static Shape first_shape(Choices& choices, std::int64_t shrink) {
    static constexpr std::int64_t kChannels[] = {3, 8, 1, 2, 4, 5, 7, 9, 16, 17, 24, 32, 40};
    static constexpr std::int64_t kExtents[] = {8, 1, 2, 3, 4, 5, 6, 7, 9, 12, 14, 15, 16};
    const auto channels = choices.any_of(kChannels);
    auto height = choices.any_of(kExtents);
    auto width = choices.one_in(2) ? height : choices.any_of(kExtents);
    while (height * width > 1 && channels * height * width > kMostInputs / shrink) {
      (height < width ? width : height) /= 2;
    }
    return {1, channels, height, width};
  }

  const Shape& shape_of(ValueId id) { return network_.builder().value(id).desc.shape; }

  // The newest more often than the others: a chain with branches.
  ValueId any_value() {
    if (choices_.below(4) != 0) return values_.back();
    return values_[choices_.below(static_cast<std::uint32_t>(values_.size()))];
  }

  std::optional<ValueId> value_like(const Shape& shape, ValueId other) {
    std::vector<ValueId> fitting;
    for (const ValueId id : values_) {
      if (id != other && shape_of(id) == shape) fitting.push_back(id);
    }
    if (fitting.empty()) return std::nullopt;
    return fitting[choices_.below(static_cast<std::uint32_t>(fitting.size()))];
  }

  Activation activation() {
    switch (choices_.below(12)) {
      case 0:
        return Activation::relu();
      case 1:
        return Activation::relu6();
      case 2:
        return {-1.0F, 0.75F};
      case 3:
        return Activation::of(ActivationKind::Sigmoid);
      case 4:
        return Activation::of(ActivationKind::Silu);
      case 5:
        return Activation::of(ActivationKind::HardSwish);
      case 6:
        return Activation::of(ActivationKind::Tanh);
      case 7:
        return Activation::of(ActivationKind::LeakyRelu, 0.125F);
      case 8:
        return Activation::of(ActivationKind::Elu, 1.5F);
      default:
        return Activation::none();
    }
  }

  // Weights for sums of `products` terms, whose variance stays that of the terms.
  ValueId weights(const Shape& shape, std::int64_t products) {
    const float bound = std::sqrt(3.0F / static_cast<float>(products));
    return network_.constant(shape, -bound, bound);
  }

  std::optional<ValueId> add(Op op, std::vector<ValueId> inputs) {
    std::vector<const TensorDesc*> descs;
    for (const ValueId id : inputs) descs.push_back(id == kNoValue ? nullptr : &network_.builder().value(id).desc);
    try {
      const Shape shape = infer_output(op, descs).shape;
      if (shape.elements() < 1 || shape.elements() > kMostElements / shrink_) return std::nullopt;
    } catch (const Error&) {
      return std::nullopt;
    }
    return network_.add(std::move(op), std::move(inputs));
  }

  std::optional<ValueId> attempt() {
    const ValueId x = any_value();
    const Shape shape = shape_of(x);
    if (shape.rank() == 4) {
      switch (choices_.below(20)) {
        case 0:
        case 1:
        case 2:
          return pointwise(x, shape);
        case 3:
        case 4:
          return depthwise(x, shape);
        case 5:
        case 6:
          return convolution(x, shape);
        case 7:
          return pool(x);
        case 8:
          return add(GlobalAveragePool{}, {x});
        case 9:
          return add(pad(), {x});
        case 10:
          return norm(x);
        case 11:
          return add(Reshape{Shape{1, shape.elements()}}, {x});
        case 12:
          return gate(x, shape);
        case 13:
          return inverted_residual(x, shape);
        default:
          return any_rank(x, shape);
      }
    }
    if (shape.rank() == 2 && choices_.one_in(3)) return gemm(x, shape);
    if (shape.rank() == 2 && choices_.one_in(4)) return add(Reshape{image_of(shape[1])}, {x});
    return any_rank(x, shape);
  }

  Shape image_of(std::int64_t elements) {
    const std::int64_t height = elements % 4 == 0 ? 4 : elements % 3 == 0 ? 3 : 1;
    const std::int64_t width = elements / height % 2 == 0 && choices_.one_in(2) ? 2 : 1;
    return {1, elements / height / width, height, width};
  }

  std::optional<ValueId> any_rank(ValueId x, const Shape& shape) {
    switch (choices_.below(9)) {
      case 0:
        return scale_shift(x, shape);
      case 1: {
        const auto other = value_like(shape, x);
        return add(Add{activation()}, {x, other.value_or(x)});
      }
      case 2: {
        const auto other = value_like(shape, x);
        if (!other) return std::nullopt;
        if (choices_.one_in(2)) return add(Mul{activation()}, {x, *other});
        const auto kind = choices_.one_in(2) ? ExtremumKind::Max : ExtremumKind::Min;
        return add(Extremum{kind, activation()}, {x, *other});
      }
      case 3: {
        static constexpr UnaryKind kKinds[] = {UnaryKind::Sigmoid,   UnaryKind::HardSwish, UnaryKind::Tanh,
                                               UnaryKind::LeakyRelu, UnaryKind::Elu,       UnaryKind::Silu};
        return add(Unary{choices_.any_of(kKinds), 0.25F}, {x});
      }
      case 4:
        return add(Clip{choices_.one_in(2) ? Activation::relu() : Activation::relu6()}, {x});
      case 5:
        if (!choices_.one_in(4)) return add(Identity{}, {x});
        return add(choices_.one_in(2) ? Op(Softmax{}) : Op(LogSoftmax{}), {x});
      case 6:
        return join(x, shape);
      case 7:
        return slice(x, shape);
      default:
        return transpose(x, shape);
    }
  }

  std::optional<ValueId> convolve(ValueId x, const Shape& shape, std::int64_t channels, std::int64_t kernel_h,
                                  std::int64_t kernel_w, Conv2d op) {
    const std::int64_t products = shape[1] / op.groups * kernel_h * kernel_w;
    if (products > kMostProducts || products * channels * shape[2] * shape[3] > kMostOperations / shrink_)
      return std::nullopt;
    const ValueId weight = weights(Shape{channels, shape[1] / op.groups, kernel_h, kernel_w}, products);
    const ValueId bias = choices_.one_in(4) ? kNoValue : network_.constant(Shape{channels});
    op.activation = activation();
    const TensorDesc* descs[] = {&network_.builder().value(x).desc, &network_.builder().value(weight).desc, nullptr,
                                 nullptr};
    ValueId residual = kNoValue;
    if (choices_.one_in(6)) {
      try {
        residual = value_like(infer_output(op, descs).shape, x).value_or(kNoValue);
      } catch (const Error&) {
        return std::nullopt;
      }
    }
    return add(op, {x, weight, bias, residual});
  }

  static constexpr std::int64_t kMostChannels = 64;  // of those below
  std::int64_t out_channels() {
    static constexpr std::int64_t kChannels[] = {8, 1, 3, 4, 6, 7, 12, 16, 24, 31, 32, 33, 48, 64};
    return choices_.any_of(kChannels);
  }

  std::optional<ValueId> pointwise(ValueId x, const Shape& shape) {
    return convolve(x, shape, out_channels(), 1, 1, {});
  }

  void window(Conv2d& op) {
    op.strides[0] = 1 + (choices_.one_in(3) ? 1 + choices_.below(2) : 0);
    op.strides[1] = choices_.one_in(6) ? 1 + choices_.below(3) : op.strides[0];
    if (choices_.one_in(6)) op.dilations = {1 + choices_.below(2), 1 + choices_.below(3)};
    op.pads = padding();
  }

  Padding padding() {
    if (choices_.one_in(2)) return {1, 1, 1, 1};
    return {choices_.below(4), choices_.below(4), choices_.below(4), choices_.below(4)};
  }

  std::int64_t kernel() {
    static constexpr std::int64_t kKernels[] = {3, 3, 3, 5, 1, 2, 7};
    return choices_.any_of(kKernels);
  }

  std::optional<ValueId> depthwise(ValueId x, const Shape& shape) {
    Conv2d op;
    window(op);
    op.groups = shape[1];
    const std::int64_t k = kernel();
    return convolve(x, shape, shape[1] * (choices_.one_in(8) ? 2 : 1), k, choices_.one_in(5) ? kernel() : k, op);
  }

  std::optional<ValueId> convolution(ValueId x, const Shape& shape) {
    Conv2d op;
    window(op);
    std::int64_t channels = out_channels();
    if (choices_.one_in(3)) {
      for (const std::int64_t groups : {4, 3, 2}) {
        if (shape[1] % groups != 0) continue;
        op.groups = groups;
        channels = (channels + groups - 1) / groups * groups;
        break;
      }
    }
    const std::int64_t k = kernel();
    return convolve(x, shape, channels, k, choices_.one_in(5) ? kernel() : k, op);
  }

  // Expansion, depthwise convolution and projection, with the input added where it fits: what blocks are made of.
  std::optional<ValueId> inverted_residual(ValueId x, const Shape& shape) {
    const std::int64_t hidden = shape[1] * (2 + choices_.below(3));
    const std::int64_t elements = hidden * shape[2] * shape[3];
    if (elements > kMostElements / shrink_ || hidden > 160) return std::nullopt;
    if (elements * std::max(shape[1], kMostChannels) > kMostBlockOperations / shrink_) return std::nullopt;
    const Activation act = choices_.one_in(2) ? Activation::relu6() : activation();
    const std::int64_t stride = choices_.one_in(3) ? 2 : 1;
    const std::int64_t k = choices_.one_in(3) ? 5 : 3;
    const auto conv = [&](ValueId from, const Shape& weight, std::int64_t groups, std::int64_t step, Activation a) {
      Conv2d op;
      op.strides = {step, step};
      op.groups = groups;
      const std::int64_t around = weight[2] / 2;
      op.pads = {around, around, around, around};
      op.activation = a;
      return network_.add(op, {from, weights(weight, weight[1] * weight[2] * weight[3]),
                               network_.constant(Shape{weight[0]}), kNoValue});
    };
    ValueId y = conv(x, Shape{hidden, shape[1], 1, 1}, 1, 1, act);
    y = conv(y, Shape{hidden, 1, k, k}, hidden, stride, act);
    const std::int64_t channels = choices_.one_in(2) ? shape[1] : out_channels();
    y = conv(y, Shape{channels, hidden, 1, 1}, 1, 1, Activation::none());
    if (shape_of(y) == shape) y = network_.add(Add{}, {y, x});
    return y;
  }

  // Squeeze and excitation.
  std::optional<ValueId> gate(ValueId x, const Shape& shape) {
    const ValueId pooled = network_.add(GlobalAveragePool{}, {x});
    const std::int64_t squeezed = 1 + shape[1] / 4;
    const auto conv = [&](ValueId from, std::int64_t out, std::int64_t in, Activation a) {
      Conv2d op;
      op.activation = a;
      return network_.add(op, {from, weights(Shape{out, in, 1, 1}, in), network_.constant(Shape{out}), kNoValue});
    };
    const ValueId narrow = conv(pooled, squeezed, shape[1], Activation::relu());
    const ValueId wide = conv(narrow, shape[1], squeezed, Activation::of(ActivationKind::Sigmoid));
    return network_.add(Mul{}, {x, wide});
  }

  std::optional<ValueId> pool(ValueId x) {
    Pool2d op;
    op.kind = choices_.one_in(2) ? PoolKind::Max : PoolKind::Average;
    op.kernel = {1 + choices_.below(4), 1 + choices_.below(4)};
    op.strides = {1 + choices_.below(3), 1 + choices_.below(3)};
    for (auto [side, extent] : {std::pair(&op.pads.top, op.kernel[0]), std::pair(&op.pads.bottom, op.kernel[0]),
                                std::pair(&op.pads.left, op.kernel[1]), std::pair(&op.pads.right, op.kernel[1])}) {
      *side = choices_.below(static_cast<std::uint32_t>(extent));  // each window has a pixel
    }
    op.ceil_mode = choices_.one_in(3);
    op.count_include_pad = choices_.one_in(2);
    if (choices_.one_in(8)) {
      op.dilations = {2, 1};
      op.pads = {};
    }
    return add(op, {x});
  }

  Pad pad() {
    static constexpr PadMode kModes[] = {PadMode::Constant, PadMode::Edge, PadMode::Reflect};
    Pad op;
    op.pads = padding();
    op.mode = choices_.any_of(kModes);
    op.value = choices_.one_in(2) ? 0.0F : 0.5F;
    return op;
  }

  std::optional<ValueId> norm(ValueId x) {
    LocalResponseNorm op;
    op.size = 1 + choices_.below(6);
    op.alpha = 0.125F;
    op.beta = choices_.one_in(2) ? 0.75F : 0.5F;
    return add(op, {x});
  }

  std::optional<ValueId> scale_shift(ValueId x, const Shape& shape) {
    const ValueId scale = network_.constant(Shape{shape[1]}, 0.5F, 1.5F);
    return add(ScaleShift{activation()}, {x, scale, network_.constant(Shape{shape[1]})});
  }

  std::optional<ValueId> gemm(ValueId x, const Shape& shape) {
    static constexpr std::int64_t kFeatures[] = {10, 1, 2, 5, 16, 17, 64, 100};
    if (shape[1] > kMostProducts) return std::nullopt;
    const std::int64_t features = choices_.any_of(kFeatures);
    if (features * shape[1] > kMostWeights / shrink_) return std::nullopt;
    const ValueId weight = weights(Shape{features, shape[1]}, shape[1]);
    const ValueId bias = choices_.one_in(4) ? kNoValue : network_.constant(Shape{features});
    return add(Gemm{activation()}, {x, weight, bias});
  }

  std::optional<ValueId> join(ValueId x, const Shape& shape) {
    std::vector<ValueId> parts{x};
    const auto axis = static_cast<std::size_t>(1 + (choices_.one_in(4) ? choices_.below(3) : 0));
    if (axis >= shape.rank()) return std::nullopt;
    for (const ValueId id : values_) {
      const Shape& other = shape_of(id);
      bool fits = other.rank() == shape.rank();
      for (std::size_t i = 1; fits && i < shape.rank(); ++i) fits = i == axis || other[i] == shape[i];
      if (fits && parts.size() < 4 && choices_.one_in(2)) parts.push_back(id);
    }
    return add(Concat{static_cast<std::int64_t>(axis)}, parts);
  }

  std::optional<ValueId> slice(ValueId x, const Shape& shape) {
    const std::size_t axis = 1 + choices_.below(static_cast<std::uint32_t>(shape.rank() - 1));
    Slice op;
    op.axis = static_cast<std::int64_t>(axis);
    op.first = choices_.below(static_cast<std::uint32_t>(std::min<std::int64_t>(shape[axis], 255)));
    op.extent = 1 + choices_.below(static_cast<std::uint32_t>(std::min<std::int64_t>(shape[axis] - op.first, 255)));
    return add(op, {x});
  }

  std::optional<ValueId> transpose(ValueId x, const Shape& shape) {
    Transpose op;
    for (std::size_t axis = 0; axis < shape.rank(); ++axis) op.permutation.push_back(static_cast<std::int64_t>(axis));
    for (std::size_t axis = shape.rank() - 1; axis > 1; --axis) {
      std::swap(op.permutation[axis], op.permutation[1 + choices_.below(static_cast<std::uint32_t>(axis))]);
    }
    return add(op, {x});
  }

  Choices& choices_;
  int shrink_;
  std::uint32_t nodes_left_;
  TestNetwork network_;
  std::vector<ValueId> values_;
};

}  // namespace

Graph random_graph(Choices& choices, std::uint32_t most_nodes, int shrink) {
  return Maker(choices, most_nodes, shrink).make();
}

}  // namespace mobicuda::test
