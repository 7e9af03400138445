#include "cudnn/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace mobicuda::cudnn {
namespace {

// Identities of the tensors in the operation graph.
enum TensorId : std::int64_t { kX = 1, kW, kY, kBias, kResidual, kUpper, kFirstVirtual = 100 };

constexpr std::int64_t kTensorAlignment = 16;  // arena, weights and the session's ends are all 256-byte aligned

std::array<std::int64_t, 4> packed_strides(const std::array<std::int64_t, 4>& dims, Layout layout) {
  const auto [n, c, h, w] = dims;
  if (layout == Layout::NHWC) return {h * w * c, 1, w * c, c};
  return {c * h * w, h * w, w, 1};
}

cudnnDataType_t data_type(DType dtype) { return dtype == DType::F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT; }

Descriptor make_tensor(std::int64_t id, const std::array<std::int64_t, 4>& dims, Layout layout, cudnnDataType_t type,
                       bool is_virtual) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::array<std::int64_t, 4> strides = packed_strides(dims, layout);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
  tensor.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kTensorAlignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  tensor.finalize();
  return tensor;
}

Descriptor make_convolution(const ConvProblem& p) {
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const std::array<std::int64_t, 2> before{p.pads.top, p.pads.left};
  const std::array<std::int64_t, 2> after{p.pads.bottom, p.pads.right};
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2});
  convolution.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, before);
  convolution.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, after);
  convolution.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, p.strides);
  convolution.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, p.dilations);
  convolution.finalize();
  return convolution;
}

// A float that every execution passes from host memory.
Descriptor make_scalar(std::int64_t id) {
  Descriptor scalar(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::array<std::int64_t, 4> ones{1, 1, 1, 1};
  scalar.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  scalar.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, ones);
  scalar.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, ones);
  scalar.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  scalar.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kTensorAlignment);
  scalar.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  scalar.finalize();
  return scalar;
}

Descriptor make_binary(cudnnPointwiseMode_t mode) {
  Descriptor operation(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  operation.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  operation.finalize();
  return operation;
}

Descriptor make_relu(float upper) {
  Descriptor relu(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  relu.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_RELU_FWD);
  relu.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  relu.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, 0.0);
  if (std::isfinite(upper)) {
    relu.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, static_cast<double>(upper));
  }
  relu.finalize();
  return relu;
}

bool takes_minimum(const ConvProblem& problem, GraphForm form) {
  return form == GraphForm::ReluMinimum && std::isfinite(problem.activation.hi);
}

// Makes the tensors and the chain of operations conv -> + bias -> + residual -> clip, as far as wanted.
class GraphWriter {
 public:
  GraphWriter(const ConvProblem& problem, GraphForm form)
      : problem_(problem), dims_{problem.n, problem.k, problem.out_h(), problem.out_w()} {
    const bool layer = form != GraphForm::Bare;
    const bool clips = layer && !problem.activation.is_none();
    const bool minimum = clips && takes_minimum(problem, form);
    const auto counted = [layer](bool wanted) { return layer && wanted ? 1 : 0; };
    pointwise_left_ = counted(problem.bias) + counted(problem.residual) + counted(clips) + counted(minimum);

    std::size_t current = add_convolution();
    const cudnnDataType_t type = data_type(problem.output_element());
    if (layer && problem.bias) {
      const std::size_t bias = keep(make_tensor(kBias, {1, problem.k, 1, 1}, problem.layout, type, false));
      current = add_pointwise(make_binary(CUDNN_POINTWISE_ADD), current, &bias);
    }
    if (layer && problem.residual) {
      const std::size_t residual = keep(make_tensor(kResidual, dims_, problem.layout, type, false));
      current = add_pointwise(make_binary(CUDNN_POINTWISE_ADD), current, &residual);
    }
    if (clips) {
      const float upper = minimum ? std::numeric_limits<float>::infinity() : problem.activation.hi;
      current = add_pointwise(make_relu(upper), current, nullptr);
    }
    if (minimum) {
      const std::size_t bound = keep(make_scalar(kUpper));
      add_pointwise(make_binary(CUDNN_POINTWISE_MIN), current, &bound);
    }
  }

  std::vector<Descriptor> take_parts() { return std::move(parts_); }
  const std::vector<std::size_t>& operations() const { return operations_; }

 private:
  std::size_t keep(Descriptor descriptor) {
    parts_.push_back(std::move(descriptor));
    return parts_.size() - 1;
  }

  // The result of an operation: y when no pointwise operation follows, otherwise a virtual tensor in float.
  std::size_t add_result() {
    if (pointwise_left_ == 0) {
      return keep(make_tensor(kY, dims_, problem_.layout, data_type(problem_.output_element()), false));
    }
    return keep(make_tensor(next_virtual_++, dims_, problem_.layout, CUDNN_DATA_FLOAT, true));
  }

  std::size_t add_convolution() {
    const ConvProblem& p = problem_;
    const cudnnDataType_t type = data_type(p.element());
    const std::size_t x = keep(make_tensor(kX, {p.n, p.c, p.h, p.w}, p.layout, type, false));
    const std::size_t w = keep(make_tensor(kW, {p.k, p.c / p.groups, p.kh, p.kw}, p.layout, type, false));
    const std::size_t y = add_result();
    const std::size_t convolution = keep(make_convolution(p));
    Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, parts_[x]);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, parts_[w]);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, parts_[y]);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, parts_[convolution]);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0F);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0F);
    operation.finalize();
    operations_.push_back(keep(std::move(operation)));
    return y;
  }

  std::size_t add_pointwise(Descriptor mode, std::size_t input, const std::size_t* second) {
    --pointwise_left_;
    const std::size_t pointwise = keep(std::move(mode));
    const std::size_t result = add_result();
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parts_[pointwise]);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, parts_[input]);
    if (second != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, parts_[*second]);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, parts_[result]);
    operation.finalize();
    operations_.push_back(keep(std::move(operation)));
    return result;
  }

  const ConvProblem& problem_;
  std::array<std::int64_t, 4> dims_{};
  int pointwise_left_ = 0;
  std::int64_t next_virtual_ = kFirstVirtual;
  std::vector<Descriptor> parts_;
  std::vector<std::size_t> operations_;
};

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

std::string knobs_of(const Descriptor& config) {
  std::string name;
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
    name += "_k" + std::to_string(static_cast<int>(type[0])) + "=" + std::to_string(value[0]);
  }
  return name;
}

// ---- the kernel ----------------------------------------------------------------------------------

class GraphKernel final : public ConvKernel {
 public:
  // The plan refers to the handles it was built with and to the graph's parts: they outlive it.
  struct Origin {
    std::shared_ptr<const Handles> handles;
    std::shared_ptr<const std::vector<Descriptor>> parts;
    std::shared_ptr<const Descriptor> graph;
  };

  GraphKernel(Origin origin, Descriptor plan, const ConvProblem& problem, GraphForm form, std::string name,
              std::int64_t workspace_bytes, bool needs_probe)
      : origin_(std::move(origin)),
        plan_(std::move(plan)),
        bias_(problem.bias && form != GraphForm::Bare),
        residual_(problem.residual && form != GraphForm::Bare),
        minimum_(takes_minimum(problem, form)),
        upper_(problem.activation.hi) {
    const bool layer = form != GraphForm::Bare;
    describe(std::move(name), workspace_bytes, Fused{layer, layer, layer}, needs_probe);
  }

 private:
  cudaError_t do_enqueue(const Handles& handles, const ConvArguments& a) const override {
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
      pass(minimum_, kUpper, &upper_);
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
  bool minimum_;
  float upper_;
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

std::vector<GraphForm> graph_forms(const ConvProblem& problem) {
  const Activation& activation = problem.activation;
  const bool identity = activation.is_none();
  if (identity && !problem.bias && !problem.residual) return {GraphForm::Bare};
  if (!identity && (activation.lo != 0.0F || activation.hi <= 0.0F)) return {GraphForm::Bare};
  if (identity || !std::isfinite(activation.hi)) return {GraphForm::ClippedRelu, GraphForm::Bare};
  return {GraphForm::ReluMinimum, GraphForm::ClippedRelu, GraphForm::Bare};
}

ConvGraph::ConvGraph(std::shared_ptr<const Handles> handles, const ConvProblem& problem, GraphForm form)
    : handles_(std::move(handles)), problem_(problem), form_(form) {
  GraphWriter writer(problem, form);
  parts_ = std::make_shared<std::vector<Descriptor>>(writer.take_parts());
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
      std::string name = "eng" + std::to_string(index) + knobs_of(config);
      configs.push_back({std::move(config), index, is_compiled_at_run_time(engine),
                         arithmetic == Arithmetic::NeedsProbe, std::move(name)});
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
  return std::make_shared<GraphKernel>(GraphKernel::Origin{handles_, parts_, graph_}, std::move(plan), problem_, form_,
                                       kernel_name(config), workspace[0], config.needs_probe);
}

}  // namespace mobicuda::cudnn
