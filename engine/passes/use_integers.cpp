#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "graph/integer_arithmetic.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace mobicuda::passes {
namespace {

// What lies between Dequantize and Quantize becomes an operation on integers, in one walk from the input to the output.
// A value of the file is known as real numbers, as integers that stand for exactly those (its twin), or as both: real
// numbers are made of a twin when a reader wants them.
class IntegerUser {
 public:
  explicit IntegerUser(const Graph& graph)
      : graph_(graph),
        rewriter_(graph),
        twins_(graph.values().size(), kNoValue),
        is_real_(graph.values().size(), false),
        done_(graph.nodes().size(), false) {
    is_real_[index(graph.input())] = true;
  }

  Graph run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (!done_[i] && !std::visit([&](const auto& op) { return use(op, node); }, node.op)) copy(node);
    }
    make_real(graph_.output());
    return rewriter_.finish();
  }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }

  const TensorDesc& new_desc(ValueId id) { return rewriter_.builder().value(id).desc; }
  ValueId twin(ValueId id) const { return twins_[index(id)]; }

  bool reads_twins(const Node& node) const {
    return std::ranges::all_of(
        node.inputs, [&](ValueId id) { return id == kNoValue || graph_.value(id).constant || twin(id) != kNoValue; });
  }

  void copy(const Node& node) {
    for (const ValueId id : node.inputs) make_real(id);
    rewriter_.copy(node);
    is_real_[index(node.output)] = true;
  }

  // Sees to it that the rewriter has the value as real numbers, if it is of such.
  void make_real(ValueId id) {
    if (id == kNoValue || twin(id) == kNoValue || is_real_[index(id)]) return;
    is_real_[index(id)] = true;
    const Node& producer = graph_.nodes()[*graph_.producer(id)];
    const std::string& name = graph_.value(id).name;
    if (std::holds_alternative<Dequantize>(producer.op)) {
      rewriter_.map(id, rewriter_.builder().add_node(Dequantize{}, {twin(id)}, producer.origin, name));
      return;
    }
    Origin origin;
    origin.nodes.push_back({-1, "dequantize(" + producer.origin.label() + ")", "Dequantize"});
    rewriter_.map(id, rewriter_.builder().add_node(Dequantize{}, {twin(id)}, std::move(origin), name + ".real"));
  }

  // ---- what stands behind an operation

  // What all readers of a value quantise it to.
  std::optional<QuantizedResult> quantized_behind(const Node& node) const {
    std::optional<QuantizedResult> result;
    if (node.output == graph_.output()) return result;
    for (const std::size_t reader : graph_.consumers(node.output)) {
      const auto* quantize = std::get_if<Quantize>(&graph_.nodes()[reader].op);
      if (quantize == nullptr || (result && *result != quantize->result)) return std::nullopt;
      result = quantize->result;
    }
    return result;
  }

  // The clamp of integers that is a clamp of the real numbers before they are quantised: rounding keeps the order.
  static std::optional<QuantizedResult> clamped(QuantizedResult result, const Activation& activation) {
    if (!activation.is_clip() || std::isnan(activation.lo) || std::isnan(activation.hi)) return std::nullopt;
    const std::int32_t high = quantized(activation.hi, result);
    result.range = {std::min(quantized(activation.lo, result), high), high};
    return result;
  }

  // Adds an operation in place of the node and all that quantise its output.
  void replace_quantized(const Node& node, Op op, std::vector<ValueId> inputs) {
    map_quantized(node,
                  rewriter_.builder().add_node(std::move(op), std::move(inputs), node.origin, quantized_name(node)));
  }

  std::string quantized_name(const Node& node) const {
    return graph_.value(graph_.nodes()[graph_.consumers(node.output).front()].output).name;
  }

  void map_quantized(const Node& node, ValueId integers) {
    for (const std::size_t reader : graph_.consumers(node.output)) {
      rewriter_.map(graph_.nodes()[reader].output, integers);
      done_[reader] = true;
    }
  }

  // ---- conversions

  bool use(const Dequantize&, const Node& node) {
    twins_[index(node.output)] = rewriter_.mapped(node.inputs[Dequantize::kInput]);
    return true;
  }

  bool use(const Quantize& op, const Node& node) {
    const ValueId integers = twin(node.inputs[Quantize::kInput]);
    if (integers == kNoValue) return false;
    const TensorDesc& desc = new_desc(integers);
    const bool same = desc.dtype == op.result.dtype && desc.quantization == op.result.quantization &&
                      op.result.range == range_of(desc.dtype);
    if (same) {
      rewriter_.map(node.output, integers);
    } else {
      rewriter_.replace(node, Requantize{op.result}, {integers}, node.origin);
    }
    return true;
  }

  // ---- sums of products

  bool use(const Conv2d& op, const Node& node) {
    if (node.inputs[Conv2d::kResidual] != kNoValue) return false;
    QuantizedConv2d integer;
    integer.strides = op.strides;
    integer.dilations = op.dilations;
    integer.pads = op.pads;
    integer.groups = op.groups;
    return use_products(op, integer, node);
  }

  bool use(const Gemm& op, const Node& node) { return use_products(op, QuantizedGemm{}, node); }

  template <class Real, class Integer>
  bool use_products(const Real& op, Integer integer, const Node& node) {
    const ValueId x = twin(node.inputs[Real::kInput]);
    const Value& weight = graph_.value(node.inputs[Real::kWeight]);
    if (x == kNoValue || !has_integers_by_output(weight)) return false;
    std::vector<ValueId> inputs(Integer::kInputs, kNoValue);
    inputs[Integer::kInput] = x;
    const std::vector<float> scales = by_output(weight.quantized->scales, weight);
    if (const ValueId bias = node.inputs[Real::kBias]; bias != kNoValue) {
      const auto integers = integer_bias(graph_.value(bias), new_desc(x).quantization.scale, scales);
      if (!integers) return false;
      inputs[Integer::kBias] = constant<std::int32_t>(graph_.value(bias).name, *integers);
    }
    const std::vector<std::int32_t> zero_points = by_output(weight.quantized->zero_points, weight);
    const bool has_zero_points =
        std::ranges::any_of(zero_points, [](std::int32_t zero_point) { return zero_point != 0; });
    std::shared_ptr<const HostTensor> integers(weight.quantized, &weight.quantized->integers);
    auto centred =
        has_zero_points || integers->dtype() == DType::U8 ? centred_weights(*integers, zero_points) : std::nullopt;
    if (centred) {
      integers = std::make_shared<const HostTensor>(*std::move(centred));
    } else if (has_zero_points) {
      inputs[Integer::kWeightZeroPoint] = constant<std::int32_t>(weight.name + ".zero_point", zero_points);
    }
    inputs[Integer::kWeightScale] = constant<float>(weight.name + ".scale", scales);
    inputs[Integer::kWeight] = rewriter_.builder().add_constant(weight.name, std::move(integers));
    const auto behind = quantized_behind(node);
    if (const auto result = behind ? clamped(*behind, op.activation) : std::nullopt) {
      integer.result = *result;
      replace_quantized(node, integer, std::move(inputs));
      return true;
    }
    integer.result = QuantizedResult::real();
    const std::string& name = graph_.value(node.output).name;
    ValueId y = rewriter_.builder().add_node(integer, std::move(inputs), node.origin,
                                             op.activation.is_none() ? name : name + ".sum");
    if (!op.activation.is_none()) {
      y = rewriter_.builder().add_node(activation_op(op.activation), {y}, node.origin, name);
    }
    rewriter_.map(node.output, y);
    is_real_[index(node.output)] = true;
    return true;
  }

  static bool has_integers_by_output(const Value& weight) {
    return weight.quantized && is_quantized(weight.quantized->integers.dtype()) &&
           (weight.quantized->scales.size() == 1 || weight.quantized->axis == 0);
  }

  // Weights less their zero points, which are the same numbers in one type for every engine; nothing where one is no
  // int8.
  static std::optional<HostTensor> centred_weights(const HostTensor& integers,
                                                   const std::vector<std::int32_t>& zero_points) {
    HostTensor centred(DType::I8, integers.shape());
    const auto to = centred.data<std::int8_t>();
    const std::size_t each = to.size() / zero_points.size();
    const auto fill = [&](const auto& from) {
      for (std::size_t i = 0; i < to.size(); ++i) {
        const std::int32_t difference = from[i] - zero_points[i / each];
        if (difference < range_of(DType::I8).low || difference > range_of(DType::I8).high) return false;
        to[i] = static_cast<std::int8_t>(difference);
      }
      return true;
    };
    const bool fits =
        integers.dtype() == DType::U8 ? fill(integers.data<std::uint8_t>()) : fill(integers.data<std::int8_t>());
    if (!fits) return std::nullopt;
    return centred;
  }

  template <class T>
  static std::vector<T> by_output(const std::vector<T>& values, const Value& weight) {
    if (values.size() != 1) return values;
    return std::vector<T>(static_cast<std::size_t>(weight.desc.shape[0]), values.front());
  }

  // The bias in units of x_scale * w_scale: as the file has it, or else the nearest; nothing where an int32 has none.
  static std::optional<std::vector<std::int32_t>> integer_bias(const Value& bias, float x_scale,
                                                               const std::vector<float>& w_scales) {
    constexpr double kMost = std::numeric_limits<std::int32_t>::max();
    // Exporters compute the product in float or in double, and some by way of a quotient.
    constexpr double kSameScale = 1e-5;
    std::vector<std::int32_t> integers(w_scales.size());
    const QuantizedConstant* const made_of = bias.quantized.get();
    const bool has_integers = made_of != nullptr && made_of->integers.dtype() == DType::I32;
    for (std::size_t o = 0; o < w_scales.size(); ++o) {
      const double unit = static_cast<double>(x_scale) * static_cast<double>(w_scales[o]);
      if (has_integers) {
        const double scale = static_cast<double>(made_of->scales[made_of->scales.size() == 1 ? 0 : o]);
        if (std::abs(scale - unit) <= kSameScale * unit) {
          integers[o] = made_of->integers.data<std::int32_t>()[o];
          continue;
        }
      }
      const double nearest = std::nearbyint(static_cast<double>(bias.constant->data<float>()[o]) / unit);
      if (!(std::abs(nearest) <= kMost)) return std::nullopt;
      integers[o] = static_cast<std::int32_t>(nearest);
    }
    return integers;
  }

  template <class T>
  ValueId constant(std::string name, const std::vector<T>& values) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    return rewriter_.builder().add_constant(std::move(name), HostTensor::of<T>(shape, values));
  }

  static Op activation_op(const Activation& activation) {
    switch (activation.kind) {
      case ActivationKind::Clip:
        break;
      case ActivationKind::Sigmoid:
        return Unary{UnaryKind::Sigmoid, activation.alpha};
      case ActivationKind::Silu:
        return Unary{UnaryKind::Silu, activation.alpha};
      case ActivationKind::HardSwish:
        return Unary{UnaryKind::HardSwish, activation.alpha};
      case ActivationKind::Tanh:
        return Unary{UnaryKind::Tanh, activation.alpha};
      case ActivationKind::LeakyRelu:
        return Unary{UnaryKind::LeakyRelu, activation.alpha};
      case ActivationKind::Elu:
        return Unary{UnaryKind::Elu, activation.alpha};
    }
    return Clip{activation};
  }

  // ---- other arithmetic, where the result is quantised

  bool use(const Add& op, const Node& node) {
    const auto behind = reads_twins(node) ? quantized_behind(node) : std::nullopt;
    const auto result = behind ? clamped(*behind, op.activation) : std::nullopt;
    if (!result) return false;
    replace_quantized(node, QuantizedAdd{*result}, {twin(node.inputs[Add::kLeft]), twin(node.inputs[Add::kRight])});
    return true;
  }

  bool use_average(const Pool2d& window, const Node& node) {
    const auto result = reads_twins(node) ? quantized_behind(node) : std::nullopt;
    if (!result) return false;
    replace_quantized(node, QuantizedAveragePool{window, *result}, {twin(node.inputs[Pool2d::kInput])});
    return true;
  }

  bool use(const GlobalAveragePool&, const Node& node) {
    const Shape& x = graph_.value(node.inputs[GlobalAveragePool::kInput]).desc.shape;
    if (std::max(x[2], x[3]) > kMaxWindow) return false;
    Pool2d window;
    window.kind = PoolKind::Average;
    window.kernel = {x[2], x[3]};
    return use_average(window, node);
  }

  bool use(const Clip& op, const Node& node) {
    const ValueId x = twin(node.inputs[Clip::kInput]);
    if (x == kNoValue) return false;
    if (const auto behind = quantized_behind(node)) {
      const auto result = clamped(*behind, op.activation);
      if (result) replace_quantized(node, Requantize{*result}, {x});
      return result.has_value();
    }
    const TensorDesc desc = new_desc(x);
    const auto same = QuantizedResult::of(desc.dtype, desc.quantization);
    const auto result = clamped(same, op.activation);
    if (!result || !stands_for(op.activation.lo, same) || !stands_for(op.activation.hi, same)) return false;
    add_twin(node, Requantize{*result}, {x});
    return true;
  }

  // Whether a bound is that of an integer, or clamps none.
  static bool stands_for(float bound, const QuantizedResult& as) {
    if (std::isinf(bound)) return true;
    const auto& [scale, zero_point] = as.quantization;
    const float lowest = dequantized(as.range.low - zero_point, scale);
    const float highest = dequantized(as.range.high - zero_point, scale);
    return bound < lowest || bound > highest || dequantized(quantized(bound, as) - zero_point, scale) == bound;
  }

  // ---- movement

  void add_twin(const Node& node, Op op, std::vector<ValueId> inputs) {
    twins_[index(node.output)] =
        rewriter_.builder().add_node(std::move(op), std::move(inputs), node.origin, graph_.value(node.output).name);
  }

  bool use(const Pool2d& op, const Node& node) {
    return op.kind == PoolKind::Average ? use_average(op, node) : use_movement(op, node);
  }

  bool use(const Resize& op, const Node& node) { return op.mode == ResizeMode::Nearest && use_movement(op, node); }

  bool use(const Pad& op, const Node& node) {
    const ValueId x = twin(node.inputs[Pad::kInput]);
    if (x == kNoValue) return use_movement(op, node);
    const TensorDesc& desc = new_desc(x);
    const auto as = QuantizedResult::of(desc.dtype, desc.quantization);
    Pad integer = op;
    integer.value = 0.0F;
    if (op.mode == PadMode::Constant) {
      const std::int32_t value = quantized(op.value, as);
      if (dequantized(value - as.quantization.zero_point, as.quantization.scale) != op.value) return false;
      integer.value = static_cast<float>(value);
    }
    if (!range_has(integer.value, desc.dtype)) integer.value = static_cast<float>(range_of(desc.dtype).low);
    add_twin(node, integer, {x});
    return true;
  }

  static bool range_has(float value, DType dtype) {
    const IntegerRange range = range_of(dtype);
    return value >= static_cast<float>(range.low) && value <= static_cast<float>(range.high);
  }

  bool use(const Concat& op, const Node& node) {
    if (!reads_twins(node)) return false;
    std::vector<ValueId> parts;
    for (const ValueId id : node.inputs) parts.push_back(twin(id));
    const TensorDesc first = new_desc(parts.front());
    const bool same = std::ranges::all_of(parts, [&](ValueId id) {
      return new_desc(id).dtype == first.dtype && new_desc(id).quantization == first.quantization;
    });
    if (same) {
      add_twin(node, op, std::move(parts));
      return true;
    }
    const auto behind = quantized_behind(node);
    if (!behind) return false;
    for (ValueId& part : parts) {
      const TensorDesc desc = new_desc(part);
      if (desc.dtype == behind->dtype && desc.quantization == behind->quantization) continue;
      Origin origin;
      origin.nodes.push_back(
          {-1, "requantize(" + rewriter_.builder().value(part).name + ") of " + node.origin.label(), "Requantize"});
      const std::string name = rewriter_.builder().value(part).name + ".requantized";
      part = rewriter_.builder().add_node(Requantize{*behind}, {part}, std::move(origin), name);
    }
    replace_quantized(node, op, std::move(parts));
    return true;
  }

  template <class T>
  bool use_movement(const T& op, const Node& node) {
    const ValueId x = twin(node.inputs.front());
    if (x == kNoValue) return false;
    add_twin(node, op, {x});
    return true;
  }

  template <class T>
  bool use(const T& op, const Node& node) {
    if constexpr (requires { T::kMovesElements; }) return use_movement(op, node);
    return false;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<ValueId> twins_;  // of the source's values: integers in the new graph
  std::vector<bool> is_real_;   // of the source's values: whether the rewriter has the real numbers
  std::vector<bool> done_;      // of the source's nodes: whether one in front has taken it along
};

}  // namespace

Graph use_integers(const Graph& graph) {
  const auto converts = [](const Node& node) { return std::holds_alternative<Dequantize>(node.op); };
  return std::ranges::any_of(graph.nodes(), converts) ? IntegerUser(graph).run() : graph;
}

}  // namespace mobicuda::passes
