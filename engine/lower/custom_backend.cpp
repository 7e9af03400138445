#include <mobicuda/custom_backend.h>

#include <functional>
#include <utility>
#include <vector>

#include <mobicuda/saved_engine.h>

#include "choose/timed_choices.h"
#include "lower/lower.h"
#include "lower/network_timer.h"
#include "runtime/cuda_check.h"
#include "runtime/device_guard.h"
#include "timing/confirm_choices.h"

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

class CustomBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "custom"; }

  std::optional<std::string> why_unsupported(const Graph& graph, const Node& node,
                                             const EngineOptions& options) const override {
    return why_not_lowered(graph, node, options);
  }

  std::shared_ptr<const Engine> compile(const Graph& graph, const EngineOptions& options) const override {
    check_options(options);
    if (options.precision == Precision::Tf32) {
      throw Error(ErrorCode::unsupported, "precision", "the custom engine has fp32 (exact), fp16 and fp64, not tf32");
    }
    return make_engine(optimize(graph), options, nullptr);
  }

  std::shared_ptr<const Engine> restore(const SavedEngine& saved, const EngineOptions& options) const override {
    const DeviceGuard guard(open_device(options.device));
    require_origin(saved, name(), device_description(options.device));
    return make_engine(saved.graph, restored_options(saved, options), &saved);
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
    CudaPlan plan = saved != nullptr ? lower(graph, decided, gpu, *saved) : lower_chosen(graph, decided, gpu, input);
    return std::make_shared<CudaEngine>("custom", decided, input, graph.output_desc(), std::move(plan));
  }

  static CudaPlan lower_chosen(const Graph& graph, const EngineOptions& options, const kernels::DeviceTraits& gpu,
                               const TensorDesc& input) {
    if (options.timing_cache.empty()) return lower(graph, options, gpu);
    return lower(graph, options, gpu, choices_by_time(graph, options, gpu, input));
  }

  static std::vector<SavedChoice> choices_by_time(const Graph& graph, const EngineOptions& options,
                                                  const kernels::DeviceTraits& gpu, const TensorDesc& input) {
    ChosenLayers layers = choose_layers(graph, options, gpu);
    TimingCache cache(options.timing_cache);
    const TimedNetwork network{machine_fields(options, gpu), print(graph), options.max_batch,
                               options.picture_input.has_value()};
    NetworkComparison compare(graph, options, gpu, input);
    return confirm_choices(cache, network, std::move(layers), options.require_timing_cache, options.log,
                           std::ref(compare));
  }
};

}  // namespace

std::unique_ptr<Backend> make_custom_backend() { return std::make_unique<CustomBackend>(); }

}  // namespace mobicuda
