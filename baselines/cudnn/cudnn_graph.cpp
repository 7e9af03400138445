#include "cudnn/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cudnn/graph_writer.h"

namespace mobicuda::cudnn {
namespace {

// ---- engine configurations -----------------------------------------------------------------------

Descriptor engine_of(const Descriptor& config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  std::array<cudnnBackendDescriptor_t, 1> raw{engine.get()};
  config.get_array<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw);
  return engine;
}

enum class Arithmetic : std::uint8_t { Allowed, NeedsProbe, Forbidden };

// Exact Fp32 forbids tensor cores (TF32 rounds the inputs); every precision accumulates in float; and no
// transform domain, whose error is not bounded by the sum of the products. Notes belong to engines, and one
// that has tensor-core kernels may still run a depthwise layer, which has no use for them, without.
Arithmetic arithmetic_of(const Descriptor& engine, const ConvProblem& problem) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const std::int64_t count =
      engine.get_array<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes);
  const auto end = notes.begin() + std::min<std::int64_t>(count, std::ssize(notes));
  const auto has = [&](cudnnBackendNumericalNote_t note) { return std::find(notes.begin(), end, note) != end; };
  if (has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) || has(CUDNN_NUMERICAL_NOTE_FFT) ||
      has(CUDNN_NUMERICAL_NOTE_WINOGRAD)) {
    return Arithmetic::Forbidden;
  }
  if (problem.precision != Precision::Fp32) return Arithmetic::Allowed;
  if (!has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) && !has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) {
    return Arithmetic::Allowed;
  }
  return problem.is_depthwise() ? Arithmetic::NeedsProbe : Arithmetic::Forbidden;
}

bool is_compiled_at_run_time(const Descriptor& engine) {
  std::array<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT> notes{};
  const std::int64_t count =
      engine.get_array<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, notes);
  const auto end = notes.begin() + std::min<std::int64_t>(count, std::ssize(notes));
  return std::find(notes.begin(), end, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != end;
}

std::int64_t index_of(const Descriptor& engine) {
  std::array<std::int64_t, 1> index{};
  engine.get_array<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, index);
  return index[0];
}

using Knobs = std::vector<std::pair<cudnnBackendKnobType_t, std::int64_t>>;

Knobs knobs_of(const Descriptor& config) {
  Knobs knobs;
  std::vector<Descriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) {
    choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    raw.push_back(choices.back().get());
  }
  const std::int64_t count =
      config.get_array<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw);
  for (std::int64_t i = 0; i < std::min<std::int64_t>(count, std::ssize(choices)); ++i) {
    const Descriptor& choice = choices[static_cast<std::size_t>(i)];
    std::array<cudnnBackendKnobType_t, 1> type{};
    std::array<std::int64_t, 1> value{};
    choice.get_array<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, type);
    choice.get_array<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, value);
    knobs.emplace_back(type[0], value[0]);
  }
  return knobs;
}

std::string name_of(std::int64_t engine, const Knobs& knobs) {
  std::string name = "eng" + std::to_string(engine);
  for (const auto& [type, value] : knobs) {
    name += "_k" + std::to_string(static_cast<int>(type)) + "=" + std::to_string(value);
  }
  return name;
}

// Engine 23 with a sum split over blocks: on 32x32x147x147 -> 64, 3x3, half, it ran for minutes without an end where
// scratch was not zero, and ends where it is (cuDNN 9.14, H100). Presumably blocks wait for counters in scratch that
// nothing clears; steps share their scratch, so that nothing else can either. Where it does not say that it does not
// split, it may.
bool may_never_end(std::int64_t engine, const Knobs& knobs) {
  constexpr std::int64_t kEngine = 23;
  return engine == kEngine && std::none_of(knobs.begin(), knobs.end(), [](const auto& knob) {
           return knob.first == CUDNN_KNOB_TYPE_SPLIT_K_SLC && knob.second <= 1;
         });
}

// Now and then engine 1 reads or writes what is not its own: of 60 processes that tried it on products of 2 or 3 rows
// in float, 11 were ended by an illegal address or address space, always in it (cuDNN 9.14, H200). It was the fastest
// of no layer in any record.
bool may_fault(std::int64_t engine) {
  constexpr std::int64_t kEngine = 1;
  return engine == kEngine;
}

// ---- the kernel ----------------------------------------------------------------------------------

class GraphKernel final : public ConvKernel {
 public:
  // The plan refers to the handles it was built with and to the graph's parts: they outlive it.
  struct Origin {
    std::shared_ptr<const Handles> handles;
    std::shared_ptr<const std::vector<Descriptor>> parts;
    std::shared_ptr<const Descriptor> graph;
    Scalars scalars;
  };

  GraphKernel(Origin origin, Descriptor plan, const ConvProblem& problem, GraphForm form, std::string name,
              std::int64_t workspace_bytes, bool needs_probe)
      : origin_(std::move(origin)),
        plan_(std::move(plan)),
        bias_(problem.bias && form != GraphForm::Bare),
        residual_(problem.residual && form != GraphForm::Bare) {
    const bool layer = form != GraphForm::Bare;
    describe(std::move(name), workspace_bytes, Fused{layer, layer, layer}, needs_probe);
  }

 private:
  cudaError_t enqueue(const Handles& handles, const ConvArguments& a) const override {
    try {
      std::vector<std::int64_t> ids{kX, kW, kY};
      std::vector<const void*> pointers{a.x, a.w, a.y};
      const auto pass = [&](bool used, std::int64_t id, const void* pointer) {
        if (!used) return;
        ids.push_back(id);
        pointers.push_back(pointer);
      };
      pass(bias_, kBias, a.bias);
      pass(residual_, kResidual, a.residual);
      for (const auto& [id, value] : origin_.scalars) pass(true, id, &value);
      Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
      pack.set_array<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids);
      pack.set_array<const void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers);
      pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, a.workspace);
      pack.finalize();
      return to_cuda(cudnnBackendExecute(handles.cudnn(), plan_.get(), pack.get()));
    } catch (const Error& error) {
      return to_cuda(error.code());
    }
  }

  Origin origin_;
  Descriptor plan_;
  bool bias_;
  bool residual_;
};

}  // namespace

// ---- Descriptor ----------------------------------------------------------------------------------

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &handle_), "creating a graph descriptor");
}

Descriptor::~Descriptor() {
  if (handle_ != nullptr) cudnnBackendDestroyDescriptor(handle_);
}

void Descriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                         const void* values) {
  check(cudnnBackendSetAttribute(handle_, name, type, count, values), "setting an attribute of a graph descriptor");
}

void Descriptor::finalize() { check(cudnnBackendFinalize(handle_), "finishing a graph descriptor"); }

// ---- ConvGraph -----------------------------------------------------------------------------------

ConvGraph::ConvGraph(std::shared_ptr<const Handles> handles, const ConvProblem& problem, GraphForm form)
    : handles_(std::move(handles)), problem_(problem), form_(form) {
  GraphWriter writer(problem, form);
  parts_ = std::make_shared<std::vector<Descriptor>>(writer.take_parts());
  scalars_ = writer.scalars();
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const std::size_t i : writer.operations()) operations.push_back((*parts_)[i].get());
  graph_ = std::make_shared<Descriptor>(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph_->set_array<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
  graph_->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handles_->cudnn());
  graph_->finalize();
}

std::vector<EngineConfig> ConvGraph::propose(cudnnBackendHeurMode_t mode) const {
  std::vector<EngineConfig> configs;
  try {
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph_);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    heuristic.finalize();
    std::int64_t count =
        heuristic.get_array<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, {});
    std::vector<Descriptor> results;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::int64_t i = 0; i < count; ++i) {
      results.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      raw.push_back(results.back().get());
    }
    count = std::min(count, heuristic.get_array<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, raw));
    for (std::int64_t i = 0; i < count; ++i) {
      Descriptor& config = results[static_cast<std::size_t>(i)];
      const Descriptor engine = engine_of(config);
      const Arithmetic arithmetic = arithmetic_of(engine, problem_);
      if (arithmetic == Arithmetic::Forbidden) continue;
      const std::int64_t index = index_of(engine);
      const Knobs knobs = knobs_of(config);
      if (may_fault(index) || may_never_end(index, knobs)) continue;
      configs.push_back({std::move(config), index, is_compiled_at_run_time(engine),
                         arithmetic == Arithmetic::NeedsProbe, name_of(index, knobs)});
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::internal) throw;
  }
  return configs;
}

std::string ConvGraph::kernel_name(const EngineConfig& config) const {
  return (form_ == GraphForm::Bare ? "cudnn_graph/" : "cudnn_graph_fused/") + config.name;
}

std::shared_ptr<const ConvKernel> ConvGraph::build(const EngineConfig& config) const {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handles_->cudnn());
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config.descriptor);
  plan.finalize();
  std::array<std::int64_t, 1> workspace{};
  plan.get_array<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, workspace);
  if (workspace[0] > kMaxWorkspaceBytes) {
    throw Error(ErrorCode::unsupported, "cuDNN",
                "an engine wants " + std::to_string(workspace[0]) + " bytes of scratch");
  }
  return std::make_shared<GraphKernel>(GraphKernel::Origin{handles_, parts_, graph_, scalars_}, std::move(plan),
                                       problem_, form_, kernel_name(config), workspace[0], config.needs_probe);
}

}  // namespace mobicuda::cudnn
