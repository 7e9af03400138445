#include <mobicuda/custom_backend.h>

#include <utility>

#include <mobicuda/saved_engine.h>

#include "plan/lower.h"
#include "runtime/cuda_check.h"

namespace mobicuda {
namespace {

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
    select_device(options.device);
    require_origin(saved, name(), device_description(options.device));
    return make_engine(saved.graph, restored_options(saved, options), &saved);
  }

 private:
  std::shared_ptr<const Engine> make_engine(const Graph& graph, const EngineOptions& options,
                                            const SavedEngine* saved) const {
    require_supported(*this, graph, options);
    const TensorDesc input = input_desc(graph, options);
    select_device(options.device);
    const GpuTraits gpu{compute_capability(options.device), multiprocessors(options.device)};
    CudaPlan plan = lower(graph, options, gpu, saved);
    return std::make_shared<CudaEngine>("custom", options, input, graph.output_desc(), std::move(plan));
  }
};

}  // namespace

std::unique_ptr<Backend> make_custom_backend() { return std::make_unique<CustomBackend>(); }

}  // namespace mobicuda
