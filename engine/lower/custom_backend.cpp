#include <mobicuda/custom_backend.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/saved_engine.h>

#include "choose/specialised_choices.h"
#include "graph/memory_errors.h"
#include "lower/choose_plans.h"
#include "lower/lower.h"
#include "runtime/cuda_check.h"
#include "runtime/device_guard.h"
#include "specialise/specialiser.h"

namespace mobicuda {
namespace {

/// What the device and the code loaded there allow. Throws Error(unsupported) where the library has no code for it.
kernels::DeviceTraits traits_of_device(int device) {
  kernels::DeviceTraits traits;
  const cudaError_t status = kernels::device_traits(device, traits);
  if (status == cudaErrorNoKernelImageForDevice) {
    throw Error(
        ErrorCode::unsupported, device_description(device), "this build of the library has no code for this GPU",
        "build it with -DCMAKE_CUDA_ARCHITECTURES=native on this machine, or with the preset 'release' for all GPUs");
  }
  cuda_check(status, "asking which code is loaded on the GPU");
  return traits;
}

/// The plans of a saved engine, whose specialised kernels have their code.
std::vector<SavedPlan> saved_plans(const SavedEngine& saved, Specialiser& specialiser) {
  specialiser.add_saved(saved.code);
  specialiser.provide(wanted_kernels(saved.plans));
  return saved.plans;
}

/// Plans for a graph, with specialised kernels as EngineOptions::specialise says.
std::vector<SavedPlan> made_plans(const Graph& graph, const EngineOptions& options, kernels::DeviceTraits gpu,
                                  const TensorDesc& input, Specialiser& specialiser) {
  gpu.compiles = options.specialise != Specialise::Never;
  std::string why_not;
  // Kernels are timed while they are chosen. By rule the compiler is opened only where a choice needs it.
  if (gpu.compiles && !options.timing_cache.empty()) why_not = specialiser.why_not();
  if (why_not.empty()) {
    std::vector<SavedPlan> plans = choose_plans(graph, options, gpu, input);
    const std::vector<WantedKernel> wanted = wanted_kernels(plans);
    if (wanted.empty()) return plans;
    why_not = specialiser.why_not();
    if (why_not.empty()) {
      specialiser.provide(wanted);
      return plans;
    }
  }
  if (options.specialise == Specialise::Always) {
    throw Error(ErrorCode::device_unavailable, "specialised kernels", why_not,
                "or leave EngineOptions::specialise at Auto");
  }
  if (options.log) {
    options.log(LogLevel::Warning,
                "no kernels are compiled for the network's own shapes, and layers may take several "
                "times as long: " +
                    why_not);
  }
  gpu.compiles = false;
  return choose_plans(graph, options, gpu, input);
}

class CustomBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "custom"; }

  std::optional<std::string> why_unsupported(const Graph& graph, const Node& node,
                                             const EngineOptions& options) const override {
    return why_not_lowered(graph, node, options);
  }

  std::shared_ptr<const Engine> compile(const Graph& graph, const EngineOptions& options) const override {
    return with_memory_errors("compile", [&] {
      check_options(options);
      if (options.precision == Precision::Tf32) {
        throw Error(ErrorCode::unsupported, "precision",
                    "the custom engine has fp32 (exact), fp32_split, fp16 and fp64, not tf32");
      }
      return make_engine(optimize(graph), options, nullptr);
    });
  }

  std::shared_ptr<const Engine> restore(const SavedEngine& saved, const EngineOptions& options) const override {
    return with_memory_errors("restore", [&] {
      const DeviceGuard guard(open_device(options.device));
      require_origin(saved, name(), device_description(options.device));
      require_plans(saved);
      return make_engine(saved.graph, restored_options(saved, options), &saved);
    });
  }

 private:
  std::shared_ptr<const Engine> make_engine(const Graph& graph, const EngineOptions& options,
                                            const SavedEngine* saved) const {
    require_supported(*this, graph, options);
    const TensorDesc input = input_desc(graph, options);
    const DeviceGuard guard(open_device(options.device));
    const kernels::DeviceTraits gpu = traits_of_device(options.device);
    EngineOptions decided = options;
    decided.programmatic_launch = options.programmatic_launch && gpu.programmatic_launch();
    WeightPieces weights = saved != nullptr ? WeightPieces(*saved) : WeightPieces();
    Specialiser specialiser(decided, gpu);
    const std::vector<SavedPlan> plans =
        saved != nullptr ? saved_plans(*saved, specialiser) : made_plans(graph, decided, gpu, input, specialiser);
    specialiser.report();
    CudaNetwork network = lower(graph, decided, gpu, plans, weights);
    network.recipe = std::make_shared<const SavedEngine>(SavedEngine{std::string(name()),
                                                                     {},
                                                                     decided,
                                                                     without_constants(graph),
                                                                     plans,
                                                                     weights.pieces(),
                                                                     {},
                                                                     specialiser.provided()});
    return std::make_shared<CudaEngine>(name(), decided, input, graph.output_desc(), std::move(network));
  }
};

}  // namespace

std::unique_ptr<Backend> make_custom_backend() { return std::make_unique<CustomBackend>(); }

}  // namespace mobicuda
