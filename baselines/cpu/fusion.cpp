#include "baselines/cpu/fusion.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "baselines/cpu/ops/conv2d.h"
#include "baselines/cpu/ops/depthwise_conv.h"

namespace mobicuda::cpu {
namespace {

class Fuser {
 public:
  Fuser(const Graph& graph, const FusionLimits& limits)
      : graph_(graph), limits_(limits), taken_(graph.nodes().size()) {}

  std::vector<std::vector<std::size_t>> steps() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (is_depthwise_at(i)) fuse_around(i);
    }
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (!taken_[i]) steps_.push_back({i});
    }
    // All that a step reads stands before its last node.
    std::ranges::sort(steps_, {}, [](const std::vector<std::size_t>& step) { return step.back(); });
    return std::move(steps_);
  }

 private:
  const Conv2d* conv_at(std::size_t i) const { return std::get_if<Conv2d>(&graph_.nodes()[i].op); }
  ValueId input_of(std::size_t i, std::size_t position) const { return graph_.nodes()[i].inputs[position]; }
  const Shape& shape(ValueId value) const { return graph_.value(value).desc.shape; }

  bool is_depthwise_at(std::size_t i) const {
    const Conv2d* op = conv_at(i);
    return op != nullptr && is_depthwise(*op, shape(input_of(i, Conv2d::kInput)), shape(input_of(i, Conv2d::kWeight)));
  }

  bool is_large(ValueId value) const { return shape(value).elements() >= limits_.least_elements; }

  // Only the next node reads what the node writes, and nothing is added to it first.
  bool is_inner(std::size_t i) const {
    const ValueId output = graph_.nodes()[i].output;
    return input_of(i, Conv2d::kResidual) == kNoValue && output != graph_.output() &&
           graph_.consumers(output).size() == 1;
  }

  std::optional<std::size_t> convolution_before(std::size_t depthwise) const {
    const ValueId input = input_of(depthwise, Conv2d::kInput);
    const std::optional<std::size_t> before = graph_.producer(input);
    if (!before || taken_[*before] || conv_at(*before) == nullptr || is_depthwise_at(*before)) return std::nullopt;
    return is_inner(*before) && is_large(input) ? before : std::nullopt;
  }

  std::optional<std::size_t> pointwise_after(std::size_t depthwise) const {
    const ValueId output = graph_.nodes()[depthwise].output;
    if (!is_inner(depthwise)) return std::nullopt;
    const std::size_t after = graph_.consumers(output).front();
    const Conv2d* op = conv_at(after);
    if (op == nullptr || input_of(after, Conv2d::kInput) != output) return std::nullopt;
    return is_pointwise(*op, shape(input_of(after, Conv2d::kWeight))) ? std::optional(after) : std::nullopt;
  }

  void fuse_around(std::size_t depthwise) {
    std::vector<std::size_t> step{depthwise};
    const std::optional<std::size_t> before = convolution_before(depthwise);
    if (before) step.insert(step.begin(), *before);
    // The bands that are there already serve the last convolution too, however small its input is.
    if (before || is_large(graph_.nodes()[depthwise].output)) {
      if (const auto after = pointwise_after(depthwise)) step.push_back(*after);
    }
    if (step.size() == 1) return;
    for (const std::size_t i : step) taken_[i] = true;
    steps_.push_back(std::move(step));
  }

  const Graph& graph_;
  const FusionLimits& limits_;
  std::vector<bool> taken_;
  std::vector<std::vector<std::size_t>> steps_;
};

}  // namespace

std::vector<std::vector<std::size_t>> fused_steps(const Graph& graph, const FusionLimits& limits) {
  return Fuser(graph, limits).steps();
}

}  // namespace mobicuda::cpu
