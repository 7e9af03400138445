#include "lower/network_timer.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <type_traits>
#include <utility>

#include "choose/specialised_choices.h"
#include "lower/lower.h"

namespace mobicuda {
namespace {

bool same(const SavedChoice& a, const SavedChoice& b) { return a.kernel == b.kernel && a.variant == b.variant; }

bool same(const std::vector<SavedChoice>& a, const std::vector<SavedChoice>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return same(x, y); });
}

// What does not bear on the kernels is as it is fast, so that the options of the file's lines are all that matter.
EngineOptions timed_options(EngineOptions options) {
  options.cuda_graph = true;
  options.guarded_arena = false;
  return options;
}

// The same numbers each time: those of one image, for all. Zeros would make products cheaper than they are.
template <class T>
void set_random_input(Session& session, std::int64_t pictures, std::int64_t elements) {
  constexpr float kScale = 1.0F / 8388608.0F;  // 2^-23: 24 random bits to [0, 2)
  std::mt19937 random(1);
  // The session has allocated as much on the device.
  std::vector<T> input(static_cast<std::size_t>(checked_multiply(pictures, elements)));
  const auto first_end = input.begin() + static_cast<std::ptrdiff_t>(elements);
  std::generate(input.begin(), first_end, [&] {
    const auto bits = static_cast<std::uint32_t>(random());
    if constexpr (std::is_same_v<T, float>) return static_cast<float>(bits >> 8U) * kScale - 1.0F;
    return static_cast<T>(bits >> 24U);
  });
  for (auto at = first_end; at != input.end();) at = std::copy(input.begin(), first_end, at);
  session.set_input(input);
}

}  // namespace

NetworkComparison::NetworkComparison(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
                                     const TensorDesc& input)
    : graph_(graph), options_(timed_options(options)), gpu_(gpu), input_(input), specialiser_(options_, gpu_) {}

NetworkTimes NetworkComparison::operator()(const std::vector<SavedChoice>& chosen,
                                           const std::vector<SavedChoice>& rival) {
  if (same(rival_.choices, chosen)) std::swap(chosen_, rival_);  // it won
  rival_ = {};                                                   // returns its memory
  if (!same(chosen_.choices, chosen)) {
    chosen_ = {};
    chosen_ = make(chosen);
  }
  rival_ = make(rival);
  const auto runs_of = [&](const Network& network) {
    return [&](int iterations) { return network.session->time_executions(options_.max_batch, iterations); };
  };
  return time_in_turns(runs_of(chosen_), runs_of(rival_));
}

NetworkComparison::Network NetworkComparison::make(const std::vector<SavedChoice>& choices) {
  const std::vector<SavedPlan> plans{{options_.max_batch, choices}};
  specialiser_.provide(wanted_kernels(plans));  // where the kernels' own times were measured by another process
  CudaNetwork lowered = lower(graph_, options_, gpu_, plans, weights_);
  Network network;
  network.choices = choices;
  network.engine =
      std::make_shared<const CudaEngine>("custom", options_, input_, graph_.output_desc(), std::move(lowered));
  network.session = network.engine->create_session();
  const auto set_input = input_.dtype == DType::U8 ? set_random_input<std::uint8_t> : set_random_input<float>;
  set_input(*network.session, options_.max_batch, input_.shape.elements());
  return network;
}

}  // namespace mobicuda
