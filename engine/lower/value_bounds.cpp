#include "lower/value_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <variant>

namespace mobicuda {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

double magnitude(float value) { return std::abs(static_cast<double>(value)); }

double activated(const Activation& activation, double bound) {
  switch (activation.kind) {
    case ActivationKind::Clip: {
      const auto clipped = [&](double value) {
        return std::clamp(value, static_cast<double>(activation.lo), static_cast<double>(activation.hi));
      };
      return std::max(std::abs(clipped(-bound)), std::abs(clipped(bound)));
    }
    case ActivationKind::Sigmoid:
    case ActivationKind::Tanh:
      return 1.0;
    case ActivationKind::Silu:
    case ActivationKind::HardSwish:
      return bound;
    case ActivationKind::LeakyRelu:
      return bound * std::max(1.0, magnitude(activation.alpha));
    case ActivationKind::Elu:
      return std::max(bound, magnitude(activation.alpha));
  }
  return kUnknown;
}

class Bounds {
 public:
  explicit Bounds(const Graph& graph) : graph_(graph), bounds_(graph.values().size(), kUnknown) {}

  std::vector<double> take() && {
    for (std::size_t id = 0; id < bounds_.size(); ++id) {
      const Value& value = graph_.values()[id];
      if (!value.constant || value.constant->dtype() != DType::F32) continue;
      bounds_[id] = 0.0;
      for (const float element : value.constant->data<float>()) bounds_[id] = std::max(bounds_[id], magnitude(element));
    }
    for (const Node& node : graph_.nodes()) {
      bounds_[static_cast<std::size_t>(node.output)] =
          std::visit([&](const auto& op) { return bound_of(node, op); }, node.op);
    }
    return std::move(bounds_);
  }

 private:
  double at(const Node& node, std::size_t position) const {
    const ValueId id = node.inputs[position];
    return id == kNoValue ? 0.0 : bounds_[static_cast<std::size_t>(id)];
  }

  // The largest sum over a row of weights, each with its bias.
  double products(const Node& node, double x) const {
    const HostTensor& weight = *graph_.value(node.inputs[Conv2d::kWeight]).constant;
    const std::span<const float> w = weight.data<float>();
    const auto rows = static_cast<std::size_t>(weight.shape()[0]);
    const std::size_t columns = w.size() / rows;
    std::span<const float> bias;
    if (node.inputs[Conv2d::kBias] != kNoValue) bias = graph_.value(node.inputs[Conv2d::kBias]).constant->data<float>();
    double largest = 0.0;
    for (std::size_t row = 0; row < rows; ++row) {
      double sum = 0.0;
      for (const float one : w.subspan(row * columns, columns)) sum += magnitude(one);
      // Not 0 * infinity.
      const double product = sum > 0.0 ? sum * x : 0.0;
      largest = std::max(largest, product + (bias.empty() ? 0.0 : magnitude(bias[row])));
    }
    return largest;
  }

  template <class Op>
  double bound_of(const Node& node, const Op& op) const {
    if constexpr (std::is_same_v<Op, Conv2d>) {
      return activated(op.activation, products(node, at(node, Conv2d::kInput)) + at(node, Conv2d::kResidual));
    } else if constexpr (std::is_same_v<Op, Gemm>) {
      return activated(op.activation, products(node, at(node, Gemm::kInput)));
    } else if constexpr (std::is_same_v<Op, Add>) {
      return activated(op.activation, at(node, Add::kLeft) + at(node, Add::kRight));
    } else if constexpr (std::is_same_v<Op, Mul>) {
      const double product = at(node, Mul::kLeft) * at(node, Mul::kRight);
      return activated(op.activation, std::isnan(product) ? kUnknown : product);
    } else if constexpr (std::is_same_v<Op, Clip>) {
      return activated(op.activation, at(node, Clip::kInput));
    } else if constexpr (std::is_same_v<Op, Unary>) {
      const auto activation = activation_of(op);
      return activation ? activated(*activation, at(node, Unary::kInput)) : kUnknown;
    } else if constexpr (std::is_same_v<Op, GlobalAveragePool>) {
      return at(node, GlobalAveragePool::kInput);
    } else if constexpr (requires { Op::kMovesElements; }) {
      double largest = 0.0;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) largest = std::max(largest, at(node, i));
      if constexpr (std::is_same_v<Op, Pad>) largest = std::max(largest, magnitude(op.value));
      return largest;
    } else {
      return kUnknown;
    }
  }

  const Graph& graph_;
  std::vector<double> bounds_;
};

}  // namespace

std::vector<double> value_bounds(const Graph& graph) { return Bounds(graph).take(); }

}  // namespace mobicuda
