#include <mobicuda/cpu_backend.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "baselines/cpu/cpu_engine.h"
#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/fp32_kernels.h"
#include "graph/memory_errors.h"
#include "graph/memory_planner.h"

namespace mobicuda {
namespace {

using cpu::Buffer;
using cpu::Plan;

int thread_count(const EngineOptions& options) {
  if (options.threads > 0) return options.threads;
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
}

std::int64_t round_up(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Turns an optimised graph into a plan: a buffer for each activation, a step for each node.
class PlanMaker {
 public:
  /// Packs the graph's weights, or takes those of `saved`.
  PlanMaker(const Graph& graph, const EngineOptions& options, const SavedEngine* saved)
      : graph_(graph), options_(options), real_bytes_(options.precision == Precision::Fp64 ? 8 : 4), weights_(saved) {
    plan_.threads = thread_count(options);
  }

  Plan make() {
    place_buffers();
    for (const Node& node : graph_.nodes()) add_step(node);
    plan_.weights = std::move(weights_).finish();
    plan_.workspace_bytes = round_up(plan_.workspace_bytes, kBufferAlignment);
    if (options_.picture_input) {
      const TensorDesc& input = graph_.input_desc();
      plan_.picture = {*options_.picture_input, input.shape[2] * input.shape[3], input.layout};
    }
    return std::move(plan_);
  }

 private:
  void place_buffers() {
    buffer_of_.assign(graph_.values().size(), cpu::kNoBuffer);
    plan_.input = add_buffer(graph_.input(), Buffer::Place::Input);
    std::vector<BufferRequest> requests;
    std::vector<int> requested;
    for (std::size_t step = 0; step < graph_.nodes().size(); ++step) {
      const ValueId value = graph_.nodes()[step].output;
      if (value == graph_.output()) {
        add_buffer(value, Buffer::Place::Output);
        continue;
      }
      requested.push_back(add_buffer(value, Buffer::Place::Arena));
      requests.push_back(
          {plan_.buffers.back().bytes, static_cast<int>(step), static_cast<int>(graph_.consumers(value).back())});
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
    return is_quantized(dtype) ? size_of(dtype) : real_bytes_;
  }

  int buffer_of(ValueId value) const {
    return value == kNoValue ? cpu::kNoBuffer : buffer_of_[static_cast<std::size_t>(value)];
  }

  void add_step(const Node& node) {
    cpu::NodeView view{{}, graph_, node, weights_, options_.precision == Precision::Fp64, {}, buffer_of(node.output)};
    const auto bytes = [&](ValueId value) {
      return checked_multiply(graph_.value(value).desc.shape.elements(), element_bytes(value));
    };
    std::int64_t activation_bytes = bytes(node.output);
    for (const ValueId input : node.inputs) {
      view.inputs.push_back(buffer_of(input));
      if (view.inputs.back() != cpu::kNoBuffer) activation_bytes += bytes(input);
    }
    cpu::LoweredNode lowered = cpu::lower(view);
    LayerInfo info;
    info.name = node.origin.label();
    info.kernel = std::move(lowered.kernel);
    info.output = graph_.value(node.output).desc.shape;
    info.flops = flops_per_picture(graph_, node);
    info.activation_bytes = activation_bytes;
    info.weight_bytes = lowered.weight_bytes;
    info.value = graph_.value(node.output).name;
    plan_.weight_bytes += lowered.weight_bytes;
    plan_.workspace_bytes = std::max(plan_.workspace_bytes, lowered.workspace_bytes);
    TensorDesc stored = graph_.value(node.output).desc;
    if (!is_quantized(stored.dtype)) stored.dtype = options_.precision == Precision::Fp64 ? DType::F64 : DType::F32;
    plan_.steps.push_back({std::move(info), std::move(lowered.run), view.output, stored});
  }

  const Graph& graph_;
  const EngineOptions& options_;
  std::int64_t real_bytes_;
  cpu::WeightPacker weights_;
  std::vector<int> buffer_of_;
  Plan plan_;
};

class CpuBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "cpu"; }

  std::optional<std::string> why_unsupported(const Graph& graph, const Node& node,
                                             const EngineOptions& options) const override {
    if (options.precision != Precision::Fp32 && options.precision != Precision::Fp64) {
      return "the CPU engine computes in fp32 or fp64";
    }
    std::string why = cpu::why_not_lowered(graph, node);
    if (why.empty()) return std::nullopt;
    return why;
  }

  std::shared_ptr<const Engine> compile(const Graph& graph, const EngineOptions& options) const override {
    return with_memory_errors("compile", [&] {
      check_options(options);
      const Graph optimized = optimize(graph);
      require_supported(*this, optimized, options);
      Plan plan = PlanMaker(optimized, options, nullptr).make();
      plan.recipe = std::make_shared<const SavedEngine>(SavedEngine{
          std::string(name()), processor(options), options, without_constants(optimized), {}, {}, WeightBytes()});
      return make_engine(options, std::move(plan));
    });
  }

  std::shared_ptr<const Engine> restore(const SavedEngine& saved, const EngineOptions& options) const override {
    return with_memory_errors("restore", [&] {
      require_origin(saved, name(), processor(saved.options));
      const EngineOptions restored = restored_options(saved, options);
      require_supported(*this, saved.graph, restored);
      Plan plan = PlanMaker(saved.graph, restored, &saved).make();
      auto recipe = std::make_shared<SavedEngine>(saved);
      recipe->weights = {};
      plan.recipe = std::move(recipe);
      return make_engine(restored, std::move(plan));
    });
  }

 private:
  // Weights are packed for the panels of an instruction set; in double precision they are left as they are.
  static std::string processor(const EngineOptions& options) {
    return options.precision == Precision::Fp64 ? "any CPU" : "a CPU with " + std::string(cpu::fp32_kernels().name);
  }

  static std::shared_ptr<const Engine> make_engine(const EngineOptions& options, Plan plan) {
    const TensorDesc input = input_desc(plan.recipe->graph, options);
    const TensorDesc output = plan.recipe->graph.output_desc();
    if (options.precision == Precision::Fp64) {
      return std::make_shared<cpu::CpuEngine<double>>(options, input, output, std::move(plan));
    }
    return std::make_shared<cpu::CpuEngine<float>>(options, input, output, std::move(plan));
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace mobicuda
