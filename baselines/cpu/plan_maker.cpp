#include "baselines/cpu/plan_maker.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "baselines/cpu/joined.h"
#include "baselines/cpu/lower.h"
#include "baselines/cpu/zeros.h"
#include "graph/memory_planner.h"

namespace mobicuda::cpu {
namespace {

int thread_count(const EngineOptions& options) {
  if (options.threads > 0) return options.threads;
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
}

std::int64_t round_up(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

class PlanMaker {
 public:
  PlanMaker(const Graph& graph, const EngineOptions& options, const Fp32Choices& choices, WeightPacker weights)
      : graph_(graph),
        options_(options),
        choices_(choices),
        fp64_(options.precision == Precision::Fp64),
        steps_(fused_steps(graph, fp64_ ? FusionLimits::never() : choices.fusion)),
        joined_(fp64_ ? decltype(joined_)(graph.values().size()) : joined_values(graph, steps_)),
        zeros_(values_with_zeros(graph)),
        weights_(std::move(weights)) {
    plan_.threads = thread_count(options);
  }

  Plan make() {
    place_buffers();
    for (const std::vector<std::size_t>& nodes : steps_) add_step(nodes);
    cut_stretches();
    place_stretches();
    plan_.weights = std::move(weights_).finish();
    plan_.workspace_bytes = round_up(plan_.workspace_bytes, kBufferAlignment);
    if (options_.picture_input) {
      const TensorDesc& input = graph_.input_desc();
      plan_.picture = {*options_.picture_input, input.shape[2] * input.shape[3], input.layout};
    }
    return std::move(plan_);
  }

 private:
  // From the step that writes a buffer to the last one that reads it.
  struct Life {
    int buffer;
    int first_step, last_step;
  };

  // For what a step's last node writes: what passes between nodes of a step is in no buffer. What is joined is in that
  // of the whole, from the first step on that writes a part of it.
  void place_buffers() {
    buffer_of_.assign(graph_.values().size(), kNoBuffer);
    plan_.input = add_buffer(graph_.input(), Buffer::Place::Input);
    std::vector<int> step_of(graph_.nodes().size());
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      for (const std::size_t node : steps_[step]) step_of[node] = static_cast<int>(step);
    }
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      const Node& node = graph_.nodes()[steps_[step].back()];
      const ValueId value = node.output;
      if (joined(value)) continue;
      if (value == graph_.output()) {
        add_buffer(value, Buffer::Place::Output);
        continue;
      }
      int last_step = static_cast<int>(step);
      for (const std::size_t reader : graph_.consumers(value)) last_step = std::max(last_step, step_of[reader]);
      int first_step = static_cast<int>(step);
      for (const ValueId input : node.inputs) {
        if (joined(input)) first_step = std::min(first_step, step_of[*graph_.producer(input)]);
      }
      lives_.push_back({add_buffer(value, Buffer::Place::Arena), first_step, last_step});
    }
    for (std::size_t value = 0; value < joined_.size(); ++value) {
      if (joined_[value]) buffer_of_[value] = buffer_of(joined_[value]->whole);
    }
    plan_.output = buffer_of(graph_.output());
    std::vector<BufferRequest> requests;
    for (const Life& life : lives_) requests.push_back({buffer(life.buffer).bytes, life.first_step, life.last_step});
    const MemoryPlan memory = plan_memory(requests);
    plan_.arena_bytes = memory.arena_bytes;
    for (std::size_t i = 0; i < lives_.size(); ++i) buffer(lives_[i].buffer).layer_offset = memory.offsets[i];
  }

  int add_buffer(ValueId value, Buffer::Place place) {
    const std::int64_t image_bytes = checked_multiply(graph_.value(value).desc.shape.elements(), element_bytes(value));
    plan_.buffers.push_back({place, checked_multiply(image_bytes, options_.max_batch), image_bytes});
    const int index = static_cast<int>(plan_.buffers.size()) - 1;
    buffer_of_[static_cast<std::size_t>(value)] = index;
    return index;
  }

  Buffer& buffer(int index) { return plan_.buffers[static_cast<std::size_t>(index)]; }

  // How many images a step takes together; 0 for as many as its neighbours.
  std::int64_t images_of(const LayerInfo& info) const {
    if (fp64_) return options_.max_batch;
    if (info.weight_bytes <= choices_.stretches.light_weights) return 0;
    const std::int64_t pixels = info.output.rank() == 4 ? info.output[2] * info.output[3] : 1;
    return std::clamp(choices_.stretches.block_rows / std::max<std::int64_t>(pixels, 1), std::int64_t{1},
                      options_.max_batch);
  }

  void cut_stretches() {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const std::int64_t images = images_of(plan_.steps[i].info);
      if (plan_.stretches.empty() || (images != 0 && images != plan_.stretches.back().images)) {
        plan_.stretches.push_back({.first_step = i, .last_step = i, .images = std::max<std::int64_t>(images, 1)});
      }
      plan_.stretches.back().last_step = i + 1;
    }
    for (Stretch& stretch : plan_.stretches) {
      if (options_.max_batch / stretch.images >= plan_.threads) stretch.slots = plan_.threads;
    }
  }

  // A run's memory plan: of a buffer between stretches all images are there, from the beginning of the stretch that
  // writes it to the end of the last one that reads it, and of others those in slots.
  void place_stretches() {
    std::vector<int> stretch_of;
    for (const Stretch& stretch : plan_.stretches) {
      stretch_of.resize(stretch.last_step, static_cast<int>(&stretch - plan_.stretches.data()));
    }
    std::vector<std::vector<Life>> inner(plan_.stretches.size());
    std::vector<Life> crossing;
    std::vector<BufferRequest> requests;
    for (const Life& life : lives_) {
      const int first = stretch_of[static_cast<std::size_t>(life.first_step)];
      const int last = stretch_of[static_cast<std::size_t>(life.last_step)];
      if (first == last) {
        inner[static_cast<std::size_t>(first)].push_back(life);
        continue;
      }
      crossing.push_back({life.buffer, first, last});
      requests.push_back({buffer(life.buffer).bytes, first, last});
    }
    for (std::size_t i = 0; i < inner.size(); ++i) {
      Stretch& stretch = plan_.stretches[i];
      place_in_slot(stretch, inner[i]);
      stretch.crossing = crossing_of(stretch);
      requests.push_back(
          {checked_multiply(stretch.slot_bytes, stretch.slots), static_cast<int>(i), static_cast<int>(i)});
    }
    const MemoryPlan memory = plan_memory(requests);
    plan_.arena_bytes = std::max(plan_.arena_bytes, memory.arena_bytes);
    for (std::size_t i = 0; i < crossing.size(); ++i) buffer(crossing[i].buffer).run_offset = memory.offsets[i];
    for (std::size_t i = 0; i < inner.size(); ++i) plan_.stretches[i].offset = memory.offsets[crossing.size() + i];
  }

  void place_in_slot(Stretch& stretch, std::span<const Life> inner) {
    std::vector<BufferRequest> requests;
    for (const Life& life : inner) {
      requests.push_back(
          {checked_multiply(buffer(life.buffer).image_bytes, stretch.images), life.first_step, life.last_step});
      stretch.inner.push_back(life.buffer);
    }
    const MemoryPlan memory = plan_memory(requests);
    stretch.slot_bytes = memory.arena_bytes;
    for (std::size_t i = 0; i < inner.size(); ++i) buffer(inner[i].buffer).run_offset = memory.offsets[i];
  }

  // What the stretch's steps read and write but for its inner buffers.
  std::vector<int> crossing_of(const Stretch& stretch) const {
    std::vector<int> used;
    for (std::size_t step = stretch.first_step; step < stretch.last_step; ++step) {
      for (const std::size_t i : steps_[step]) {
        const Node& node = graph_.nodes()[i];
        for (const ValueId input : node.inputs) used.push_back(buffer_of(input));
        used.push_back(buffer_of(node.output));
      }
    }
    std::ranges::sort(used);
    used.erase(std::ranges::unique(used).begin(), used.end());
    std::vector<int> inner = stretch.inner;
    inner.push_back(kNoBuffer);
    std::ranges::sort(inner);
    std::vector<int> crossing;
    std::ranges::set_difference(used, inner, std::back_inserter(crossing));
    return crossing;
  }

  // Integers are stored as they are, real numbers in the engine's precision.
  std::int64_t element_bytes(ValueId value) const {
    const DType dtype = graph_.value(value).desc.dtype;
    return is_quantized(dtype) ? size_of(dtype) : fp64_ ? 8 : 4;
  }

  const std::optional<JoinedValue>& joined(ValueId value) const {
    static const std::optional<JoinedValue> kApart;
    return value == kNoValue ? kApart : joined_[static_cast<std::size_t>(value)];
  }

  int buffer_of(ValueId value) const {
    return value == kNoValue ? kNoBuffer : buffer_of_[static_cast<std::size_t>(value)];
  }

  NodeView view_of(const Node& node) {
    NodeView view{{}, graph_, node, weights_, fp64_, choices_.kernels, {}, buffer_of(node.output)};
    for (const ValueId input : node.inputs) view.inputs.push_back(buffer_of(input));
    if (const auto& place = joined(node.output)) {
      view.output_first = place->first;
      view.output_stride = place->stride;
    }
    view.winograd = choices_.winograd;
    view.zeros = choices_.zeros;
    view.has_zeros = zeros_[static_cast<std::size_t>(node.inputs.front())];
    return view;
  }

  void add_step(const std::vector<std::size_t>& nodes) {
    std::vector<NodeView> views;
    for (const std::size_t node : nodes) views.push_back(view_of(graph_.nodes()[node]));
    LoweredNode lowered = views.size() == 1 ? lower(views.front()) : lower_fused(views, choices_.fusion);
    const Node& last = views.back().node;
    LayerInfo info;
    const auto add_activation = [&](ValueId value) {
      if (buffer_of(value) == kNoBuffer) return;
      info.activation_bytes += checked_multiply(graph_.value(value).desc.shape.elements(), element_bytes(value));
    };
    for (const NodeView& view : views) {
      info.name += (info.name.empty() ? "" : "+") + view.node.origin.label();
      info.flops += flops_per_picture(graph_, view.node);
      for (const ValueId input : view.node.inputs) add_activation(input);
    }
    add_activation(last.output);
    info.kernel = std::move(lowered.kernel);
    info.output = graph_.value(last.output).desc.shape;
    info.weight_bytes = lowered.weight_bytes;
    info.value = graph_.value(last.output).name;
    plan_.weight_bytes += lowered.weight_bytes;
    plan_.workspace_bytes = std::max(plan_.workspace_bytes, lowered.workspace_bytes);
    TensorDesc stored = graph_.value(last.output).desc;
    if (!is_quantized(stored.dtype)) stored.dtype = fp64_ ? DType::F64 : DType::F32;
    plan_.steps.push_back({std::move(info), std::move(lowered.run), views.back().output, stored,
                           views.back().output_first, views.back().output_stride});
  }

  const Graph& graph_;
  const EngineOptions& options_;
  const Fp32Choices& choices_;
  bool fp64_;
  std::vector<std::vector<std::size_t>> steps_;     // the nodes of each
  std::vector<std::optional<JoinedValue>> joined_;  // by value
  std::vector<bool> zeros_;                         // by value
  WeightPacker weights_;
  std::vector<int> buffer_of_;
  std::vector<Life> lives_;  // of all buffers in the arena
  Plan plan_;
};

}  // namespace

Plan make_plan(const Graph& graph, const EngineOptions& options, const SavedEngine* saved, const Fp32Choices& choices) {
  if (saved != nullptr) return PlanMaker(graph, options, choices, WeightPacker(*saved)).make();
  std::int64_t bytes = 0;
  for (const PackedWeights& piece : PlanMaker(graph, options, choices, WeightPacker()).make().weights) {
    bytes += piece.bytes();
  }
  return PlanMaker(graph, options, choices, WeightPacker(bytes)).make();
}

}  // namespace mobicuda::cpu
