#pragma once

// What a graph computes, node by node, as docs/int8.md defines it: integers and sums of them in int64, each operation
// of floats as one of doubles that is rounded once to float (exact products, and sums whose double is exact or rounds
// to the same float), so that nothing here depends on how a compiler contracts. Real operations are in double. All
// values are in the order of their logical shape; one image.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <mobicuda/graph.h>

namespace mobicuda::test {

/// Elements of a value: integers where its type is I8 or U8.
using Numbers = std::vector<double>;

class IntegerOracle {
 public:
  explicit IntegerOracle(const Graph& graph) : graph_(graph) {}

  /// The output for an input in the order of its shape.
  Numbers run(const std::vector<float>& input) {
    values_.clear();
    values_[graph_.input()] = Numbers(input.begin(), input.end());
    for (const Node& node : graph_.nodes()) {
      values_[node.output] = std::visit([&](const auto& op) { return compute(op, node); }, node.op);
    }
    return values_.at(graph_.output());
  }
  const Numbers& value(ValueId id) const { return values_.at(id); }

 private:
  const TensorDesc& desc(ValueId id) const { return graph_.value(id).desc; }
  const Numbers& in(const Node& node, std::size_t position) const { return values_.at(node.inputs[position]); }
  template <class T>
  std::vector<T> constant(const Node& node, std::size_t position) const {
    const ValueId id = node.inputs[position];
    if (id == kNoValue) return {};
    const auto data = graph_.value(id).constant->data<T>();
    return {data.begin(), data.end()};
  }
  static double rounded(double x) { return static_cast<double>(static_cast<float>(x)); }
  static double as_double(float x) { return static_cast<double>(x); }

  static double to_integer(double x, const QuantizedResult& to) {
    if (std::isnan(x)) return to.range.low;
    const double q = std::nearbyint(x) + to.quantization.zero_point;
    return std::min<double>(std::max<double>(q, to.range.low), to.range.high);
  }
  static double from_sum(std::int64_t sum, double factor, const QuantizedResult& to) {
    const double real = rounded(rounded(static_cast<double>(sum)) * factor);
    return to.dtype == DType::F32 ? real : to_integer(real, to);
  }
  static double quotient(double a, double b) { return rounded(a / b); }

  Numbers compute(const Quantize& op, const Node& node) const {
    Numbers y = in(node, 0);
    for (double& v : y) v = to_integer(quotient(rounded(v), as_double(op.result.quantization.scale)), op.result);
    return y;
  }
  Numbers compute(const Dequantize&, const Node& node) const {
    const Quantization& from = desc(node.inputs[0]).quantization;
    Numbers y = in(node, 0);
    for (double& v : y) v = rounded((v - from.zero_point) * as_double(from.scale));
    return y;
  }
  Numbers compute(const Requantize& op, const Node& node) const {
    const Quantization& from = desc(node.inputs[0]).quantization;
    const double m = quotient(as_double(from.scale), as_double(op.result.quantization.scale));
    Numbers y = in(node, 0);
    for (double& v : y) v = from_sum(static_cast<std::int64_t>(v) - from.zero_point, m, op.result);
    return y;
  }
  Numbers compute(const QuantizedAdd& op, const Node& node) const {
    const Quantization& a = desc(node.inputs[0]).quantization;
    const Quantization& b = desc(node.inputs[1]).quantization;
    const double scale = as_double(op.result.quantization.scale);
    const double fa = quotient(as_double(a.scale), scale);
    const double fb = quotient(as_double(b.scale), scale);
    Numbers y = in(node, 0);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double left = rounded(fa * (y[i] - a.zero_point));
      const double right = rounded(fb * (in(node, 1)[i] - b.zero_point));
      y[i] = to_integer(rounded(left + right), op.result);
    }
    return y;
  }

  // sum(o, n, oy, ox) over the window, calling tap(input index, weight index).
  template <class Op, class Tap>
  void window(const Op& op, const Node& node, const Shape& w, std::int64_t o, std::int64_t oy, std::int64_t ox,
              const Tap& tap) const {
    const Shape& x = desc(node.inputs[0]).shape;
    const std::int64_t group = o / (w[0] / op.groups);
    for (std::int64_t i = 0; i < w[1]; ++i) {
      for (std::int64_t ky = 0; ky < w[2]; ++ky) {
        for (std::int64_t kx = 0; kx < w[3]; ++kx) {
          const std::int64_t iy = oy * op.strides[0] + ky * op.dilations[0] - op.pads.top;
          const std::int64_t ix = ox * op.strides[1] + kx * op.dilations[1] - op.pads.left;
          if (iy < 0 || iy >= x[2] || ix < 0 || ix >= x[3]) continue;
          tap(static_cast<std::size_t>(((group * w[1] + i) * x[2] + iy) * x[3] + ix),
              static_cast<std::size_t>(((o * w[1] + i) * w[2] + ky) * w[3] + kx));
        }
      }
    }
  }
  template <class Body>
  Numbers each_pixel(const Node& node, const Body& body) const {
    const Shape& y = desc(node.output).shape;
    Numbers result;
    for (std::int64_t o = 0; o < y[1]; ++o) {
      for (std::int64_t oy = 0; oy < y[2]; ++oy) {
        for (std::int64_t ox = 0; ox < y[3]; ++ox) result.push_back(body(o, oy, ox));
      }
    }
    return result;
  }
  template <class Op>
  std::vector<std::int64_t> weights(const Node& node) const {
    std::vector<std::int64_t> result;
    if (desc(node.inputs[Op::kWeight]).dtype == DType::U8) {
      for (const std::uint8_t q : constant<std::uint8_t>(node, Op::kWeight)) result.push_back(q);
    } else {
      for (const std::int8_t q : constant<std::int8_t>(node, Op::kWeight)) result.push_back(std::int64_t{0} + q);
    }
    const auto zero_points = constant<std::int32_t>(node, Op::kWeightZeroPoint);
    const std::size_t outputs = constant<float>(node, Op::kWeightScale).size();
    for (std::size_t i = 0; i < result.size() && !zero_points.empty(); ++i) {
      result[i] -= zero_points[i / (result.size() / outputs)];
    }
    return result;
  }
  template <class Op>
  double factor(const Op& op, const Node& node, std::size_t o) const {
    const double both = rounded(as_double(desc(node.inputs[Op::kInput]).quantization.scale) *
                                as_double(constant<float>(node, Op::kWeightScale)[o]));
    return op.result.dtype == DType::F32 ? both : quotient(both, as_double(op.result.quantization.scale));
  }

  Numbers compute(const QuantizedConv2d& op, const Node& node) const {
    using Conv = QuantizedConv2d;
    const std::vector<std::int64_t> w = weights<Conv>(node);
    const auto bias = constant<std::int32_t>(node, Conv::kBias);
    const std::int64_t zero_point = desc(node.inputs[Conv::kInput]).quantization.zero_point;
    const Numbers& x = in(node, Conv::kInput);
    return each_pixel(node, [&](std::int64_t o, std::int64_t oy, std::int64_t ox) {
      const auto channel = static_cast<std::size_t>(o);
      std::int64_t sum = bias.empty() ? 0 : bias[channel];
      window(op, node, desc(node.inputs[Conv::kWeight]).shape, o, oy, ox, [&](std::size_t from, std::size_t by) {
        sum += (static_cast<std::int64_t>(x[from]) - zero_point) * w[by];
      });
      return from_sum(sum, factor(op, node, channel), op.result);
    });
  }
  Numbers compute(const QuantizedGemm& op, const Node& node) const {
    using G = QuantizedGemm;
    const std::vector<std::int64_t> w = weights<G>(node);
    const auto bias = constant<std::int32_t>(node, G::kBias);
    const std::int64_t zero_point = desc(node.inputs[G::kInput]).quantization.zero_point;
    const Numbers& x = in(node, G::kInput);
    Numbers y;
    for (std::size_t o = 0; o < w.size() / x.size(); ++o) {
      std::int64_t sum = bias.empty() ? 0 : bias[o];
      for (std::size_t i = 0; i < x.size(); ++i)
        sum += (static_cast<std::int64_t>(x[i]) - zero_point) * w[o * x.size() + i];
      y.push_back(from_sum(sum, factor(op, node, o), op.result));
    }
    return y;
  }

  // body(values of the window inside the image, pixels of it inside the padded image).
  template <class Body>
  Numbers pooled(const Pool2d& op, const Node& node, const Body& body) const {
    const Shape& x = desc(node.inputs[0]).shape;
    return each_pixel(node, [&](std::int64_t c, std::int64_t oy, std::int64_t ox) {
      Numbers inside;
      std::int64_t padded = 0;
      for (std::int64_t ky = 0; ky < op.kernel[0]; ++ky) {
        for (std::int64_t kx = 0; kx < op.kernel[1]; ++kx) {
          const std::int64_t iy = oy * op.strides[0] + ky * op.dilations[0] - op.pads.top;
          const std::int64_t ix = ox * op.strides[1] + kx * op.dilations[1] - op.pads.left;
          padded += iy < x[2] + op.pads.bottom && ix < x[3] + op.pads.right ? 1 : 0;
          if (iy < 0 || iy >= x[2] || ix < 0 || ix >= x[3]) continue;
          inside.push_back(in(node, 0)[static_cast<std::size_t>((c * x[2] + iy) * x[3] + ix)]);
        }
      }
      return body(inside, op.count_include_pad ? padded : static_cast<std::int64_t>(inside.size()));
    });
  }
  Numbers compute(const Pool2d& op, const Node& node) const {
    return pooled(op, node, [&](const Numbers& inside, std::int64_t count) {
      if (op.kind == PoolKind::Max) return *std::ranges::max_element(inside);
      double sum = 0;
      for (const double v : inside) sum += v;
      return sum / static_cast<double>(count);
    });
  }
  Numbers compute(const QuantizedAveragePool& op, const Node& node) const {
    const Quantization& from = desc(node.inputs[0]).quantization;
    return pooled(op.window, node, [&](const Numbers& inside, std::int64_t count) {
      std::int64_t sum = 0;
      for (const double v : inside) sum += static_cast<std::int64_t>(v) - from.zero_point;
      const double divisor = rounded(as_double(op.result.quantization.scale) * rounded(static_cast<double>(count)));
      return from_sum(sum, quotient(as_double(from.scale), divisor), op.result);
    });
  }
  Numbers compute(const GlobalAveragePool&, const Node& node) const {
    const Shape& x = desc(node.inputs[0]).shape;
    const auto pixels = static_cast<std::size_t>(x[2] * x[3]);
    Numbers y;
    for (std::size_t c = 0; c < static_cast<std::size_t>(x[1]); ++c) {
      double sum = 0;
      for (std::size_t i = 0; i < pixels; ++i) sum += in(node, 0)[c * pixels + i];
      y.push_back(sum / static_cast<double>(pixels));
    }
    return y;
  }

  // ---- real operations

  static double act(const Activation& a, double x) {
    if (!a.is_clip()) throw std::logic_error("the oracle has no such activation");
    return std::min(std::max(x, as_double(a.lo)), as_double(a.hi));
  }
  Numbers compute(const Conv2d& op, const Node& node) const {
    const auto w = constant<float>(node, Conv2d::kWeight);
    const auto bias = constant<float>(node, Conv2d::kBias);
    return each_pixel(node, [&](std::int64_t o, std::int64_t oy, std::int64_t ox) {
      double sum = bias.empty() ? 0 : as_double(bias[static_cast<std::size_t>(o)]);
      window(op, node, desc(node.inputs[Conv2d::kWeight]).shape, o, oy, ox,
             [&](std::size_t from, std::size_t by) { sum += in(node, 0)[from] * as_double(w[by]); });
      return act(op.activation, sum);
    });
  }
  Numbers compute(const Gemm& op, const Node& node) const {
    const auto w = constant<float>(node, Gemm::kWeight);
    const auto bias = constant<float>(node, Gemm::kBias);
    const Numbers& x = in(node, Gemm::kInput);
    Numbers y;
    for (std::size_t o = 0; o < w.size() / x.size(); ++o) {
      double sum = bias.empty() ? 0 : as_double(bias[o]);
      for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * as_double(w[o * x.size() + i]);
      y.push_back(act(op.activation, sum));
    }
    return y;
  }
  Numbers compute(const Add& op, const Node& node) const {
    Numbers y = in(node, 0);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = act(op.activation, y[i] + in(node, 1)[i]);
    return y;
  }
  Numbers compute(const Clip& op, const Node& node) const {
    Numbers y = in(node, 0);
    for (double& v : y) v = act(op.activation, v);
    return y;
  }

  // ---- movement

  Numbers compute(const Reshape&, const Node& node) const { return in(node, 0); }
  Numbers compute(const LayoutTransform&, const Node& node) const { return in(node, 0); }
  Numbers compute(const Identity&, const Node& node) const { return in(node, 0); }
  Numbers compute(const Concat& op, const Node& node) const {
    if (op.axis != 1) throw std::logic_error("the oracle joins channels only");
    Numbers y;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) y.insert(y.end(), in(node, i).begin(), in(node, i).end());
    return y;
  }
  Numbers compute(const Pad& op, const Node& node) const {
    if (op.mode != PadMode::Constant) throw std::logic_error("the oracle pads with a value only");
    const Shape& x = desc(node.inputs[0]).shape;
    return each_pixel(node, [&](std::int64_t c, std::int64_t oy, std::int64_t ox) {
      const std::int64_t iy = oy - op.pads.top;
      const std::int64_t ix = ox - op.pads.left;
      if (iy < 0 || iy >= x[2] || ix < 0 || ix >= x[3]) return as_double(op.value);
      return in(node, 0)[static_cast<std::size_t>((c * x[2] + iy) * x[3] + ix)];
    });
  }
  template <class Op>
  Numbers compute(const Op&, const Node&) const {
    throw std::logic_error("the oracle does not know " + std::string(Op::kName));
  }

  const Graph& graph_;
  std::map<ValueId, Numbers> values_;
};

}  // namespace mobicuda::test
