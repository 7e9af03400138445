#include "support/bounded_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "support/winograd.h"

namespace mobicuda::test {
namespace {

// Elements in the order of their shape. `magnitude` bounds the sums that fold into one: a ScaleShift may become part of
// the weights and the bias of what follows, where the terms that cancelled in it are rounded one by one.
struct Tensor {
  Shape shape;
  std::vector<double> value;
  std::vector<double> error;
  std::vector<double> magnitude;

  explicit Tensor(const Shape& of) : shape(of) {
    const auto elements = static_cast<std::size_t>(of.elements());
    value.resize(elements);
    error.resize(elements);
    magnitude.resize(elements);
  }
  Tensor() = default;
};

using Index = std::array<std::int64_t, Shape::kMaxRank>;

Index index_of(std::int64_t element, const Shape& shape) {
  Index index{};
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

std::size_t element_at(const Index& index, const Shape& shape) {
  std::int64_t element = 0;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) element = element * shape[axis] + index[axis];
  return static_cast<std::size_t>(element);
}

double apply(const Activation& activation, double x) {
  const double alpha = static_cast<double>(activation.alpha);
  switch (activation.kind) {
    case ActivationKind::Clip:
      return std::min(std::max(x, static_cast<double>(activation.lo)), static_cast<double>(activation.hi));
    case ActivationKind::Sigmoid:
      return 1 / (1 + std::exp(-x));
    case ActivationKind::Silu:
      return x / (1 + std::exp(-x));
    case ActivationKind::HardSwish:
      return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
    case ActivationKind::Tanh:
      return std::tanh(x);
    case ActivationKind::LeakyRelu:
      return x < 0 ? alpha * x : x;
    case ActivationKind::Elu:
      return x < 0 ? alpha * std::expm1(x) : x;
  }
  return x;
}

// Slopes and the errors of evaluation of docs/numerics.md, "Activations", in units of u.
double slope(const Activation& activation) {
  switch (activation.kind) {
    case ActivationKind::Sigmoid:
      return 0.25;
    case ActivationKind::Silu:
      return 1.1;
    case ActivationKind::HardSwish:
      return 1.5;
    case ActivationKind::LeakyRelu:
    case ActivationKind::Elu:
      return std::max(1.0, std::abs(static_cast<double>(activation.alpha)));
    default:
      return 1;
  }
}

double evaluation(const Activation& activation, double x) {
  switch (activation.kind) {
    case ActivationKind::Clip:
      return 0;
    case ActivationKind::Sigmoid:
      return 6;
    case ActivationKind::Silu:
      return 2 + 5 * x;
    case ActivationKind::HardSwish:
      return 3 * x;
    case ActivationKind::Tanh:
      return 4 * std::min(1.0, x);
    default:
      return 4 * slope(activation) * x;
  }
}

class Run {
 public:
  Run(const Graph& graph, const Arithmetic& arithmetic)
      : graph_(graph), arithmetic_(arithmetic), tensors_(graph.values().size()) {
    // Weights are rounded to what they are stored as; folding a ScaleShift into them rounds them to float, at all
    // precisions.
    const auto folds = std::ranges::count_if(
        graph.nodes(), [](const Node& node) { return std::holds_alternative<ScaleShift>(node.op); });
    weight_unit_ = static_cast<double>(folds) * kUnitF32;
    if (arithmetic.store.unit > kUnitF32) weight_unit_ += arithmetic.store.unit;
  }

  BoundedOutput operator()(std::span<const float> image) {
    Tensor input(graph_.input_desc().shape);
    for (std::size_t i = 0; i < input.value.size(); ++i) {
      input.value[i] = static_cast<double>(image[i]);
      input.error[i] = arithmetic_.store.unit > kUnitF32 ? stored(input.value[i]) : 0;
    }
    keep(graph_.input(), std::move(input));
    for (const Node& node : graph_.nodes()) {
      y_ = Tensor(graph_.value(node.output).desc.shape);
      std::visit([&](const auto& op) { compute(op, node); }, node.op);
      keep(node.output, std::move(y_));
    }
    Tensor& output = tensors_[static_cast<std::size_t>(graph_.output())];
    for (std::size_t i = 0; i < output.value.size(); ++i) output.error[i] += kUnitF32 * std::abs(output.value[i]);
    return {std::move(output.value), std::move(output.error), largest_};
  }

 private:
  void keep(ValueId id, Tensor tensor) {
    for (std::size_t i = 0; i < tensor.value.size(); ++i) {
      tensor.magnitude[i] = std::max(tensor.magnitude[i], std::abs(tensor.value[i]) + tensor.error[i]);
      largest_ = std::max(largest_, tensor.magnitude[i]);
    }
    tensors_[static_cast<std::size_t>(id)] = std::move(tensor);
  }

  double stored(double value) const { return arithmetic_.store.unit * std::abs(value) + arithmetic_.store.underflow; }

  const Tensor& input(const Node& node, std::size_t position) const {
    return tensors_[static_cast<std::size_t>(node.inputs[position])];
  }
  std::span<const float> constant(const Node& node, std::size_t position) const {
    if (node.inputs[position] == kNoValue) return {};
    return graph_.value(node.inputs[position]).constant->data<float>();
  }

  double sum_gamma(std::int64_t products) const {
    // On tensor cores a first layer may split each number in two (docs/numerics.md).
    return arithmetic_.tensor_cores ? gamma_tensor_core(2 * (products + 2)) : gamma(products, arithmetic_.unit);
  }

  // A result before its activation, with all but the activation's errors.
  void finish(std::size_t i, const Activation& activation, double value, double error) {
    const double after = apply(activation, value);
    double all = error;
    if (!activation.is_none()) {
      all = slope(activation) * error + arithmetic_.unit * evaluation(activation, std::abs(value) + error);
    }
    y_.value[i] = after;
    y_.error[i] = all + stored(std::abs(after) + all);
  }

  // What F(2x2, 3x3) may lose of output `at`, to which `beside` is added; nothing where an engine does not take it.
  double winograd_loss(const Conv2d& op, const Index& at, const Tensor& x, const Shape& w_shape,
                       std::span<const float> w, double beside) const {
    const bool defined = (w_shape[2] == 3 || w_shape[2] == 5) && w_shape[3] == w_shape[2] &&
                         op.strides == decltype(op.strides){1, 1} && op.dilations == decltype(op.dilations){1, 1};
    if (!arithmetic_.winograd || !defined) return 0;
    const std::int64_t first = at[1] / (y_.shape[1] / op.groups) * w_shape[1];
    const double magnitude = winograd_magnitude(
        w_shape[2], w_shape[1], at[2], at[3],
        [&](std::int64_t c, std::int64_t row, std::int64_t column) {
          const std::int64_t h = row - op.pads.top;
          const std::int64_t v = column - op.pads.left;
          if (h < 0 || h >= x.shape[2] || v < 0 || v >= x.shape[3]) return 0.0;
          return x.magnitude[element_at({0, first + c, h, v}, x.shape)];
        },
        [&](std::int64_t c, std::int64_t r, std::int64_t k) {
          return static_cast<double>(w[element_at({at[1], c, r, k}, w_shape)]);
        });
    return (gamma_winograd(w_shape[2], w_shape[1], arithmetic_.unit) + weight_unit_) * (magnitude + beside);
  }

  void compute(const Conv2d& op, const Node& node) {
    const Tensor& x = input(node, Conv2d::kInput);
    const Shape& w_shape = graph_.value(node.inputs[Conv2d::kWeight]).desc.shape;
    const auto w = constant(node, Conv2d::kWeight);
    const auto bias = constant(node, Conv2d::kBias);
    const Tensor* residual = node.inputs[Conv2d::kResidual] == kNoValue ? nullptr : &input(node, Conv2d::kResidual);
    const std::int64_t per_group = y_.shape[1] / op.groups;
    const double rounding = sum_gamma(w_shape[1] * w_shape[2] * w_shape[3]) + weight_unit_;
    for (std::size_t i = 0; i < y_.value.size(); ++i) {
      const Index at = index_of(static_cast<std::int64_t>(i), y_.shape);
      const auto o = static_cast<std::size_t>(at[1]);
      double sum = bias.empty() ? 0 : static_cast<double>(bias[o]);
      const double beside = std::abs(sum) + (residual == nullptr ? 0 : residual->magnitude[i]);
      double magnitude = beside;
      double error = 0;
      const std::int64_t from_channel = at[1] / per_group * w_shape[1];
      for (std::int64_t c = 0; c < w_shape[1]; ++c) {
        for (std::int64_t r = 0; r < w_shape[2]; ++r) {
          const std::int64_t row = at[2] * op.strides[0] - op.pads.top + r * op.dilations[0];
          if (row < 0 || row >= x.shape[2]) continue;
          const std::int64_t x_row = (from_channel + c) * x.shape[2] + row;
          const std::int64_t w_row = ((at[1] * w_shape[1] + c) * w_shape[2] + r) * w_shape[3];
          for (std::int64_t k = 0; k < w_shape[3]; ++k) {
            const std::int64_t column = at[3] * op.strides[1] - op.pads.left + k * op.dilations[1];
            if (column < 0 || column >= x.shape[3]) continue;
            const auto from = static_cast<std::size_t>(x_row * x.shape[3] + column);
            const double factor = static_cast<double>(w[static_cast<std::size_t>(w_row + k)]);
            sum += factor * x.value[from];
            magnitude += std::abs(factor) * x.magnitude[from];
            error += std::abs(factor) * x.error[from];
          }
        }
      }
      if (residual != nullptr) {
        sum += residual->value[i];
        error += residual->error[i];
      }
      const double lost = std::max(rounding * (magnitude + error), winograd_loss(op, at, x, w_shape, w, beside));
      finish(i, op.activation, sum, error + lost);
    }
  }

  void compute(const Gemm& op, const Node& node) {
    const Tensor& x = input(node, Gemm::kInput);
    const auto w = constant(node, Gemm::kWeight);
    const auto bias = constant(node, Gemm::kBias);
    const std::size_t products = x.value.size();
    const double rounding = sum_gamma(static_cast<std::int64_t>(products)) + weight_unit_;
    for (std::size_t o = 0; o < y_.value.size(); ++o) {
      double sum = bias.empty() ? 0 : static_cast<double>(bias[o]);
      double magnitude = std::abs(sum);
      double error = 0;
      for (std::size_t k = 0; k < products; ++k) {
        const double factor = static_cast<double>(w[o * products + k]);
        sum += factor * x.value[k];
        magnitude += std::abs(factor) * x.magnitude[k];
        error += std::abs(factor) * x.error[k];
      }
      finish(o, op.activation, sum, error + rounding * (magnitude + error));
    }
  }

  void compute(const ScaleShift& op, const Node& node) {
    const Tensor& x = input(node, ScaleShift::kInput);
    const auto scale = constant(node, ScaleShift::kScale);
    const auto shift = constant(node, ScaleShift::kShift);
    const double rounding = sum_gamma(1) + weight_unit_;
    for (std::size_t i = 0; i < y_.value.size(); ++i) {
      const auto c = static_cast<std::size_t>(index_of(static_cast<std::int64_t>(i), y_.shape)[1]);
      const double factor = static_cast<double>(scale[c]);
      const double term = static_cast<double>(shift[c]);
      const double magnitude = std::abs(factor) * x.magnitude[i] + std::abs(term);
      finish(i, op.activation, factor * x.value[i] + term, std::abs(factor) * x.error[i] + rounding * magnitude);
      if (op.activation.is_none()) y_.magnitude[i] = magnitude;
    }
  }

  void compute(const Add& op, const Node& node) {
    const Tensor& a = input(node, Add::kLeft);
    const Tensor& b = input(node, Add::kRight);
    for (std::size_t i = 0; i < y_.value.size(); ++i) {
      const double magnitude = a.magnitude[i] + b.magnitude[i];
      finish(i, op.activation, a.value[i] + b.value[i], a.error[i] + b.error[i] + arithmetic_.unit * magnitude);
    }
  }

  // Where an operand of `shape`, which repeats along axes of extent 1, has element i of the output.
  std::size_t repeated_at(std::size_t i, const Shape& shape) const {
    Index at = index_of(static_cast<std::int64_t>(i), y_.shape);
    for (std::size_t axis = 0; axis < shape.rank(); ++axis) at[axis] = shape[axis] == 1 ? 0 : at[axis];
    return element_at(at, shape);
  }

  void compute(const Mul& op, const Node& node) {
    const Tensor& a = input(node, Mul::kLeft);
    const Tensor& b = input(node, Mul::kRight);
    for (std::size_t i = 0; i < y_.value.size(); ++i) {
      const std::size_t j = repeated_at(i, b.shape);
      const double product = a.value[i] * b.value[j];
      const double error =
          std::abs(a.value[i]) * b.error[j] + std::abs(b.value[j]) * a.error[i] + a.error[i] * b.error[j];
      // x * Sigmoid(x) may become Silu, and x * HardSigmoid(x) HardSwish, whose evaluation errs by more near 0.
      const double evaluated = 2 + 5 * std::max(a.magnitude[i], b.magnitude[j]);
      finish(i, op.activation, product, error + arithmetic_.unit * evaluated);
    }
  }

  // A number next to the one that is taken may be taken instead: no more than either errs.
  void compute(const Extremum& op, const Node& node) {
    const Tensor& a = input(node, Extremum::kLeft);
    const Tensor& b = input(node, Extremum::kRight);
    for (std::size_t i = 0; i < y_.value.size(); ++i) {
      const std::size_t j = repeated_at(i, b.shape);
      const auto [least, most] = std::minmax(a.value[i], b.value[j]);
      finish(i, op.activation, op.kind == ExtremumKind::Max ? most : least, std::max(a.error[i], b.error[j]));
    }
  }

  // Of operations and functions that random_graph() does not draw there are no bounds.
  template <class T>
  void compute(const T&, const Node& node) {
    throw std::invalid_argument("run_bounded: no bounds of " + std::string(op_name(node.op)));
  }

  void compute(const Unary& op, const Node& node) {
    const std::optional<Activation> activation = activation_of(op);
    if (!activation) throw std::invalid_argument("run_bounded: no bounds of " + std::string(op_name(node.op)));
    activate(*activation, node);
  }
  void compute(const Clip& op, const Node& node) { activate(op.activation, node); }

  void activate(const Activation& activation, const Node& node) {
    const Tensor& x = input(node, 0);
    for (std::size_t i = 0; i < y_.value.size(); ++i) finish(i, activation, x.value[i], x.error[i]);
  }

  // What a window covers along an axis, and how many of its places lie in the padded image.
  struct Taps {
    std::vector<std::int64_t> inside;
    std::int64_t padded = 0;
  };
  static Taps taps(std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                   std::int64_t before, std::int64_t after, std::int64_t extent) {
    Taps found;
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t at = out * stride - before + k * dilation;
      if (at >= 0 && at < extent) found.inside.push_back(at);
      if (at < extent + after) ++found.padded;
    }
    return found;
  }

  void compute(const Pool2d& op, const Node& node) {
    const Tensor& x = input(node, Pool2d::kInput);
    for (std::size_t i = 0; i < y_.value.size(); ++i) {
      const Index at = index_of(static_cast<std::int64_t>(i), y_.shape);
      const Taps rows =
          taps(at[2], op.kernel[0], op.strides[0], op.dilations[0], op.pads.top, op.pads.bottom, x.shape[2]);
      const Taps columns =
          taps(at[3], op.kernel[1], op.strides[1], op.dilations[1], op.pads.left, op.pads.right, x.shape[3]);
      std::vector<std::size_t> window;
      for (const std::int64_t row : rows.inside) {
        for (const std::int64_t column : columns.inside) window.push_back(element_at({0, at[1], row, column}, x.shape));
      }
      if (op.kind == PoolKind::Max) {
        maximum(i, x, window);
      } else {
        const auto inside = static_cast<std::int64_t>(window.size());
        average(i, x, window, op.count_include_pad ? rows.padded * columns.padded : inside);
      }
    }
  }

  void maximum(std::size_t i, const Tensor& x, const std::vector<std::size_t>& window) {
    y_.value[i] = x.value[window.front()];
    for (const std::size_t from : window) {
      y_.value[i] = std::max(y_.value[i], x.value[from]);
      y_.error[i] = std::max(y_.error[i], x.error[from]);
    }
  }

  void average(std::size_t i, const Tensor& x, const std::vector<std::size_t>& window, std::int64_t divisor) {
    const double share = 1 / static_cast<double>(divisor);
    double sum = 0;
    double magnitude = 0;
    double error = 0;
    for (const std::size_t from : window) {
      sum += x.value[from];
      magnitude += x.magnitude[from];
      error += x.error[from];
    }
    const double rounding = sum_gamma(static_cast<std::int64_t>(window.size()));
    finish(i, {}, sum * share, share * (error + rounding * (magnitude + error)));
  }

  void compute(const GlobalAveragePool&, const Node& node) {
    const Tensor& x = input(node, GlobalAveragePool::kInput);
    const auto pixels = static_cast<std::size_t>(x.shape[2] * x.shape[3]);
    for (std::size_t c = 0; c < y_.value.size(); ++c) {
      std::vector<std::size_t> window(pixels);
      for (std::size_t p = 0; p < pixels; ++p) window[p] = c * pixels + p;
      average(c, x, window, static_cast<std::int64_t>(pixels));
    }
  }

  void compute(const LocalResponseNorm& op, const Node& node) {
    const Tensor& x = input(node, LocalResponseNorm::kInput);
    const double share = static_cast<double>(op.alpha) / static_cast<double>(op.size);
    const double beta = static_cast<double>(op.beta);
    const double rounding = arithmetic_.unit * (beta * static_cast<double>(op.size + 2) + 9);
    for (std::size_t i = 0; i < y_.value.size(); ++i) {
      const Index at = index_of(static_cast<std::int64_t>(i), y_.shape);
      double squares = 0;
      double error = 0;
      for (std::int64_t k = at[1] - (op.size - 1) / 2; k < at[1] - (op.size - 1) / 2 + op.size; ++k) {
        if (k < 0 || k >= x.shape[1]) continue;
        const std::size_t from = element_at({0, k, at[2], at[3]}, x.shape);
        squares += x.value[from] * x.value[from];
        error += (2 * std::abs(x.value[from]) + x.error[from]) * x.error[from];
      }
      const double base = static_cast<double>(op.bias) + share * squares;
      const double low = std::max(static_cast<double>(op.bias), base - share * error);
      const double exact = x.value[i] * std::pow(base, -beta);
      const double steepest = std::pow(low, -beta);
      const double moved =
          steepest * x.error[i] + std::abs(x.value[i]) * (steepest - std::pow(base + share * error, -beta));
      finish(i, {}, exact, moved + rounding * (std::abs(exact) + moved));
    }
  }

  // For each element, set(place, x - max, sum of exp(x - max), the largest error of an element of its row).
  template <class Set>
  void over_channels(const Tensor& x, Set set) {
    const std::int64_t channels = x.shape[1];
    const std::int64_t pixels = x.shape.elements() / channels;
    for (std::int64_t p = 0; p < pixels; ++p) {
      const auto at = [&](std::int64_t c) { return static_cast<std::size_t>(c * pixels + p); };
      double most = x.value[at(0)];
      double error = 0;
      double sum = 0;
      for (std::int64_t c = 0; c < channels; ++c) {
        most = std::max(most, x.value[at(c)]);
        error = std::max(error, x.error[at(c)]);
      }
      for (std::int64_t c = 0; c < channels; ++c) sum += std::exp(x.value[at(c)] - most);
      for (std::int64_t c = 0; c < channels; ++c) set(at(c), x.value[at(c)] - most, sum, error);
    }
  }

  void compute(const Softmax&, const Node& node) {
    over_channels(input(node, Softmax::kInput), [&](std::size_t at, double distance, double sum, double error) {
      const double share = std::exp(distance) / sum;
      const double relative = std::expm1(2 * error) + softmax_relative_error(2 * error - distance, arithmetic_.unit);
      finish(at, {}, share, share * relative * (1 + relative));
    });
  }

  void compute(const LogSoftmax&, const Node& node) {
    over_channels(input(node, LogSoftmax::kInput), [&](std::size_t at, double distance, double sum, double error) {
      const double exact = distance - std::log(sum);
      const double moved = 2 * error;
      finish(at, {}, exact, moved + log_softmax_error(std::abs(exact) + moved, arithmetic_.unit));
    });
  }

  // Movement: `from` gives the element that a place of the output has, or a negative number for `fill`.
  template <class From>
  void move(const Tensor& x, From from, double fill = 0) {
    for (std::size_t i = 0; i < y_.value.size(); ++i) {
      const std::int64_t element = from(static_cast<std::int64_t>(i));
      if (element < 0) {
        y_.value[i] = fill;
        y_.error[i] = stored(fill);
        continue;
      }
      y_.value[i] = x.value[static_cast<std::size_t>(element)];
      y_.error[i] = x.error[static_cast<std::size_t>(element)];
      y_.magnitude[i] = x.magnitude[static_cast<std::size_t>(element)];
    }
  }

  void compute(const Identity&, const Node& node) { same(node); }
  void compute(const LayoutTransform&, const Node& node) { same(node); }
  void compute(const Reshape&, const Node& node) { same(node); }
  void same(const Node& node) {
    move(input(node, 0), [](std::int64_t i) { return i; });
  }

  void compute(const Transpose& op, const Node& node) {
    const Tensor& x = input(node, Transpose::kInput);
    move(x, [&](std::int64_t i) {
      const Index at = index_of(i, y_.shape);
      Index from{};
      for (std::size_t axis = 0; axis < y_.shape.rank(); ++axis) {
        from[static_cast<std::size_t>(op.permutation[axis])] = at[axis];
      }
      return static_cast<std::int64_t>(element_at(from, x.shape));
    });
  }

  void compute(const Slice& op, const Node& node) {
    const Tensor& x = input(node, Slice::kInput);
    move(x, [&](std::int64_t i) {
      Index at = index_of(i, y_.shape);
      at[static_cast<std::size_t>(op.axis)] += op.first;
      return static_cast<std::int64_t>(element_at(at, x.shape));
    });
  }

  void compute(const Concat& op, const Node& node) {
    const auto axis = static_cast<std::size_t>(op.axis);
    for (std::size_t i = 0; i < y_.value.size(); ++i) {
      Index at = index_of(static_cast<std::int64_t>(i), y_.shape);
      std::size_t part = 0;
      while (at[axis] >= input(node, part).shape[axis]) at[axis] -= input(node, part++).shape[axis];
      const Tensor& x = input(node, part);
      const std::size_t from = element_at(at, x.shape);
      y_.value[i] = x.value[from];
      y_.error[i] = x.error[from];
      y_.magnitude[i] = x.magnitude[from];
    }
  }

  void compute(const Pad& op, const Node& node) {
    const Tensor& x = input(node, Pad::kInput);
    const auto place = [&](std::int64_t at, std::int64_t extent) -> std::int64_t {
      if (at >= 0 && at < extent) return at;
      if (op.mode == PadMode::Constant) return -1;
      if (op.mode == PadMode::Edge) return at < 0 ? 0 : extent - 1;
      return at < 0 ? -at : 2 * (extent - 1) - at;
    };
    move(
        x,
        [&](std::int64_t i) -> std::int64_t {
          Index at = index_of(i, y_.shape);
          at[2] = place(at[2] - op.pads.top, x.shape[2]);
          at[3] = place(at[3] - op.pads.left, x.shape[3]);
          return at[2] < 0 || at[3] < 0 ? -1 : static_cast<std::int64_t>(element_at(at, x.shape));
        },
        static_cast<double>(op.value));
  }

  const Graph& graph_;
  Arithmetic arithmetic_;
  std::vector<Tensor> tensors_;
  Tensor y_;
  double weight_unit_ = 0;
  double largest_ = 0;
};

}  // namespace

Arithmetic arithmetic_of(Precision precision, std::string_view backend) {
  switch (precision) {
    case Precision::Fp16:
      return {kStoreF16, kUnitF32, true, false};
    case Precision::Fp64:
      return {kStoreF64, kUnitF64, false, false};
    default:
      return {kStoreF32, kUnitF32, false, backend == "cpu"};
  }
}

BoundedOutput run_bounded(const Graph& graph, std::span<const float> image, const Arithmetic& arithmetic) {
  return Run(graph, arithmetic)(image);
}

}  // namespace mobicuda::test
