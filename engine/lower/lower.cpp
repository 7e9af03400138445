#include "lower/lower.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "lower/lowering.h"
#include "lower/ops.h"

namespace mobicuda {

std::optional<std::string> why_not_lowered(const Graph& graph, const Node& node, const EngineOptions& options) {
  const auto fits_int = [&](ValueId id) {
    constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
    const Shape& shape = graph.value(id).desc.shape;
    if (graph.value(id).constant || shape.rank() < 4) return true;
    return shape[2] * shape[3] <= kMaxInt / options.max_batch && shape.elements() <= kMaxInt;
  };
  const auto of_integers = [&](ValueId id) { return id != kNoValue && is_quantized(graph.value(id).desc.dtype); };
  if (of_integers(node.output) || std::ranges::any_of(node.inputs, of_integers)) {
    if (auto why = why_no_int8_kernel(graph, node)) return why;
  }
  for (const ValueId id : node.inputs) {
    if (id != kNoValue && !fits_int(id))
      return "the input is too large for a batch of " + std::to_string(options.max_batch);
  }
  if (!fits_int(node.output)) return "the output is too large for a batch of " + std::to_string(options.max_batch);
  if (const auto* transpose = std::get_if<Transpose>(&node.op);
      transpose != nullptr && !transpose_params(graph.value(node.inputs[0]).desc.shape, *transpose)) {
    return "Transpose of more than 4 axes that part has no kernel";
  }
  if (std::holds_alternative<Mul>(node.op) || std::holds_alternative<Extremum>(node.op)) {
    kernels::Broadcast operands = broadcast_of(graph, node);
    operands.extent[0] = options.max_batch;
    if (!kernels::supports(operands)) {
      return std::string(op_name(node.op)) + " that repeats along alternate axes has no kernel";
    }
  }
  return std::nullopt;
}

ChosenLayers choose_layers(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu) {
  return Lowering(graph, options, gpu, {}).choose_layers();
}

CudaPlan lower(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
               const SavedPlan& plan, WeightPieces& weights, std::shared_ptr<const std::byte* const> base) {
  EngineOptions of_plan = options;
  of_plan.max_batch = plan.batch;
  return Lowering(graph, of_plan, gpu, {&plan.choices, &weights, std::move(base)}).run();
}

CudaNetwork lower(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
                  const std::vector<SavedPlan>& plans, WeightPieces& weights) {
  CudaNetwork network;
  const auto base = std::make_shared<const std::byte*>(nullptr);
  for (const SavedPlan& plan : plans) network.plans.push_back(lower(graph, options, gpu, plan, weights, base));
  const auto start = std::chrono::steady_clock::now();
  network.weights = weights.on_device();
  network.upload_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  *base = static_cast<const std::byte*>(network.weights->data());
  network.weight_bytes = network.weights->bytes();
  network.keep_alive.push_back(network.weights);
  return network;
}

}  // namespace mobicuda
