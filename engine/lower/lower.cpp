#include "lower/lower.h"

#include <limits>

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
  for (const ValueId id : node.inputs) {
    if (id != kNoValue && !fits_int(id))
      return "the input is too large for a batch of " + std::to_string(options.max_batch);
  }
  if (!fits_int(node.output)) return "the output is too large for a batch of " + std::to_string(options.max_batch);
  if (const auto* transpose = std::get_if<Transpose>(&node.op);
      transpose != nullptr && !transpose_params(graph.value(node.inputs[0]).desc.shape, *transpose)) {
    return "Transpose of more than 4 axes that part has no kernel";
  }
  if (const auto* mul = std::get_if<Mul>(&node.op); mul != nullptr) {
    kernels::MultiplyParams params = multiply_params(graph, node, *mul);
    params.extent[0] = options.max_batch;
    if (!kernels::supports(params)) return "Mul that repeats along alternate axes has no kernel";
  }
  return std::nullopt;
}

CudaPlan lower(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu) {
  return Lowering(graph, options, gpu, {}).run();
}

CudaPlan lower(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
               const std::vector<SavedChoice>& choices, std::shared_ptr<const DeviceBuffer> weights) {
  EngineOptions chosen = options;
  chosen.timing_cache.clear();  // has had its say
  return Lowering(graph, chosen, gpu, {&choices, nullptr, std::move(weights)}).run();
}

CudaPlan lower(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
               const SavedEngine& saved) {
  return Lowering(graph, options, gpu, {&saved.choices, &saved, nullptr}).run();
}

ChosenLayers choose_layers(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu) {
  return Lowering(graph, options, gpu, {}).choose_layers();
}

bool packs_by_variant(const SavedChoice& choice) {
  bool packs = false;
  for_each_kernel(
      [&](const auto& kernel) { packs = packs || (kernel.name == choice.kernel && kernel.packs_by_variant); });
  return packs;
}

}  // namespace mobicuda
