#include "lower/choose_plans.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "choose/timed_choices.h"
#include "lower/lower.h"
#include "lower/network_timer.h"
#include "timing/confirm_choices.h"

namespace mobicuda {
namespace {

// By rule a size costs well under a millisecond, so that they stand close: how a launch fills the GPU's multiprocessors
// changes from image to image while there are few, and later with their share.
constexpr std::int64_t kEachUpTo = 16;
constexpr std::int64_t kBetweenPowers = 8;

std::vector<SavedChoice> choices_by_time(const Graph& graph, const EngineOptions& options,
                                         const kernels::DeviceTraits& gpu, const TensorDesc& input) {
  ChosenLayers layers = choose_layers(graph, options, gpu);
  TimingCache cache(options.timing_cache);
  const TimedNetwork network{machine_fields(options, gpu), print(graph), options.max_batch,
                             options.picture_input.has_value()};
  NetworkComparison compare(graph, options, gpu, input);
  return confirm_choices(cache, network, std::move(layers), options.require_timing_cache, options.log,
                         std::ref(compare));
}

std::vector<SavedChoice> choices_for(std::int64_t batch, const Graph& graph, EngineOptions options,
                                     const kernels::DeviceTraits& gpu, const TensorDesc& input) {
  const bool largest = batch == options.max_batch;
  options.max_batch = batch;
  try {
    if (options.timing_cache.empty()) return choose_layers(graph, options, gpu).choices;
    return choices_by_time(graph, options, gpu, input);
  } catch (const Error& error) {
    if (largest) throw;
    throw error.inside("plan for a batch of " + std::to_string(batch));
  }
}

bool same_kernels(const std::vector<SavedChoice>& a, const std::vector<SavedChoice>& b) {
  return std::ranges::equal(
      a, b, [](const auto& x, const auto& y) { return x.kernel == y.kernel && x.variant == y.variant; });
}

}  // namespace

std::vector<std::int64_t> considered_batches(const EngineOptions& options) {
  std::vector<std::int64_t> batches;
  if (options.plan_batches) {
    batches = *options.plan_batches;
    if (batches.empty() || batches.back() != options.max_batch) batches.push_back(options.max_batch);
    return batches;
  }
  const bool by_time = !options.timing_cache.empty();
  std::int64_t power = 1;  // the largest that is not above the batch
  for (std::int64_t batch = 1; batch < options.max_batch;) {
    batches.push_back(batch);
    if (by_time) {
      batch *= 2;
      continue;
    }
    if (batch == 2 * power) power = batch;
    batch += batch < kEachUpTo ? 1 : power / kBetweenPowers;
  }
  batches.push_back(options.max_batch);
  return batches;
}

std::vector<SavedPlan> choose_plans(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
                                    const TensorDesc& input) {
  const std::vector<std::int64_t> batches = considered_batches(options);
  std::vector<SavedPlan> plans;
  for (auto batch = batches.rbegin(); batch != batches.rend(); ++batch) {
    SavedPlan plan{*batch, choices_for(*batch, graph, options, gpu, input)};
    if (plans.empty() || !same_kernels(plan.choices, plans.back().choices)) plans.push_back(std::move(plan));
  }
  std::ranges::reverse(plans);
  return plans;
}

}  // namespace mobicuda
