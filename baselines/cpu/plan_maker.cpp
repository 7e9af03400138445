#include "baselines/cpu/plan_maker.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "baselines/cpu/lower.h"
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
  PlanMaker(const Graph& graph, const EngineOptions& options, const SavedEngine* saved, const Fp32Choices& choices)
      : graph_(graph),
        options_(options),
        choices_(choices),
        fp64_(options.precision == Precision::Fp64),
        steps_(fused_steps(graph, fp64_ ? FusionLimits::never() : choices.fusion)),
        weights_(saved) {
    plan_.threads = thread_count(options);
  }

  Plan make() {
    place_buffers();
    for (const std::vector<std::size_t>& nodes : steps_) add_step(nodes);
    plan_.weights = std::move(weights_).finish();
    plan_.workspace_bytes = round_up(plan_.workspace_bytes, kBufferAlignment);
    if (options_.picture_input) {
      const TensorDesc& input = graph_.input_desc();
      plan_.picture = {*options_.picture_input, input.shape[2] * input.shape[3], input.layout};
    }
    return std::move(plan_);
  }

 private:
  // For what a step's last node writes: what passes between nodes of a step is in no buffer.
  void place_buffers() {
    buffer_of_.assign(graph_.values().size(), kNoBuffer);
    plan_.input = add_buffer(graph_.input(), Buffer::Place::Input);
    std::vector<int> step_of(graph_.nodes().size());
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      for (const std::size_t node : steps_[step]) step_of[node] = static_cast<int>(step);
    }
    std::vector<BufferRequest> requests;
    std::vector<int> requested;
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      const ValueId value = graph_.nodes()[steps_[step].back()].output;
      if (value == graph_.output()) {
        add_buffer(value, Buffer::Place::Output);
        continue;
      }
      int last_step = static_cast<int>(step);
      for (const std::size_t reader : graph_.consumers(value)) last_step = std::max(last_step, step_of[reader]);
      requested.push_back(add_buffer(value, Buffer::Place::Arena));
      requests.push_back({plan_.buffers.back().bytes, static_cast<int>(step), last_step});
    }
    plan_.output = buffer_of(graph_.output());
    const MemoryPlan memory = plan_memory(requests);
    plan_.arena_bytes = memory.arena_bytes;
    for (std::size_t i = 0; i < requested.size(); ++i) {
      plan_.buffers[static_cast<std::size_t>(requested[i])].offset = memory.offsets[i];
    }
  }

  int add_buffer(ValueId value, Buffer::Place place) {
    const std::int64_t elements = checked_multiply(graph_.value(value).desc.shape.elements(), options_.max_batch);
    plan_.buffers.push_back({place, 0, checked_multiply(elements, element_bytes(value))});
    const int index = static_cast<int>(plan_.buffers.size()) - 1;
    buffer_of_[static_cast<std::size_t>(value)] = index;
    return index;
  }

  // Integers are stored as they are, real numbers in the engine's precision.
  std::int64_t element_bytes(ValueId value) const {
    const DType dtype = graph_.value(value).desc.dtype;
    return is_quantized(dtype) ? size_of(dtype) : fp64_ ? 8 : 4;
  }

  int buffer_of(ValueId value) const {
    return value == kNoValue ? kNoBuffer : buffer_of_[static_cast<std::size_t>(value)];
  }

  NodeView view_of(const Node& node) {
    NodeView view{{}, graph_, node, weights_, fp64_, choices_.kernels, {}, buffer_of(node.output)};
    for (const ValueId input : node.inputs) view.inputs.push_back(buffer_of(input));
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
    plan_.steps.push_back({std::move(info), std::move(lowered.run), views.back().output, stored});
  }

  const Graph& graph_;
  const EngineOptions& options_;
  const Fp32Choices& choices_;
  bool fp64_;
  std::vector<std::vector<std::size_t>> steps_;  // the nodes of each
  WeightPacker weights_;
  std::vector<int> buffer_of_;
  Plan plan_;
};

}  // namespace

Plan make_plan(const Graph& graph, const EngineOptions& options, const SavedEngine* saved, const Fp32Choices& choices) {
  return PlanMaker(graph, options, saved, choices).make();
}

}  // namespace mobicuda::cpu
